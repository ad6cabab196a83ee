package kube

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestNodesAreReadAsState(t *testing.T) {
	created := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "cp-1", Labels: map[string]string{"node-role.kubernetes.io/master": ""}, CreationTimestamp: metav1.NewTime(created),
		Annotations: map[string]string{"flannel.alpha.coreos.com/public-ip": "10.96.0.11", "flannel.alpha.coreos.com/public-ipv6": "no address"},
	}}
	node.Status.NodeInfo.BootID, node.Spec.Unschedulable = "a1", true
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "cp-1"},
		{Type: corev1.NodeInternalIP, Address: "10.98.0.11"},
		{Type: corev1.NodeInternalIP, Address: "fd98::11"},
		{Type: corev1.NodeInternalIP, Address: "nonsense"},
	}
	for status, is := range map[corev1.ConditionStatus]struct{ ready, silent bool }{
		corev1.ConditionTrue: {ready: true}, corev1.ConditionFalse: {}, corev1.ConditionUnknown: {silent: true}, "": {silent: true},
	} {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		if status == "" {
			node.Status.Conditions = nil // its kubelet never reported
		}
		got, err := (&Client{set: fake.NewClientset(node)}).Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []state.Node{{
			Name: "cp-1", Labels: node.Labels, Ready: is.ready, Silent: is.silent, Created: created,
			Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11")},
			Tunnel:    []netip.Addr{netip.MustParseAddr("10.96.0.11")}, BootID: "a1", Cordoned: true,
		}}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s: %s", status, diff)
		}
	}
}

// The watch reads a part of a Node alone.
func TestACordonIsReadOfTheWatch(t *testing.T) {
	for spec, want := range map[string]bool{`"spec":{"unschedulable":true},`: true, `"spec":{},`: false, "": false} {
		n, err := readNode([]byte(`{"metadata":{"name":"cp-1"},` + spec + `"status":{}}`))
		if err != nil || n.Name != "cp-1" || n.Cordoned != want {
			t.Errorf("%s: %+v, %v", spec, n, err)
		}
	}
}

func TestLabelsAreAdded(t *testing.T) {
	set := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Labels: map[string]string{"a": "b"}}})
	c := &Client{set: set}
	if err := c.AddLabels(t.Context(), "cp-1", []string{"node-role.kubernetes.io/master"}); err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || len(nodes[0].Labels) != 2 {
		t.Errorf("%+v, %v", nodes, err)
	}
	if err := c.AddLabels(t.Context(), "cp-9", []string{"x"}); err == nil || !strings.Contains(err.Error(), "cp-9") {
		t.Errorf("a node that is not there: %v", err)
	}
}

func TestAConfigMapThatIsNotThereIsNone(t *testing.T) {
	set := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap"}, Data: map[string]string{"status": "complete"},
	})
	c := &Client{set: set}
	if got, err := c.ConfigMap(t.Context(), "kube-system", "bootstrap"); err != nil || got["status"] != "complete" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := c.ConfigMap(t.Context(), "kube-system", "other"); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}
