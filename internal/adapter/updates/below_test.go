package updates

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

// below is a host whose files a test writes.
type below struct {
	t *testing.T
	*Below

	asked int
	says  string
	fails error
}

func newBelow(t *testing.T) *below {
	t.Helper()
	b := &below{t: t}
	b.Below = &Below{Root: t.TempDir(), Ours: aptParts + "/99-holdfast", Run: func(context.Context, host.Cmd) ([]byte, error) {
		b.asked++
		return []byte(b.says), b.fails
	}}
	return b
}

func (b *below) writes(path, text string) {
	b.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(b.at(path)), 0o700), os.WriteFile(b.at(path), []byte(text), 0o600)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *below) wants(what string, want updates.Stack) {
	b.t.Helper()
	got, err := b.Read(b.t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		b.t.Errorf("%s: %v\n%s", what, err, diff)
	}
}

// TestWhatEtcdRunsOnIsReadAnewAfterAFileChanged on a host with apt, without a program.
func TestWhatEtcdRunsOnIsReadAnewAfterAFileChanged(t *testing.T) {
	b := newBelow(t)
	b.writes(dpkgStatus, "Package: podman\nStatus: install ok installed\nVersion: 4\n\nPackage: unattended-upgrades\nStatus: install ok installed\nVersion: 2\n")
	b.wants("nothing is enabled", updates.Stack{Have: []string{"podman=4"}})
	b.writes(aptParts+"/20auto-upgrades", `APT::Periodic::Unattended-Upgrade "1";`)
	b.wants("it is enabled", updates.Stack{Have: []string{"podman=4"}, Loose: []string{"podman"}})
	b.writes(b.Ours, `Unattended-Upgrade::Package-Blacklist { "^podman"; };`)
	b.wants("Holdfast's file is there", updates.Stack{Have: []string{"podman=4"}})
	b.writes(dpkgStatus, "Package: podman\nStatus: install ok installed\nVersion: 4.1\n")
	b.wants("another version", updates.Stack{Have: []string{"podman=4.1"}})
	if b.asked > 0 {
		t.Errorf("%d programs were started", b.asked)
	}
}

// TestRpmIsAskedOnceForEachChangeOfItsDatabase, and what it cannot say is unknown.
func TestRpmIsAskedOnceForEachChangeOfItsDatabase(t *testing.T) {
	b := newBelow(t)
	if _, err := b.Read(t.Context()); !errors.Is(err, errNoPackages) {
		t.Errorf("a host without packages: %v", err)
	}
	b.writes(rpmDatabases[0], "1")
	b.fails = errors.New("it is locked")
	if _, err := b.Read(t.Context()); !errors.Is(err, b.fails) {
		t.Errorf("%v", err)
	}
	b.fails, b.says = nil, "podman=5-1\nopenssl=3-1\n"
	for range 2 {
		b.wants("it answers", updates.Stack{Have: []string{"podman=5-1"}})
	}
	if b.asked != 2 {
		t.Errorf("asked %d times", b.asked)
	}
	b.writes(rpmDatabases[1], "12")
	b.says = "podman=5-2\n"
	b.wants("an update", updates.Stack{Have: []string{"podman=5-2"}})
}
