package upgrade

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/replace"
)

// TestNoHostIsUpgradedBeforeThePlanThatChangesControlPlanesIsOver: review case L86.
func TestNoHostIsUpgradedBeforeThePlanThatChangesControlPlanesIsOver(t *testing.T) {
	w := newWorld(t, 2, 0)
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: replace.LockNamespace, Name: replace.LockName}, Data: map[string]string{replace.LockKey: "p1"}}
	must(t, w.admin.Create(t.Context(), lock))
	w.begins()
	for range 20 {
		must(t, w.round())
	}
	if r := w.record(); len(r.Turns) > 0 {
		t.Fatalf("a host has its turn: %+v", r)
	}
	must(t, w.admin.Delete(t.Context(), lock))
	w.until("a host has its turn", func() bool { return len(w.record().Turns) > 0 })
}
