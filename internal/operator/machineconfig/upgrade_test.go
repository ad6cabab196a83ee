package machineconfig

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
)

// TestNoHostIsTakenAwayWhileAnotherOneIsAtWorkForAnUpgrade: the operator reads the record
// with no more than its rights.
func TestNoHostIsTakenAwayWhileAnotherOneIsAtWorkForAnUpgrade(t *testing.T) {
	s := newSite(t)
	s.settle()
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}}
	text, err := annotation.Encode(annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true, Turns: []string{"cp-1"}})
	must(t, err)
	record.Data = map[string]string{annotation.RecordKey: text}
	must(t, s.admin.Create(t.Context(), record))
	s.wants("cp-2")
	s.looks()
	if got := s.waits("cp-2"); s.isBooting("cp-2") || got != "waits for the upgrade: cp-1 at work" {
		t.Errorf("cp-2 waits for %q", got)
	}
	record.Data[annotation.RecordKey] = "{"
	must(t, s.admin.Update(t.Context(), record))
	s.looks()
	if s.isBooting("cp-2") {
		t.Error("a record that cannot be read holds nothing")
	}
	record.Data[annotation.RecordKey] = ""
	must(t, s.admin.Update(t.Context(), record))
	s.looks()
	if !s.isBooting("cp-2") {
		t.Errorf("the upgrade is over: %v", s.node("cp-2").Annotations)
	}
}
