package status

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheStatusKnowsARotationOfKeysThatWasCutOff: the wish and what hosts say of their keys reach
// it. Who may not read the wish learns of the rotation by its hosts, and it is no mistake of his.
func TestTheStatusKnowsARotationOfKeysThatWasCutOff(t *testing.T) {
	wish := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: encryption.WishNamespace, Name: encryption.WishName}, Data: data}
	}
	old := encryption.Wish{Keys: encryption.Keys{1, 2}, At: time.Now().Add(-5 * time.Hour)}
	for what, c := range map[string]struct {
		wish     *corev1.ConfigMap
		said     string
		forbid   bool
		severity finding.Severity
		known    bool
		limits   int
	}{
		"none":            {wish(encryption.Wish{Keys: encryption.Keys{1}}.Data()), "1", false, "", true, 0},
		"nobody wished":   {nil, "1", false, "", true, 0},
		"it was cut off":  {wish(old.Data()), "1,2", false, finding.Warning, true, 0},
		"no right":        {wish(old.Data()), "1,2", true, finding.Note, false, 0},
		"somebody edited": {wish(map[string]string{"keys": "x"}), "1,2", false, finding.Note, false, 1},
	} {
		one, two := node("cp-1", corev1.ConditionTrue), node("cp-2", corev1.ConditionTrue)
		one.Annotations[state.AnnotationEncryption], two.Annotations[state.AnnotationEncryption] = c.said, c.said
		b := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(one, two).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.forbid && key.Name == encryption.WishName {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, key.Name, nil)
				}
				return api.Get(ctx, key, o, opts...)
			},
		})
		if c.wish != nil {
			b = b.WithObjects(c.wish)
		}
		f := (&API{Name: "API", Reader: b.Build(), Now: time.Now}).Gather(t.Context())
		if f.Encryption.Known != c.known || f.Sources[0].Failed != "" || len(f.Sources[0].Limits) != c.limits {
			t.Errorf("%s: %+v %+v", what, f.Encryption, f.Sources)
		}
		var severity finding.Severity
		for _, found := range standing.Describe(f).Findings {
			if found.ID == standing.RotationUnfinished && found.Subject == encryption.Subject {
				severity += found.Severity
			}
		}
		if severity != c.severity {
			t.Errorf("%s: told as %q", what, severity)
		}
	}
}
