package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// script is an API server that answers each watch with its next lines. It then
// ends the watch, or holds the last one open.
type script struct {
	mu      sync.Mutex
	watches [][]string
	asked   []string
	server  *httptest.Server
}

func serve(t *testing.T, watches ...[]string) *script {
	t.Helper()
	s := &script{watches: watches}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.RawQuery)
		lines, last := []string(nil), len(s.watches) <= 1
		if len(s.watches) > 0 {
			lines = s.watches[0]
		}
		if !last {
			s.watches = s.watches[1:]
		}
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		for _, l := range lines {
			_, _ = fmt.Fprintln(w, l)
		}
		w.(http.Flusher).Flush()
		if last {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *script) queries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// servers returns access to addresses; the kubeconfig has no user.
func servers(t *testing.T, addresses ...string) *Servers {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	conf := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],
"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Servers{Kubeconfig: path, Addresses: func() []string { return addresses }}
}

func line(kind, name, version string, address ...string) string {
	var list []map[string]string
	for _, a := range address {
		list = append(list, map[string]string{"type": "InternalIP", "address": a})
	}
	out, err := json.Marshal(map[string]any{"type": kind, "object": map[string]any{
		"metadata": map[string]any{"name": name, "resourceVersion": version}, "status": map[string]any{"addresses": list},
	}})
	if err != nil {
		panic(err)
	}
	return string(out)
}

const (
	end  = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	gone = `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}`
)

// follow follows nodes and returns the reports as lists of names.
func follow(t *testing.T, s *Servers) <-chan []string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	told, done := make(chan []string, 100), make(chan struct{})
	go func() {
		defer close(done)
		_ = FollowNodes(ctx, s, t.Logf, func(nodes []state.Node) {
			var names []string
			for _, n := range nodes {
				names = append(names, n.Name+fmt.Sprint(n.Addresses))
			}
			told <- names
		})
	}()
	t.Cleanup(func() { stop(); <-done })
	return told
}

func wants(t *testing.T, told <-chan []string, want ...string) {
	t.Helper()
	select {
	case got := <-told:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing is told, want %v", want)
	}
}

func TestNothingIsToldOfHalfAList(t *testing.T) {
	s := serve(t,
		[]string{line("ADDED", "a", "1"), line("ADDED", "b", "2")}, // cut off
		[]string{line("ADDED", "a", "1"), line("ADDED", "b", "2"), line("ADDED", "c", "3"), end})
	wants(t, follow(t, servers(t, s.server.URL)), "a[]", "b[]", "c[]")
}

func TestH8_ANodeDeletedWhileNobodyWatchedIsGone(t *testing.T) {
	s := serve(t,
		[]string{line("ADDED", "a", "1"), line("ADDED", "b", "2"), end, gone},
		[]string{line("ADDED", "a", "1"), end, line("MODIFIED", "a", "12", "10.98.0.11")})
	told := follow(t, servers(t, s.server.URL))
	wants(t, told, "a[]", "b[]")
	wants(t, told, "a[]")
	wants(t, told, "a[10.98.0.11]")
}

func TestHardCase38_AnInterruptedWatchGoesOnWithoutAList(t *testing.T) {
	s := serve(t,
		[]string{line("ADDED", "a", "1"), end, line("MODIFIED", "a", "12")},
		[]string{line("DELETED", "a", "13"), line("ADDED", "b", "14")},
		[]string{`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"20"}}}`},
		nil)
	told := follow(t, servers(t, s.server.URL))
	wants(t, told, "a[]")
	wants(t, told, "a[]")
	wants(t, told)
	wants(t, told, "b[]")
	deadline := time.Now().Add(20 * time.Second)
	for len(s.queries()) < 4 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	var versions []string
	for _, q := range s.queries() {
		r, _ := http.NewRequest(http.MethodGet, "/?"+q, nil)
		if r.FormValue("watch") != "1" {
			t.Errorf("a request is no watch: %s", q)
		}
		versions = append(versions, r.FormValue("sendInitialEvents")+r.FormValue("resourceVersion"))
	}
	if diff := cmp.Diff([]string{"true", "12", "14", "20"}, versions); diff != "" {
		t.Errorf("versions that were asked for (-want +got):\n%s", diff)
	}
}

func TestANodeThatIsNotUnderstoodDoesNotMakeTheListShorter(t *testing.T) {
	s := serve(t,
		[]string{line("ADDED", "a", "1"), line("ADDED", "b", "2"), end},
		[]string{`{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"13"},"status":{"addresses":"none"}}}`},
		[]string{line("MODIFIED", "b", "14", "10.98.0.12")})
	told := follow(t, servers(t, s.server.URL))
	wants(t, told, "a[]", "b[]")
	wants(t, told, "a[]", "b[10.98.0.12]")
}

func TestTheNextServerIsAskedWhenOneIsDown(t *testing.T) {
	s := serve(t, []string{line("ADDED", "a", "1"), end})
	wants(t, follow(t, servers(t, "http://127.0.0.1:1", s.server.URL)), "a[]")
}

func TestTryAsksTheNextServerButTakesARefusal(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	defer refuses.Close()
	asked := 0
	err := servers(t, "http://127.0.0.1:1", refuses.URL, "http://127.0.0.1:2").Try(t.Context(), func(ctx context.Context, c *Client) error {
		asked++
		return c.Annotate(ctx, "a", "b", "c")
	})
	if asked != 2 || err == nil {
		t.Errorf("asked %d, %v", asked, err)
	}
	if err := servers(t).Try(t.Context(), func(context.Context, *Client) error { return nil }); err == nil {
		t.Error("no address is no error")
	}
	other := &Servers{Kubeconfig: "/nowhere", Addresses: func() []string { return []string{"https://127.0.0.1:1"} }}
	if err := other.Try(t.Context(), func(context.Context, *Client) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// TestAClientDoesNotHoldItselfBack requires that the client has no limit: with
// one, a status waited 3 s for the events of the one before.
func TestAClientDoesNotHoldItselfBack(t *testing.T) {
	s := servers(t, "https://127.0.0.1:1")
	one, err := s.client(s.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{one, other} {
		if l := c.set.CoreV1().RESTClient().GetRateLimiter(); l != nil {
			t.Errorf("%v requests a second", l.QPS())
		}
	}
}

// TestAServerThatHangsCostsTimeOnce plays the writer of a status whose own etcd
// is stopped: its API server takes the request and never answers.
func TestAServerThatHangsCostsTimeOnce(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only after that does the context end with the connection
		<-r.Context().Done()
	}))
	defer hangs.Close()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1"}`)
	}))
	defer answers.Close()
	s := servers(t, hangs.URL, answers.URL)
	for i, want := range [][]string{{hangs.URL, answers.URL}, {answers.URL}, {answers.URL}} {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var asked []string
		err := s.Try(ctx, func(ctx context.Context, c *Client) error {
			asked = append(asked, strings.TrimSuffix(c.set.CoreV1().RESTClient().Get().URL().String(), "/api/v1"))
			return c.Annotate(ctx, "a", "b", "c")
		})
		if left, _ := ctx.Deadline(); err != nil || time.Until(left) < time.Second || !slices.Equal(asked, want) {
			t.Errorf("attempt %d asked %q with %s left: %v", i, asked, time.Until(left), err)
		}
	}
}

// TestTheServerThatAnswersFirstIsAskedWhereAllFail plays a host that boots: its
// own API server has just started and is slow once, and its peer's hangs.
func TestTheServerThatAnswersFirstIsAskedWhereAllFail(t *testing.T) {
	var requests atomic.Int32
	hang := func(r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	begins := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			hang(r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1"}`)
	}))
	defer begins.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hang(r) }))
	defer hangs.Close()
	s := servers(t, begins.URL, hangs.URL)
	for attempt := range 2 { // at the second attempt both have failed lately
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		asked := 0
		if err := s.Try(ctx, func(ctx context.Context, c *Client) error {
			asked++
			return c.Annotate(ctx, "a", "b", "c")
		}); err != nil || asked != 2-attempt {
			t.Errorf("attempt %d: asked %d, %v", attempt, asked, err)
		}
		s.note(begins.URL, false, time.Now())
		s.note(hangs.URL, false, time.Now())
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	none := servers(t, hangs.URL, hangs.URL+"/again")
	if err := none.Try(short, func(ctx context.Context, c *Client) error { return c.Annotate(ctx, "a", "b", "c") }); err == nil || short.Err() != nil {
		t.Errorf("none answers, %v: %v", short.Err(), err)
	}
}

func TestAServerThatFailedIsAskedLastForAWhile(t *testing.T) {
	s, now := servers(t, "a", "b", "c"), time.Unix(0, 0)
	is := func(later time.Duration, want ...string) {
		t.Helper()
		if got := s.order(now.Add(later)); !slices.Equal(got, want) {
			t.Errorf("after %s: %q, want %q", later, got, want)
		}
	}
	is(0, "a", "b", "c")
	s.note("a", false, now)
	is(0, "b", "c", "a")
	s.note("b", false, now)
	is(demoted-time.Second, "c", "a", "b")
	s.note("b", true, now)
	is(demoted-time.Second, "b", "c", "a")
	is(demoted, "a", "b", "c")
}

func TestTheInfrastructureIsReadWholeOrNotAtAll(t *testing.T) {
	const form = `{"status":{"platformStatus":{"type":"BareMetal","baremetal":{"apiServerInternalIPs":[%s],
"ingressIPs":["FD98:0::6"],"machineNetworks":["10.98.0.0/24"],"loadBalancer":{"type":"OpenShiftManagedDefault"}}}}}`
	got, err := readInfrastructure(fmt.Appendf(nil, form, `"10.98.0.5","::ffff:10.98.0.7"`))
	want := Infrastructure{
		BareMetal: true, APIVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("10.98.0.7")},
		IngressVIPs: []netip.Addr{netip.MustParseAddr("fd98::6")}, MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := readInfrastructure(fmt.Appendf(nil, form, `"10.98.0.5","tbd"`)); err == nil {
		t.Error("half a list was taken")
	}
	// who asks for the place alone is not kept from it by another annotation
	in := wireInfrastructure{}
	in.Metadata.Annotations = map[string]string{ReaddressAnnotation: "m1", ReaddressedAnnotation: "m0", DualStackAnnotation: "d1", RouterIDsAnnotation: "nonsense"}
	in.Status.PlatformStatus.BareMetal.API = []string{"10.98.0.5"}
	if got, err := in.place(); err != nil || got.Readdress != "m1" || got.Readdressed != "m0" || got.DualStack != "d1" || len(got.APIVIPs) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNodesAreFollowedAtARealServer(t *testing.T) {
	api := apitest.Need(t, server)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	conf, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": true}}},
		"users":    []any{map[string]any{"name": "x", "user": map[string]any{"token": api.Config.BearerToken}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x", "user": "x"}}},
	})
	if err != nil || os.WriteFile(path, conf, 0o600) != nil {
		t.Fatal(err)
	}
	s := &Servers{Kubeconfig: path, Addresses: func() []string { return []string{api.Config.Host} }}
	told := follow(t, s)
	wants(t, told)
	create := func(name string) {
		file := filepath.Join(t.TempDir(), name+".json")
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Node","metadata":{"name":%q}}`, name), 0o600); err != nil {
			t.Fatal(err)
		}
		api.Kubectl(t, "create", "--filename", file)
	}
	create("followed")
	wants(t, told, "followed[]")
	api.Kubectl(t, "delete", "node", "followed")
	wants(t, told)
}

func TestNetworksThatMayAskForNamesAreReadWholeOrNotAtAll(t *testing.T) {
	object := func(clients string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"annotations":{"holdfast.io/name-clients":%q}},"status":{"platformStatus":{"type":"BareMetal"}}}`, clients)
	}
	for text, want := range map[string]string{"": "[]", "10.7.0.0/16": "[10.7.0.0/16]", " 10.7.0.0/16, fd07::/48,": "[10.7.0.0/16 fd07::/48]"} {
		if got, err := readInfrastructure(object(text)); err != nil || fmt.Sprint(got.NameClients) != want {
			t.Errorf("%q: %v, %v", text, got.NameClients, err)
		}
	}
	for _, bad := range []string{"10.7.0.0", "10.7.0.0/33", "10.7.0.0/16;fd07::/48", "all"} {
		if got, err := readInfrastructure(object(bad)); err == nil || !strings.Contains(err.Error(), "holdfast.io/name-clients") {
			t.Errorf("%q: %v, %v", bad, got.NameClients, err)
		}
	}
}

func TestB13_RouterIDsThatAreAskedForAreSound(t *testing.T) {
	for text, want := range map[string]state.RouterIDs{"": {}, "77,92": {API: 77, Ingress: 92}, " 1 , 255 ": {API: 1, Ingress: 255}} {
		if got, err := readRouterIDs(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"77", "0,1", "1,0", "5,5", "256,1", "a,b", "1,2,3"} {
		if got, err := readRouterIDs(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}
