package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// units is a systemd that starts what its links name at a boot.
type units struct {
	t    *testing.T
	root string
	cut  powercut.Cut
	// known are the units whose files it has read, running those that run.
	known, running map[string]bool
	said           []string
}

func (u *units) file(name string) string { return filepath.Join(u.root, unit.UnitDir, name) }

// links returns those by which boots start a unit, "*" for all.
func (u *units) links(name string) []string {
	u.t.Helper()
	out, err := filepath.Glob(u.file("*.wants/" + name))
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

func (u *units) reload() error {
	files, err := filepath.Glob(u.file("*.*"))
	clear(u.known)
	for _, f := range files {
		u.known[filepath.Base(f)] = true
	}
	return err
}

func (u *units) boot() {
	u.t.Helper()
	clear(u.running)
	for _, l := range u.links("*") {
		if name := filepath.Base(l); host.Exists(u.file(name)) {
			u.running[name] = true
		}
	}
	if err := u.reload(); err != nil {
		u.t.Fatal(err)
	}
}

func (u *units) do(_ context.Context, args ...string) ([]byte, error) {
	var names []string
	if i := slices.Index(args, "--"); i >= 0 {
		names = args[i+1:]
	}
	if args[0] == "is-enabled" {
		if len(u.links(names[0])) > 0 {
			return []byte("enabled\n"), nil
		}
		return []byte("disabled\n"), errors.New("exit status 1")
	}
	return nil, u.cut.Effect(func() error {
		u.said = append(u.said, strings.Join(args, " "))
		if args[0] == "daemon-reload" {
			return u.reload()
		}
		var errs []error
		for _, name := range names {
			errs = append(errs, u.change(args[0], name))
		}
		return errors.Join(errs...)
	})
}

func (u *units) change(verb, name string) error {
	text, err := os.ReadFile(u.file(name))
	switch {
	case err != nil:
		return err
	case verb == "start" && !u.known[name]:
		return fmt.Errorf("%s is not known", name)
	case verb == "start":
		u.running[name] = true
	case verb == "stop":
		delete(u.running, name)
	case verb == "disable":
		var errs []error
		for _, l := range u.links(name) {
			errs = append(errs, os.Remove(l))
		}
		return errors.Join(errs...)
	case verb == "enable":
		_, by, wanted := strings.Cut(string(text), "WantedBy=")
		if !wanted {
			return fmt.Errorf("nobody wants %s", name)
		}
		return symlink(u.file(strings.TrimSpace(by)+".wants/"+name), u.file(name))
	}
	return nil
}

// now says what boots start, and by whom it is wanted, and what runs, without what has an order of
// its own.
func (u *units) now() string {
	var out []string
	for _, l := range u.links("*") {
		name := filepath.Base(l)
		out = append(out, name+" by "+strings.TrimSuffix(filepath.Base(filepath.Dir(l)), ".wants"))
	}
	slices.Sort(out)
	runs := slices.DeleteFunc(slices.Sorted(maps.Keys(u.running)), func(name string) bool { return name == unit.KubeletUnit || name == unit.EtcdUnit })
	return strings.Join(out, ", ") + "; " + strings.Join(runs, ", ")
}

func wantedBy(target string) string { return "\n[Install]\nWantedBy=" + target + "\n" }

// withUnits is a host with the units of a release that it runs. Somebody has disabled two of them, of
// which the other release has one.
func withUnits(t *testing.T) (m machine, current *string, u *units) {
	t.Helper()
	m, current, _ = onDisk(t, parachute.OfTwo)
	u = &units{t: t, root: m.root, known: map[string]bool{}, running: map[string]bool{}}
	boots := wantedBy("boots")
	old := map[string]string{
		"same.service": "a" + boots, "moves.service": "a" + boots, "goes.service": "a" + boots, "demand.service": "a", "off.service": "a" + boots,
		"idle.service": "a" + boots, "unused.service": "a" + boots, unit.KubeletUnit: "a", unit.EtcdUnit: "a",
	}
	now := map[string]string{
		"same.service": "a" + boots, "moves.service": "a" + wantedBy("others"), "comes.service": "b" + boots, "later.timer": "b", "off.service": "b" + boots,
		"idle.service": "b", unit.KubeletUnit: "b" + boots,
	}
	for name, text := range old {
		putFile(t, u.file(name), text)
		if strings.Contains(text, "WantedBy") && name != "off.service" && name != "unused.service" {
			if err := u.change("enable", name); err != nil {
				t.Fatal(err)
			}
		}
	}
	u.boot()
	u.running["demand.service"], u.running[unit.KubeletUnit], u.running[unit.EtcdUnit] = true, true, true
	m.files.Of = func(_ context.Context, digest string) (state.Fact[[]state.File], error) {
		var out []state.File
		for name, text := range map[string]map[string]string{oldOne: old, newOne: now}[digest] {
			out = append(out, state.File{Path: filepath.Join(unit.UnitDir, name), Data: []byte(text)})
		}
		return state.Known(out), nil
	}
	m.files.Systemctl = u.do
	m.files.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
		return u.cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
	}
	m.files.Remove = func(path string) error { return u.cut.Effect(func() error { return m.remove(path) }) }
	return m, current, u
}

var settledUnits = map[string]string{
	oldOne: "goes.service by boots, idle.service by boots, moves.service by boots, same.service by boots; goes.service, idle.service, moves.service, same.service",
	newOne: "comes.service by boots, moves.service by others, same.service by boots; comes.service, moves.service, same.service",
}

// TestTheUnitsOfAReleaseStartAndEndWithIt: whatever is cut off, a process or the power, those of the
// release that is chosen run, and boots start them. What etcd runs on is left alone.
func TestTheUnitsOfAReleaseStartAndEndWithIt(t *testing.T) {
	for _, boots := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for at, cuts := 1, true; cuts; at++ {
				m, current, u := withUnits(t)
				if _, err := m.files.Prepare(t.Context(), oldOne, newOne); err != nil {
					t.Fatal(err)
				}
				cuts = false
				for _, chosen := range []string{newOne, oldOne} {
					*current = chosen
					u.cut = powercut.Cut{At: at, After: after}
					if err := m.files.Settle(t.Context()); err != nil && !errors.Is(err, powercut.Err) {
						t.Fatal(err)
					}
					cuts = cuts || u.cut.Dead
					u.cut = powercut.Cut{}
					if boots {
						u.boot()
					}
					for range 2 { // the end of the way does it once more
						if err := m.files.Settle(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					if got := u.now(); got != settledUnits[chosen] {
						t.Errorf("cut at effect %d, after it: %v, boots: %v: %s has %s", at, after, boots, chosen, got)
					}
				}
				for _, said := range u.said {
					if strings.Contains(said, unit.KubeletUnit) || strings.Contains(said, unit.EtcdUnit) {
						t.Errorf("systemctl %s", said)
					}
				}
			}
		}
	}
}

// TestAUnitThatSystemdDoesNotKnowHoldsUpNoReturn: one that the way leaves alone does not hold up the way
// there either. One that it changes keeps the links that it has.
func TestAUnitThatSystemdDoesNotKnowHoldsUpNoReturn(t *testing.T) {
	m, current, u := withUnits(t)
	var mute string
	m.files.Systemctl = func(ctx context.Context, args ...string) ([]byte, error) {
		if args[0] == "is-enabled" && slices.Contains(args, mute) {
			return nil, errFails
		}
		return u.do(ctx, args...)
	}
	for _, c := range []struct {
		mute, runs string
		want       error
	}{
		{"same.service", oldOne, nil},
		{"moves.service", oldOne, errFails},
		{"", oldOne, nil},
		{"same.service", newOne, nil},
		{"moves.service", newOne, nil},
	} {
		if c.runs != *current {
			*current = c.runs
			if err := m.files.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		mute = c.mute
		if _, err := m.files.Prepare(t.Context(), oldOne, newOne); !errors.Is(err, c.want) {
			t.Errorf("%q says nothing, and %s runs: %v", c.mute, c.runs, err)
		}
	}
	*current = oldOne
	if err := m.files.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(u.file("moves.service"))
	if links := u.links("moves.service"); err != nil || string(text) != "a"+wantedBy("boots") || len(links) != 1 || links[0] != u.file("others.wants/moves.service") {
		t.Errorf("after the return %q has the links %q, %v", text, links, err)
	}
	if links := u.links("goes.service"); len(links) != 1 {
		t.Errorf("after the return the others are not enabled: %q", links)
	}
}

// TestAListThatDoesNotSayWhichUnitsAreEnabledLeavesThemSo: a release of before wrote it. What comes on the
// way there is enabled, what goes is stopped, and what moves keeps the links that it has. What comes on the
// way back is not enabled: somebody may have disabled it.
func TestAListThatDoesNotSayWhichUnitsAreEnabledLeavesThemSo(t *testing.T) {
	m, current, u := withUnits(t)
	if _, err := m.files.Prepare(t.Context(), oldOne, newOne); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{oldOne, newOne} {
		text, err := os.ReadFile(m.files.at(digest))
		if err != nil {
			t.Fatal(err)
		}
		var list []map[string]any
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for _, file := range list {
			delete(file, "enabled")
		}
		if text, err = json.Marshal(list); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.files.at(digest), text, state.SecretFileMode); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		step         parachute.Step
		chosen, want string
	}{
		{parachute.Started, newOne, "comes.service by boots, moves.service by boots, same.service by boots; comes.service, moves.service, same.service"},
		{parachute.Accepted, newOne, "comes.service by boots, moves.service by boots, same.service by boots; comes.service, moves.service, same.service"},
		{parachute.Returning, oldOne, "moves.service by boots, same.service by boots; moves.service, same.service"},
		{parachute.Returned, oldOne, "moves.service by boots, same.service by boots; moves.service, same.service"},
		{parachute.Returning, newOne, "moves.service by boots, same.service by boots; moves.service, same.service"}, // it has not left yet
	} {
		if err := m.store.Write(parachute.Journal{From: oldOne, To: newOne, Step: c.step}, i+1); err != nil {
			t.Fatal(err)
		}
		*current = c.chosen
		if err := m.files.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := u.now(); got != c.want {
			t.Errorf("%s, %s has %s, want %s", c.step, c.chosen, got, c.want)
		}
	}
}

// TestAWayBackAfterAcceptanceLeavesDisabledWhatSomebodyDisabled: the lists of the way there are gone, and the
// release to return to brings the unit anew. Only the last time at which the host left that release counts.
func TestAWayBackAfterAcceptanceLeavesDisabledWhatSomebodyDisabled(t *testing.T) {
	m, current, u := withUnits(t)
	there := func() {
		t.Helper()
		for _, chosen := range []string{newOne, oldOne} {
			if _, err := m.files.Prepare(t.Context(), oldOne, newOne); err != nil {
				t.Fatal(err)
			}
			*current = chosen
			if err := errors.Join(m.files.Settle(t.Context()), m.files.Forget()); err != nil {
				t.Fatal(err)
			}
			if chosen == newOne && u.now() != settledUnits[newOne] {
				t.Errorf("the newer release has %s", u.now())
			}
		}
	}
	there()
	if got := u.now(); got != settledUnits[oldOne] {
		t.Errorf("after the way back it has %s", got)
	}
	if err := u.change("enable", "unused.service"); err != nil {
		t.Fatal(err)
	}
	there()
	want := strings.Replace(settledUnits[oldOne], "; ", ", unused.service by boots; ", 1) + ", unused.service"
	if got := u.now(); got != want {
		t.Errorf("after somebody enabled it, the way back has %s, want %s", got, want)
	}
	for name, text := range map[string]string{"another release": `{"release":"sha256:other","units":["/a"]}`, "no text": "{"} {
		putFile(t, filepath.Join(m.root, Folder, offFile), text)
		if got := m.files.offWith(oldOne); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestAUnitThatDoesNotEndLosesItsFileAllTheSame: the way goes on, and no boot starts it.
func TestAUnitThatDoesNotEndLosesItsFileAllTheSame(t *testing.T) {
	m, current, u := withUnits(t)
	if _, err := m.files.Prepare(t.Context(), oldOne, newOne); err != nil {
		t.Fatal(err)
	}
	*current = newOne
	m.files.Systemctl = func(ctx context.Context, args ...string) ([]byte, error) {
		if args[0] == "stop" {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the way waits for it for ever")
			}
			return nil, errFails
		}
		return u.do(ctx, args...)
	}
	if err := m.files.Settle(t.Context()); !errors.Is(err, errFails) {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"goes.service", "demand.service"} {
		if host.Exists(u.file(name)) || len(u.links(name)) > 0 {
			t.Errorf("%s is left", name)
		}
	}
	if !u.running["comes.service"] {
		t.Error("the units of the release do not start")
	}
}

// TestDaemonsOfTheWayEndInItsOrderAlone, and so does what etcd runs on.
func TestDaemonsOfTheWayEndInItsOrderAlone(t *testing.T) {
	names := []string{unit.PacemakerUnit, unit.CorosyncUnit, "podman.service"}
	for _, d := range daemonsOf(parachute.OfTwo) {
		names = append(names, d.unit)
	}
	for _, name := range names {
		if (hostfiles.File{Path: filepath.Join(unit.UnitDir, name)}).Unit() != "" {
			t.Errorf("%s starts and ends with its file", name)
		}
	}
	if unitTime > stopTime || unitTime < time.Second {
		t.Errorf("%s for the end of a unit", unitTime)
	}
}
