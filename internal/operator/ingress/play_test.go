package ingress

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func (c *cluster) emptyDeployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: objectMeta(decide.OperandNamespace, decide.RouterName(name))}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// unsettle removes the default placement, as in a cluster from before it existed.
// Only a new object has none.
func (c *cluster) unsettle() { c.unsettleTo("") }

func (c *cluster) unsettleTo(placement configv1.DefaultPlacement) {
	c.t.Helper()
	config := &configv1.Ingress{}
	c.get("", clusterName, config)
	domain := config.Spec.Domain
	c.must(c.admin.Delete(c.t.Context(), config))
	c.must(c.admin.Create(c.t.Context(), &configv1.Ingress{ObjectMeta: objectMeta("", clusterName), Spec: configv1.IngressSpec{Domain: domain}}))
	if placement == "" {
		return
	}
	patch := fmt.Appendf(nil, `{"status":{"defaultPlacement":%q}}`, placement)
	c.must(c.admin.Status().Patch(c.t.Context(), &configv1.Ingress{ObjectMeta: objectMeta("", clusterName)}, client.RawPatch(types.MergePatchType, patch)))
}

// recorder keeps events as "REASON TEXT".
type recorder struct{ all []string }

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.all = append(r.all, reason+" "+fmt.Sprintf(note, args...))
}

func (r *recorder) about(reason string) []string {
	var out []string
	for _, e := range r.all {
		if text, ok := strings.CutPrefix(e, reason+" "); ok {
			out = append(out, text)
		}
	}
	return out
}

func (r *recorder) reasons() map[string]bool {
	out := map[string]bool{}
	for _, e := range r.all {
		reason, _, _ := strings.Cut(e, " ")
		out[reason] = true
	}
	return out
}

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}
