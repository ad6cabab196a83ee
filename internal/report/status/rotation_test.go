package status

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheStatusKnowsARotationThatNobodyGoesOnWith: what hosts say of their authorities
// reaches it, and a host that says nothing is no mistake.
func TestTheStatusKnowsARotationThatNobodyGoesOnWith(t *testing.T) {
	began := time.Now().Add(-5 * time.Hour).UTC().Truncate(time.Second)
	said := rotation.Report{Of: "one", New: "new", Phase: rotation.Trust, Turn: "cp-1", Began: began, Late: began.Add(2 * time.Hour), Trusts: []rotation.ID{"old"}, Signs: "old"}
	one, two := node("cp-1", corev1.ConditionTrue), node("cp-2", corev1.ConditionTrue)
	one.Annotations[state.AnnotationTrust] = state.FormatAnnotation(rotation.Reports{ControlPlanes: 2, Authorities: map[rotation.Authority]rotation.Report{rotation.EtcdCA: said}}) //nolint:exhaustive // one is enough
	two.Annotations[state.AnnotationTrust] = "x"
	found := map[string]int{}
	for _, nodes := range [][]*corev1.Node{{one, two}, {two}} {
		b := fake.NewClientBuilder().WithScheme(scheme(t))
		for _, n := range nodes {
			b = b.WithObjects(n)
		}
		f := (&API{Name: "API", Reader: b.Build(), Now: time.Now}).Gather(t.Context())
		for _, h := range f.Hosts {
			if !h.Authorities.Known {
				t.Errorf("nobody asked %s", h.Name)
			}
		}
		for _, finding := range standing.Describe(f).Findings {
			if finding.ID == standing.RotationUnfinished {
				found[finding.Subject]++
			}
		}
	}
	if len(found) != 1 || found["etcd-ca"] != 1 {
		t.Errorf("told of %v", found)
	}
}
