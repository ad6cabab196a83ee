package configserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	secret    = "TOPSECRET"
	readToken = "read-me"
)

var (
	key   = bytes.Repeat([]byte("k"), jointoken.MinKeyBytes)
	start = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
)

// token returns the token of a pointer.
func token(t *testing.T, role state.Role) string {
	t.Helper()
	return tokenOf(t, jointoken.Config, role, "")
}

func tokenOf(t *testing.T, purpose jointoken.Purpose, role state.Role, host string) string {
	t.Helper()
	tok, err := jointoken.Mint(key, jointoken.Claims{
		Purpose: purpose, Role: role, Host: host, Expires: start.Add(time.Hour), ID: "id-of-" + string(role),
	})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func render(_ context.Context, shown jointoken.Claims, version string) ([]byte, error) {
	return ignition.Marshal(ignition.Config{Files: []state.File{
		{Path: "/etc/role", Data: []byte(shown.Role)},
		{Path: "/etc/secret", Data: []byte(secret), Mode: state.SecretFileMode},
	}}, version)
}

// site is a running server, its clock and its log.
type site struct {
	*httptest.Server
	mu  sync.Mutex
	now time.Time
	log strings.Builder
}

func (s *site) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func newSite(t *testing.T, change func(*Options)) *site {
	t.Helper()
	s := &site{now: start}
	o := Options{
		Site:   joining.Site{ControlPlanes: 3, Named: []string{"cp-2"}},
		Render: render,
		Read: func(_ context.Context, tok string, purpose jointoken.Purpose) (jointoken.Claims, error) {
			return jointoken.Read(key, tok, purpose, s.clock())
		},
		Report: func(_ context.Context, tok string) (jointoken.Claims, error) {
			return jointoken.Read(key, tok, jointoken.Host, s.clock())
		},
		Admit: func(_ context.Context, shown jointoken.Claims, host string) (Secret, error) {
			return Secret{Token: "own token of " + host + ", " + string(shown.Role), Expires: shown.Expires}, nil
		},
		Bootstrap: func(_ context.Context, own jointoken.Claims, _ JoinRequest) (Secret, error) {
			return Secret{Token: "bootstrap token of " + own.Host + ", " + string(own.Role), Expires: own.Expires}, nil
		},
		ReadToken: readToken,
		Logf: func(format string, args ...any) {
			s.mu.Lock()
			defer s.mu.Unlock()
			fmt.Fprintf(&s.log, format+"\n", args...)
		},
	}
	if change != nil {
		change(&o)
	}
	s.Server = httptest.NewUnstartedServer(nil)
	s.Config = NewServer(New(o), &tls.Config{})
	s.TLS = s.Config.TLSConfig
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// ask sends one request and returns the status, body and headers.
func (s *site) ask(t *testing.T, method, path, auth string, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	data := readAll(t, resp)
	return resp.StatusCode, data, resp.Header
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestNobodyWhoMerelyReachesThePortGetsASecret(t *testing.T) {
	s := newSite(t, nil)
	worker, master := token(t, state.RoleWorker), token(t, state.RoleMaster)
	forged, err := jointoken.Mint(bytes.Repeat([]byte("x"), 32), jointoken.Claims{Purpose: jointoken.Config, Role: state.RoleMaster, Expires: start.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, method, path, auth string
		status                   int
		body                     string
	}{
		{"its own role", "GET", "/config/worker", "Bearer " + worker, 200, ""},
		{"again, after a power cut in its first boot", "GET", "/config/worker", "bearer  " + worker, 200, ""},
		{"no token", "GET", "/config/worker", "", 401, "a join token is needed\n"},
		{"no token, HEAD", "HEAD", "/config/worker", "", 401, ""},
		{"no token, for no role", "GET", "/config/nobody", "", 404, "no such role\n"},
		{"a worker asks for a control plane", "GET", "/config/master", "Bearer " + worker, 403, "the join token is for another role\n"},
		{"a control plane asks for a worker", "GET", "/config/worker", "Bearer " + master, 403, "the join token is for another role\n"},
		{"the host that starts the cluster is not served", "GET", "/config/bootstrap", "Bearer " + master, 404, "no such role\n"},
		{"a forged token", "GET", "/config/master", "Bearer " + forged, 401, "the join token is not one of this cluster's\n"},
		{"an admission", "GET", "/config/worker", "Bearer " + tokenOf(t, jointoken.Admission, state.RoleWorker, ""), 401, "the join token is not one of this cluster's\n"},
		{"a host's own", "GET", "/config/worker", "Bearer " + tokenOf(t, jointoken.Host, state.RoleWorker, "worker-1"), 401, "the join token is not one of this cluster's\n"},
		{"the read token", "GET", "/config/master", "Bearer " + readToken, 401, "the join token is not one of this cluster's\n"},
		{"another scheme", "GET", "/config/worker", "Basic " + worker, 401, "a join token is needed\n"},
		{"a long token", "GET", "/config/worker", "Bearer " + strings.Repeat("a", 8000), 401, "the join token is not one of this cluster's\n"},
		{"a token in the query", "GET", "/config/worker?token=" + worker, "", 401, "a join token is needed\n"},
		{"POST", "POST", "/config/worker", "Bearer " + worker, 405, "method not allowed\n"},
		{"DELETE", "DELETE", "/config/worker", "Bearer " + worker, 405, "method not allowed\n"},
		{"OPTIONS", "OPTIONS", "/config/worker", "Bearer " + worker, 405, "method not allowed\n"},
		{"POST to healthz", "POST", "/healthz", "", 405, "method not allowed\n"},
		{"healthz", "GET", "/healthz", "", 200, "ok\n"},
		{"the root", "GET", "/", "Bearer " + worker, 404, "404 page not found\n"},
		{"a path that climbs", "GET", "/config/..%2fmaster", "Bearer " + worker, 404, "no such role\n"},
		{"progress without a token", "GET", "/progress", "", 401, "the read token is needed\n"},
		{"progress with a join token", "GET", "/progress", "Bearer " + worker, 401, "the read token is needed\n"},
		{"progress", "GET", "/progress", "Bearer " + readToken, 200, "[]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body, header := s.ask(t, tt.method, tt.path, tt.auth, "")
			if status != tt.status || tt.body != "" && body != tt.body {
				t.Errorf("got %d %q, want %d %q", status, body, tt.status, tt.body)
			}
			given := strings.Contains(body, ignition.DataURL([]byte(secret)))
			if given != (tt.status == 200 && strings.HasPrefix(tt.path, "/config/")) {
				t.Errorf("the secret was given: %v", given)
			}
			if header.Get("Cache-Control") != "no-store" {
				t.Errorf("may be cached: %v", header)
			}
			if challenged := header.Get("WWW-Authenticate") != ""; challenged != (tt.status == 401) {
				t.Errorf("WWW-Authenticate: %v", header)
			}
		})
	}
	for _, word := range []string{secret, worker, master, forged, readToken} {
		if strings.Contains(s.log.String(), word) {
			t.Errorf("the log tells %q:\n%s", word, s.log.String())
		}
	}
}

func TestATokenEnds(t *testing.T) {
	s := newSite(t, nil)
	auth := "Bearer " + token(t, state.RoleWorker)
	if status, _, _ := s.ask(t, "GET", "/config/worker", auth, ""); status != 200 {
		t.Fatalf("in time: %d", status)
	}
	s.mu.Lock()
	s.now = start.Add(time.Hour)
	s.mu.Unlock()
	if status, body, _ := s.ask(t, "GET", "/config/worker", auth, ""); status != 401 || body != "the join token has expired\n" {
		t.Errorf("after its end: %d %q", status, body)
	}
}

func TestTwoAuthorizationHeadersAreRefused(t *testing.T) {
	s := newSite(t, nil)
	auth := "Bearer " + token(t, state.RoleWorker)
	if status, _, _ := s.ask(t, "GET", "/config/worker", auth, "", "Authorization", "Bearer x"); status != 401 {
		t.Errorf("got %d", status)
	}
}

func TestPlainHTTPIsRefusedWhateverItCarries(t *testing.T) {
	s := newSite(t, nil)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET /config/worker HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", token(t, state.RoleWorker)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.0 400") || strings.Contains(string(answer), "ignition") {
		t.Errorf("got %q", answer)
	}
	// The same if somebody serves the handler without TLS.
	plain := httptest.NewServer(s.Config.Handler)
	defer plain.Close()
	for _, path := range []string{"/config/worker", "/healthz", "/progress"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", plain.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token(t, state.RoleWorker))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := readAll(t, resp)
		if resp.StatusCode != 400 || body != "only https is served\n" {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
}

func TestHEADSaysWhatGETWouldGive(t *testing.T) {
	s := newSite(t, nil)
	auth := "Bearer " + token(t, state.RoleMaster)
	_, body, get := s.ask(t, "GET", "/config/master", auth, "")
	status, none, head := s.ask(t, "HEAD", "/config/master", auth, "")
	if status != 200 || none != "" {
		t.Errorf("HEAD: %d %q", status, none)
	}
	if head.Get("Content-Length") != fmt.Sprint(len(body)) || head.Get("Content-Type") != get.Get("Content-Type") {
		t.Errorf("HEAD %v, GET %v", head, get)
	}
}

func TestTheSpecVersionIsTheOneAskedFor(t *testing.T) {
	s := newSite(t, nil)
	auth := "Bearer " + token(t, state.RoleWorker)
	for _, version := range ignition.Versions() {
		_, body, header := s.ask(t, "GET", "/config/worker", auth, "", "Accept", ignition.MediaType+";version="+version+", */*;q=0.1")
		if got := header.Get("Content-Type"); got != ignition.MediaType+";version="+version {
			t.Errorf("%s: %s", version, got)
		}
		if !strings.Contains(body, `"version":"`+version+`"`) {
			t.Errorf("%s: %s", version, body)
		}
		if _, err := ignition.Parse([]byte(body)); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	status, body, _ := s.ask(t, "GET", "/config/worker", auth, "", "Accept", ignition.MediaType+";version=2.4.0")
	if status != 400 || !strings.Contains(body, "3.0.0, 3.1.0") || !strings.Contains(body, "spec 2 is not served") {
		t.Errorf("spec 2: %d %q", status, body)
	}
}

func TestAFailedRenderTellsOnlyTheLog(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Render = func(context.Context, jointoken.Claims, string) ([]byte, error) { return nil, errors.New("details") }
	})
	status, body, _ := s.ask(t, "GET", "/config/worker", "Bearer "+token(t, state.RoleWorker), "")
	if status != 500 || strings.Contains(body, "details") || !strings.Contains(s.log.String(), "details") {
		t.Errorf("%d %q, log %q", status, body, s.log.String())
	}
}

func TestSlowAndLargeRequestsAreCutOff(t *testing.T) {
	srv := NewServer(http.NotFoundHandler(), &tls.Config{})
	if srv.ReadHeaderTimeout == 0 || srv.ReadTimeout == 0 || srv.WriteTimeout == 0 || srv.IdleTimeout == 0 || srv.MaxHeaderBytes == 0 {
		t.Errorf("a limit is missing: %+v", srv)
	}
	if srv.TLSConfig.MinVersion < tls.VersionTLS12 {
		t.Error("old TLS is served")
	}
	s := newSite(t, nil)
	status, _, _ := s.ask(t, "GET", "/config/worker", "Bearer "+strings.Repeat("a", 100<<10), "")
	if status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("large headers: %d", status)
	}
}
