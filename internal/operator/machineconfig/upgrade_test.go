package machineconfig

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/replace"
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

// TestNoControlPlaneIsTakenAwayWhileAPlanChangesThem: the operator reads the lock with no more than its
// rights. A plan that is not about control planes asks for boots itself, and holds none.
func TestNoControlPlaneIsTakenAwayWhileAPlanChangesThem(t *testing.T) {
	s := newSite(t)
	s.settle()
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: replace.LockNamespace, Name: replace.LockName}}
	lock.Data = map[string]string{replace.LockKey: "p1", replace.LockCopy: `{"id":"p1","narrows":true,"survivor":"cp-1","by":"ada","old":{"name":"cp-3"}}`}
	must(t, s.admin.Create(t.Context(), lock))
	s.wants("cp-2")
	s.looks()
	if got := s.waits("cp-2"); s.isBooting("cp-2") || !strings.HasPrefix(got, "the control planes are changed: the plan p1 of ada takes cp-3 out") || !strings.Contains(got, "on cp-1: ") {
		t.Errorf("cp-2 waits for %q", got)
	}
	lock.Data = map[string]string{replace.LockKey: "p2", replace.LockWords: "the plan p2 gives the site a second address family"}
	must(t, s.admin.Update(t.Context(), lock))
	s.looks()
	if !s.isBooting("cp-2") {
		t.Errorf("the plan is over: %v", s.node("cp-2").Annotations)
	}
}
