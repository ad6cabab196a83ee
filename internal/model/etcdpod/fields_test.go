package etcdpod

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFieldsAreThoseOfKubernetes(t *testing.T) {
	types := map[string]reflect.Type{
		"": reflect.TypeFor[corev1.Pod](), "metadata": reflect.TypeFor[metav1.ObjectMeta](), "spec": reflect.TypeFor[corev1.PodSpec](),
		"spec.containers[]": reflect.TypeFor[corev1.Container](), "spec.containers[].env[]": reflect.TypeFor[corev1.EnvVar](),
		"spec.containers[].volumeMounts[]": reflect.TypeFor[corev1.VolumeMount](),
		"spec.volumes[]":                   reflect.TypeFor[corev1.Volume](), "spec.volumes[].hostPath": reflect.TypeFor[corev1.HostPathVolumeSource](),
	}
	for place, of := range types {
		names := jsonNames(of)
		slices.Sort(names)
		if want := strings.Join(names, " "); fields[place] != want {
			t.Errorf("%q has, with this version of k8s.io/api:\n%s", place, want)
		}
	}
	if len(types) != len(fields) {
		t.Errorf("%d places are compared, the table has %d", len(types), len(fields))
	}
}

// jsonNames lists the fields of an object, including those of embedded ones.
func jsonNames(of reflect.Type) (names []string) {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			names = append(names, jsonNames(f.Type)...)
			continue
		}
		names = append(names, name)
	}
	return names
}
