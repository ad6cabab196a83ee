package witness

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// fakeAPI is an API server that sends the versions of the PacemakerCluster
// after the requested one, and may end each answer after one version.
type fakeAPI struct {
	mu       sync.Mutex
	newest   int
	abrupt   bool
	requests []string
}

func object(revision int) map[string]any {
	status := "True"
	if revision%2 == 1 {
		status = "False"
	}
	return map[string]any{
		"metadata": map[string]any{"name": "cluster", "resourceVersion": fmt.Sprint(revision)},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Redundant", "status": status, "reason": fmt.Sprint("R", revision)}}},
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := json.NewEncoder(w)
	f.mu.Lock()
	newest := f.newest
	f.requests = append(f.requests, r.URL.String())
	f.mu.Unlock()
	ours := r.URL.Path == pacemakerPath
	if r.URL.Query().Get("watch") == "" {
		items := []any{}
		if ours {
			items = append(items, object(newest))
		}
		_ = out.Encode(map[string]any{"metadata": map[string]any{"resourceVersion": fmt.Sprint(newest)}, "items": items})
		return
	}
	var last int
	_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &last)
	for r.Context().Err() == nil {
		f.mu.Lock()
		newest = f.newest
		f.mu.Unlock()
		for ; ours && last < newest; last++ {
			_ = out.Encode(map[string]any{"type": "MODIFIED", "object": object(last + 1)})
			if f.abrupt {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (f *fakeAPI) move(to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.newest = to
}

func TestWhatSeveralWatchesBringCountsOnceAndInOrderAlsoAfterOneWasCutOff(t *testing.T) {
	fakes := []*fakeAPI{{newest: 4, abrupt: true}, {newest: 4}}
	var addresses []string
	for _, f := range fakes {
		s := httptest.NewServer(f)
		defer s.Close()
		addresses = append(addresses, s.Listener.Addr().String())
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	a, err := StartAPI(t.Context(), &rest.Config{Host: "http://cluster"}, dial, addresses)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	fakes[0].move(7) // the second one lags behind
	for _, c := range []struct {
		fake int
		to   int
	}{{0, 7}, {1, 9}} {
		fakes[c.fake].move(c.to)
		for end := time.Now().Add(20 * time.Second); a.Current().Revision != int64(c.to); {
			if time.Now().After(end) {
				t.Fatalf("revision %d was not seen: %+v", c.to, a.Current())
			}
			_ = host.Sleep(t.Context(), time.Millisecond)
		}
	}
	versions, _ := a.Seen(start)
	for n, v := range versions {
		if v.Revision != int64(n+4) || v.Values["cluster: Redundant"] == "" {
			t.Errorf("version %d is %+v", n, v)
		}
	}
	if len(versions) != 6 {
		t.Errorf("%d versions", len(versions))
	}
	if later, _ := a.Seen(versions[3].At.Add(time.Nanosecond)); len(later) < 2 || later[0].At.After(versions[3].At) {
		t.Errorf("since then, with the last from before: %+v", later)
	}
}
