package servingcert

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// pki writes the files of a control plane as kubeadm does, with a certificate
// for some addresses, and returns the authority.
func pki(t *testing.T, dir string, addresses ...string) *x509.CertPool {
	t.Helper()
	now := time.Now()
	caKey, key := newKey(t), newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour * 24 * 3650),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER := sign(t, ca, ca, &caKey.PublicKey, caKey)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		DNSNames: []string{"cp-1", "kubernetes", "kubernetes.default.svc", "api.shop.example.test"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, a := range addrs(addresses...) {
		leaf.IPAddresses = append(leaf.IPAddresses, net.IP(a.AsSlice()))
	}
	put(t, filepath.Join(dir, "ca.crt"), "CERTIFICATE", caDER)
	put(t, filepath.Join(dir, "ca.key"), "EC PRIVATE KEY", ecDER(t, caKey))
	put(t, filepath.Join(dir, "apiserver.key"), "EC PRIVATE KEY", ecDER(t, key))
	put(t, filepath.Join(dir, "apiserver.crt"), "CERTIFICATE", sign(t, leaf, ca, &key.PublicKey, caKey))
	parsed, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, public *ecdsa.PublicKey, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func ecDER(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// put writes a file as another program would, by a rename.
func put(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// server shows the certificate in a folder, and new ones while follows is true.
func server(t *testing.T, dir string) (endpoint string, follows *atomic.Bool) {
	t.Helper()
	follows = &atomic.Bool{}
	follows.Store(true)
	var last atomic.Pointer[tls.Certificate]
	config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := last.Load(); c != nil && !follows.Load() {
			return c, nil
		}
		c, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key"))
		last.Store(&c)
		return &c, err
	}}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	return listener.Addr().String(), follows
}

// clock is a clock that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newPiece(t *testing.T, dir, endpoint string) (*Reconciler, *clock) {
	t.Helper()
	c := &clock{now: time.Now()}
	return New(Options{Folder: dir, Endpoint: endpoint, Record: filepath.Join(dir, "record.json"), Now: c.Now}), c
}

func view(vips ...string) state.NetworkView {
	return state.NetworkView{
		Settings: state.NetworkSettings{ManagedVIPs: true, APIVIPs: addrs(vips...)}, Role: state.RoleMaster,
		Host:  state.HostFacts{NodeName: "cp-2", Addresses: addrs("10.98.0.12", "fd98::12")},
		Nodes: state.Known([]state.Node{{Name: "cp-2", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}}}),
	}
}

// shown returns the addresses in the certificate that clients see, as text.
func shown(t *testing.T, p *Reconciler) string {
	t.Helper()
	list, err := p.shown(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, a := range list {
		words = append(words, a.String())
	}
	return strings.Join(words, " ")
}

func reconcile(t *testing.T, p *Reconciler, v state.NetworkView) string {
	t.Helper()
	words, err := p.Reconcile(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return words
}

func TestACertificateFollowsTheVIPsInPlace(t *testing.T) {
	dir := t.TempDir()
	roots := pki(t, dir, "10.96.0.1", "10.98.0.12", "127.0.0.1", "10.98.0.5", "10.98.0.99")
	endpoint, _ := server(t, dir)
	p, _ := newPiece(t, dir, endpoint)
	key, err := os.ReadFile(filepath.Join(dir, "apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ vips, says, shows string }{
		{"10.98.0.5", "", "10.96.0.1 10.98.0.12 127.0.0.1 10.98.0.5 10.98.0.99"},
		{"10.98.0.5 fd98::7", "fd98::7", "10.96.0.1 10.98.0.12 127.0.0.1 10.98.0.5 10.98.0.99 fd98::7"},
		{"10.98.0.5 fd98::7", "", "10.96.0.1 10.98.0.12 127.0.0.1 10.98.0.5 10.98.0.99 fd98::7"},
		// A typo that is taken back does not stay in the certificate; what an
		// administrator put there does.
		{"10.98.0.5", "10.98.0.5", "10.96.0.1 10.98.0.12 127.0.0.1 10.98.0.5 10.98.0.99"},
		{"10.98.0.5 fd98::5", "fd98::5", "10.96.0.1 10.98.0.12 127.0.0.1 10.98.0.5 10.98.0.99 fd98::5"},
	} {
		words := reconcile(t, p, view(strings.Fields(step.vips)...))
		if words == "" != (step.says == "") || !strings.Contains(words, step.says) {
			t.Errorf("with %s it says %q", step.vips, words)
		}
		if got := shown(t, p); got != step.shows {
			t.Errorf("with %s clients are shown %s, want %s", step.vips, got, step.shows)
		}
	}
	for _, name := range []string{"fd98::5", "10.98.0.5", "kubernetes.default.svc"} {
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}).DialContext(t.Context(), "tcp", endpoint)
		if err != nil {
			t.Errorf("a client of %s: %v", name, err)
			continue
		}
		leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		if leaf.Subject.CommonName != "kube-apiserver" || time.Until(leaf.NotAfter) < 300*24*time.Hour {
			t.Errorf("it is for %s until %s", leaf.Subject, leaf.NotAfter)
		}
		_ = conn.Close()
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "apiserver.key")); !slices.Equal(after, key) {
		t.Error("the key is another one")
	}
	if got := p.Served(); !slices.Contains(got, netip.MustParseAddr("fd98::5")) {
		t.Errorf("served is %v", got)
	}
}

func TestARestartAnywhereLosesNothing(t *testing.T) {
	dir := t.TempDir()
	pki(t, dir, "10.98.0.12", "10.98.0.5")
	endpoint, _ := server(t, dir)
	for _, vips := range []string{"10.98.0.5", "10.98.0.5 fd98::7", "10.98.0.5", "10.98.0.5 fd98::5"} {
		first, _ := newPiece(t, dir, endpoint)
		// It is cut off after the certificate was written and before the record.
		record := first.Record
		first.Record = filepath.Join(dir, "lost", "record.json")
		_, _ = first.Reconcile(t.Context(), view(strings.Fields(vips)...))
		second, _ := newPiece(t, dir, endpoint)
		second.Record = record
		reconcile(t, second, view(strings.Fields(vips)...))
		if words := reconcile(t, second, view(strings.Fields(vips)...)); words != "" {
			t.Errorf("it writes again: %s", words)
		}
	}
	p, _ := newPiece(t, dir, endpoint)
	if got := shown(t, p); got != "10.98.0.12 10.98.0.5 fd98::5" {
		t.Errorf("clients are shown %s", got)
	}
}

func TestOneAPIServerAtATime(t *testing.T) {
	dir := t.TempDir()
	pki(t, dir, "10.98.0.12", "10.98.0.5")
	endpoint, _ := server(t, dir)
	p, c := newPiece(t, dir, endpoint)
	v := view("10.98.0.5", "fd98::5")
	before := state.Node{Name: "cp-1", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}}
	v.Nodes.Value = []state.Node{before, v.Nodes.Value[0]}
	if _, err := p.Reconcile(t.Context(), v); err == nil || !strings.Contains(err.Error(), "waits for that of cp-1") {
		t.Errorf("it does not wait: %v", err)
	}
	if got := shown(t, p); strings.Contains(got, "fd98::5") {
		t.Errorf("clients are shown %s", got)
	}
	before.Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{Certificate: addrs("10.98.0.5", "fd98::5")})}
	v.Nodes.Value = []state.Node{before, v.Nodes.Value[1]}
	if words := reconcile(t, p, v); words == "" {
		t.Error("it goes on waiting")
	}
	// A host whose agent does not run is not waited for forever.
	v = view("10.98.0.5")
	before.Annotations = nil
	v.Settings.APIVIPs = addrs("10.98.0.5", "fd98::9")
	v.Nodes.Value = []state.Node{before, v.Nodes.Value[0]}
	if _, err := p.Reconcile(t.Context(), v); err == nil {
		t.Error("it does not wait")
	}
	c.now = c.now.Add(turnTimeout)
	if words := reconcile(t, p, v); words == "" {
		t.Error("it waits without end")
	}
}

func TestAnAPIServerThatDoesNotFollowIsTold(t *testing.T) {
	dir := t.TempDir()
	pki(t, dir, "10.98.0.12", "10.98.0.5")
	endpoint, follows := server(t, dir)
	p, c := newPiece(t, dir, endpoint)
	reconcile(t, p, view("10.98.0.5"))
	follows.Store(false)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if _, err := p.Reconcile(ctx, view("10.98.0.5", "fd98::5")); err == nil || !strings.Contains(err.Error(), "still shows a certificate for") {
		t.Errorf("got %v", err)
	}
	if slices.Contains(p.Served(), netip.MustParseAddr("fd98::5")) {
		t.Error("it says that the new VIP is served")
	}
	follows.Store(true)
	c.now = c.now.Add(time.Second)
	reconcile(t, p, view("10.98.0.5", "fd98::5"))
	if !slices.Contains(p.Served(), netip.MustParseAddr("fd98::5")) {
		t.Errorf("served is %v", p.Served())
	}
}

// A busy API server may answer no handshake in time, and then go on with its former certificate.
func TestAnAPIServerThatIsSlowIsNotTakenForOneThatDoesNotRun(t *testing.T) {
	dir := t.TempDir()
	pki(t, dir, "10.98.0.12", "10.98.0.5")
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	p, _ := newPiece(t, dir, silent.Addr().String())
	ctx, stop := context.WithTimeout(t.Context(), 2*dialLimit)
	defer stop()
	if _, err := p.Reconcile(ctx, view("10.98.0.5", "fd98::5")); err == nil {
		t.Error("it is taken for one that does not run")
	}
	if slices.Contains(p.Served(), netip.MustParseAddr("fd98::5")) {
		t.Error("it says that the new VIP is served")
	}
}

func TestAnAPIServerThatDoesNotRunReadsItsCertificateWhenItStarts(t *testing.T) {
	dir := t.TempDir()
	pki(t, dir, "10.98.0.12", "10.98.0.5")
	p, _ := newPiece(t, dir, "127.0.0.1:1")
	if words := reconcile(t, p, view("10.98.0.5", "fd98::5")); words == "" {
		t.Error("it waits for the API server")
	}
	if !slices.Contains(p.Served(), netip.MustParseAddr("fd98::5")) {
		t.Errorf("served will be %v", p.Served())
	}
}

func TestHostsWithoutSuchACertificateAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	p, _ := newPiece(t, dir, "127.0.0.1:1")
	if words := reconcile(t, p, view("10.98.0.5")); words != "" {
		t.Errorf("before it joined it says %q", words)
	}
	pki(t, dir, "10.98.0.12")
	worker, external, none := view("10.98.0.5"), view("10.98.0.5"), view()
	worker.Role = state.RoleWorker
	external.Settings.ManagedVIPs = false
	for _, v := range []state.NetworkView{worker, external, none} {
		if words := reconcile(t, p, v); words != "" {
			t.Errorf("it says %q", words)
		}
	}
}

func TestADamagedKeyIsNamedAndTheCertificateStays(t *testing.T) {
	dir := t.TempDir()
	pki(t, dir, "10.98.0.12")
	before, _ := os.ReadFile(filepath.Join(dir, "apiserver.crt"))
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _ := newPiece(t, dir, "127.0.0.1:1")
	if _, err := p.Reconcile(t.Context(), view("10.98.0.5")); err == nil || !strings.Contains(err.Error(), "key of the authority") {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "apiserver.crt")); !slices.Equal(before, after) {
		t.Error("the certificate changed")
	}
}
