package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

func TestAReplacementTakesAwayWhatIsOfTheOldNodeAlone(t *testing.T) {
	api := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), &Client{set: set}
	node, err := set.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, on := range map[string]string{"a": "lost", "b": "lost", "c": "whole"} {
		_, err := set.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: on, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "x", Image: "x"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if pods, err := c.PodsOn(ctx, "lost"); len(pods) != 2 || err != nil {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	for range 2 {
		if err := c.DeletePodsOn(ctx, "lost"); err != nil {
			t.Fatal(err)
		}
	}
	lost, err := c.PodsOn(ctx, "lost")
	whole, errWhole := c.PodsOn(ctx, "whole")
	if len(lost) != 0 || len(whole) != 1 || err != nil || errWhole != nil {
		t.Errorf("%d and %d pods are left, %v, %v", len(lost), len(whole), err, errWhole)
	}
	if err := c.DeleteNode(ctx, "lost", "another-uid"); err != nil {
		t.Error(err)
	}
	if n, err := c.Node(ctx, "lost"); n == nil || err != nil {
		t.Errorf("the Node of another host was deleted: %v", err)
	}
	for range 2 {
		if err := c.DeleteNode(ctx, "lost", string(node.UID)); err != nil {
			t.Error(err)
		}
	}
	if n, err := c.Node(ctx, "lost"); n != nil || err != nil {
		t.Errorf("%v, %v", n, err)
	}
}

func TestOfTwoThatLockOneWins(t *testing.T) {
	api := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), &Client{set: set}
	for _, id := range []string{"first", "second", "first"} {
		err := c.Lock(ctx, "default", "lock", map[string]string{"id": id})
		if data, unread := c.ConfigMap(ctx, "default", "lock"); data["id"] != "first" || err != nil || unread != nil {
			t.Errorf("%s: %v, %v, %v", id, data, err, unread)
		}
	}
	for _, id := range []string{"second", "first", "first"} {
		if err := c.Unlock(ctx, "default", "lock", "id", id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if data, err := c.ConfigMap(ctx, "default", "lock"); err != nil || (data == nil) != (id == "first") {
			t.Errorf("after %s: %v, %v", id, data, err)
		}
	}
}

func TestOnlyThePlanThatHoldsTheLockWritesIntoIt(t *testing.T) {
	api := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), &Client{set: set}
	write := func(id, value string) error {
		return c.SetLocked(ctx, "default", "lock-of-one", "id", id, map[string]string{"told": value})
	}
	if err := write("first", "x"); err == nil {
		t.Error("a lock that is gone was made again")
	}
	if err := c.Lock(ctx, "default", "lock-of-one", map[string]string{"id": "first", "plan": "p"}); err != nil {
		t.Fatal(err)
	}
	if err := write("second", "x"); err == nil {
		t.Error("the lock of another plan was written into")
	}
	for _, value := range []string{"x", "x", "y"} {
		err := write("first", value)
		if data, unread := c.ConfigMap(ctx, "default", "lock-of-one"); err != nil || unread != nil || len(data) != 3 || data["told"] != value || data["plan"] != "p" {
			t.Errorf("%s: %v, %v, %v", value, data, err, unread)
		}
	}
}

// TestWhoNamesTheNodeOfAPodIsNotedAndTheBindingIsNot: drain.Pinned tells by that which pods would be made
// for a host again. A real API server says so.
func TestWhoNamesTheNodeOfAPodIsNotedAndTheBindingIsNot(t *testing.T) {
	api := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, pods := t.Context(), set.CoreV1().Pods("default")
	for name, on := range map[string]string{"pinned": "noted", "bound": ""} {
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: on, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "x", Image: "x"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: corev1.ObjectReference{Kind: "Node", Name: "noted"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	on, err := (&Client{set: set}).PodsOn(ctx, "noted")
	if err != nil || len(on) != 2 {
		t.Fatalf("%d pods, %v", len(on), err)
	}
	for _, p := range on {
		noted := slices.ContainsFunc(p.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), `"f:nodeName":{}`)
		})
		if noted != (p.Name == "pinned") {
			t.Errorf("%s: %+v", p.Name, p.ManagedFields)
		}
	}
}
