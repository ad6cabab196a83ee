package rotation

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// installed are the keys of a site whose authorities were all replaced since.
var installed = site.Identity{
	ClusterID: "x", ServiceSigner: site.KeyPair{Cert: "own"}, FrontProxyCA: site.KeyPair{Cert: "own"}, EtcdCA: site.KeyPair{Cert: "own"}, KubernetesCA: site.KeyPair{Cert: "own"},
}

// pairOf returns an authority of a site's keys.
func pairOf(id site.Identity, a rotation.Authority) site.KeyPair {
	return map[rotation.Authority]site.KeyPair{
		rotation.ServiceAccountKey: id.ServiceSigner, rotation.FrontProxyCA: id.FrontProxyCA, rotation.EtcdCA: id.EtcdCA, rotation.KubernetesCA: id.KubernetesCA,
	}[a]
}

// A control plane that joins gets the authorities of today, and the one that signs
// first.
func TestAHostThatJoinsGetsTheAuthoritiesOfToday(t *testing.T) {
	for _, a := range rotation.Authorities() {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1)
			h := c.hosts[0]
			for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
				if got, err := Present(t.TempDir(), installed, role); err != nil || pairOf(got, a) != pairOf(installed, a) {
					t.Errorf("a host without files gives a %s others than its own: %v", role, err)
				}
			}
			for i := range 60 {
				c.look()
				now := h.files(a)
				id, err := Present(h.root, installed, state.RoleMaster)
				if err != nil {
					t.Fatal(err)
				}
				pair := pairOf(id, a)
				publics, err := keys.Publics(pair.Cert)
				if err != nil || pair.Key != now.key || len(publics) != len(now.Trusts) || publics[0].ID != string(now.Key) || id.ClusterID != "x" {
					t.Fatalf("%s, look %d: %v", a, i, err)
				}
				worker, err := Present(h.root, installed, state.RoleWorker)
				if isCA := a == rotation.KubernetesCA; err != nil || (pairOf(worker, a).Cert == pair.Cert) != isCA {
					t.Fatalf("%s, look %d: a worker gets %q, %v", a, i, pairOf(worker, a).Cert, err)
				}
				c.command(a, i == 0)
				time.Sleep(time.Minute)
			}
			if !slices.Contains(c.waited, "the rotation is complete") {
				t.Error("the rotation did not end")
			}
			withoutKey(t, h, a)
		})
	}
}

// withoutKey fails the test if a host that lost the key of an authority gives a newcomer the one of the
// installation, which the site has dropped.
func withoutKey(t *testing.T, h *controlPlane, a rotation.Authority) {
	t.Helper()
	at := places[a]
	trusts := h.text(at.trusts)
	for what, c := range map[string]struct {
		spoil func() error
		want  string
	}{
		"no key":        {func() error { return os.Remove(h.root + at.key) }, "this host has no " + at.key + ": it takes in no control plane"},
		"a damaged key": {func() error { return os.WriteFile(h.root+at.key, []byte("hush"), 0o600) }, at.key + ": "},
		"another's key": {func() error { return os.WriteFile(h.root+at.key, []byte(otherKey(t)), 0o600) }, "is the key of no authority in " + at.trusts},
	} {
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := Present(h.root, installed, state.RoleMaster); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s of %s: a control plane is told %v", what, a, err)
		}
		worker, err := Present(h.root, installed, state.RoleWorker)
		if a == rotation.KubernetesCA && worker.KubernetesCA.Cert != trusts || err != nil {
			t.Errorf("%s of %s: a worker gets %q, %v", what, a, worker.KubernetesCA.Cert, err)
		}
	}
	h.put(at.trusts, "hush", 0o600)
	if _, err := Present(h.root, installed, state.RoleMaster); err == nil || !strings.HasPrefix(err.Error(), at.trusts+": ") {
		t.Errorf("damaged certificates of %s: %v", a, err)
	}
}

// otherKey returns a key of another site.
func otherKey(t *testing.T) string {
	t.Helper()
	pair, err := keys.DeriveSigner(root, []byte(strings.Repeat("s", 32)), "another")
	if err != nil {
		t.Fatal(err)
	}
	return pair.Key
}
