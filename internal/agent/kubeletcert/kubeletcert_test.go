package kubeletcert

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/certificate"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

const day = 24 * time.Hour

// world is a worker and a configuration server of its site.
type world struct {
	*Keeper
	t    *testing.T
	site *site.Site
	now  time.Time
	// asked holds each request that the server got, in PEM form.
	asked [][]byte
	// answer is what the server says; nil means a certificate of a year.
	answer func() ([]byte, error)
	// judge is what the control plane decides by what it knows of the worker; nil means that it approves.
	judge func(joining.Expired) error
	// serving is when the server's certificate was made.
	serving time.Time
}

// newWorld makes a worker whose certificate expired a while ago.
func newWorld(t *testing.T, ago time.Duration) *world {
	t.Helper()
	s := sitetest.New(t, sitetest.TwoDual)
	w := &world{t: t, site: s, now: sitetest.Created.Add(2 * 365 * day)}
	w.serving = w.now
	w.Keeper = &Keeper{Root: t.TempDir(), Name: s.APIName(), CA: s.Identity.ConfigCA.Cert, Now: func() time.Time { return w.now }}
	w.Running = func() (string, error) { return "", nil }
	pki := filepath.Dir(w.link())
	if err := os.MkdirAll(pki, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := w.Root + state.KubernetesCA
	if err := errors.Join(os.MkdirAll(filepath.Dir(ca), 0o755), os.WriteFile(ca, []byte(s.Identity.KubernetesCA.Cert), 0o600)); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	first := filepath.Join(pki, "kubelet-client-2027-01-01-00-00-00.pem")
	if err := os.WriteFile(first, append(w.sign(subject("worker-1"), key.Public(), w.now.Add(-ago-365*day), w.now.Add(-ago)), pemOf(t, key)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(first, w.link()); err != nil { // as kubelet does
		t.Fatal(err)
	}
	server := w.serve()
	w.Servers = func() []string { return []string{server} }
	return w
}

func (w *world) link() string { return w.Root + kubeadm.KubeletCertificate }

func subject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// sign issues a kubelet certificate of the site.
func (w *world) sign(name pkix.Name, public any, from, until time.Time) []byte {
	w.t.Helper()
	pair, err := tls.X509KeyPair([]byte(w.site.Identity.KubernetesCA.Cert), []byte(w.site.Identity.KubernetesCA.Key))
	if err != nil {
		w.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name, NotBefore: from, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, pair.Leaf, public, pair.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serve runs a configuration server that decides as a control plane does about
// the proof, and takes the cluster's part as given.
func (w *world) serve() string {
	w.t.Helper()
	authority, err := w.site.Identity.KubernetesCA.Parse()
	if err != nil {
		w.t.Fatal(err)
	}
	handler := configserver.New(configserver.Options{Renew: func(_ context.Context, shown *x509.Certificate, request []byte) ([]byte, error) {
		x, err := joining.ReadExpired([]*x509.Certificate{authority}, shown, request, w.now)
		if err == nil && w.judge != nil {
			err = w.judge(x)
		}
		if err != nil {
			return nil, err
		}
		w.asked = append(w.asked, request)
		if w.answer != nil {
			return w.answer()
		}
		return w.sign(subject("worker-1"), w.requested(request), w.now.Add(-5*time.Minute), w.now.Add(365*day)), nil
	}})
	server := httptest.NewUnstartedServer(nil)
	server.Config = configserver.NewServer(handler, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		made, err := keys.Serving(w.site, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, w.serving)
		return &made, err
	}})
	server.TLS = server.Config.TLSConfig
	server.StartTLS()
	w.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// requested returns the public key of a request.
func (w *world) requested(request []byte) any {
	w.t.Helper()
	block, _ := pem.Decode(request)
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.PublicKey
}

// kubelet reads the certificate with kubelet's own code.
func (w *world) kubelet() *x509.Certificate {
	w.t.Helper()
	pair, err := w.store().Current()
	if err != nil {
		w.t.Fatal(err)
	}
	return pair.Leaf
}

func (w *world) store() certificate.FileStore {
	w.t.Helper()
	dir := filepath.Dir(w.link())
	store, err := certificate.NewFileStore("kubelet-client", dir, dir, "", "")
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

func TestAWorkerWhoseCertificateExpiredGetsAnotherThatKubeletUses(t *testing.T) {
	w := newWorld(t, 400*day)
	old := w.kubelet()
	result, err := w.step(t.Context())
	if err != nil || !strings.Contains(result.Changed, "its last one expired at "+stamp(old.NotAfter)) {
		t.Fatalf("%+v, %v", result, err)
	}
	fresh := w.kubelet()
	if !fresh.NotAfter.Equal(w.now.Add(365*day)) || fresh.Subject.String() != old.Subject.String() || bytes.Equal(fresh.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo) {
		t.Errorf("kubelet has %s until %s, by the same key %t", fresh.Subject, fresh.NotAfter, bytes.Equal(fresh.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo))
	}
	if info, err := os.Stat(w.link()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// kubelet goes on from it: it refuses a file that is no link.
	key := newKey(t)
	next := w.sign(subject("worker-1"), key.Public(), w.now, w.now.Add(700*day))
	if _, err := w.store().Update(next, pemOf(t, key)); err != nil {
		t.Errorf("kubelet cannot rotate: %v", err)
	}
	if result, err := w.step(t.Context()); err != nil || result.Changed != "" || len(w.asked) != 1 {
		t.Errorf("it asks again: %+v, %v, %d requests", result, err, len(w.asked))
	}
}

func TestAControlPlaneSignsForItsOwnKubeletAndAsksNobody(t *testing.T) {
	w := newWorld(t, 400*day)
	w.Servers = nil
	ca := w.site.Identity.KubernetesCA
	w.Sign = func(old, key string) (string, error) {
		return keys.Renew(old, key, ca.Cert, ca.Key, 365*day, w.now)
	}
	old := w.kubelet()
	if _, err := w.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := w.kubelet()
	authority, err := ca.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.CheckSignatureFrom(authority); err != nil {
		t.Error(err)
	}
	if !fresh.NotAfter.Equal(w.now.Add(365*day)) || fresh.Subject.String() != old.Subject.String() || bytes.Equal(fresh.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo) {
		t.Errorf("kubelet has %s until %s, by the same key %t", fresh.Subject, fresh.NotAfter, bytes.Equal(fresh.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo))
	}
	w.Sign = func(string, string) (string, error) { return "", errors.New("ca.key is not there") }
	w.now = w.now.Add(400 * day)
	if _, err := w.step(t.Context()); err == nil || !strings.Contains(err.Error(), "so kubelet does not start; another one: ca.key is not there") {
		t.Errorf("without the key of the authority: %v", err)
	}
}

func TestACertificateThatHasNotExpiredIsKubeletsOwnConcern(t *testing.T) {
	w := newWorld(t, -time.Second)
	if result, err := w.step(t.Context()); err != nil || result.Changed != "" || len(w.asked) != 0 {
		t.Errorf("%+v, %v, %d requests", result, err, len(w.asked))
	}
	if err := os.Remove(w.link()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.step(t.Context()); !errors.Is(err, fs.ErrNotExist) || !w.Task().NotYet(err) {
		t.Errorf("a host that has not joined: %v", err)
	}
}

func TestAWorkerAsksAgainWithTheSameRequestUntilItIsAnswered(t *testing.T) {
	w := newWorld(t, day)
	live := w.Servers()[0]
	w.Servers = func() []string { return []string{porttest.Address(t), live} } // the first control plane is off
	w.answer = func() ([]byte, error) { return nil, errors.New("the API is away") }
	if _, err := w.step(t.Context()); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Fatalf("got %v", err)
	}
	w.answer = nil
	if result, err := w.step(t.Context()); err != nil || result.Changed == "" {
		t.Fatalf("%+v, %v", result, err)
	}
	if len(w.asked) != 2 || !bytes.Equal(w.asked[0], w.asked[1]) {
		t.Errorf("%d requests, and not the same", len(w.asked))
	}
	first := w.asked[0]
	w.now, w.asked = w.now.Add(400*day), nil
	w.serving = w.now
	if _, err := w.step(t.Context()); err != nil || len(w.asked) != 1 || bytes.Equal(first, w.asked[0]) {
		t.Errorf("a year later: %v, %d requests, or the key of the year before", err, len(w.asked))
	}
}

func TestAnErrorSaysWhatAPersonTypes(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(*world)
		want string
	}{
		{"refused", func(w *world) {
			w.answer = func() ([]byte, error) {
				return nil, joining.Refusal("the cluster has no Node worker-1 any more: install it anew")
			}
		}, "kubelet does not start; another one: refused: the cluster has no Node worker-1 any more: install it anew"},
		{"a clock that is ahead, by the server", func(w *world) {
			w.Now = func() time.Time { return w.now.Add(20 * day) }
			w.put10Days()
		}, "compare the clocks of both hosts (date -u)"},
		{
			"a clock that is years ahead", func(w *world) { w.Now = func() time.Time { return w.now.Add(5 * 365 * day) } },
			"the clock of this host says 2033-11-18T08:00:00Z, and the server's certificate is not valid at that time: compare the clocks (date -u)",
		},
		{
			"a clock that is years behind", func(w *world) { w.Now = func() time.Time { return time.Unix(300, 0) } },
			"the clock of this host says 1970-01-01T00:05:00Z, and kubelet's certificate was issued at 2027-11-19T08:00:00Z: compare the clocks (date -u)",
		},
		{"a server of another site", func(w *world) {
			other, err := keys.Generate(sitetest.Created, rand.Reader)
			if err != nil {
				w.t.Fatal(err)
			}
			w.CA = other.ConfigCA.Cert
		}, configserver.ErrForeign.Error()},
		{"an answer for another key", func(w *world) {
			w.answer = func() ([]byte, error) {
				return w.sign(subject("worker-1"), newKey(w.t).Public(), w.now, w.now.Add(day)), nil
			}
		}, "the answer of the configuration server: tls: private key does not match public key"},
		{"an answer for somebody else", func(w *world) {
			w.answer = func() ([]byte, error) {
				return w.sign(subject("worker-2"), w.requested(w.asked[0]), w.now, w.now.Add(day)), nil
			}
		}, "is the certificate of somebody else"},
		{"an answer from a clock that is ahead", func(w *world) {
			w.answer = func() ([]byte, error) {
				return w.sign(subject("worker-1"), w.requested(w.asked[0]), w.now.Add(time.Hour), w.now.Add(day)), nil
			}
		}, "the clock of this host says 2028-11-19T08:00:00Z: compare the clocks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, day)
			c.play(w)
			before := w.kubelet()
			result, err := w.step(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || result.Changed != "" {
				t.Errorf("%+v, %v, want %q", result, err, c.want)
			}
			if after := w.kubelet(); !after.Equal(before) {
				t.Error("kubelet's certificate was replaced all the same")
			}
		})
	}
}

// put10Days gives the worker a certificate that ends in ten days.
func (w *world) put10Days() {
	w.t.Helper()
	key := newKey(w.t)
	if _, err := w.store().Update(w.sign(subject("worker-1"), key.Public(), w.now.Add(-day), w.now.Add(10*day)), pemOf(w.t, key)); err != nil {
		w.t.Fatal(err)
	}
}

// docs/facts/life.md#certificates, L-C13: kubelet cannot renew a certificate in a file of
// that name, so it ends.
func TestAFileInTheLinksPlaceIsReplacedByALink(t *testing.T) {
	w := newWorld(t, day)
	data, err := os.ReadFile(w.link())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(w.link()), os.WriteFile(w.link(), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	next := w.sign(subject("worker-1"), key.Public(), w.now, w.now.Add(700*day))
	if _, err := w.store().Update(next, pemOf(t, key)); err == nil {
		t.Fatal("kubelet takes a file: the case is none any more")
	}
	if _, err := w.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(w.link()); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := w.store().Update(next, pemOf(t, key)); err != nil {
		t.Errorf("kubelet cannot rotate: %v", err)
	}
}

// A power cut may leave a link that was made and not used yet.
func TestALinkOfARunThatWasCutOffIsReplaced(t *testing.T) {
	w := newWorld(t, day)
	if err := os.Symlink("nothing", w.link()+".holdfast"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := w.kubelet().NotAfter; !end.After(w.now) {
		t.Errorf("kubelet's certificate ends at %s", end)
	}
	if _, err := os.Lstat(w.link() + ".holdfast"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link is still there: %v", err)
	}
}

// The proof is the key: a certificate alone opens nothing.
func TestACertificateWithoutItsKeyOpensNothing(t *testing.T) {
	w := newWorld(t, day)
	old, err := readPair(w.link())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.prepare(old); err != nil {
		t.Fatal(err)
	}
	stolen := *old
	stolen.PrivateKey = newKey(t)
	if _, err := w.ask(t.Context(), &stolen); err == nil || len(w.asked) != 0 {
		t.Errorf("got %v, %d requests", err, len(w.asked))
	}
	if _, err := w.ask(t.Context(), old); err != nil {
		t.Errorf("with its key: %v", err)
	}
}
