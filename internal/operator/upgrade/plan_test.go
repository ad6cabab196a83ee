package upgrade

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/state"
)

// sized is the configuration of a site of so many control planes.
func sized(controlPlanes int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: machineconfig.InstallNamespace, Name: machineconfig.InstallName},
		Data:       map[string]string{machineconfig.InstallKey: fmt.Sprintf("controlPlane: {replicas: %d}\n", controlPlanes)},
	}
}

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

// TestNoHostIsUpgradedWhileOneOfThreeControlPlanesHasNoNode: the machine that takes its place is let in by
// the count of the record, and the first turn waits for it.
func TestNoHostIsUpgradedWhileOneOfThreeControlPlanesHasNoNode(t *testing.T) {
	w := newWorld(t, 3, 0)
	must(t, w.admin.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-3"}}))
	delete(w.hosts, "cp-3")
	w.begins()
	for range 20 {
		must(t, w.round())
	}
	r := w.record()
	if len(r.Turns) > 0 || r.Planes != 3 {
		t.Fatalf("%+v", r)
	}
	if why := w.condition("Progressing"); !strings.Contains(why, "control-planes: of 3 control planes 2 have a node") {
		t.Error(why)
	}
	stay := map[string]state.Fact[annotation.Host]{}
	for _, name := range []string{"cp-1", "cp-2"} {
		var said annotation.Host
		said.Facts.Release = state.Known(oldImage)
		stay[name] = state.Known(said)
	}
	text, err := annotation.Encode(annotation.RecordOf(r))
	must(t, err)
	if lost := hold.OfLostOfThree(state.Known(text), stay); lost != (hold.Lost{}) {
		t.Errorf("no machine may take its place: %+v", lost)
	}
	w.join("cp-3", false)
	w.until("a host has its turn", func() bool { return len(w.record().Turns) > 0 })
}
