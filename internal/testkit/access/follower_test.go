package access

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/flannel"
)

// TestAWorkerReadsTheAuthorityOfTheAPIWithoutARightMore: a real API server lets a kubelet
// read what the pods on its host get, and a pod of the pod network is on every host. By
// that a worker follows a rotation of the Kubernetes CA (docs/adr/0074), and it tells in
// its own Node, and in no other one, how far it is.
func TestAWorkerReadsTheAuthorityOfTheAPIWithoutARightMore(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	for _, namespace := range []string{render.Namespace, "shop"} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "x"}}
		must(t, client.IgnoreAlreadyExists(c.admin.Create(ctx, o)))
	}
	pod := boundPod(render.Namespace, "flannel", "worker-1")
	sources := &pod.Spec.Volumes[0].Projected.Sources
	*sources = append(*sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}})
	read := func(namespace string) error {
		return c.kubelet.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{})
	}
	if err := read(render.Namespace); !refused(err) {
		t.Errorf("without a pod of the pod network: %v", err)
	}
	must(t, c.admin.Create(ctx, pod))
	t.Cleanup(func() { must(t, c.admin.Delete(context.WithoutCancel(ctx), pod, client.GracePeriodSeconds(0))) })
	var err error
	c.until("kubelet reads it", func() bool { err = read(render.Namespace); return err == nil }, func() string { return err.Error() })
	if err := read("shop"); !refused(err) {
		t.Errorf("in a namespace of which it has no pod: %v", err)
	}
	for node, may := range map[string]bool{"worker-1": true, "worker-2": false, "cp-1": false} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"holdfast.io/authorities":"{}"}}}`))
		if err := c.kubelet.Patch(ctx, n, patch); may && err != nil || !may && !refused(err) {
			t.Errorf("it writes to %s: %v", node, err)
		}
	}
}

// By this label a worker gets another certificate for its expired one (docs/adr/0050).
func TestAKubeletCannotTellSinceWhenItsHostHasANode(t *testing.T) {
	c := newCluster(t)
	label := map[string]string{state.LabelMade: "1"}
	for what, err := range map[string]error{
		"its Node": c.kubelet.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}},
			client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+state.LabelMade+`":"1"}}}`))),
		"its status": patchStatus(t, c.kubelet, "worker-1", `{"metadata":{"labels":{"`+state.LabelMade+`":"1"}}}`),
		"a new Node": c.kubelet.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Labels: label}}),
	} {
		if !refused(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
