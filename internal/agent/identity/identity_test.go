package identity

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

func authority(t *testing.T, now time.Time) site.KeyPair {
	t.Helper()
	id, err := keys.Generate(now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.KubernetesCA
}

func put(t *testing.T, k *Keeper, path, text string) {
	t.Helper()
	path = k.path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func newHost(t *testing.T) (*Keeper, *time.Time, site.KeyPair) {
	t.Helper()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	k := &Keeper{Root: t.TempDir(), Host: "cp-1", Server: "https://10.98.0.5:6443", Now: func() time.Time { return now }}
	ca := authority(t, now)
	put(t, k, authorities, ca.Cert)
	put(t, k, authorityKey, ca.Key)
	return k, &now, ca
}

func keep(t *testing.T, k *Keeper, want bool) {
	t.Helper()
	if renewed, err := k.Keep(); err != nil || renewed != want {
		t.Errorf("renewed %t, %v; want %t", renewed, err, want)
	}
}

// whom returns the certificate that the API sees when the agent uses its
// kubeconfig.
func whom(t *testing.T, k *Keeper, ca string) (*x509.Certificate, error) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", k.path(state.AgentKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != k.Server || cfg.CAFile != k.path(authorities) || len(cfg.CertData)+len(cfg.KeyData) > 0 {
		t.Errorf("%s, %s: a certificate that is renewed is not read again", cfg.Host, cfg.CAFile)
	}
	pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: k.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return pair.Leaf, err
}

func TestTheAgentIsSomebodyOfItsOwnAndIsRenewedInTime(t *testing.T) {
	k, now, ca := newHost(t)
	if k.Has() {
		t.Error("it has what was not made")
	}
	keep(t, k, true)
	cert, err := whom(t, k, ca.Cert)
	if err != nil || !k.Has() {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "holdfast:agent:cp-1" || !slices.Equal(cert.Subject.Organization, []string{"holdfast:agents"}) {
		t.Errorf("it is %s", cert.Subject)
	}
	if left := keys.ClientLifetime / 3; left <= 30*24*time.Hour {
		t.Errorf("doctor warns of every certificate: it is renewed with %s left", left)
	}
	keep(t, k, false)
	*now = now.Add(keys.ClientLifetime*2/3 - 2*time.Hour)
	keep(t, k, false)
	*now = now.Add(3 * time.Hour)
	keep(t, k, true)
	*now = now.Add(2 * 365 * 24 * time.Hour)
	keep(t, k, true)
	if _, err := whom(t, k, ca.Cert); err != nil {
		t.Errorf("after two years without a host: %v", err)
	}
	*now = now.Add(-2 * 365 * 24 * time.Hour) // the clock was ahead (docs/facts/life.md#certificates, L-C11)
	keep(t, k, true)
	if _, err := whom(t, k, ca.Cert); err != nil {
		t.Errorf("after a clock that was ahead: %v", err)
	}
}

// TestTheAgentsCertificateFollowsTheSitesPeriod: it lives no longer, and one that does is replaced.
func TestTheAgentsCertificateFollowsTheSitesPeriod(t *testing.T) {
	k, now, ca := newHost(t)
	keep(t, k, true)
	k.Period = 10 * time.Minute
	keep(t, k, true)
	for range 5 {
		keep(t, k, false)
		*now = now.Add(7 * time.Minute)
		keep(t, k, true)
		if cert, err := whom(t, k, ca.Cert); err != nil || cert.NotAfter.Sub(*now) != k.Period {
			t.Errorf("it ends after %s, %v", cert.NotAfter.Sub(*now), err)
		}
	}
}

func TestOnlyRootReadsWhatTheAgentIs(t *testing.T) {
	k, _, ca := newHost(t)
	keep(t, k, true)
	for _, name := range []string{state.AgentPair, state.AgentKubeconfig} {
		path := k.path(name)
		for range 2 {
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != 0o600 {
				t.Fatalf("%s: %v, %v", name, info, err)
			}
			text, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(text), strings.Split(ca.Key, "\n")[1]) {
				t.Errorf("%s has the authority's key, or %v", name, err)
			}
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
			keep(t, k, false)
		}
	}
	conf, err := os.ReadFile(k.path(state.AgentKubeconfig))
	if err != nil || strings.Contains(string(conf), "-data") {
		t.Errorf("the kubeconfig holds a key, or %v", err)
	}
}

func TestAnotherHostsIdentityIsNotTakenOver(t *testing.T) {
	k, _, ca := newHost(t)
	keep(t, k, true)
	k.Host = "cp-2" // the disk was copied
	keep(t, k, true)
	if cert, err := whom(t, k, ca.Cert); err != nil || cert.Subject.CommonName != "holdfast:agent:cp-2" {
		t.Errorf("%v, %v", cert.Subject, err)
	}
	admins, err := keys.Client(pkix.Name{CommonName: "holdfast:agent:cp-2", Organization: []string{"system:masters"}}, ca.Cert, ca.Key, keys.ClientLifetime, k.Now())
	if err != nil {
		t.Fatal(err)
	}
	put(t, k, state.AgentPair, admins)
	keep(t, k, true)
	if cert, err := whom(t, k, ca.Cert); err != nil || !slices.Equal(cert.Subject.Organization, []string{"holdfast:agents"}) {
		t.Errorf("%v, %v", cert.Subject, err)
	}
}

func TestTheAgentFollowsItsAuthorityAndComesBackFromAnything(t *testing.T) {
	k, now, before := newHost(t)
	keep(t, k, true)
	after := authority(t, *now)
	put(t, k, authorities, before.Cert+after.Cert) // both are trusted while they change
	keep(t, k, false)
	put(t, k, authorityKey, after.Key)
	keep(t, k, true)
	for _, broken := range []string{"", "nonsense", before.Cert, after.Cert} {
		put(t, k, state.AgentPair, broken)
		put(t, k, state.AgentKubeconfig, broken)
		keep(t, k, true)
		if _, err := whom(t, k, after.Cert); err != nil {
			t.Errorf("in place of %.20q: %v", broken, err)
		}
	}
}

func TestWhatKeepsTheAgentFromBeingSomebodyIsTold(t *testing.T) {
	k := &Keeper{Root: t.TempDir(), Host: "cp-1", Now: time.Now}
	if _, err := k.Keep(); !errors.Is(err, fs.ErrNotExist) || k.Has() {
		t.Errorf("a host that is not set up: %v", err)
	}
	k, now, ca := newHost(t)
	keep(t, k, true)
	put(t, k, authorityKey, authority(t, *now).Key)
	if _, err := k.Keep(); err == nil || !strings.Contains(err.Error(), "belongs to their key") {
		t.Errorf("with another one's key: %v", err)
	}
	if _, err := whom(t, k, ca.Cert); err != nil {
		t.Errorf("what served is gone: %v", err)
	}
	if err := os.Remove(k.path(authorityKey)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Keep(); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "without the key of the cluster's authority") {
		t.Errorf("without the key: %v", err)
	}
}

// TestAClientThatIsThereTakesTheNextCertificate: the client for the taints is
// made once and lives as long as the agent, which may be longer than a
// certificate.
func TestAClientThatIsThereTakesTheNextCertificate(t *testing.T) {
	before := transport.CertCallbackRefreshDuration
	transport.CertCallbackRefreshDuration = 20 * time.Millisecond
	t.Cleanup(func() { transport.CertCallbackRefreshDuration = before })
	k, now, ca := newHost(t)
	var shown atomic.Pointer[big.Int]
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.TLS.PeerCertificates[0].SerialNumber)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[]}`))
	}))
	api.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	api.StartTLS()
	t.Cleanup(api.Close)
	k.Server = api.URL
	put(t, k, authorities, ca.Cert+string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})))
	keep(t, k, true)
	client, err := kube.Open(k.path(state.AgentKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	ask := func() *big.Int {
		t.Helper()
		if _, err := client.Nodes(t.Context()); err != nil {
			t.Log(err) // the connection that is closed may be the one that asks
		}
		return shown.Load()
	}
	first := ask()
	*now = now.Add(keys.ClientLifetime * 3 / 4)
	keep(t, k, true)
	for end := time.Now().Add(20 * time.Second); ask().Cmp(first) == 0; {
		if time.Now().After(end) {
			t.Fatal("it goes on with the certificate that ends")
		}
	}
}
