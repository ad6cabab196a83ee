package install

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAMachineOfAnotherKindThanItsSiteSaysSo(t *testing.T) {
	r, _ := newRun(t, state.RoleWorker)
	for _, want := range []string{"", "arm64"} {
		r.Site.Config.ControlPlane.Architecture = want
		if err := r.ownArchitecture("arm64"); err != nil {
			t.Errorf("%q: %v", want, err)
		}
	}
	err := r.ownArchitecture("amd64")
	if err == nil || !strings.Contains(err.Error(), "controlPlane.architecture in install-config.yaml says arm64, and this machine is amd64") {
		t.Errorf("got %v", err)
	}
}

func TestALiveImageIsRefused(t *testing.T) {
	if err := lasts(nil); err != nil {
		t.Error(err)
	}
	err := lasts([]string{"/etc (tmpfs at /etc)", "/var/lib (tmpfs at /var)"})
	if err == nil || !strings.Contains(err.Error(), "/etc (tmpfs at /etc) and /var/lib (tmpfs at /var) is lost at its next boot") {
		t.Errorf("got %v", err)
	}
}

func TestAReleaseOfAnotherArchitectureIsRefusedBeforeItIsPulled(t *testing.T) {
	const other = "linux/riscv64"
	ref, server := pushReleaseFor(t, other)
	r, _ := newRun(t, state.RoleWorker)
	r.Site.Config.ReleaseRegistry = ref
	r.start("open release")
	err := r.openRelease(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is for "+other+", and this machine is "+ownPlatform) {
		t.Errorf("pulled: %v", err)
	}
	if _, err := os.Stat(r.pulled); err == nil {
		t.Error("something of it was pulled")
	}
	server.Close()
	ours, _ := pushReleaseFor(t, ownPlatform)
	r.Site.Config.ReleaseRegistry = ours
	if err := r.openRelease(t.Context()); err != nil {
		t.Errorf("one of this machine's kind: %v", err)
	}
	// A host that brings the release along finds it in a folder.
	path := r.pulled + "/index.json"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), ownPlatform, other)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.openRelease(t.Context()); err == nil || !strings.Contains(err.Error(), "the release in "+r.pulled+" is for "+other) {
		t.Errorf("brought along: %v", err)
	}
}
