package balancer

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/haproxy"
)

// onHost returns a reconciler on a folder that stands for a host. No haproxy runs
// on it; test/net/lb tests what a running one is told.
func onHost(t *testing.T) (*Reconciler, string) {
	t.Helper()
	root := t.TempDir()
	return New(Options{
		Root: root, CA: CAPath, Image: "registry/haproxy:1", Paths: render.HostPaths,
		Client: haproxy.Client{Socket: filepath.Join(root, "none.sock")}, Now: time.Now,
		Accepts: func(context.Context) bool { return false },
	}), root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func view(names ...string) state.NetworkView {
	v := state.NetworkView{
		Role:     state.RoleMaster,
		Settings: state.NetworkSettings{Cluster: "shop", ManagedVIPs: true, APIVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.5")}},
		Host:     state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}},
		Nodes:    state.Known([]state.Node{}),
	}
	for i, name := range names {
		v.Nodes.Value = append(v.Nodes.Value, state.Node{
			Name: name, Labels: map[string]string{state.LabelControlPlane: ""},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 98, 0, byte(11 + i)})},
		})
	}
	return v
}

func reconcile(t *testing.T, p *Reconciler, v state.NetworkView) string {
	t.Helper()
	said, err := p.Reconcile(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// servers counts the API servers in the configuration; it returns -1 without one, and
// -2 if not both backends have them.
func servers(t *testing.T, root string) int {
	t.Helper()
	text, err := os.ReadFile(root + render.HostPaths.Config)
	if os.IsNotExist(err) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	first, fallback, _ := strings.Cut(string(text), "\nbackend "+render.Fallback+"\n")
	n := strings.Count(first, "server cp-")
	if strings.Count(fallback, "server cp-") != n {
		return -2
	}
	return n
}

func TestFilesAreWrittenOnceAndInOrder(t *testing.T) {
	p, root := onHost(t)
	if said := reconcile(t, p, view("cp-1")); said != "" || servers(t, root) != -1 {
		t.Errorf("without an authority: %q", said)
	}
	write(t, root+CAPath, "authority")
	said := reconcile(t, p, view("cp-1", "cp-2"))
	want := "wrote " + root + "/etc/holdfast/haproxy/ca.crt, " + root + "/etc/holdfast/haproxy/haproxy.cfg, " + root + render.PodPath
	if said != want || servers(t, root) != 2 {
		t.Errorf("said %q, want %q; %d servers", said, want, servers(t, root))
	}
	if said := reconcile(t, p, view("cp-1", "cp-2")); said != "" {
		t.Errorf("it is not quiet: %q", said)
	}
}

// Hard case 13: a list that fails, or is empty, or lacks this host.
func TestHardCase13_APartialViewTakesNothingAway(t *testing.T) {
	p, root := onHost(t)
	write(t, root+CAPath, "authority")
	reconcile(t, p, view("cp-1", "cp-2", "cp-3"))
	failed := view("cp-1")
	failed.Nodes.Known = false
	for name, v := range map[string]state.NetworkView{
		"failed": failed, "empty": view(), "no settings": {Role: state.RoleMaster, Nodes: view("cp-9").Nodes},
	} {
		if said := reconcile(t, p, v); said != "" || servers(t, root) != 3 {
			t.Errorf("%s: %q, %d servers left", name, said, servers(t, root))
		}
	}
}

// Hard case 14: growth and shrinking.
func TestHardCase14_BackendsFollowTheSizeOfTheCluster(t *testing.T) {
	p, root := onHost(t)
	write(t, root+CAPath, "authority")
	for _, names := range [][]string{
		{"cp-1"}, {"cp-1", "cp-2", "cp-3"}, {"cp-1", "cp-2", "cp-3", "cp-4", "cp-5"}, {"cp-1", "cp-2", "cp-3"}, {"cp-1"},
	} {
		if reconcile(t, p, view(names...)); servers(t, root) != len(names) {
			t.Errorf("%v: %d servers", names, servers(t, root))
		}
	}
}

func TestAHostThatIsNoControlPlaneHasNoPod(t *testing.T) {
	p, root := onHost(t)
	write(t, root+CAPath, "authority")
	reconcile(t, p, view("cp-1"))
	worker := view("cp-1")
	worker.Role = state.RoleWorker
	if said := reconcile(t, p, worker); said != "removed its pod" {
		t.Errorf("said %q", said)
	}
	if _, err := os.Stat(root + render.PodPath); !os.IsNotExist(err) {
		t.Error("the pod is there")
	}
	if said := reconcile(t, p, worker); said != "" {
		t.Errorf("it is not quiet: %q", said)
	}
}

func TestAnErrorOfTheDiskIsTold(t *testing.T) {
	p, root := onHost(t)
	write(t, root+CAPath, "authority")
	write(t, root+"/etc/holdfast", "a file where a folder should be")
	if _, err := p.Reconcile(t.Context(), view("cp-1")); err == nil {
		t.Error("nothing was written, and nothing is said")
	}
}

// Two haproxies that ran at once leave one that nobody can ask. kubelet starts a pod anew whose
// manifest has changed.
func TestADeafHaproxyStartsAnewAndNotAgainAtOnce(t *testing.T) {
	p, root := onHost(t)
	write(t, root+CAPath, "CA")
	now, accepts := time.Date(2026, 11, 27, 19, 0, 0, 0, time.UTC), true
	p.Now, p.Accepts = func() time.Time { return now }, func(context.Context) bool { return accepts }
	pod := func() string {
		text, err := os.ReadFile(root + render.PodPath)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	v := view("cp-1", "cp-2")
	reconcile(t, p, v)
	now = now.Add(deafFor - time.Second)
	reconcile(t, p, v)
	if strings.Contains(pod(), render.Restarted) {
		t.Error("it starts anew while it may only read its configuration")
	}
	now = now.Add(time.Second)
	said := reconcile(t, p, v)
	first := pod()
	if !strings.Contains(first, render.Restarted+`: "2026-11-27T19:00:15Z"`) || !strings.Contains(said, "its pod starts anew") {
		t.Errorf("%s\n%s", said, first)
	}
	p = New(p.Options) // the agent starts anew, too
	for range 4 {
		reconcile(t, p, v)
		if now = now.Add(deafFor); pod() != first {
			t.Fatalf("at %s it starts anew again, before kubelet can have done it:\n%s", now, pod())
		}
	}
	now = now.Add(restartPause)
	reconcile(t, p, v)
	second := pod()
	if second == first {
		t.Error("it is deaf still, and nothing is done")
	}
	now = now.AddDate(-1, 0, 0) // the clock was ahead, and is set
	p = New(p.Options)
	reconcile(t, p, v)
	now = now.Add(deafFor)
	reconcile(t, p, v)
	set := pod()
	if set == second {
		t.Error("a start of next year holds it up")
	}
	now = now.Add(deafFor)
	reconcile(t, p, v)
	now = now.Add(deafFor)
	reconcile(t, p, v)
	if pod() != set {
		t.Error("it starts anew again at once")
	}
	second = set
	accepts, now = false, now.Add(time.Hour)
	for range 3 {
		reconcile(t, p, v)
		now = now.Add(time.Hour)
	}
	if pod() != second {
		t.Error("a haproxy that does not run is kubelet's")
	}
}
