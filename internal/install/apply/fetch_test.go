package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// answer is what a server answers.
type answer struct {
	status   int
	body     string
	location string
	// fails is the number of times that it answers 503 first.
	fails int
	// auth is the Authorization header that it requires.
	auth string
}

func serve(t *testing.T, answers map[string]answer) (*httptest.Server, map[string]int) {
	t.Helper()
	hits := map[string]int{}
	server := httptest.NewUnstartedServer(handler(t, answers, hits))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, hits
}

func handler(t *testing.T, answers map[string]answer, hits map[string]int) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		hits[r.URL.Path]++
		a, ok := answers[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
		case hits[r.URL.Path] <= a.fails:
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		case a.auth != "" && r.Header.Get("Authorization") != a.auth:
			http.Error(w, "who are you\nsecond line", http.StatusUnauthorized)
		case a.location != "":
			http.Redirect(w, r, a.location, http.StatusFound)
		case a.status != 0:
			http.Error(w, "refused", a.status)
		default:
			_, _ = io.WriteString(w, a.body)
		}
	})
}

func caOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// testFetcher returns a fetcher whose clock moves only when it sleeps.
func testFetcher(wait time.Duration) *Fetcher {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	return &Fetcher{
		Wait: wait,
		Now:  func() time.Time { return now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			now = now.Add(d)
			return ctx.Err()
		},
	}
}

// pointTo returns a configuration with one reference, and with the CA if one is
// given.
func pointTo(field, source, ca, extra string) string {
	security := ""
	if ca != "" {
		security = fmt.Sprintf(`,"security":{"tls":{"certificateAuthorities":[{"source":%q}]}}`, ignition.DataURL([]byte(ca)))
	}
	ref := fmt.Sprintf(`{"source":%q%s}`, source, extra)
	if field == "merge" {
		ref = "[" + ref + "]"
	}
	return fmt.Sprintf(`{"ignition":{"version":"3.4.0","config":{%q:%s}%s}}`, field, ref, security)
}

func fileConfig(path, data string) string {
	return fmt.Sprintf(`{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":%q,"contents":{"source":%q}}]}}`, path, ignition.DataURL([]byte(data)))
}

const bearer = `,"httpHeaders":[{"name":"Authorization","value":"Bearer s3cret"}]`

func resolve(t *testing.T, f *Fetcher, raw string) (map[string]string, error) {
	t.Helper()
	cfg, err := ignition.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err = f.Resolve(context.Background(), cfg)
	files := map[string]string{}
	for _, file := range cfg.Storage.Files {
		data, err := ignition.Contents(file.Contents)
		if err != nil {
			t.Fatal(err)
		}
		files[file.Path] = string(data)
	}
	return files, err
}

func TestConfigurationsAreFetchedAndMergedByIgnitionsRules(t *testing.T) {
	answers := map[string]answer{
		"/worker":  {body: fileConfig("/etc/a", "worker's"), auth: "Bearer s3cret", fails: 3},
		"/plain":   {body: fileConfig("/etc/b", "plain")},
		"/file":    {body: "remote contents"},
		"/moved":   {location: "/plain"},
		"/deep":    {body: pointTo("merge", "https://HOST/plain", "", "")},
		"/replace": {body: pointTo("replace", "https://HOST/plain", "", "")},
	}
	server, hits := serve(t, answers)
	for path, a := range answers {
		a.body = strings.ReplaceAll(a.body, "https://HOST", server.URL)
		answers[path] = a
	}
	ca := caOf(server)
	local := strings.Replace(pointTo("merge", server.URL+"/worker", ca, bearer), `"ignition":`, `"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,h"}},{"path":"/etc/a","contents":{"source":"data:,mine"}}]},"ignition":`, 1)
	sum := sha256.Sum256([]byte(answers["/plain"].body))
	tests := []struct {
		name, config string
		want         string
	}{
		{"a pointer with a token, to a server that is not ready", pointTo("merge", server.URL+"/worker", ca, bearer), "map[/etc/a:worker's]"},
		{"the further one wins, the rest stays", local, "map[/etc/a:worker's /etc/hostname:h]"},
		{"replace", pointTo("replace", server.URL+"/plain", ca, ""), "map[/etc/b:plain]"},
		{"a chain keeps the authorities", pointTo("merge", server.URL+"/deep", ca, ""), "map[/etc/b:plain]"},
		{"a chain of replacements", pointTo("replace", server.URL+"/replace", ca, ""), "map[/etc/b:plain]"},
		{"a redirect without secrets", pointTo("merge", server.URL+"/moved", ca, ""), "map[/etc/b:plain]"},
		{"the right hash", pointTo("merge", server.URL+"/plain", ca, `,"verification":{"hash":"sha256-`+hex.EncodeToString(sum[:])+`"}`), "map[/etc/b:plain]"},
		{"an inline configuration", pointTo("merge", ignition.DataURL([]byte(fileConfig("/etc/c", "c"))), "", ""), "map[/etc/c:c]"},
		{"a remote file", strings.Replace(pointTo("merge", server.URL+"/plain", ca, ""), `"ignition":`, `"storage":{"files":[{"path":"/f","contents":{"source":"`+server.URL+`/file"}}]},"ignition":`, 1), "map[/etc/b:plain /f:remote contents]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clear(hits)
			got, err := resolve(t, testFetcher(time.Minute), tt.config)
			if err != nil || fmt.Sprint(got) != tt.want {
				t.Errorf("got %v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestWhatCannotBeFetchedIsSaidWithoutSecrets(t *testing.T) {
	answers := map[string]answer{
		"/worker": {body: fileConfig("/etc/a", "x"), auth: "Bearer other"},
		"/master": {status: http.StatusForbidden},
		"/full":   {status: http.StatusConflict},
		"/bad":    {body: `{"ignition":{"version":"2.2.0"}}`},
		"/big":    {body: `{"ignition":{"version":"3.2.0"},"storage":{"disks":[]},"x":1}`},
		"/never":  {fails: 1 << 30},
		"/moved":  {location: "/worker"},
		"/loop":   {},
	}
	server, hits := serve(t, answers)
	ca := caOf(server)
	answers["/loop"] = answer{body: pointTo("merge", server.URL+"/loop", "", "")}
	down := httptest.NewUnstartedServer(handler(t, map[string]answer{"/worker": {body: fileConfig("/a", "a")}}, map[string]int{}))
	plain := httptest.NewServer(handler(t, map[string]answer{"/x": {body: fileConfig("/a", "a")}}, map[string]int{}))
	t.Cleanup(plain.Close)
	downURL := "https://" + down.Listener.Addr().String()
	if err := down.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	answers["/down"] = answer{location: plain.URL + "/x"}
	tests := []struct {
		name, config string
		want         string
		bad          bool
		// hits bounds the requests for path: 1 means no second attempt.
		path string
		hits int
	}{
		{"a wrong token", pointTo("merge", server.URL+"/worker?key=s3cret", ca, bearer), "the server answers 401: who are you; its token may have expired", false, "/worker", 1},
		{"another role's token", pointTo("merge", server.URL+"/master", ca, bearer), "the server answers 403: refused; its token", false, "/master", 1},
		{"a host that the site does not take", pointTo("merge", server.URL+"/full", ca, bearer), "/full: the server answers 409: refused", false, "/full", 1},
		{"nothing there", pointTo("merge", server.URL+"/none", ca, ""), "/none: the server answers 404", false, "/none", 1},
		{"a token over plain http", pointTo("merge", strings.Replace(server.URL, "https", "http", 1)+"/worker", ca, bearer), "ignition.config.merge.0.source: carries httpHeaders over http", true, "/worker", 0},
		{"a token redirected", pointTo("merge", server.URL+"/moved", ca, bearer), "redirected to", false, "/worker", 0},
		{"redirected to plain http", pointTo("merge", server.URL+"/down", ca, ""), "redirected from https to http", false, "/down", 1},
		{"an authority that is not the server's", pointTo("merge", server.URL+"/worker", "", bearer), "given up after 1m0s: tls: failed to verify certificate", false, "/worker", 0},
		{"an authority that is none", pointTo("merge", server.URL+"/worker", "x", bearer), "certificateAuthorities: no certificate", true, "/worker", 0},
		{"a server that never gets ready", pointTo("merge", server.URL+"/never", ca, bearer), "given up after 1m0s: the server answers 503: not yet", false, "/never", 25},
		{"nobody listens", pointTo("merge", downURL+"/worker", ca, bearer), "connection refused", false, "", 0},
		{"another version", pointTo("merge", server.URL+"/bad", ca, ""), "ignition.config.merge.0: ignition.version: unsupported", true, "/bad", 1},
		{"an unknown field", pointTo("merge", server.URL+"/big", ca, ""), "ignition.config.merge.0: ignition: x: unused key x", true, "/big", 1},
		{"a circle", pointTo("merge", server.URL+"/loop", ca, ""), "the chain of pointers", true, "/loop", maxDepth + 1},
		{"a wrong hash", pointTo("merge", server.URL+"/bad", ca, `,"verification":{"hash":"sha256-`+strings.Repeat("0", 64)+`"}`), "ignition.config.merge.0.verification.hash", true, "/bad", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clear(hits)
			f := testFetcher(time.Minute)
			var said []string
			f.Say = func(line string) { said = append(said, line) }
			_, err := resolve(t, f, tt.config)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if _, bad := errors.AsType[*InputError](err); bad != tt.bad {
				t.Errorf("an input error: %v, want %v", bad, tt.bad)
			}
			if tt.path != "" && hits[tt.path] > tt.hits {
				t.Errorf("%d requests, want %d at most", hits[tt.path], tt.hits)
			}
			if all := err.Error() + strings.Join(said, "\n"); strings.Contains(all, "s3cret") {
				t.Errorf("tells the token: %s", all)
			}
		})
	}
}

func TestAWaitIsToldNowAndThen(t *testing.T) {
	server, hits := serve(t, map[string]answer{"/never": {fails: 1 << 30}})
	f := testFetcher(10 * time.Minute)
	var said []string
	f.Say = func(line string) { said = append(said, line) }
	if _, err := resolve(t, f, pointTo("merge", server.URL+"/never", caOf(server), "")); err == nil {
		t.Fatal("fetched")
	}
	if len(said) < 15 || len(said) > 25 || hits["/never"] < 100 {
		t.Errorf("%d lines for %d requests in 10 minutes", len(said), hits["/never"])
	}
	if !strings.Contains(said[0], "waiting for "+server.URL+"/never since 0s, up to 10m0s more: the server answers 503: not yet") {
		t.Errorf("first line %q", said[0])
	}
}

func TestAContextThatEndsEndsTheWait(t *testing.T) {
	server, _ := serve(t, map[string]answer{"/never": {fails: 1 << 30}})
	cfg, err := ignition.Parse([]byte(pointTo("merge", server.URL+"/never", caOf(server), "")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := testFetcher(time.Hour)
	f.Say = func(string) { cancel() }
	if _, err := f.Resolve(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
