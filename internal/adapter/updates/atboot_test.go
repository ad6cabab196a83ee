package updates

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// asksAll has the agent ask for everything, once for each part, and the unit do it once more as
// long as it is cut off.
func (m *machine) asksAll() updates.Record {
	m.t.Helper()
	var r updates.Record
	for _, install := range []bool{false, true} {
		if err := NewStore(m.root).PutRequest(updates.Request{Wish: wish, Install: install, Stack: true}); err != nil {
			m.t.Fatal(err)
		}
		for range 3 {
			if err := m.patcher().Patch(m.t.Context()); err != nil && !errors.Is(err, powercut.Err) {
				m.t.Fatal(err)
			}
			if !m.cut.Dead {
				break
			}
			m.cut = powercut.Cut{}
		}
		var err error
		if r, err = m.store().Record(); err != nil {
			m.t.Fatal(err)
		}
		if r.Phase == updates.Failed {
			break
		}
	}
	return r
}

// boots boots the host, once more as long as its power is cut. The agent has ordered it or not.
func (m *machine) boots(ordered bool) updates.Record {
	m.t.Helper()
	if ordered {
		if err := NewStore(m.root).PutRequest(updates.Request{Wish: wish, Install: true, Stack: true, AtBoot: true}); err != nil {
			m.t.Fatal(err)
		}
	}
	for range 3 {
		m.boot += "'"
		m.quiet = false
		if m.marked() {
			p := m.patcher()
			p.Holds = updates.Holds(false)
			if err := p.AtBoot(m.t.Context()); err != nil && !errors.Is(err, powercut.Err) {
				m.t.Fatal(err)
			}
		}
		if !m.cut.Dead {
			break
		}
		m.cut = powercut.Cut{}
	}
	r, err := m.store().Record()
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *machine) marked() bool { return host.Exists(filepath.Join(m.root, updates.MarkPath)) }

func TestWhatEtcdRunsOnChangesOnlyAtTheBootThatWasOrdered(t *testing.T) {
	m := newMachine(t)
	m.has["podman"], m.offers["podman"] = "4.3.1+ds1-8", "4.3.1+ds1-9"
	want := updates.Record{Wish: wish, Phase: updates.Staged, Boot: "boot-1", Updates: []string{"libc6", "openssl"}, Stack: []string{"podman=4.3.1+ds1-9"}}
	if diff := cmp.Diff(want, m.asksAll()); diff != "" || m.has["libc6"] != "2" || m.has["podman"] != "4.3.1+ds1-8" || !m.prepared || !m.marked() {
		t.Fatalf("staged: %s, has %v", diff, m.has)
	}
	if r := m.boots(false); r.Phase != updates.Staged || m.has["podman"] != "4.3.1+ds1-8" || !m.marked() {
		t.Errorf("a boot that nobody ordered: %+v, has %v", r, m.has)
	}
	want.Phase, want.Boot = updates.Installed, "boot-1''"
	if diff := cmp.Diff(want, m.boots(true)); diff != "" || m.has["podman"] != "4.3.1+ds1-9" || m.quiet || m.marked() {
		t.Errorf("booted: %s, has %v", diff, m.has)
	}
	m.has["podman"] = "4.3.1+ds1-8"
	if m.boots(false); m.has["podman"] != "4.3.1+ds1-8" {
		t.Error("the next boot changes packages")
	}
	if err := m.store().WriteFile(filepath.Join(m.root, updates.MarkPath), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if m.boots(true); m.has["podman"] != "4.3.1+ds1-8" || m.marked() {
		t.Error("a mark that was left changes packages, or stays")
	}
}

func TestWhatEtcdRunsOnIsRefusedBeforeAnythingChanges(t *testing.T) {
	for _, c := range []struct {
		sentence string
		change   func(m *machine)
		says     string
		libc6    string
	}{
		{"podman migrates", func(m *machine) { m.has["podman"], m.offers["podman"] = "5.4.0-1", "5.8.1-1" }, "nothing was changed: what etcd runs on changes by hand alone: podman 5.4.0-1 to 5.8.1-1: podman 5.8 and later migrate their state, without a way back", "1"},
		{"somebody decides what packages start", func(m *machine) { m.loud = errors.New("it is somebody's") }, "what etcd runs on was not changed: it is somebody's", "2"},
		{"nothing of it has updates", func(m *machine) { m.has["podman"] = "2" }, "", "2"},
	} {
		m := newMachine(t)
		c.change(m)
		before := m.has["podman"]
		if r := m.asksAll(); r.Error != c.says || m.has["libc6"] != c.libc6 || m.has["podman"] != before || m.marked() || c.says == "" && r.Phase != updates.Installed {
			t.Errorf("%s: %+v, has %v", c.sentence, r, m.has)
		}
	}
}

// TestWhereverABootIsCutOffTheNextOneEndsTheWork cuts the power before and after each effect of all
// parts.
func TestWhereverABootIsCutOffTheNextOneEndsTheWork(t *testing.T) {
	begin := func(at int, after bool) *machine {
		m := newMachine(t)
		m.has["podman"], m.offers["podman"] = "4.3.1-8", "4.3.1-9"
		m.has["corosync"], m.offers["corosync"] = "3.1.7-1", "3.1.7-2"
		m.cut = powercut.Cut{At: at, After: after}
		return m
	}
	whole := begin(0, false)
	whole.asksAll()
	staged := whole.cut.Effects
	whole.boots(true)
	if staged < 8 || whole.cut.Effects-staged < 6 {
		t.Fatalf("only %d and %d effects", staged, whole.cut.Effects)
	}
	for at := 1; at <= whole.cut.Effects; at++ {
		for _, after := range []bool{false, true} {
			m := begin(at, after)
			m.asksAll()
			r := m.boots(true)
			if r.Phase != updates.Installed || r.Error != "" || m.half != "" || m.has["libc6"] != "2" || m.has["podman"] != "4.3.1-9" || m.has["corosync"] != "3.1.7-2" {
				t.Fatalf("cut at %d (after: %v): %+v, has %v, half %q", at, after, r, m.has, m.half)
			}
		}
	}
}

func TestABootThatIsAlwaysCutOffIsGivenUp(t *testing.T) {
	m := newMachine(t)
	m.has["podman"], m.offers["podman"] = "4.3.1-8", "4.3.1-9"
	m.asksAll()
	r := m.boots(true)
	r.Phase, r.Tries = updates.Changing, updates.MaxTries
	if err := errors.Join(m.store().PutRecord(r), m.store().WriteFile(filepath.Join(m.root, updates.MarkPath), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if r = m.boots(false); r.Phase != updates.Failed || !strings.HasPrefix(r.Error, "holdfast-held.service ended 3 times") || m.marked() {
		t.Errorf("%+v", r)
	}
}

// TestPackagesStartNothingWhileTheyAreHushed, a program of somebody else is left alone, and what a
// cut leaves forbids nothing.
func TestPackagesStartNothingWhileTheyAreHushed(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, policyPath)
	answer := func() int {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		script := strings.ReplaceAll(string(text), quietPath, filepath.Join(root, quietPath))
		_, err = host.Run(t.Context(), host.Command("sh", "-c", script))
		return max(host.ExitCode(err), 0)
	}
	for range 2 { // the second one after a cut
		undo, err := hushBelow(root)
		if err != nil || answer() != 101 {
			t.Fatalf("%v, it answers %d", err, answer())
		}
		if err := os.Remove(filepath.Join(root, quietPath)); err != nil { // a boot
			t.Fatal(err)
		}
		if answer() != 0 {
			t.Error("what is left forbids packages to start units")
		}
		_ = undo
	}
	undo, err := hushBelow(root)
	if err != nil {
		t.Fatal(err)
	}
	if undo(); host.Exists(path) || host.Exists(filepath.Join(root, quietPath)) {
		t.Error("something is left")
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hushBelow(root); err == nil || !strings.Contains(err.Error(), policyPath) {
		t.Errorf("somebody's program: %v", err)
	}
}

// TestARealAptChangesWhatEtcdRunsOnWithoutANetwork, in the very version that was fetched, and
// nothing else.
func TestARealAptChangesWhatEtcdRunsOnWithoutANetwork(t *testing.T) {
	d := newDebian(t)
	d.put("etc/apt/sources.list", "deb [trusted=yes] copy:"+d.at("repository")+" ./\n") // a file: is never fetched
	for _, name := range []string{"libc6", "corosync", "podman"} {
		d.offers(name, "3.1.7-1", "")
	}
	_, err := d.apt.call(t.Context(), lookTime, nil, "update")
	d.must(err)
	_, err = d.apt.call(t.Context(), lookTime, nil, "--yes", "install", "libc6", "corosync", "podman")
	d.must(err)
	for _, name := range []string{"libc6", "corosync", "podman"} {
		d.offers(name, "3.1.7-2", "")
	}
	_, err = d.apt.call(t.Context(), lookTime, nil, "update")
	d.must(err)
	have, next, err := d.apt.versions(t.Context(), []string{"corosync", "podman"})
	if err != nil || have["corosync"] != "3.1.7-1" || next["corosync"] != "3.1.7-2" || next["podman"] != "3.1.7-2" {
		t.Fatalf("%v %v %v", have, next, err)
	}
	_, err = d.apt.call(t.Context(), fetchTime, nil, slices.Concat([]string{"--download-only"}, upgrade)...)
	d.must(err)
	d.must(os.Rename(d.at("repository"), d.at("away")))
	for range 2 { // the second one has nothing to do
		if err := d.apt.only(t.Context(), []string{"corosync=3.1.7-2"}, func(updates.Change) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"libc6": "3.1.7-1 installed", "corosync": "3.1.7-2 installed", "podman": "3.1.7-1 installed"} {
		if got := d.has(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
