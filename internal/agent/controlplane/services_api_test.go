package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// TestTheAPIServerTakesThePatches shows on a real API server what the fake one
// cannot: how it spells a list of taints that a test has to match, and that it
// refuses a patch of an old view.
func TestTheAPIServerTakesThePatches(t *testing.T) {
	set, c := servicesAt(t)
	added := metav1.NewTime(time.Date(2026, 11, 20, 8, 30, 0, 0, time.FixedZone("", 3600)))
	for name, node := range map[string]*corev1.Node{
		"bare": {},
		"others": {
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{
				{Key: "example.com/db", Value: "x", Effect: corev1.TaintEffectNoSchedule},
				{Key: "example.com/n", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node.Name = "taint-" + name
			if _, err := set.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			before := service(t, c, node.Name)
			for _, v := range []outofservice.Verdict{tainted, {Action: outofservice.Remove}} {
				want := outofservice.Apply(change(t, c, service(t, c, node.Name), v), v)
				got := service(t, c, node.Name)
				if diff := cmp.Diff(ofOthers(want.Taints), ofOthers(got.Taints)); diff != "" {
					t.Errorf("%s: %s", v.Action, diff)
				}
				if outofservice.Ours(got) != (v.Action == outofservice.Add) {
					t.Errorf("%s: marks %v", v.Action, got.Annotations)
				}
			}
			change(t, c, service(t, c, node.Name), tainted)
			if err := c.PatchNode(t.Context(), node.Name, outofservice.Patch(before, tainted)); err == nil {
				t.Errorf("a patch of an old view was taken: %+v", service(t, c, node.Name))
			}
		})
	}
}

// servicesAt returns a real API server, as a test and as the agent reach it.
func servicesAt(t *testing.T) (kubernetes.Interface, services) {
	t.Helper()
	api := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.Open(api.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return set, services{client}
}

var tainted = outofservice.Verdict{Action: outofservice.Add, Mark: "cp-1 2026-11-20T09:00:00Z"}

func service(t *testing.T, c services, name string) outofservice.Node {
	t.Helper()
	n, err := c.NodeService(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ofOthers leaves out the taints that the node controller may give at any moment
// to a node without a kubelet.
func ofOthers(taints []outofservice.Taint) []outofservice.Taint {
	out := []outofservice.Taint{}
	for _, t := range taints {
		if t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable {
			out = append(out, t)
		}
	}
	return out
}

// change carries a verdict out and returns the view that it fitted. If a view is
// too old, it reads the node again, as the agent does.
func change(t *testing.T, c services, n outofservice.Node, v outofservice.Verdict) outofservice.Node {
	t.Helper()
	var err error
	for range 20 {
		if err = c.PatchNode(t.Context(), n.Name, outofservice.Patch(n, v)); err == nil {
			return n
		}
		n = service(t, c, n.Name)
	}
	t.Fatal(err)
	return n
}

func TestTheAPIServerTakesThatANodeIsNotReady(t *testing.T) {
	set, c := servicesAt(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "unready"}}
	node, err := set.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	then := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, LastHeartbeatTime: then, LastTransitionTime: then},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: then, LastTransitionTime: then},
	}
	if _, err := set.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	if err := c.MarkUnready(t.Context(), "unready", "switched off", now); err != nil {
		t.Fatal(err)
	}
	after := service(t, c, "unready")
	if after.Ready || !after.ReadySince.Equal(now) || !after.Heartbeat.Equal(then.Time) {
		t.Errorf("%+v", after)
	}
	got, err := set.CoreV1().Nodes().Get(t.Context(), "unready", metav1.GetOptions{})
	if err != nil || len(got.Status.Conditions) != 2 {
		t.Errorf("%+v, %v", got.Status.Conditions, err)
	}
}

func TestWhatDecidesAboutANodeIsReadFromIt(t *testing.T) {
	at := metav1.Date(2026, 11, 20, 8, 30, 0, 0, time.FixedZone("", 3600))
	got := serviceOf(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "cp-2", ResourceVersion: "7", Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}, {Key: "n"}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: at, LastHeartbeatTime: at},
		}},
	})
	want := outofservice.Node{
		Name: "cp-2", ResourceVersion: "7", Annotations: map[string]string{"a": "b"},
		Taints: []outofservice.Taint{{Key: "k", Value: "v", Effect: "NoExecute", TimeAdded: "2026-11-20T07:30:00Z"}, {Key: "n"}},
		Ready:  true, ReadySince: at.Time, Heartbeat: at.Time,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestANodeThatIsNotThereIsAnError(t *testing.T) {
	_, c := servicesAt(t)
	if n, err := c.NodeService(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%+v, %v", n, err)
	}
}
