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
	retired string
	unread  error // of the list of retired hosts
	kubelet bool
	answers bool // the other host's kubelet
	now     time.Time
}

func (r *rig) Retired(context.Context, *corev1.Node) (string, error) { return r.retired, r.unread }

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
		Kubelet: func(context.Context) bool { return r.kubelet }, Answers: func(context.Context, state.Node) bool { return r.answers },
		Path: path, Peers: filepath.Dir(path), Now: func() time.Time { return r.now },
		Sleep: func(_ context.Context, d time.Duration) error { r.now = r.now.Add(d); return nil },
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
		v.Nodes.Value[0].Ready, v.Nodes.Value[0].Silent = !v.Nodes.Value[0].Ready, v.Nodes.Value[0].Ready
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
	if slices.Contains(r.Reconciler.kept["cp-2"].made, r.now) {
		t.Error("a try that failed counts")
	}
}

// L30: a host that is being taken out stays out.
func TestTheNodeOfARetiredHostIsNotMadeAgain(t *testing.T) {
	r := newRig(filepath.Join(t.TempDir(), "node.json"))
	r.reconcile(t, view("cp-2"))
	r.node, r.retired = nil, "by admin"
	r.reconcile(t, view())
	r.retired, r.unread = "", errors.New("forbidden")
	if _, err := r.Reconcile(t.Context(), view()); err == nil || len(r.made) > 0 {
		t.Errorf("%v, %+v", err, r.made)
	}
	r.unread = nil
	if r.reconcile(t, view()); len(r.made) != 1 {
		t.Error("nobody took it out, and it is not made again")
	}
}

// L27: the other control plane makes the Node, once its host had its turn.
func TestTheNodeOfALiveControlPlaneWhoseAgentIsDownIsMadeByAnotherOne(t *testing.T) {
	dir := t.TempDir()
	r := newRig(filepath.Join(dir, "node.json"))
	seen := func(absent string) state.NetworkView {
		v := view("cp-1", "cp-2"+absent)
		v.Host.NodeName = "cp-1"
		v.Nodes.Value[1].Labels = map[string]string{state.LabelControlPlane: ""}
		return v
	}
	r.reconcile(t, seen(""))
	r.node = nil
	if r.reconcile(t, seen(" absent")); len(r.made) > 0 {
		t.Fatal("the Node of a dead host is made again")
	}
	r = newRig(filepath.Join(dir, "node.json")) // the agent was restarted
	r.node, r.answers = nil, true
	began := r.now
	said := r.reconcile(t, seen(" absent"))
	if len(r.made) != 1 || r.made[0].Name != "cp-2" || r.made[0].Spec.PodCIDR != "10.128.2.0/24" || !strings.Contains(said, "cp-2") {
		t.Fatalf("%q %+v", said, r.made)
	}
	if took := r.now.Sub(began); took > 10*time.Second {
		t.Errorf("after %s", took)
	}
}

func TestAControlPlaneThatMakesItsOwnNodeIsNotHelped(t *testing.T) {
	r := newRig(filepath.Join(t.TempDir(), "node.json"))
	v := view("cp-1", "cp-2")
	v.Host.NodeName = "cp-1"
	v.Nodes.Value[1].Labels = map[string]string{state.LabelControlPlane: ""}
	r.answers = true
	r.reconcile(t, v)
	v.Nodes.Value[1].Absent = true // by the view; its agent was faster
	if r.reconcile(t, v); len(r.made) > 0 {
		t.Errorf("%+v", r.made)
	}
}

// L28.
func TestWhoDeletesANodeEveryMinuteIsToldAfterThreeRepairs(t *testing.T) {
	r := newRig(filepath.Join(t.TempDir(), "node.json"))
	r.reconcile(t, view("cp-2"))
	var err error
	for range 9 {
		r.node, r.now = nil, r.now.Add(time.Minute)
		_, err = r.Reconcile(t.Context(), view())
	}
	if err == nil || !strings.Contains(err.Error(), "audit log") || len(r.made) != 3 {
		t.Errorf("%v, made %d times", err, len(r.made))
	}
	if n := len(r.events); n != 4 || r.events[3].Reason != "NodeLeftDeleted" {
		t.Errorf("%d events", n)
	}
}
