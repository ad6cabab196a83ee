package updates

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

const wish = "2026-11-23T03:00:00Z"

// machine is a host with a package manager that the test plays.
type machine struct {
	t    *testing.T
	root string
	cut  powercut.Cut
	// has are the versions that are installed, and offers those of the repositories.
	has, offers map[string]string
	// half is a package that was unpacked and not configured.
	half string
	// away: the repositories do not answer. drags: an update of libc6 brings this with
	// it. removes: it would remove this.
	away           bool
	drags, removes string
	free           uint64
	bytes          uint64
	calls          []string
	// boot is the number of the present boot. prepared: the unit is there that works at a
	// boot. quiet: packages start nothing. loud is why they cannot be kept from it.
	boot            string
	prepared, quiet bool
	loud            error
}

func newMachine(t *testing.T) *machine {
	return &machine{
		t: t, root: t.TempDir(), free: 10 << 30, bytes: 1 << 20, boot: "1",
		has:    map[string]string{"libc6": "1", "openssl": "1", "podman": "1", "dbus": "1"},
		offers: map[string]string{"libc6": "2", "openssl": "2", "podman": "2", "dbus": "1"},
	}
}

func (m *machine) store() Store {
	return Store{Root: m.root, WriteFile: func(path string, data []byte, mode fs.FileMode) error {
		return m.cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
	}}
}

func (m *machine) patcher() Patcher {
	return Patcher{
		Store: m.store(), Holds: updates.Holds(true), Below: updates.Below, Manager: m, Boot: func() (string, error) { return "boot-" + m.boot, nil },
		Prepare: func(context.Context) error { return m.cut.Effect(func() error { m.prepared = true; return nil }) },
		Hush: func() (func(), error) {
			if m.loud != nil {
				return nil, m.loud
			}
			m.quiet = true
			return func() { m.quiet = false }, nil
		},
		Free: func() (map[string]uint64, error) { return map[string]uint64{"/": m.free}, nil },
	}
}

var errAway = errors.New("no route to deb.debian.org")

func (m *machine) look(_ context.Context, refresh bool) (updates.Change, error) {
	if refresh && m.away {
		return updates.Change{}, errAway
	}
	return m.pending(nil), nil
}

func (m *machine) pending(held []string) updates.Change {
	c := updates.Change{}
	for name, version := range m.offers {
		if m.has[name] != version && !slices.Contains(held, name) {
			c.Installs = append(c.Installs, name)
		}
	}
	if m.drags != "" && slices.Contains(c.Installs, "libc6") {
		c.Installs = append(c.Installs, m.drags)
	}
	if m.removes != "" {
		c.Removes = []string{m.removes}
	}
	slices.Sort(c.Installs)
	return c
}

func (m *machine) interrupted(context.Context) (bool, error) { return m.half != "", nil }

func (m *machine) size(context.Context, []string) (uint64, error) { return m.bytes, nil }

func (m *machine) fetch(context.Context, []string) error {
	m.calls = append(m.calls, "fetch")
	return m.cut.Effect(func() error { return nil })
}

func (m *machine) repair(context.Context, func(updates.Change) error) error {
	if m.half == "" {
		return nil
	}
	return m.cut.Effect(func() error { m.has[m.half], m.half = m.offers[m.half], ""; return nil })
}

func (m *machine) install(_ context.Context, held []string, refuse func(updates.Change) error) error {
	m.calls = append(m.calls, "install")
	c := m.pending(held)
	if err := refuse(c); err != nil {
		return err
	}
	if m.half != "" {
		m.t.Error("it installs beside a package that is not configured")
	}
	for _, name := range c.Installs {
		if err := m.cut.Effect(func() error { m.half = name; return nil }); err != nil {
			return err
		}
		if err := m.cut.Effect(func() error { m.has[name], m.half = m.offers[name], ""; return nil }); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) versions(_ context.Context, names []string) (have, next map[string]string, err error) {
	return m.has, m.offers, nil
}

func (m *machine) only(ctx context.Context, exact []string, refuse func(updates.Change) error) error {
	if !m.quiet || !m.prepared {
		m.t.Error("packages may start Corosync")
	}
	var others []string
	for name := range m.offers {
		if !slices.Contains(exact, name+"="+m.offers[name]) {
			others = append(others, name)
		}
	}
	return m.install(ctx, others, refuse)
}

// asks has the agent ask for something, and the unit do it once more as long as it is
// cut off.
func (m *machine) asks(install bool) updates.Record {
	m.t.Helper()
	if err := NewStore(m.root).PutRequest(updates.Request{Wish: wish, Install: install}); err != nil {
		m.t.Fatal(err)
	}
	for range 3 {
		if err := m.patcher().Patch(m.t.Context()); err != nil && !errors.Is(err, powercut.Err) {
			m.t.Fatal(err)
		}
		if m.cut.Dead {
			m.cut = powercut.Cut{}
			continue
		}
		break
	}
	r, err := m.store().Record()
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

func TestUpdatesAreFetchedThenInstalledAndWhatEtcdRunsOnIsLeftOut(t *testing.T) {
	m := newMachine(t)
	want := updates.Record{Wish: wish, Phase: updates.Fetched, Boot: "boot-1", Updates: []string{"libc6", "openssl"}, Held: []string{"podman"}}
	if diff := cmp.Diff(want, m.asks(false)); diff != "" || m.has["libc6"] != "1" {
		t.Errorf("fetched: %s, has %v", diff, m.has)
	}
	want.Phase = updates.Installed
	if diff := cmp.Diff(want, m.asks(true)); diff != "" || m.has["libc6"] != "2" || m.has["podman"] != "1" {
		t.Errorf("installed: %s, has %v", diff, m.has)
	}
	m.has["libc6"] = "1"
	if diff := cmp.Diff(want, m.asks(true)); diff != "" || m.has["libc6"] != "1" {
		t.Errorf("a wish that is over is carried out once more: %s", diff)
	}
}

func TestWhereNothingCanBeInstalledTheReasonIsToldAndNothingIsChanged(t *testing.T) {
	for _, c := range []struct {
		sentence string
		change   func(m *machine)
		install  bool
		phase    updates.Phase
		says     string
	}{
		{"there are no updates", func(m *machine) { m.offers = m.has }, false, updates.Installed, ""},
		{"all that has updates is left out", func(m *machine) { m.has["libc6"], m.has["openssl"] = "2", "2" }, false, updates.Installed, ""},
		{"no repository answers", func(m *machine) { m.away = true }, false, updates.Failed, "nothing was changed: no route to deb.debian.org"},
		{"the disk would become full", func(m *machine) { m.free = 100 << 20 }, false, updates.Failed, "nothing was changed: too little room: / has 100 MiB free and needs 517"},
		{"an update brings Corosync with it", func(m *machine) { m.drags = "corosync" }, true, updates.Failed, "refused: the updates would bring corosync with them, which are left out"},
		{"an update would remove a package", func(m *machine) { m.removes = "dbus" }, true, updates.Failed, "refused: the updates would remove dbus"},
	} {
		m := newMachine(t)
		c.change(m)
		before := m.has["libc6"]
		r := m.asks(false)
		if c.install {
			r = m.asks(true)
		}
		if r.Phase != c.phase || r.Error != c.says || m.has["libc6"] != before || m.half != "" {
			t.Errorf("%s: %+v, has %v", c.sentence, r, m.has)
		}
	}
	m := newMachine(t)
	p := m.patcher()
	p.Manager = nil
	if err := NewStore(m.root).PutRequest(updates.Request{Wish: wish}); err != nil {
		t.Fatal(err)
	}
	if err := p.Patch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := m.store().Record(); err != nil || r.Error != "this host has neither apt-get nor dnf" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAnInstallationThatSomebodyLeftIsCompletedFirst(t *testing.T) {
	m := newMachine(t)
	m.half = "dbus"
	if r := m.asks(false); r.Phase != updates.Fetched || !r.Interrupted || len(m.calls) > 0 {
		t.Errorf("%+v, calls %q", r, m.calls)
	}
	r := m.asks(true)
	if r.Phase != updates.Installed || m.half != "" || m.has["libc6"] != "2" || m.has["podman"] != "1" || !slices.Equal(r.Held, []string{"podman"}) {
		t.Errorf("%+v, has %v", r, m.has)
	}
}

// TestWhereverTheUnitIsCutOffTheNextRunEndsTheWork cuts it before and after each effect.
func TestWhereverTheUnitIsCutOffTheNextRunEndsTheWork(t *testing.T) {
	whole := newMachine(t)
	whole.asks(false)
	fetching := whole.cut.Effects
	whole.asks(true)
	if fetching < 3 || whole.cut.Effects-fetching < 6 {
		t.Fatalf("only %d and %d effects", fetching, whole.cut.Effects)
	}
	for at := 1; at <= whole.cut.Effects; at++ {
		for _, after := range []bool{false, true} {
			m := newMachine(t)
			m.cut = powercut.Cut{At: at, After: after}
			m.asks(false)
			r := m.asks(true)
			if r.Phase != updates.Installed || r.Error != "" || m.half != "" || m.has["libc6"] != "2" || m.has["openssl"] != "2" || m.has["podman"] != "1" {
				t.Fatalf("cut at %d (after: %v): %+v, has %v, half %q", at, after, r, m.has, m.half)
			}
		}
	}
}

func TestARunThatTheHostEndsLeavesItsRecord(t *testing.T) {
	m := newMachine(t)
	m.asks(false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewStore(m.root).PutRequest(updates.Request{Wish: wish, Install: true}); err != nil {
		t.Fatal(err)
	}
	if err := m.patcher().Patch(ctx); err == nil {
		t.Error("it says that it is done")
	}
	if r, err := m.store().Record(); err != nil || r.Phase != updates.Installing {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestADnfThatFailsIsNoAnswer: it ends with 1 then, as where it would do something.
func TestADnfThatFailsIsNoAnswer(t *testing.T) {
	d := dnf{run: func(_ context.Context, c host.Cmd) ([]byte, error) {
		return []byte("Upgrading:\n glibc  x86_64  2\n"), &host.RunError{Cmd: c, ExitCode: 1, Err: errors.New("exit status 1")}
	}}
	_, look := d.look(t.Context(), true)
	_, interrupted := d.interrupted(t.Context())
	nobody := func(updates.Change) error { return nil }
	for what, err := range map[string]error{"its list": look, "its history": interrupted, "a repair": d.repair(t.Context(), nobody), "an installation": d.install(t.Context(), nil, nobody)} {
		if err == nil {
			t.Errorf("%s of a dnf that fails reads as an answer", what)
		}
	}
}

// lockedApt is an apt-get for which somebody else has a lock for so many tries.
func lockedApt(t *testing.T, says string, tries int) (apt, *int) {
	calls := new(int)
	return apt{root: t.TempDir(), lockTime: lockTime, run: func(_ context.Context, c host.Cmd) ([]byte, error) {
		if c.Name != "apt-get" {
			return nil, nil
		}
		if *calls++; *calls <= tries {
			return nil, &host.RunError{Cmd: c, ExitCode: 100, Err: errors.New("exit status 100"), Output: says}
		}
		return []byte("Inst libc6 [1] (2 Debian:12 [amd64])\n'file:/libc6.deb' libc6.deb 100 SHA256:0\n"), nil
	}}, calls
}

const listsLocked = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 612 (unattended-upgr)\nE: Unable to lock directory /var/lib/apt/lists/"

// TestUpdatesWaitWhileAnotherPackageManagerWorks: the distribution's own timer looks for updates
// in the same minute, or installs them.
func TestUpdatesWaitWhileAnotherPackageManagerWorks(t *testing.T) {
	for _, says := range []string{
		listsLocked,
		"E: Could not get lock /var/cache/apt/archives/lock. It is held by process 612 (apt-get)",
		"E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
		"E: Unable to lock the administration directory (/var/lib/dpkg/), is another process using it?",
	} {
		synctest.Test(t, func(t *testing.T) {
			m, began := newMachine(t), time.Now()
			p := m.patcher()
			p.Manager, _ = lockedApt(t, says, 2)
			if err := p.PutRequest(updates.Request{Wish: wish}); err != nil {
				t.Fatal(err)
			}
			if err := p.Patch(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, err := p.Record(); err != nil || r.Phase != updates.Fetched || !slices.Equal(r.Updates, []string{"libc6"}) || time.Since(began) != 2*lockPause {
				t.Errorf("%s: %+v, %v after %s", says, r, err, time.Since(began))
			}
		})
	}
}

// TestAPackageManagerThatNeverEndsIsNamed, and what is no lock of somebody else is not waited for.
func TestAPackageManagerThatNeverEndsIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, calls := lockedApt(t, listsLocked, 1<<30)
		began := time.Now()
		_, err := a.look(t.Context(), true)
		if err == nil || !strings.Contains(err.Error(), "held by process 612 (unattended-upgr)") || time.Since(began) != lockTime || *calls < 2 {
			t.Errorf("%v, %d tries in %s", err, *calls, time.Since(began))
		}
	})
	for says, most := range map[string]time.Duration{
		"E: Unable to fetch some archives": lockTime,
		"E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?": lockTime,
		listsLocked: 0, // while the host boots
	} {
		a, calls := lockedApt(t, says, 1<<30)
		a.lockTime = most
		if _, err := a.look(t.Context(), true); err == nil || *calls != 1 {
			t.Errorf("%s: %v after %d tries", says, err, *calls)
		}
	}
}
