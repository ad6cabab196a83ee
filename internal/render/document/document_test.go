package document_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	reference "sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/document"
)

func TestItWritesWhatTheReferenceWrites(t *testing.T) {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x10": "on", "x9": "1e3", "null": "~"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers:                    []corev1.Container{{Name: "c", Args: []string{"", "yes", "a: b", "# c", "two\nlines\n", "ends with space "}}},
		},
	}
	for name, value := range map[string]any{
		"an object": pod,
		"nothing":   nil,
		"numbers":   map[string]any{"a": 1, "b": -3, "c": 1.5, "d": 23.0, "e": 1e6, "f": 1e21, "g": int64(9007199254740993), "h": 0.000001},
		"words":     []any{"true", "0123", "1_000", "0x1f", "12:30:45", "2026-11-20", "=", "é", "\t", "<a&b>", true, nil},
		"deep":      map[string]any{"a": []any{map[string]any{"b": []any{}, "c": map[string]any{}}}},
	} {
		want, err := reference.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := document.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhatJSONCannotHoldIsAnError(t *testing.T) {
	if _, err := document.Marshal(map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was written")
	}
}
