package nodes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/peers"
	"github.com/holdfast/holdfast/internal/model/state"
)

// rig runs a source on a directory against an API server that writes one line
// after the other, each when the test gives it.
type rig struct {
	source *Source
	lines  chan string
	views  chan state.NetworkView
	heard  chan int
}

func start(t *testing.T, dir string) *rig {
	t.Helper()
	return startWith(t, dir, func(*Source) {})
}

// startWith does the same, with what a test changes of the source.
func startWith(t *testing.T, dir string, change func(*Source)) *rig {
	t.Helper()
	r := &rig{lines: make(chan string), views: make(chan state.NetworkView, 10), heard: make(chan int, 10)}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for {
			w.(http.Flusher).Flush()
			select {
			case <-req.Context().Done():
				return
			case l := <-r.lines:
				_, _ = fmt.Fprintln(w, l)
			}
		}
	}))
	conf := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"http://x"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.source = &Source{
		Servers: &kube.Servers{Kubeconfig: conf, Addresses: func() []string { return []string{api.URL} }},
		Path:    filepath.Join(dir, "nodes.json"), Logf: t.Logf, Site: peers.Site{ControlPlanes: 2},
	}
	r.source.Listen(func(l []state.Node) { r.heard <- len(l) })
	change(r.source)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	var view state.NetworkView
	go func() {
		defer close(done)
		_ = r.source.Run(ctx, func(change func(*state.NetworkView)) { change(&view); r.views <- view })
	}()
	t.Cleanup(func() { stop(); <-done; api.Close() })
	return r
}

func added(name, address string) string {
	return fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"name":%q,"resourceVersion":"5"},"status":{"addresses":[{"type":"InternalIP","address":%q}]}}}`, name, address)
}

const end = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`

func (r *rig) view(t *testing.T) state.NetworkView {
	t.Helper()
	select {
	case v := <-r.views:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("the view does not change")
		return state.NetworkView{}
	}
}

func names(v state.NetworkView) string {
	var out []string
	for _, n := range v.Nodes.Value {
		out = append(out, n.Name)
	}
	return strings.Join(out, " ")
}

func TestHardCase33_AHostBootsWithTheNodesOfItsLastRun(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	for _, l := range []string{added("cp-1", "10.98.0.11"), added("w-1", "fd98::31"), end} {
		first.lines <- l
	}
	if v := first.view(t); !v.Nodes.Known || v.Stale || names(v) != "cp-1 w-1" {
		t.Fatalf("%+v", v.Nodes)
	}
	if n := <-first.heard; n != 2 {
		t.Errorf("a listener heard of %d nodes", n)
	}
	second := start(t, dir) // its API says nothing
	v := second.view(t)
	if !v.Stale || names(v) != "cp-1 w-1" || v.Nodes.Value[1].Addresses[0] != netip.MustParseAddr("fd98::31") {
		t.Errorf("%+v", v)
	}
	if len(second.heard) != 0 {
		t.Error("a listener is told of nodes that the API did not name")
	}
}

func TestHardCase13_AnEmptyListIsNotBelieved(t *testing.T) {
	r := start(t, t.TempDir())
	r.lines <- added("cp-1", "10.98.0.11")
	r.lines <- end
	r.view(t)
	r.lines <- `{"type":"DELETED","object":{"metadata":{"name":"cp-1","resourceVersion":"12"}}}`
	r.lines <- added("cp-2", "10.98.0.12")
	if v := r.view(t); names(v) != "cp-2" {
		t.Errorf("%q", names(v))
	}
}

// TestTheViewHasThePlaceOfTheHostAndListenersThatOfTheAPI: who follows a move has to see which Nodes have
// moved, and a host that knows its peers at their new addresses must not lose them.
func TestTheViewHasThePlaceOfTheHostAndListenersThatOfTheAPI(t *testing.T) {
	dir, api := t.TempDir(), make(chan []state.Node, 1)
	moved := netip.MustParseAddr("10.77.0.12")
	r := startWith(t, dir, func(s *Source) {
		s.Here = func(l []state.Node) []state.Node {
			return []state.Node{{Name: l[0].Name, Addresses: []netip.Addr{moved}}}
		}
		s.Listen(func(l []state.Node) { api <- l })
	})
	r.lines <- added("cp-2", "10.98.0.12")
	r.lines <- end
	if v := r.view(t); v.Nodes.Value[0].Addresses[0] != moved {
		t.Errorf("the view has %v", v.Nodes.Value)
	}
	if l := <-api; l[0].Addresses[0] != netip.MustParseAddr("10.98.0.12") {
		t.Errorf("a listener hears %v", l)
	}
	if v := start(t, dir).view(t); v.Nodes.Value[0].Addresses[0] != moved {
		t.Errorf("after a boot the view has %v", v.Nodes.Value)
	}
}

// TestWhereAPeerMayBeIsFoundAnewAtEachStart: the first host that moves has no API, and its list has the peer
// at the new address alone. What an earlier run wrote of a move that is over does not count.
func TestWhereAPeerMayBeIsFoundAnewAtEachStart(t *testing.T) {
	dir, other := t.TempDir(), netip.MustParseAddr("10.98.0.112")
	moves := func(s *Source) {
		s.Here = func(l []state.Node) []state.Node {
			l[0].Also = []netip.Addr{other}
			return l
		}
	}
	first := startWith(t, dir, moves)
	first.lines <- added("cp-2", "10.98.0.12")
	first.lines <- end
	first.view(t)
	if v := startWith(t, dir, moves).view(t); !v.Stale || !slices.Equal(v.Nodes.Value[0].Also, []netip.Addr{other}) {
		t.Errorf("at a start without the API: %+v", v.Nodes.Value)
	}
	for name, over := range map[string]func(*Source){
		"nobody knows of a move": func(*Source) {},
		"the plan is gone":       func(s *Source) { s.Here = func(l []state.Node) []state.Node { return l } },
	} {
		if v := startWith(t, dir, over).view(t); len(v.Nodes.Value) != 1 || len(v.Nodes.Value[0].Also) > 0 {
			t.Errorf("%s: %+v", name, v.Nodes.Value)
		}
	}
}

func TestADamagedFileIsAsGoodAsNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nodes.json"), []byte(`[{"Name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, dir)
	r.lines <- added("cp-1", "10.98.0.11")
	r.lines <- end
	if v := r.view(t); v.Stale || names(v) != "cp-1" {
		t.Errorf("%+v", v)
	}
}

// The disk was full as the last host came.
func TestAListThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	dir := t.TempDir()
	inTheWay := filepath.Join(dir, "nodes.json", "x")
	if err := os.MkdirAll(inTheWay, 0o755); err != nil {
		t.Fatal(err)
	}
	first := start(t, dir)
	first.lines <- added("cp-1", "10.98.0.11")
	first.lines <- end
	first.view(t)
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	first.lines <- added("cp-1", "10.98.0.11") // it says again what it said
	first.view(t)
	if v := start(t, dir).view(t); names(v) != "cp-1" {
		t.Errorf("a boot without an API begins with %q", names(v))
	}
}

func TestAReadyNodeIsNoReasonToWrite(t *testing.T) {
	a := []state.Node{{Name: "a", Ready: true}}
	if differ(a, []state.Node{{Name: "a", Silent: true, Cordoned: true}}) || !differ(a, []state.Node{{Name: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.1")}}}) {
		t.Error("the wrong differences count")
	}
	says := func(r state.VIPReport) []state.Node {
		return []state.Node{{Name: "a", Annotations: map[string]string{state.AnnotationVIPs: state.FormatAnnotation(r)}}}
	}
	vip := netip.MustParseAddr("10.98.0.5")
	if differ(says(state.VIPReport{}), says(state.VIPReport{Holds: []netip.Addr{vip}})) ||
		!differ(says(state.VIPReport{}), says(state.VIPReport{Addresses: []netip.Prefix{netip.MustParsePrefix("10.98.0.1/24")}})) ||
		!differ(says(state.VIPReport{}), says(state.VIPReport{BMCs: []string{"bmc-1.site"}})) ||
		!differ(says(state.VIPReport{}), says(state.VIPReport{Hardware: map[netip.Addr][]string{vip: {"02:00:00:00:00:01"}}})) {
		t.Error("the wrong differences of reports count")
	}
	if !a[0].Ready {
		t.Error("the list itself was changed")
	}
}

func TestAHostGoesOnWithAControlPlaneWhoseNodeWasDeleted(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	control := func(name, address string) string {
		return strings.Replace(added(name, address), `"resourceVersion"`, `"labels":{"node-role.kubernetes.io/control-plane":""},"resourceVersion"`, 1)
	}
	for _, l := range []string{control("cp-1", "10.98.0.11"), control("cp-2", "10.98.0.12"), end} {
		r.lines <- l
	}
	r.view(t)
	<-r.heard
	r.lines <- `{"type":"DELETED","object":{"metadata":{"name":"cp-2","resourceVersion":"12"}}}`
	v := r.view(t)
	if names(v) != "cp-1 cp-2" || !v.Nodes.Value[1].Absent || v.Nodes.Value[1].Addresses[0] != netip.MustParseAddr("10.98.0.12") {
		t.Fatalf("%+v", v.Nodes)
	}
	if n := <-r.heard; n != 1 {
		t.Errorf("who labels nodes heard of %d", n)
	}
	if v := start(t, dir).view(t); names(v) != "cp-1 cp-2" { // its API says nothing
		t.Errorf("after a boot it knows of %q", names(v))
	}
	r.lines <- added("cp-2", "10.98.0.12") // its kubelet registered anew
	if n := r.view(t).Nodes.Value[1]; n.Absent || !n.ControlPlane() || len(n.Lost) == 0 {
		t.Errorf("%+v", n)
	}
}
