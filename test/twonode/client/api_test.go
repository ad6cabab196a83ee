package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func apiServer(t *testing.T, handler http.HandlerFunc) apiStore {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return apiStore{http: s.Client(), base: s.URL, run: "r"}
}

func TestARefusedWriteFailedAndAnErrorOfTheServerIsUnknown(t *testing.T) {
	for status, want := range map[int]Outcome{409: Failed, 429: Failed, 403: Failed, 500: Unknown, 503: Unknown, 504: Unknown, 201: OK} {
		s := apiServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, `{"metadata":{"resourceVersion":"7"}}`)
		})
		if _, got, _ := s.write(t.Context(), "k", "v"); got != want {
			t.Errorf("status %d: %s, want %s", status, got, want)
		}
	}
}

func TestAWriteThatReachedNobodyFailedAndOneWithoutAnswerIsUnknown(t *testing.T) {
	refuse := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}}}
	if _, got, err := (apiStore{http: refuse, base: "http://x"}).write(t.Context(), "k", "v"); got != Failed || err == nil {
		t.Errorf("refused: %s, %v", got, err)
	}
	s := apiServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client has gone
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, got, err := s.write(ctx, "k", "v"); got != Unknown || err == nil {
		t.Errorf("no answer: %s, %v", got, err)
	}
}

func TestARegisterThatIsNotThereIsMadeAndReadsAsEmpty(t *testing.T) {
	var methods []string
	s := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var m configMap
		_ = json.NewDecoder(r.Body).Decode(&m)
		m.Metadata.ResourceVersion = "12"
		_ = json.NewEncoder(w).Encode(m)
	})
	value, _, err := s.read(t.Context(), "k")
	if err != nil || value != "" {
		t.Errorf("read %q, %v", value, err)
	}
	if revision, got, err := s.write(t.Context(), "k", "v"); revision != 12 || got != OK || err != nil {
		t.Errorf("write: %d %s %v", revision, got, err)
	}
	if len(methods) != 3 {
		t.Errorf("asked with %v", methods)
	}
}

func TestAWatchHandsOnChangesAndTellsWhenTheyAreGone(t *testing.T) {
	lines := `{"type":"ADDED","object":{"metadata":{"name":"k","resourceVersion":"5"},"data":{"v":"a"}}}
{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}
{"type":"MODIFIED","object":{"metadata":{"name":"k","resourceVersion":"7"},"data":{"v":"b"}}}
{"type":"ERROR","object":{"kind":"Status","code":410}}
`
	s := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("resourceVersion") != "4" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = fmt.Fprint(w, lines)
	})
	var seen []string
	err := s.watch(t.Context(), 4, func(key, value string, revision int64) { seen = append(seen, fmt.Sprint(key, value, revision)) })
	if !errors.Is(err, errLost) || fmt.Sprint(seen) != "[ka5 kb7]" {
		t.Errorf("saw %v, ended with %v", seen, err)
	}
}
