package registration

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// rig is an API with one Node, or none, and a host.
type rig struct {
	*Reconciler
	node    *corev1.Node
	gets    int
	made    []*corev1.Node
	events  []*corev1.Event
	refuse  error
	kubelet bool
	now     time.Time
}

func (r *rig) Node(context.Context, string) (*corev1.Node, error) { r.gets++; return r.node, r.refuse }

func (r *rig) CreateNode(_ context.Context, n *corev1.Node) error {
	if r.refuse != nil {
		return r.refuse
	}
	r.node, r.made = n, append(r.made, n)
	return nil
}

func (r *rig) CreateEvent(_ context.Context, e *corev1.Event) error {
	r.events = append(r.events, e)
	return nil
}

func newRig(path string) *rig {
	r := &rig{kubelet: true, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), node: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "cp-2", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"flannel": "x"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.128.2.0/24"},
	}}
	r.Reconciler = New(Options{
		Try:     func(ctx context.Context, do func(context.Context, API) error) error { return do(ctx, r) },
		Kubelet: func(context.Context) bool { return r.kubelet }, Path: path, Now: func() time.Time { return r.now },
	})
	return r
}

func view(names ...string) state.NetworkView {
	v := state.NetworkView{Role: state.RoleMaster, Host: state.HostFacts{NodeName: "cp-2"}}
	v.Nodes = state.Known([]state.Node{})
	for _, n := range names {
		name, absent := strings.CutSuffix(n, " absent")
		v.Nodes.Value = append(v.Nodes.Value, state.Node{Name: name, Absent: absent})
	}
	return v
}

func (r *rig) reconcile(t *testing.T, v state.NetworkView) string {
	t.Helper()
	said, err := r.Reconcile(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func TestANodeThatSomebodyDeletedIsMadeAgainAndTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.json")
	r := newRig(path)
	r.reconcile(t, view("cp-1", "cp-2"))
	r.node = nil
	if said := r.reconcile(t, view("cp-1", "cp-2 absent")); !strings.Contains(said, "the Node of this host was deleted") {
		t.Errorf("%q", said)
	}
	if len(r.made) != 1 || r.made[0].Spec.PodCIDR != "10.128.2.0/24" || r.made[0].Annotations["flannel"] != "x" || r.made[0].Labels["a"] != "b" {
		t.Fatalf("%+v", r.made)
	}
	if len(r.events) != 1 || r.events[0].Reason != "NodeMadeAgain" || r.events[0].InvolvedObject.Name != "cp-2" {
		t.Errorf("%+v", r.events)
	}
	r.node = nil
	if r.reconcile(t, view("cp-1", "cp-2 absent")); len(r.made) != 1 {
		t.Error("it races whoever deletes it")
	}
	next := newRig(path) // the agent was restarted meanwhile
	next.node = nil
	if next.reconcile(t, view("cp-1")); len(next.made) != 1 {
		t.Error("an agent that has just started does not know the Node")
	}
}

func TestWithoutAKubeletOrBeforeTheAPIWasHeardNoNodeIsMade(t *testing.T) {
	r := newRig(filepath.Join(t.TempDir(), "node.json"))
	if r.reconcile(t, view("cp-1")); len(r.made) > 0 {
		t.Error("a host that was no node is made one")
	}
	r.reconcile(t, view("cp-2"))
	r.kubelet = false
	r.reconcile(t, view("cp-1"))
	stale, unknown := view("cp-1"), view("cp-1")
	stale.Stale, unknown.Nodes.Known, r.kubelet = true, false, true
	r.reconcile(t, stale)
	r.reconcile(t, unknown)
	if len(r.made) > 0 {
		t.Errorf("%+v", r.made)
	}
}

func TestTheNodeIsAskedForSeldomAndAtOnceWhereItChanged(t *testing.T) {
	r := newRig(filepath.Join(t.TempDir(), "node.json"))
	v := view("cp-2")
	for range 5 {
		r.reconcile(t, v)
		v.Nodes.Value[0].Ready = !v.Nodes.Value[0].Ready
	}
	if r.gets != 1 {
		t.Errorf("%d times", r.gets)
	}
	v.Nodes.Value[0].Labels = map[string]string{"new": ""}
	r.reconcile(t, v)
	r.now = r.now.Add(checkInterval)
	r.reconcile(t, v)
	if r.gets != 3 {
		t.Errorf("%d times", r.gets)
	}
}

func TestWhatThePersonTypesIsInTheErrorWhereTheNodeCannotBeMade(t *testing.T) {
	r := newRig(filepath.Join(t.TempDir(), "node.json"))
	r.reconcile(t, view("cp-2"))
	r.refuse = errors.New("refused")
	if _, err := r.Reconcile(t.Context(), view()); err == nil || !strings.Contains(err.Error(), "systemctl restart kubelet") {
		t.Error(err)
	}
	if slices.Contains(r.Reconciler.made, r.now) {
		t.Error("a try that failed counts")
	}
}
