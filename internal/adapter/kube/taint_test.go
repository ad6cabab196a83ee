package kube

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestAPatchOfAnotherNodeThanWasLookedAtIsRefused(t *testing.T) {
	set := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-2", Labels: map[string]string{"a": "b"}}})
	c := &Client{set: set}
	for value, fits := range map[string]bool{"c": false, "b": true} {
		err := c.PatchNode(t.Context(), "cp-2", []byte(`[{"op":"test","path":"/metadata/labels/a","value":"`+value+`"},{"op":"add","path":"/metadata/labels/x","value":"y"}]`))
		if (err == nil) != fits {
			t.Errorf("label %s: %v", value, err)
		}
	}
	if n, err := c.Node(t.Context(), "cp-2"); err != nil || n.Labels["x"] != "y" {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestNodesAreWatched(t *testing.T) {
	set := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-2"}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got []*corev1.Node
	_ = (&Client{set: set}).WatchNodes(ctx, func(nodes []*corev1.Node) {
		got = nodes
		cancel()
	})
	if len(got) != 1 || got[0].Name != "cp-2" {
		t.Errorf("%+v", got)
	}
}
