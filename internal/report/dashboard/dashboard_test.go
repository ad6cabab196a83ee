package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorded returns an approved view of decide/standing.
func recorded(t *testing.T, name string) standing.View {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../decide/standing/testdata", name+".json"))
	must(t, err)
	var v standing.View
	must(t, json.Unmarshal(data, &v))
	return v
}

func always(v standing.View) func(context.Context) (standing.View, error) {
	return func(context.Context) (standing.View, error) { return v, nil }
}

func ask(s *Server, method, target string, set func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	if set != nil {
		set(r)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestThePageSaysWhatTheCommandSays(t *testing.T) {
	for _, name := range []string{"healthy-pair", "peer-lost", "human-needed", "three-one-lost", "single"} {
		v := recorded(t, name)
		shown := ask(New(always(v)), "GET", "/", nil).Body.String()
		want := []string{v.Cluster, string(v.Status), page.Capital(v.Redundancy.Sentence)}
		for _, h := range v.Hosts {
			want = append(want, h.Name, h.Power.Text, h.Kubelet.Text, h.Etcd.Text)
		}
		for _, f := range v.Findings {
			want = append(want, f.Problem, f.Meaning, f.Page)
			for _, c := range f.Commands {
				want = append(want, c.Line, c.Host)
			}
		}
		for _, l := range v.VIPs {
			want = append(want, l.Address, l.Holder.Text)
		}
		for _, w := range want {
			if !strings.Contains(shown, html.EscapeString(w)) {
				t.Errorf("%s: %q is missing", name, w)
			}
		}
	}
}

func TestNothingOnThePageIsMarkupOrScript(t *testing.T) {
	v := recorded(t, "peer-lost")
	const evil = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	v.Cluster, v.Findings[0].Problem, v.Findings[0].Commands[0].Line, v.Hosts[0].Name, v.Summary = evil, evil, evil, evil, evil
	page := ask(New(always(v)), "GET", "/", nil).Body.String()
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") {
		t.Error("a name became markup")
	}
}

func TestTheBrowserMayLoadNothingElseAndNobodyFramesIt(t *testing.T) {
	w := ask(New(always(recorded(t, "single"))), "GET", "/", nil)
	csp := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'none'", "base-uri 'none'", "script-src 'self'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("%q lacks %q", csp, want)
		}
	}
	if strings.Contains(csp, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%v", w.Header())
	}
	page := w.Body.String()
	for _, bad := range []string{"http://", "https://cdn", "style=\"", "onclick", "<form", "<button"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

func TestItOnlyReads(t *testing.T) {
	s := New(always(recorded(t, "single")))
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, path := range []string{"/", "/part", "/view.json"} {
			if w := ask(s, method, path, nil); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	for _, path := range []string{"/nothing", "/page.html", "/../etc/passwd", "/static/"} {
		if w := ask(s, "GET", path, nil); w.Code == http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestAStrangersNameForThisMachineIsRefused(t *testing.T) {
	s := New(always(recorded(t, "single")), "127.0.0.1", "localhost", "::1")
	for name, code := range map[string]int{
		"127.0.0.1:8080": 200, "localhost:1": 200, "[::1]:80": 200, "LOCALHOST": 200, "evil.example:8080": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		w := ask(s, "GET", "/view.json", func(r *http.Request) { r.Host = name })
		if w.Code != code {
			t.Errorf("%q: %d, want %d", name, w.Code, code)
		}
	}
}

func TestWhatTheBrowserHasIsNotSentAgain(t *testing.T) {
	s := New(always(recorded(t, "peer-lost")))
	first := ask(s, "GET", "/part", nil)
	again := ask(s, "GET", "/part", func(r *http.Request) { r.Header.Set("If-None-Match", first.Header().Get("ETag")) })
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("%d with %d bytes", again.Code, again.Body.Len())
	}
	if !strings.Contains(ask(s, "GET", "/", nil).Body.String(), strings.Trim(first.Header().Get("ETag"), `"`)) {
		t.Error("the page does not know what it shows")
	}
}

func TestAFailureIsSaidAndIsNoEmptyPage(t *testing.T) {
	s := New(func(context.Context) (standing.View, error) {
		return standing.View{}, errors.New("the lab daemon hangs")
	})
	if w := ask(s, "GET", "/", nil); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "the lab daemon hangs") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHoweverManyLookTheClusterIsAskedOnceASecond(t *testing.T) {
	var looks atomic.Int32
	enter, leave := make(chan struct{}, 100), make(chan struct{})
	v := views{now: time.Now, every: time.Hour, look: func(context.Context) (standing.View, error) {
		looks.Add(1)
		enter <- struct{}{}
		<-leave
		return standing.View{Cluster: "x"}, nil
	}}
	ctx, gone := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := v.get(ctx); first <- err }()
	<-enter
	gone() // the first client leaves; the reading continues
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := v.get(t.Context()); err != nil || got.Cluster != "x" {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	close(leave)
	all.Wait()
	if n := looks.Load(); n != 1 {
		t.Errorf("%d looks", n)
	}
}

func TestItStopsServingWhenItIsEnded(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(always(recorded(t, "single"))).Serve(ctx, l) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/healthz")
	must(t, err)
	must(t, resp.Body.Close())
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// dropping serves the page, and cuts the connection of every further request.
func dropping(page http.Handler, cut *atomic.Int32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/part" {
			cut.Add(1)
			panic(http.ErrAbortHandler)
		}
		page.ServeHTTP(w, r)
	})
}

func TestAReaderWithoutEyesFindsItsWay(t *testing.T) {
	page := ask(New(always(recorded(t, "peer-lost"))), "GET", "/", nil).Body.String()
	for _, want := range []string{`<html lang="en">`, "<header", "<main>", "<footer>", `aria-live="polite"`, `<th scope="col">`, `<th scope="row">`} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Count(page, "<h1>") != 1 {
		t.Error("there is one first heading")
	}
	for part := range strings.SplitSeq(page, `aria-labelledby="`) {
		id, _, ok := strings.Cut(part, `"`)
		if ok && strings.HasPrefix(id, "h-") && !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("no heading %s", id)
		}
	}
	for part := range strings.SplitSeq(page, `class="dot`) {
		if tag, _, _ := strings.Cut(part, ">"); strings.HasPrefix(tag, " ") && !strings.Contains(tag, `aria-hidden="true"`) {
			t.Errorf("a mark that only eyes read: %s", tag)
		}
	}
}
