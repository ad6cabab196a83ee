package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestKeysOfASecretAreMergedOrTakenAway(t *testing.T) {
	set := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "there", Namespace: "ns"},
		Data:       map[string][]byte{"old": []byte("1"), "other": []byte("2"), "gone": []byte("3")},
	})
	c := &Client{set: set}
	for _, name := range []string{"there", "missing"} {
		if err := c.PutSecret(t.Context(), "ns", name, map[string][]byte{"old": []byte("3"), "gone": nil}); err != nil {
			t.Fatal(err)
		}
		got, err := set.CoreV1().Secrets("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Data["old"]) != "3" {
			t.Errorf("%s: %v", name, got.Data)
		}
		if _, there := got.Data["gone"]; there {
			t.Errorf("%s: a key that was taken away is there: %v", name, got.Data)
		}
		if name == "there" && string(got.Data["other"]) != "2" {
			t.Errorf("another key is gone: %v", got.Data)
		}
	}
}
