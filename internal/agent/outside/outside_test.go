package outside

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
)

// api plays the server behind the VIP: with TLS, and it may hang or refuse.
type api struct {
	t      *testing.T
	server *httptest.Server
	mu     sync.Mutex
	state  string
	asked  []string
	lease  string // the annotation
	// last is the connection of the last request, ended one whose client's certificate has ended.
	last, ended string
}

// serve starts an api at an address of the loopback network.
func serve(t *testing.T, address string) *api {
	t.Helper()
	a := &api{t: t}
	a.server = tlsServer(t, address, a)
	return a
}

func tlsServer(t *testing.T, address string, handler http.Handler) *httptest.Server {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	_ = s.Listener.Close()
	s.Listener = l
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// trusting returns the TLS configuration that trusts a server of the tests.
func trusting(s *httptest.Server) func() (*tls.Config, error) {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return func() (*tls.Config, error) {
		return &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}, nil
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	is := a.state
	a.asked, a.last = append(a.asked, r.Method), r.RemoteAddr
	if a.last == a.ended {
		is = "knows-nobody"
	}
	a.mu.Unlock()
	switch {
	case r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1":
		a.t.Errorf("asked for %s", r.URL.Path)
	case is == "hangs":
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not see that the client left
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	case is == "is-overloaded":
		w.WriteHeader(http.StatusServiceUnavailable)
	case is == "knows-nobody":
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodPatch:
		var patch struct {
			Metadata struct{ Annotations map[string]string }
		}
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			a.t.Error(err, r.Header)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lease = patch.Metadata.Annotations[decide.OutsideAnnotation]
	}
}

func (a *api) is(state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state, a.asked = state, nil
}

func (a *api) methods() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.asked, " ")
}

// worker holds the probe of a worker. The server holds its VIP.
type worker struct {
	*Probe

	view    state.NetworkView
	elapsed time.Duration
	said    bytes.Buffer
}

func (a *api) worker() *worker {
	host := netip.MustParseAddrPort(a.server.Listener.Addr().String())
	w := &worker{view: state.NetworkView{
		Settings: state.NetworkSettings{ManagedVIPs: true, Fencing: true, APIVIPs: []netip.Addr{host.Addr()}},
		Role:     state.RoleWorker, Stage: state.StageInstalled, Host: state.HostFacts{NodeName: "worker-1"},
	}}
	w.Probe = New(Options{
		View: func() state.NetworkView { return w.view },
		TLS:  trusting(a.server),
		Log:  slog.New(slog.NewTextHandler(&w.said, nil)),
		Now:  func() time.Time { return time.Now().Add(w.elapsed) },
	})
	w.port = host.Port()
	return w
}

func (w *worker) after(d time.Duration) *worker {
	w.elapsed += d
	return w
}

func TestAWorkerMeasuresHowLongItCouldNotWrite(t *testing.T) {
	for _, trouble := range []string{"hangs", "is-overloaded"} {
		t.Run(trouble, func(t *testing.T) {
			a := serve(t, "127.0.0.5")
			w := a.worker()
			w.Step(t.Context())
			if got := a.methods(); got != http.MethodGet {
				t.Errorf("while all is well: %s", got)
			}
			a.is(trouble)
			w.Step(t.Context())
			w.after(3 * time.Second).Step(t.Context())
			if got := a.methods(); got != "GET PATCH" || len(w.known.Gaps) != 0 {
				t.Errorf("while the API %s: %s, %v", trouble, got, w.known.Gaps)
			}
			a.is("well")
			w.after(2 * time.Second).Step(t.Context())
			w.Step(t.Context())
			got := decide.Measured("cp-1", map[string]string{"worker-1": a.lease}, time.Time{})
			// The worker's clock is 5 s ahead of the server's by now.
			if len(got) != 1 || time.Since(got[0].At).Abs() > 3*time.Second || got[0].Took < 5*time.Second || got[0].Took > 30*time.Second || got[0].VIPs[0] != "127.0.0.5" || a.methods() != "PATCH PATCH" || strings.Count(w.said.String(), "\n") != 1 {
				t.Errorf("%s, %+v, from %q", a.methods(), got, a.lease)
			}
			a.is("well")
			w.after(time.Minute).Step(t.Context())
			if got := a.methods(); got != http.MethodGet {
				t.Errorf("a minute later: %s", got)
			}
		})
	}
}

// TestTheHolderOfTheVIPIsNeverOutside moves the VIP to the host while the API
// does not answer: what the host then writes to itself ends no outage.
func TestTheHolderOfTheVIPIsNeverOutside(t *testing.T) {
	t.Run("by what the host knows", func(t *testing.T) {
		a := serve(t, "127.0.0.5")
		w := a.worker()
		w.Step(t.Context())
		a.is("hangs")
		w.Step(t.Context())
		a.is("well")
		w.view.Addresses = []state.HostAddress{{Prefix: netip.MustParsePrefix("127.0.0.5/32")}}
		w.after(3 * time.Second).Step(t.Context())
		if got := a.methods(); got != "" {
			t.Errorf("it asked: %s", got)
		}
		w.view.Addresses = nil
		for range 3 {
			w.after(3 * time.Second).Step(t.Context())
		}
		if len(w.known.Gaps) != 0 {
			t.Errorf("%+v", w.known.Gaps)
		}
	})
	t.Run("by its connection, where it does not know yet", func(t *testing.T) {
		a := serve(t, "127.0.0.1") // a host sends to its own address from that address
		w := a.worker()
		w.known = w.known.Next(decide.Attempt{Outside: true, OK: true}).Next(decide.Attempt{Began: time.Now().Add(-time.Minute), Outside: true})
		w.Step(t.Context())
		w.Step(t.Context())
		if got := a.methods(); got != "" || len(w.known.Gaps) != 0 || w.known.Writes(time.Now()) {
			t.Errorf("%q, %+v", got, w.known)
		}
	})
}

func TestAServerThatIsNotTheClustersIsNoAnswer(t *testing.T) {
	a := serve(t, "127.0.0.5")
	w := a.worker()
	w.Step(t.Context())
	w.drop()
	good := w.TLS
	w.TLS = func() (*tls.Config, error) {
		return &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com", MinVersion: tls.VersionTLS12}, nil
	}
	w.Step(t.Context())
	w.after(3 * time.Second).Step(t.Context())
	if !w.known.Writes(w.Now()) || a.methods() != http.MethodGet {
		t.Errorf("taken for the API: %s", a.methods())
	}
	w.TLS = good
	w.Step(t.Context())
	if len(w.known.Gaps) != 1 {
		t.Errorf("%+v", w.known)
	}
}

// TestAnAccountThatIsNotKnownIsNoOutage: the API server answers 401 on a connection that outlived the
// certificate with which it began, and to all of a host whose certificate has ended.
func TestAnAccountThatIsNotKnownIsNoOutage(t *testing.T) {
	a := serve(t, "127.0.0.5")
	w := a.worker()
	w.Step(t.Context())
	a.mu.Lock()
	began := a.last
	a.ended = began
	a.mu.Unlock()
	for i, kept := range []bool{true, false} {
		w.after(decide.Quiet).Step(t.Context())
		a.mu.Lock()
		last := a.last
		a.mu.Unlock()
		if w.known.Writes(w.Now()) || (last == began) != kept {
			t.Errorf("%d: by %s, and it began with %s; taken for an outage: %t", i, last, began, w.known.Writes(w.Now()))
		}
	}
	a.is("hangs")
	if w.after(decide.Quiet).Step(t.Context()); !w.known.Writes(w.Now()) {
		t.Error("an outage afterwards is not noticed")
	}
	a.is("knows-nobody")
	for range 3 {
		if w.after(decide.Quiet).Step(t.Context()); w.known.Writes(w.Now()) {
			t.Error("what nobody knows is taken for an outage")
		}
	}
	a.is("well")
	if w.after(decide.Quiet).Step(t.Context()); len(w.known.Gaps) != 0 {
		t.Errorf("%+v", w.known.Gaps)
	}
}

func TestWhoCannotAskMeasuresNothing(t *testing.T) {
	a := serve(t, "127.0.0.5")
	for name, change := range map[string]func(*worker){
		"no account yet":            func(w *worker) { w.TLS = func() (*tls.Config, error) { return nil, fs.ErrNotExist } },
		"not installed yet":         func(w *worker) { w.view.Stage = "" },
		"no two-node control plane": func(w *worker) { w.view.Settings.Fencing = false },
		"a load balancer of others": func(w *worker) { w.view.Settings.ManagedVIPs = false },
		"no virtual IP":             func(w *worker) { w.view.Settings.APIVIPs = nil },
		"a host without a name":     func(w *worker) { w.view.Host.NodeName = "" },
		"the VIP is on this machine": func(w *worker) {
			w.view.Addresses = []state.HostAddress{{Prefix: netip.MustParsePrefix("127.0.0.5/32")}}
		},
	} {
		w := a.worker()
		w.known = w.known.Next(decide.Attempt{Outside: true, OK: true})
		change(w)
		w.Step(t.Context())
		if w.known.Writes(w.Now()) || a.methods() != "" {
			t.Errorf("%s: %s", name, a.methods())
		}
	}
}

func TestAnAgentThatEndsSaysNothingOfTheAPI(t *testing.T) {
	a := serve(t, "127.0.0.5")
	w := a.worker()
	w.Step(t.Context())
	a.is("hangs")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("the agent is stopped"))
	defer cancel()
	w.Run(ctx, loop.New(w.Now, w.Log))
	if w.known.Writes(w.Now()) {
		t.Error("a question that was cut off counts as one without an answer")
	}
}
