package upgrade

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// withFiles is a host with the files of a release that it runs. The new one changes one file,
// adds one, removes one, and changes one that somebody has changed here.
func withFiles(t *testing.T) (m machine, current *string, has func() string) {
	t.Helper()
	m, current, _ = onDisk(t, parachute.Alone)
	old := map[string]string{"/etc/same": "a", "/etc/changes": "old", "/etc/goes": "old", "/etc/edited": "old"}
	now := map[string]string{"/etc/same": "a", "/etc/changes": "new", "/etc/comes": "new", "/etc/edited": "new"}
	for path, text := range old {
		putFile(t, filepath.Join(m.root, path), text)
	}
	putFile(t, filepath.Join(m.root, "/etc/edited"), "mine")
	m.files.Of = func(_ context.Context, digest string) (state.Fact[[]state.File], error) {
		var out []state.File
		for path, text := range map[string]map[string]string{oldOne: old, newOne: now}[digest] {
			out = append(out, state.File{Path: path, Data: []byte(text)})
		}
		return state.Known(out), nil
	}
	return m, current, func() string {
		t.Helper()
		var out []string
		for _, name := range []string{"same", "changes", "goes", "comes", "edited"} {
			data, err := os.ReadFile(filepath.Join(m.root, "etc", name))
			if err != nil {
				data = []byte("-")
			}
			out = append(out, name+"="+string(data))
		}
		return strings.Join(out, " ")
	}
}

const (
	oldFiles = "same=a changes=old goes=old comes=- edited=mine"
	newFiles = "same=a changes=new goes=- comes=new edited=mine"
)

// TestTheLinkChoosesTheFilesOfAHostToo: whatever a power cut leaves, Settle makes it those of the
// release that is chosen, there and back, and by a later way too.
func TestTheLinkChoosesTheFilesOfAHostToo(t *testing.T) {
	for cutAt := range 5 {
		m, current, has := withFiles(t)
		kept, err := m.files.Prepare(t.Context(), oldOne, newOne)
		if err != nil || strings.Join(kept, " ") != "/etc/edited" {
			t.Fatalf("%q %v", kept, err)
		}
		if got := has(); got != oldFiles {
			t.Errorf("prepared: %s", got)
		}
		*current = newOne
		cut := powercut.Cut{At: cutAt}
		broken := m.files
		broken.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
			return cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
		}
		broken.Remove = func(path string) error { return cut.Effect(func() error { return m.remove(path) }) }
		if err := broken.Settle(t.Context()); err != nil && !errors.Is(err, powercut.Err) {
			t.Fatal(err)
		}
		for _, chosen := range []string{newOne, oldOne, newOne} {
			*current = chosen
			settles(t, m, has, chosen)
		}
		if err := m.files.Forget(); err != nil {
			t.Fatal(err)
		}
		*current = oldOne
		settles(t, m, has, newOne) // nothing is prepared: nothing is done
		*current = newOne
		if kept, err := m.files.Prepare(t.Context(), oldOne, newOne); err != nil || len(kept) != 1 { // an administrator goes back
			t.Fatalf("%q %v", kept, err)
		}
		*current = oldOne
		settles(t, m, has, oldOne)
	}
}

func settles(t *testing.T, m machine, has func() string, as string) {
	t.Helper()
	if err := m.files.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := has(), map[string]string{oldOne: oldFiles, newOne: newFiles}[as]; got != want {
		t.Errorf("as %s it has %s, want %s", as, got, want)
	}
}

// TestAStartOfDaemonsFindsTheFilesOfTheRelease: units are read anew after that.
func TestAStartOfDaemonsFindsTheFilesOfTheRelease(t *testing.T) {
	m, current, has := withFiles(t)
	if err := m.ready(t.Context(), oldOne, newOne); err != nil {
		t.Fatal(err)
	}
	kept, err := m.arm(t.Context(), oldOne, newOne)
	if err != nil || len(kept) != 1 {
		t.Fatalf("%q %v", kept, err)
	}
	*current = newOne
	m.systemd = func(_ context.Context, args ...string) ([]byte, error) {
		if got := has(); got != newFiles {
			t.Errorf("systemctl %s: %s", strings.Join(args, " "), got)
		}
		return nil, nil
	}
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.systemd = func(context.Context, ...string) ([]byte, error) { return nil, nil }
	if err := m.disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(m.root, Folder, filesFolder)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lists are left: %v", err)
	}
}

// TestTheEndOfAWayBringsTheFilesThatAPowerCutPrevented: the cut came after the switch, the boot has
// started the daemons of the new release, and nobody starts them again.
func TestTheEndOfAWayBringsTheFilesThatAPowerCutPrevented(t *testing.T) {
	for _, at := range []string{oldOne, newOne} {
		m, current, has := withFiles(t)
		if _, err := m.arm(t.Context(), oldOne, newOne); err != nil {
			t.Fatal(err)
		}
		*current = at
		if err := m.disarm(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := has(), map[string]string{oldOne: oldFiles, newOne: newFiles}[at]; got != want {
			t.Errorf("at %s it has %s", at, got)
		}
	}
}

// TestAFileThatCannotBeWrittenKeepsNoDaemonDown: the others are written, and the fault is told.
func TestAFileThatCannotBeWrittenKeepsNoDaemonDown(t *testing.T) {
	m, current, has := withFiles(t)
	if _, err := m.arm(t.Context(), oldOne, newOne); err != nil {
		t.Fatal(err)
	}
	*current = newOne
	writes, started := m.files.WriteFile, 0
	m.files.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
		if strings.HasSuffix(path, "/etc/changes") {
			return errFails
		}
		return writes(path, data, mode)
	}
	m.systemd = func(_ context.Context, args ...string) ([]byte, error) {
		if args[0] == "restart" {
			started++
		}
		return nil, nil
	}
	for _, c := range []struct {
		what string
		act  func(context.Context) error
	}{{"start", m.start}, {"disarm", m.disarm}} { // the second one forgets the lists
		what := c.what
		if err := c.act(t.Context()); !errors.Is(err, errFails) || !strings.Contains(err.Error(), "write the files of release") {
			t.Errorf("%s: %v", what, err)
		}
		if got, want := has(), strings.Replace(newFiles, "changes=new", "changes=old", 1); got != want {
			t.Errorf("%s: %s", what, got)
		}
	}
	if started == 0 {
		t.Error("no daemon was started")
	}
	if err := m.disarm(t.Context()); err != nil {
		t.Errorf("the end of the way is not the end: %v", err)
	}
}

// TestAReturnDoesNotWaitForTheReleaseThatItLeaves to say what it brought.
func TestAReturnDoesNotWaitForTheReleaseThatItLeaves(t *testing.T) {
	m, current, has := withFiles(t)
	says := m.files.Of
	m.files.Of = func(ctx context.Context, digest string) (state.Fact[[]state.File], error) {
		if digest == newOne {
			return state.Fact[[]state.File]{}, errFails
		}
		return says(ctx, digest)
	}
	*current = newOne
	if kept, err := m.files.Prepare(t.Context(), oldOne, newOne); err != nil || len(kept) > 0 {
		t.Fatalf("%q %v", kept, err)
	}
	*current = oldOne
	settles(t, m, has, oldOne)
}

// TestAReleaseThatCannotSayWhatItBringsChangesNoFile: one of a time before releases could.
func TestAReleaseThatCannotSayWhatItBringsChangesNoFile(t *testing.T) {
	for _, silent := range []string{oldOne, newOne} {
		m, current, has := withFiles(t)
		says := m.files.Of
		m.files.Of = func(ctx context.Context, digest string) (state.Fact[[]state.File], error) {
			if digest == silent {
				return state.Fact[[]state.File]{}, nil
			}
			return says(ctx, digest)
		}
		if kept, err := m.files.Prepare(t.Context(), oldOne, newOne); err != nil || len(kept) > 0 {
			t.Fatalf("%q %v", kept, err)
		}
		*current = newOne
		settles(t, m, has, oldOne)
	}
}

// TestAProgramThatFailsToSayWhatItBringsIsFoundWhileTheHostServes: the host does not leave.
func TestAProgramThatFailsToSayWhatItBringsIsFoundWhileTheHostServes(t *testing.T) {
	m, _, _ := withFiles(t)
	m.files.Of = func(context.Context, string) (state.Fact[[]state.File], error) {
		return state.Fact[[]state.File]{}, errFails
	}
	if err := m.ready(t.Context(), oldOne, newOne); !errors.Is(err, errFails) {
		t.Errorf("%v", err)
	}
	if _, err := m.arm(t.Context(), oldOne, newOne); !errors.Is(err, errFails) {
		t.Errorf("%v", err)
	}
}

// TestAHostThatWaitsToLeaveAsksTheProgramsOnce: it looks each second for minutes.
func TestAHostThatWaitsToLeaveAsksTheProgramsOnce(t *testing.T) {
	m, _, _ := withFiles(t)
	says, asked := m.files.Of, 0
	m.files.Of = func(ctx context.Context, digest string) (state.Fact[[]state.File], error) {
		asked++
		return says(ctx, digest)
	}
	for range 2 {
		for range 5 {
			if err := m.ready(t.Context(), oldOne, newOne); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.arm(t.Context(), oldOne, newOne); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 8 { // two programs, for the first look and to leave
		t.Errorf("programs were asked %d times on two ways", asked)
	}
}

// TestALinkInThePlaceOfAFileIsSomebodys, such as that of a unit that a person masked.
func TestALinkInThePlaceOfAFileIsSomebodys(t *testing.T) {
	m, current, has := withFiles(t)
	path := filepath.Join(m.root, "/etc/changes")
	if err := errors.Join(os.Remove(path), os.Symlink("/dev/null", path)); err != nil {
		t.Fatal(err)
	}
	kept, err := m.files.Prepare(t.Context(), oldOne, newOne)
	if err != nil || strings.Join(kept, " ") != "/etc/changes /etc/edited" {
		t.Fatalf("%q %v", kept, err)
	}
	*current = newOne
	if err := m.files.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(path); err != nil || to != "/dev/null" {
		t.Errorf("%q %v: %s", to, err, has())
	}
}
