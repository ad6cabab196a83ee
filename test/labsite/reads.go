package labsite

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/test/labsite/load"
)

// The object that an authenticated client reads, in the namespace default.
const (
	readName  = "reads-of-the-test"
	readValue = "a value that only etcd has"
)

// ReadsOf returns reads of one ConfigMap by the API server at an address, whose certificate
// must be valid for that address, by an account with a token. An API server asks etcd for each:
// it answers reads of a single object from no cache. ReadsOf makes the ConfigMap, and removes it
// at the end of the test.
func (s *Site) ReadsOf(t *testing.T, at netip.Addr, token string) load.Shape {
	t.Helper()
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: readName}, Data: map[string]string{"v": readValue},
	}
	if err := s.API.Create(t.Context(), cm); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("ConfigMap %s: %v", readName, err)
	}
	t.Cleanup(func() { s.Remove(t, cm) })
	shape := s.LifeOf(at)
	shape.URL = apiAt(at) + "/api/v1/namespaces/" + cm.Namespace + "/configmaps/" + cm.Name
	shape.Token, shape.Body = token, readValue
	return shape
}
