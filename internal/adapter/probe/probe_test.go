package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

func TestWhatCountsAsWellFollowsTheAnswers(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []verdict
		want    string // after each answer: w well, i ill, with a dot if the next question comes soon
	}{
		{"well at once", []verdict{good, good}, "w. w"},
		{"one bad answer changes nothing", []verdict{good, bad, good}, "w. w. w"},
		{"two in a row do", []verdict{good, bad, bad, bad}, "w. w. i. i"},
		{"nobody there is certain", []verdict{good, absent, absent}, "w. i. i"},
		{"back at once", []verdict{absent, good}, "i w."},
		{"undecided after one", []verdict{bad, bad}, "i. i"},
	} {
		var w watched
		var got []string
		for _, v := range c.answers {
			w = w.next(v)
			word := "i"
			if w.well {
				word = "w"
			}
			if w.soon {
				word += "."
			}
			got = append(got, word)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

// certificate makes a certificate that is its own CA, and its file.
func certificate(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

// server is an API server, or a router.
type server struct {
	*httptest.Server
	status      atomic.Int32
	connections atomic.Int32
	asked       atomic.Int32
}

func newServer(t *testing.T, cert *tls.Certificate, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.status.Store(http.StatusOK)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if handler != nil {
			handler(w, r)
			return
		}
		w.WriteHeader(int(s.status.Load()))
		_, _ = w.Write([]byte("ok"))
	}))
	s.Config.ConnState = func(_ net.Conn, to http.ConnState) {
		if to == http.StateNew {
			s.connections.Add(1)
		}
	}
	if cert != nil {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) address() string { return s.Listener.Addr().String() }

// source is the type under test.
type source interface {
	Run(ctx context.Context, update func(func(*state.NetworkView))) error
}

// follow runs a source and returns the views that it produces.
func follow(t *testing.T, s source) <-chan state.NetworkView {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan state.NetworkView, 64), make(chan struct{})
	go func() {
		defer close(done)
		var v state.NetworkView
		_ = s.Run(ctx, func(change func(*state.NetworkView)) { change(&v); out <- v })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return out
}

func next(t *testing.T, from <-chan state.NetworkView) state.NetworkView {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was told")
		return state.NetworkView{}
	}
}

func TestTheLocalAPIServerIsAskedOverOneConnection(t *testing.T) {
	cert, ca := certificate(t, apilb.VerifyName)
	s := newServer(t, &cert, nil)
	views := follow(t, &LocalAPI{Address: s.address(), CA: ca})
	if v := next(t, views); !state.Is(v.LocalAPI, true) {
		t.Fatal(v.LocalAPI)
	}
	began := time.Now()
	s.status.Store(http.StatusInternalServerError)
	if v := next(t, views); !state.Is(v.LocalAPI, false) {
		t.Fatal(v.LocalAPI)
	}
	if took := time.Since(began); took > 5*time.Second { // the test machine may be busy
		t.Errorf("noticed after %v", took)
	}
	s.status.Store(http.StatusOK)
	next(t, views)
	if n, asked := s.connections.Load(), s.asked.Load(); n != 1 || asked < 4 {
		t.Errorf("%d connections for %d questions", n, asked)
	}
	began = time.Now()
	s.CloseClientConnections()
	s.Close()
	if v := next(t, views); !state.Is(v.LocalAPI, false) {
		t.Fatal(v.LocalAPI)
	}
	if took := time.Since(began); took > 5*time.Second { // the test machine may be busy
		t.Errorf("noticed its end after %v", took)
	}
}

func TestWhoIsNotOfThisClusterIsNotItsAPIServer(t *testing.T) {
	foreign, _ := certificate(t, apilb.VerifyName)
	_, ca := certificate(t, apilb.VerifyName)
	s := newServer(t, &foreign, nil)
	if v := next(t, follow(t, &LocalAPI{Address: s.address(), CA: ca})); !state.Is(v.LocalAPI, false) {
		t.Error("another authority's server counts")
	}
	other, ca := certificate(t, "kubelet")
	s = newServer(t, &other, nil)
	if v := next(t, follow(t, &LocalAPI{Address: s.address(), CA: ca})); !state.Is(v.LocalAPI, false) {
		t.Error("another name's server counts")
	}
}

func TestWithoutAnAuthorityNothingIsKnown(t *testing.T) {
	cert, ca := certificate(t, apilb.VerifyName)
	s := newServer(t, &cert, nil)
	late := filepath.Join(t.TempDir(), "ca.crt")
	views := follow(t, &LocalAPI{Address: s.address(), CA: late})
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * RetryInterval)
	if len(views) > 0 {
		t.Error("something was told before there was anything to verify with")
	}
	if err := os.WriteFile(late, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	if v := next(t, views); !state.Is(v.LocalAPI, true) {
		t.Error("the authority that came goes unnoticed")
	}
}

func TestAServerThatNeverAnswersIsNotWaitedFor(t *testing.T) {
	cert, ca := certificate(t, apilb.VerifyName)
	hang := make(chan struct{})
	s := newServer(t, &cert, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	defer close(hang)
	began := time.Now()
	if v := next(t, follow(t, &LocalAPI{Address: s.address(), CA: ca})); !state.Is(v.LocalAPI, false) {
		t.Error(v.LocalAPI)
	}
	if took := time.Since(began); took > 2*Answer+RetryInterval+time.Second {
		t.Errorf("waited %v", took)
	}
}

// B33, B34: whose router it is, whether it drains, and whether it is dead, are
// three separate answers.
func TestB33_B34_TheRoutersWordsAreUnderstood(t *testing.T) {
	var ready, healthy atomic.Bool
	s := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(ControllerHeader, "default")
		if r.URL.Path == "/healthz/ready" && !ready.Load() || r.URL.Path == "/healthz" && !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	views := follow(t, Router{Address: s.address()})
	healthy.Store(true)
	until := func(want state.Router) {
		t.Helper()
		for {
			v := next(t, views)
			if state.Is(v.Router, want) {
				return
			}
		}
	}
	ready.Store(true)
	until(state.Router{Healthy: true, Ready: true, Default: true})
	ready.Store(false) // it drains, and still serves
	until(state.Router{Healthy: true, Default: true})
	healthy.Store(false)
	until(state.Router{})
	healthy.Store(true)
	ready.Store(true)
	until(state.Router{Healthy: true, Ready: true, Default: true})
	began := time.Now()
	s.CloseClientConnections()
	s.Close()
	until(state.Router{})
	if took := time.Since(began); took > 5*time.Second { // the test machine may be busy
		t.Errorf("noticed its end after %v", took)
	}
}

func TestAHostWithoutARouterSaysSo(t *testing.T) {
	if v := next(t, follow(t, Router{Address: porttest.Address(t)})); !state.Is(v.Router, state.Router{}) {
		t.Error(v.Router)
	}
}

func TestAnAPIServerServesOnceItSaysSo(t *testing.T) {
	cert, ca := certificate(t, apilb.VerifyName)
	hang := make(chan struct{})
	s := newServer(t, &cert, nil)
	slow := newServer(t, &cert, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	defer close(hang)
	if got := Serves(t.Context(), s.address(), ca); !state.Is(got, true) {
		t.Error(got)
	}
	s.status.Store(http.StatusInternalServerError)
	if got := Serves(t.Context(), s.address(), ca); !state.Is(got, false) {
		t.Error(got)
	}
	if got := Serves(t.Context(), porttest.Address(t), ca); !state.Is(got, false) {
		t.Errorf("nobody listens: %v", got)
	}
	if got := Serves(t.Context(), slow.address(), ca); got.Known {
		t.Errorf("no answer in time: %v", got)
	}
	if got := Serves(t.Context(), s.address(), filepath.Join(t.TempDir(), "none")); got.Known {
		t.Errorf("without an authority: %v", got)
	}
}
