package infrastructure

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

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

func TestAnAPIVIPAnswersWithACertificateForItselfOnly(t *testing.T) {
	roots := x509.NewCertPool()
	for _, vip := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(vip)
		good := Prober{Roots: roots, apiPort: apiAt(t, vip, roots, vip)}
		if got := good.Ask(t.Context(), parse(vip), nil)[addr]; got != "" {
			t.Errorf("%s: %s", vip, got)
		}
		other := Prober{Roots: roots, apiPort: apiAt(t, vip, roots, "10.98.0.5")}
		if got := other.Ask(t.Context(), parse(vip), nil)[addr]; got != "the certificate there is not for "+vip {
			t.Errorf("%s: %s", vip, got)
		}
		stranger := Prober{Roots: x509.NewCertPool(), apiPort: good.apiPort}
		if got := stranger.Ask(t.Context(), parse(vip), nil)[addr]; !strings.Contains(got, "unknown authority") {
			t.Errorf("%s: %s", vip, got)
		}
		if got := (Prober{Roots: roots, apiPort: 1}).Ask(t.Context(), parse(vip), nil)[addr]; got != "connection refused" {
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
