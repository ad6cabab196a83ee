package kube

import (
	"maps"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

func TestAConfigMapIsMadeChangedAndFoundByItsLabel(t *testing.T) {
	api := apitest.Need(t, server)
	set, err := kubernetes.NewForConfig(api.Config)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{set: set}
	const label = "holdfast.io/test-of-configmaps"
	for _, data := range []map[string]string{{"a": "1"}, {"a": "1"}, {"a": "2", "b": "3"}} {
		if err := c.PutConfigMap(t.Context(), "kube-system", "of-cp-1", map[string]string{label: "cp-1"}, data); err != nil {
			t.Fatal(err)
		}
		got, err := c.ConfigMaps(t.Context(), "kube-system", label)
		if err != nil || len(got) != 1 || !maps.Equal(got["of-cp-1"], data) {
			t.Errorf("%v: %v", err, got)
		}
	}
	if _, err := c.Pods(t.Context()); err != nil {
		t.Errorf("where pods run: %v", err)
	}
	if logs, err := c.PodLogs(t.Context(), []string{"kube-system"}, 10); err != nil || len(logs) != 0 {
		t.Errorf("logs without pods: %v, %v", logs, err)
	}
}
