package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/state"
)

// fakeKeepalived counts how often it was told, and refuses with fail.
type fakeKeepalived struct {
	keepalivedHost
	told int
	fail error
}

func newFakeKeepalived(t *testing.T) *fakeKeepalived {
	dir := t.TempDir()
	f := &fakeKeepalived{}
	f.keepalivedHost = keepalivedHost{root: dir, told: filepath.Join(dir, "run/told"), reload: func() error {
		f.told++
		return f.fail
	}}
	return f
}

func conf(text string) []state.File {
	return []state.File{{Path: keepalived.ConfigPath, Data: []byte(text)}, {Path: keepalived.PodPath, Data: []byte("pod")}}
}

func (f *fakeKeepalived) wants(t *testing.T, text string, told int) {
	t.Helper()
	if _, err := f.update(conf(text)); !errors.Is(err, f.fail) {
		t.Fatal(err)
	}
	if f.told != told {
		t.Errorf("%s: keepalived was told %d times, want %d", text, f.told, told)
	}
}

func TestKeepalivedIsToldOfAChangeOnce(t *testing.T) {
	f := newFakeKeepalived(t)
	f.wants(t, "one", 1)
	f.wants(t, "one", 1)
	f.wants(t, "two", 2)
	f.wants(t, "two", 2)
}

func TestAChangeThatKeepalivedCouldNotBeToldOfIsToldAgain(t *testing.T) {
	f := newFakeKeepalived(t)
	f.wants(t, "one", 1)
	f.fail = errors.New("no such luck")
	f.wants(t, "two", 2)
	f.fail = nil
	f.wants(t, "two", 3)
	f.wants(t, "two", 3)
}

func TestAnAgentThatWasKilledBeforeItToldKeepalivedIsMadeUpFor(t *testing.T) {
	f := newFakeKeepalived(t)
	f.wants(t, "one", 1)
	path := filepath.Join(f.root, keepalived.ConfigPath)
	if err := os.WriteFile(path, []byte("two"), 0o600); err != nil { // written, not told
		t.Fatal(err)
	}
	f.wants(t, "two", 2)
}

func TestAfterABootKeepalivedHasReadWhatIsThere(t *testing.T) {
	f := newFakeKeepalived(t)
	f.wants(t, "one", 1)
	if err := os.Remove(f.keepalivedHost.told); err != nil { // as /run is
		t.Fatal(err)
	}
	f.wants(t, "one", 1)
	f.wants(t, "two", 2)
}
