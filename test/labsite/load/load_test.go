package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// asked waits until a load has made the given number of requests.
func asked(t *testing.T, l *Load, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(l.History().Requests) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("only %d requests", len(l.History().Requests))
		}
	}
}

func TestHalfOfTheRequestsHaveAConnectionOfTheirOwn(t *testing.T) {
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("well")) }))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	l := Start(t.Context(), Shape{URL: s.URL, Body: "well", Deadline: 5 * time.Second})
	asked(t, l, 100)
	h := l.Stop()
	loss := h.Loss(0, l.Since())
	if loss.Failed != 0 || loss.Requests != len(h.Requests) {
		t.Errorf("%s", loss)
	}
	kinds := make(map[Kind]int)
	for _, r := range h.Requests {
		kinds[r.Kind]++
	}
	if d := kinds[New] - kinds[Kept]; d < 0 || d > 1 {
		t.Errorf("%v", kinds)
	}
	if got := int(connections.Load()); got < kinds[New] || got > kinds[New]+kinds[Kept]/2 {
		t.Errorf("%d connections for %v", got, kinds)
	}
}

func TestARequestWhoseKeptConnectionBreaksIsCountedAndNotMadeAgain(t *testing.T) {
	var requests, broken atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Every seventh request, of both kinds, loses its connection.
		if requests.Add(1)%7 != 0 {
			return
		}
		broken.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	defer s.Close()
	l := Start(t.Context(), Shape{URL: s.URL, Deadline: 5 * time.Second})
	asked(t, l, 120)
	h := l.Stop()
	loss := h.Loss(0, l.Since())
	if loss.Failed != int(broken.Load()) || loss.FailedKept == 0 || loss.FailedNew == 0 {
		t.Errorf("%d connections were broken; %s", broken.Load(), loss)
	}
	if int(requests.Load()) > len(h.Requests) {
		t.Errorf("%d requests came of %d that were made", requests.Load(), len(h.Requests))
	}
}

// TestAConnectionThatEndsBeforeItsFirstAnswerWasNotKept has a server that closes each connection after
// so many answers.
func TestAConnectionThatEndsBeforeItsFirstAnswerWasNotKept(t *testing.T) {
	type count struct{}
	for _, answers := range []int64{0, 1} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n, ok := r.Context().Value(count{}).(*atomic.Int64); ok && n.Add(1) <= answers {
				return
			}
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		}))
		s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, count{}, new(atomic.Int64))
		}
		s.Start()
		l := Start(t.Context(), Shape{URL: s.URL, Deadline: 5 * time.Second})
		asked(t, l, 40)
		loss := l.Stop().Loss(0, l.Since())
		s.Close()
		want := 0
		if answers > 0 {
			want = loss.FailedKept
		}
		if loss.FailedKept == 0 || loss.Ended != want {
			t.Errorf("a server that closes each connection after %d answers: %s", answers, loss)
		}
	}
}

func TestAServerIsVerifiedForTheNameThatIsAsked(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {}))
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	for host, want := range map[string]string{"": "", "example.com": "", "other.test": "not other.test"} {
		l := Start(t.Context(), Shape{URL: s.URL, Host: host, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Deadline: 5 * time.Second})
		asked(t, l, 4)
		for _, r := range l.Stop().Requests {
			if (want == "") != r.OK() || !strings.Contains(r.Error, want) {
				t.Errorf("asked as %q: %q", host, r.Error)
			}
		}
	}
}

func TestAServerThatDoesNotKnowTheTokenIsCounted(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-account" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer s.Close()
	for token, want := range map[string]string{"of-the-account": "", "of-nobody": "status 401, want 200", "": "status 401, want 200"} {
		l := Start(t.Context(), Shape{URL: s.URL, Token: token, Deadline: 5 * time.Second})
		asked(t, l, 10)
		loss := l.Stop().Loss(0, l.Since())
		wrong := 0
		if want != "" {
			wrong = loss.Requests
		}
		if loss.Failed != wrong || loss.Why[want] != wrong || loss.Lost() != loss.FailedKept {
			t.Errorf("with the token %q: %s", token, loss)
		}
	}
}

func TestEachRequestHasItsOwnDeadline(t *testing.T) {
	held := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(held)
	l := Start(t.Context(), Shape{URL: s.URL, Deadline: 30 * time.Millisecond})
	asked(t, l, 10)
	for _, r := range l.Stop().Requests {
		if r.Error != "no answer within 30ms" || r.End-r.Start > 5*time.Second {
			t.Errorf("%+v", r)
		}
	}
}

// request returns a request of a made-up history, in milliseconds.
func request(start, end int, wrong string) Request {
	return Request{Kind: New, Start: time.Duration(start) * time.Millisecond, End: time.Duration(end) * time.Millisecond, Error: wrong}
}

func TestALossIsWhatCameOfAFault(t *testing.T) {
	h := History{Requests: []Request{
		request(0, 10, "before"), request(10, 20, ""), request(20, 30, ""),
		request(28, 130, "timeout"), request(60, 160, "read tcp 10.98.0.1:4711->10.98.0.5:6443: reset"), request(140, 150, ""),
		request(170, 180, ""), request(500, 510, "after"),
	}}
	got := h.Loss(40*time.Millisecond, 300*time.Millisecond)
	if got.Requests != 4 || got.Failed != 2 || got.Until != 20*time.Millisecond {
		t.Errorf("%+v", got)
	}
	// From the answer at 30 to the one at 150; the span's end is 120 after the
	// last.
	if got.Gap != 120*time.Millisecond {
		t.Errorf("gap %s", got.Gap)
	}
	if got.Why["timeout"] != 1 || got.Why["connection to 10.98.0.5:6443: reset"] != 1 {
		t.Errorf("%v", got.Why)
	}
	if open := h.Loss(40*time.Millisecond, 480*time.Millisecond).Gap; open != 300*time.Millisecond {
		t.Errorf("a gap that does not end is %s", open)
	}
}

func TestWhatEndedLatelyIsAllThatBeganLately(t *testing.T) {
	l := &Load{requests: []Request{request(0, 10, ""), request(1990, 2000, ""), request(2980, 3010, ""), request(2000, 3005, "late")}}
	if got := l.Recent(3 * time.Second).Requests; len(got) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestQuietIsARowOfAnsweredRequests(t *testing.T) {
	h := History{Requests: []Request{request(0, 10, ""), request(20, 120, "timeout"), request(30, 40, ""), request(50, 60, "")}}
	if err := h.Quiet(0, 2); err != nil {
		t.Error(err)
	}
	if err := h.Quiet(0, 3); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("a row with a failed request in it: %v", err)
	}
	if err := h.Quiet(45*time.Millisecond, 2); err == nil {
		t.Error("requests from before were counted")
	}
}

func TestAHistoryIsSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	if err := (History{Requests: []Request{request(0, 10, "")}}).Save(path); err != nil {
		t.Fatal(err)
	}
}
