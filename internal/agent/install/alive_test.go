package install

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
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

// docs/facts/loss.md#hard-cases-of-loss, L46: a host of the site that is restored still
// serves. The new first host takes neither the virtual IPs nor the data meanwhile.
func TestL46NothingIsRestoredWhileTheSiteStillServes(t *testing.T) {
	r, _ := newRun(t, state.RoleBootstrap)
	r.Site = sitetest.New(t, sitetest.TwoDual)
	r.Site.Restore = &site.Restore{SHA256: strings.Repeat("0", 64)}
	r.Site = r.Site.For(state.RoleBootstrap)
	var names []string
	for _, s := range r.steps() {
		names = append(names, s.name)
	}
	order := []string{"hold API VIP", "write certificates", "take the data of the backup", "start control plane"}
	if !slices.IsSortedFunc(order, func(a, b string) int { return slices.Index(names, a) - slices.Index(names, b) }) || slices.Index(names, order[0]) < 0 {
		t.Errorf("virtual IPs that somebody holds are refused before anything is written; the steps are %v", names)
	}

	r.root = t.TempDir()
	r.facts = state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}}
	path := filepath.Join(r.root, site.RestorePath)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("a snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := 0
	ctx, cancel := context.WithCancel(t.Context())
	r.serves = func(context.Context) bool {
		if asked++; asked == 2 {
			cancel()
		}
		return true
	}
	r.start("take the data of the backup")
	if err := r.takeBackup(ctx); err == nil || strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("beside a site that serves: %v", err)
	}
	if s, _ := r.p.Current(); !strings.Contains(s.Message, "still serves at") {
		t.Errorf("it says %q", s.Message)
	}
	if _, err := os.Stat(filepath.Join(r.root, state.EtcdDataDir)); err == nil {
		t.Error("etcd has data")
	}
	r.serves = func(context.Context) bool { return false }
	if err := r.takeBackup(t.Context()); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("once it does not serve any more, it goes on to compare the snapshot: %v", err)
	}
}

func TestL46OnlyACertificateOfTheSameSiteShowsThatItServes(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	own := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	address := server.Listener.Addr().String()
	foreign := sitetest.New(t, sitetest.TwoDual).Identity.KubernetesCA.Cert
	for what, c := range map[string]struct {
		address, name, authority string
		want                     bool
	}{
		"the site itself":            {address, "example.com", own, true},
		"the same for another name":  {address, "api.elsewhere.test", own, false},
		"another site at its place":  {address, "example.com", foreign, false},
		"an authority without a key": {address, "example.com", "none", false},
		"nobody listens":             {"127.0.0.1:1", "example.com", own, false},
	} {
		begin := time.Now()
		if got := answersAs(t.Context(), c.address, c.name, c.authority); got != c.want {
			t.Errorf("%s: %v after %s", what, got, time.Since(begin))
		}
	}
}
