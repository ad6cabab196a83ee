package infrastructure

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// apiAt serves with a certificate for some addresses at a loopback address, and
// returns its port.
func apiAt(t *testing.T, at string, roots *x509.CertPool, good ...string) uint16 {
	t.Helper()
	s := sitetest.New(t, sitetest.OneNone)
	cert, err := keys.Serving(s, parse(good...), time.Now())
	must(t, err)
	authority, err := s.Identity.ConfigCA.Parse()
	must(t, err)
	roots.AddCert(authority)
	listener, err := tls.Listen("tcp", net.JoinHostPort(at, "0"), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	must(t, err)
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return netip.MustParseAddrPort(listener.Addr().String()).Port()
}

// fixed returns authorities that do not change.
func fixed(roots *x509.CertPool) func() (*x509.CertPool, error) {
	return func() (*x509.CertPool, error) { return roots, nil }
}

// client-go follows the file of a pod's authorities in its own connections, and in no other one.
func TestAVIPIsAskedByTheAuthoritiesOfNow(t *testing.T) {
	const vip = "127.0.0.1"
	s := sitetest.New(t, sitetest.OneNone)
	before, err := keys.Serving(s, parse(vip), time.Now())
	must(t, err)
	former := s.Identity.ConfigCA.Cert
	s.Identity.ConfigCA, err = keys.DeriveCA(former, s.Identity.EncryptionRoot, make([]byte, 32), "a test", time.Now())
	must(t, err)
	after, err := keys.Serving(s, parse(vip), time.Now())
	must(t, err)
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(&before)
	listener, err := tls.Listen("tcp", net.JoinHostPort(vip, "0"), &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return shown.Load(), nil }, MinVersion: tls.VersionTLS12,
	})
	must(t, err)
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	file := filepath.Join(t.TempDir(), "ca.crt")
	asker := Prober{
		Roots:   RootsOf(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file}}),
		apiPort: netip.MustParseAddrPort(listener.Addr().String()).Port(),
	}
	for _, look := range []struct {
		trusted string
		shows   *tls.Certificate
	}{{former, &before}, {former + s.Identity.ConfigCA.Cert, &after}, {s.Identity.ConfigCA.Cert, &after}} {
		must(t, os.WriteFile(file, []byte(look.trusted), 0o600))
		shown.Store(look.shows)
		if got := asker.Ask(t.Context(), parse(vip), nil)[netip.MustParseAddr(vip)]; got != "" {
			t.Error(got)
		}
	}
	must(t, os.WriteFile(file, []byte(former), 0o600))
	if got := asker.Ask(t.Context(), parse(vip), nil)[netip.MustParseAddr(vip)]; !strings.Contains(got, "certificate") {
		t.Errorf("another authority: %q", got)
	}
	must(t, os.Remove(file))
	if got := asker.Ask(t.Context(), parse(vip), nil)[netip.MustParseAddr(vip)]; !strings.Contains(got, "authorities of the API") {
		t.Errorf("no authority: %q", got)
	}
}

func TestAnAPIVIPAnswersWithACertificateForItselfOnly(t *testing.T) {
	roots := x509.NewCertPool()
	for _, vip := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(vip)
		good := Prober{Roots: fixed(roots), apiPort: apiAt(t, vip, roots, vip)}
		if got := good.Ask(t.Context(), parse(vip), nil)[addr]; got != "" {
			t.Errorf("%s: %s", vip, got)
		}
		other := Prober{Roots: fixed(roots), apiPort: apiAt(t, vip, roots, "10.98.0.5")}
		if got := other.Ask(t.Context(), parse(vip), nil)[addr]; got != "the certificate there is not for "+vip {
			t.Errorf("%s: %s", vip, got)
		}
		stranger := Prober{Roots: fixed(x509.NewCertPool()), apiPort: good.apiPort}
		if got := stranger.Ask(t.Context(), parse(vip), nil)[addr]; !strings.Contains(got, "unknown authority") {
			t.Errorf("%s: %s", vip, got)
		}
		if got := (Prober{Roots: fixed(roots), apiPort: 1}).Ask(t.Context(), parse(vip), nil)[addr]; got != "connection refused" {
			t.Errorf("%s: %s", vip, got)
		}
	}
}

// A VIP answers if a host has it, even if no router listens there.
func TestAnIngressVIPAnswersIfOnlyByRefusing(t *testing.T) {
	if got := (Prober{ingressPort: 1}).Ask(t.Context(), nil, parse("127.0.0.1", "::1")); got[netip.MustParseAddr("127.0.0.1")] != "" || got[netip.MustParseAddr("::1")] != "" {
		t.Errorf("got %v", got)
	}
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = silent.Close() }()
	port := netip.MustParseAddrPort(silent.Addr().String()).Port()
	if got := (Prober{ingressPort: port}).Ask(t.Context(), nil, parse("127.0.0.1")); got[netip.MustParseAddr("127.0.0.1")] != "" {
		t.Errorf("got %v", got)
	}
}

// The text must not change from look to look, or it would be written anew.
func TestTheSameTroubleHasTheSameWords(t *testing.T) {
	asker := Prober{apiPort: 1}
	first := asker.Ask(t.Context(), parse("127.0.0.1"), nil)
	for range 5 {
		if again := asker.Ask(t.Context(), parse("127.0.0.1"), nil); again[netip.MustParseAddr("127.0.0.1")] != first[netip.MustParseAddr("127.0.0.1")] {
			t.Errorf("%v became %v", first, again)
		}
	}
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = silent.Close() }()
	asker.apiPort = netip.MustParseAddrPort(silent.Addr().String()).Port()
	if got := asker.Ask(t.Context(), parse("127.0.0.1"), nil)[netip.MustParseAddr("127.0.0.1")]; got != "no answer in time" {
		t.Errorf("a server that says nothing: %s", got)
	}
}
