package install

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestOnlyTheFirstHostOfARestoredSiteTakesTheBackup looks at the steps of each role: etcd
// has its data before the control plane starts.
func TestOnlyTheFirstHostOfARestoredSiteTakesTheBackup(t *testing.T) {
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		for _, restored := range []bool{false, true} {
			r, _ := newRun(t, role)
			whole := sitetest.New(t, sitetest.TwoDual)
			if restored {
				whole.Restore = &site.Restore{SHA256: "x"}
			}
			r.Site = whole.For(role)
			var names []string
			for _, s := range r.steps() {
				names = append(names, s.name)
			}
			takes, starts := slices.Index(names, "take the data of the backup"), slices.Index(names, "start control plane")
			if want := restored && role == state.RoleBootstrap; (takes >= 0) != want || want && takes+1 != starts {
				t.Errorf("%s, restored %v: %v", role, restored, names)
			}
		}
	}
}

// TestAHostThatIsRestoredSaysWhatItWaitsFor: nobody has copied the snapshot yet, then
// somebody has begun to.
func TestAHostThatIsRestoredSaysWhatItWaitsFor(t *testing.T) {
	r, _ := newRun(t, state.RoleBootstrap)
	r.root = t.TempDir()
	r.Site = sitetest.New(t, sitetest.TwoDual)
	r.Site.Restore = &site.Restore{SHA256: strings.Repeat("0", 64)}
	r.facts = state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}}
	r.start("take the data of the backup")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.takeBackup(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("without a file: %v", err)
	}
	if s, _ := r.p.Current(); !strings.Contains(s.Message, site.RestorePath) {
		t.Errorf("it says %q, want %s in it", s.Message, site.RestorePath)
	}
	path := filepath.Join(r.root, site.RestorePath)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.takeBackup(t.Context()); err == nil || !strings.Contains(err.Error(), "is not the snapshot of this restore") {
		t.Errorf("with half a file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.root, state.EtcdDataDir, "member")); err == nil {
		t.Error("etcd has data")
	}
}
