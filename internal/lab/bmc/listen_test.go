package bmc

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// patience is the time that a test waits for something that must not happen.
const patience = 200 * time.Millisecond

// serve runs a controller on the loopback address and returns its address.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	// A socket that is bound to any free port would lose the port when it stops
	// listening, so bind to a port by number.
	addr := porttest.Address(t)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return addr
}

// client trusts the certificate of s, and opens a connection per request.
func client(t *testing.T, s *Server, timeout time.Duration) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.CertificatePEM()) {
		t.Fatal("no certificate")
	}
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
	}}
}

func read(c *http.Client, addr string) (string, error) {
	resp, err := c.Get("https://" + addr + rootPath)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), errors.Join(err, resp.Body.Close())
}

func TestHTTPSWithACertificateThatCanBeTrusted(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	addr := serve(t, s)
	if body, err := read(client(t, s, 5*time.Second), addr); err != nil || !strings.Contains(body, "RedfishVersion") {
		t.Fatalf("%q, %v", body, err)
	}
	_, err := read(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, addr)
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		t.Errorf("who does not trust the certificate: %v", err)
	}
}

func TestGivenCertificateIsShown(t *testing.T) {
	given, err := NewCertificate("cp-0", []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Name: "cp-0", Certificate: &given}, &fakeMachine{})
	if err != nil {
		t.Fatal(err)
	}
	if string(s.CertificatePEM()) != string(certificatePEM(given)) {
		t.Error("another certificate is shown")
	}
	if _, err := read(client(t, s, 5*time.Second), serve(t, s)); err != nil {
		t.Error(err)
	}
}

func TestQuirkCertificate(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	addr := serve(t, s)
	cases := map[string]string{
		CertificateExpired:     "certificate has expired",
		CertificateNotYetValid: "is not yet valid",
		CertificateOtherHost:   "127.0.0.1",
	}
	for fault, want := range cases {
		s.SetQuirks(Quirks{Certificate: fault})
		c := client(t, s, 5*time.Second)
		// Trust what is shown, so that the fault is the only reason to
		// complain.
		shown, err := s.certificate(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(shown.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		c.Transport.(*http.Transport).TLSClientConfig.RootCAs.AddCert(leaf)
		if _, err := read(c, addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", fault, err, want)
		}
	}
	s.SetQuirks(Quirks{})
	if _, err := read(client(t, s, 5*time.Second), addr); err != nil {
		t.Errorf("after the quirk is cleared: %v", err)
	}
}

func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func TestQuirksMuteAndHalfOpenNeverAnswer(t *testing.T) {
	for name, q := range map[string]Quirks{"mute": {Mute: true}, "half-open": {HalfOpen: true}} {
		s := newServer(t, &fakeMachine{})
		addr := serve(t, s)
		s.SetQuirks(q)
		if conn, err := net.Dial("tcp", addr); err != nil {
			t.Errorf("%s: TCP is not accepted: %v", name, err)
		} else if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if body, err := read(client(t, s, patience), addr); !timedOut(err) {
			t.Errorf("%s: answered %q, error %v", name, body, err)
		}
		s.SetQuirks(Quirks{})
		if _, err := read(client(t, s, 5*time.Second), addr); err != nil {
			t.Errorf("%s: after it is cleared: %v", name, err)
		}
	}
}

// A client that comes right after the end of the quirk is new. It once lost its
// connection when the server ended those from before a moment later.
func TestAClientRightAfterHalfOpenIsServed(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	addr := serve(t, s)
	for range 50 {
		s.SetQuirks(Quirks{HalfOpen: true})
		time.Sleep(5 * time.Millisecond) // the server has to see the quirk before it ends
		s.SetQuirks(Quirks{})
		if _, err := read(client(t, s, 5*time.Second), addr); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHalfOpenDoesNotSpeakTLSAndMuteDoes(t *testing.T) {
	for name, q := range map[string]Quirks{"mute": {Mute: true}, "half-open": {HalfOpen: true}} {
		s := newServer(t, &fakeMachine{})
		addr := serve(t, s)
		s.SetQuirks(q)
		d := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{InsecureSkipVerify: true}}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, err := d.DialContext(ctx, "tcp", addr)
		cancel()
		if speaks := err == nil; speaks != q.Mute {
			t.Errorf("%s: TLS handshake: %v", name, err)
		}
		if err == nil {
			_ = conn.Close() // no byte was sent on it
		}
	}
}

func TestClearingAQuirkEndsWhatHangs(t *testing.T) {
	for name, q := range map[string]Quirks{"mute": {Mute: true}, "half-open": {HalfOpen: true}} {
		s := newServer(t, &fakeMachine{})
		addr := serve(t, s)
		s.SetQuirks(q)
		result := make(chan error, 1)
		go func() {
			_, err := read(client(t, s, 30*time.Second), addr)
			result <- err
		}()
		select {
		case err := <-result:
			t.Errorf("%s: ended at once: %v", name, err)
		case <-time.After(patience):
		}
		s.SetQuirks(Quirks{})
		if err := <-result; err == nil || timedOut(err) {
			t.Errorf("%s: the request that hung ended with %v", name, err)
		}
	}
}

func TestQuirkCutAnswer(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	addr := serve(t, s)
	s.SetQuirks(Quirks{CutAnswer: true})
	body, err := read(client(t, s, 5*time.Second), addr)
	if !errors.Is(err, io.ErrUnexpectedEOF) || body == "" {
		t.Errorf("read %q, error %v", body, err)
	}
}

func TestQuirkUnreachableRefusesAndComesBack(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	addr := serve(t, s)
	c := client(t, s, 5*time.Second)
	c.Transport.(*http.Transport).DisableKeepAlives = false
	for range 3 {
		if _, err := read(c, addr); err != nil {
			t.Fatalf("while it listens: %v", err)
		}
		s.SetQuirks(Quirks{Unreachable: true})
		eventually(t, func() bool {
			_, err := read(c, addr)
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		s.SetQuirks(Quirks{})
		eventually(t, func() bool {
			_, err := read(c, addr)
			return err == nil
		})
	}
}

func TestQuirkUnreachableClosesOpenConnections(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	conn, err := net.Dial("tcp", serve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server closed it first
	s.SetQuirks(Quirks{HalfOpen: true})
	s.SetQuirks(Quirks{HalfOpen: true, Unreachable: true})
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || timedOut(err) {
		t.Errorf("the connection is open: %v", err)
	}
}

// eventually waits for a condition that another goroutine makes true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it did not happen within 5 s")
}

func TestAControllerShowsTheCertificateThatItHadBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bmc", "bmc.pem")
	first, err := KeptCertificate(path, "cp-1", []string{"10.99.0.111"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	again, err := KeptCertificate(path, "cp-1", []string{"10.99.0.111"}, time.Now())
	if err != nil || !bytes.Equal(first.Certificate[0], again.Certificate[0]) {
		t.Errorf("another one: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := KeptCertificate(path, "cp-1", nil, time.Now())
	if err != nil || bytes.Equal(first.Certificate[0], made.Certificate[0]) {
		t.Errorf("a torn one is not made anew: %v", err)
	}
}
