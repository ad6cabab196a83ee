package kube

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/handover"
)

func TestEtcdsConditionsAreRead(t *testing.T) {
	got, err := etcdConditions([]byte(`{"kind":"Etcd","status":{"conditions":[
		{"type":"A","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-11-20T12:00:00Z"},
		{"type":"B","status":"Unknown"}]}}`))
	want := []handover.Condition{
		{Type: "A", Status: true, Reason: "R", Message: "m", Changed: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)},
		{Type: "B"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := etcdConditions([]byte(`{"kind":"Etcd"}`)); err != nil || len(got) != 0 {
		t.Errorf("an object without a status: %v, %v", got, err)
	}
	if _, err := etcdConditions([]byte(`<html>`)); err == nil {
		t.Error("a proxy's page was read as an object")
	}
}
