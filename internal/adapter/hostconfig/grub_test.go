package hostconfig

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// TestGRUBIsToldOnceMoreWhatAnEarlierReleaseToldIt: that put the arguments before those of others.
func TestGRUBIsToldOnceMoreWhatAnEarlierReleaseToldIt(t *testing.T) {
	m := newMachine(t)
	m.has(t, "rendered-worker-1", first())
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	told := m.read(t, grubPath)
	former := func(m *machine) {
		m.put(t, grubFormerPath, strings.ReplaceAll(told, "_DEFAULT", ""), 0o644)
		if err := os.Remove(filepath.Join(m.root, grubPath)); err != nil {
			t.Fatal(err)
		}
	}
	former(m)
	for _, want := range []int{1, 0} {
		m.commands = nil
		err := m.write(t)
		if n := len(slices.DeleteFunc(m.commands, func(c string) bool { return !strings.HasPrefix(c, "update-grub") })); err != nil || n != want || m.read(t, grubPath) != told || m.writer().outdated() {
			t.Errorf("%d times, want %d, %v:\n%s", n, want, err, m.read(t, grubPath))
		}
	}
	m.Effects = 0
	former(m)
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	for cut := range 2 * m.Effects {
		m := newMachine(t)
		m.has(t, "rendered-worker-1", first())
		if err := m.write(t); err != nil {
			t.Fatal(err)
		}
		former(m)
		m.Effects, m.At, m.After = 0, 1+cut/2, cut%2 == 1
		if err := m.write(t); !errors.Is(err, powercut.Err) {
			t.Fatalf("cut at %d: %v", m.At, err)
		}
		if m.writer().any(grubPath, grubFormerPath) == "" {
			t.Errorf("cut at %d: neither file is there", m.At)
		}
		m.Dead, m.At = false, 0
		if err := m.write(t); err != nil || m.read(t, grubPath) != told || m.loader != told || m.writer().outdated() {
			t.Errorf("cut at %d, again: %v, GRUB has %s", m.At, err, m.loader)
		}
	}
	former(m)
	m.has(t, "", nil)
	if err := m.write(t); err != nil || m.writer().any(grubPath, grubFormerPath) != "" {
		t.Errorf("a configuration without arguments: %v", err)
	}
}

// TestGRUBLosesTheArgumentsThatAFormerReleaseTookAway: the host went back to a release that knows its
// own file alone, and that took all arguments away. A host that GRUB does not boot is not told.
func TestGRUBLosesTheArgumentsThatAFormerReleaseTookAway(t *testing.T) {
	for _, grub := range []bool{true, false} {
		m := newMachine(t)
		m.has(t, "rendered-worker-1", new(spec).kernel("quiet"))
		if err := m.write(t); err != nil {
			t.Fatal(err)
		}
		store := m.writer().Store
		o, err := store.originals()
		if err != nil {
			t.Fatal(err)
		}
		o.Arguments = nil
		if err := store.putOriginals(o); err != nil {
			t.Fatal(err)
		}
		want := []int{1, 0}
		if !grub {
			want = []int{0, 0}
			if err := os.Remove(filepath.Join(m.root, "/usr/sbin/update-grub")); err != nil {
				t.Fatal(err)
			}
		}
		m.has(t, "", nil)
		for _, want := range want {
			m.commands = nil
			err := m.write(t)
			if n := len(slices.DeleteFunc(m.commands, func(c string) bool { return !strings.HasPrefix(c, "update-grub") })); err != nil || n != want {
				t.Errorf("GRUB boots the host: %v; update-grub ran %d times, want %d, %v", grub, n, want, err)
			}
			if gone := m.writer().any(grubPath) == "" && m.loader == ""; gone != grub {
				t.Errorf("GRUB boots the host: %v; the file and its arguments are gone: %v", grub, gone)
			}
		}
	}
}

// TestOurArgumentsStandBehindThoseOfOthersForGRUB reads the files as grub-mkconfig does: by a shell,
// in the order of their names. kdump-tools.cfg is as its package has it.
func TestOurArgumentsStandBehindThoseOfOthersForGRUB(t *testing.T) {
	m := newMachine(t)
	m.put(t, "/etc/default/grub.d/50-dist.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=quiet\n", 0o644)
	m.put(t, "/etc/default/grub.d/kdump-tools.cfg", "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=384M-:128M\"\n", 0o644)
	m.has(t, "rendered-worker-1", first())
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ local, want string }{
		{"", "quiet crashkernel=384M-:128M quiet mitigations=auto"},
		{"GRUB_CMDLINE_LINUX_DEFAULT=\"splash\"\n", "splash quiet mitigations=auto"},
	} {
		m.put(t, "/etc/default/grub.d/local.cfg", c.local, 0o644)
		sh := host.Command("sh", "-c", `for f in "$1"/*.cfg; do . "$f"; done; echo "$GRUB_CMDLINE_LINUX_DEFAULT"`, "sh", filepath.Join(m.root, "/etc/default/grub.d"))
		out, err := host.Run(t.Context(), sh)
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("local.cfg %q: %q, want %q, %v", c.local, got, c.want, err)
		}
	}
}
