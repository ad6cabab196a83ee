package status

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/decide/standing"
)

// TestTheStatusKnowsWhetherTheOperatorRuns, and nothing of one that is not there yet.
func TestTheStatusKnowsWhetherTheOperatorRuns(t *testing.T) {
	made, since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)), metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	of := func(replicas, available int32, is corev1.ConditionStatus) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-etcd", Name: "holdfast-operator", CreationTimestamp: made}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
		d.Status.AvailableReplicas = available
		if is != "" {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: is, LastTransitionTime: since}}
		}
		return d
	}
	for what, c := range map[string]struct {
		deployment *appsv1.Deployment
		forbidden  bool
		want       *standing.OwnOperator
	}{
		"it is not there yet":       {nil, false, nil},
		"it may not be read":        {of(1, 0, corev1.ConditionFalse), true, nil},
		"it runs":                   {of(1, 1, corev1.ConditionTrue), false, &standing.OwnOperator{Available: true, Since: since.Time}},
		"it does not run":           {of(1, 0, corev1.ConditionFalse), false, &standing.OwnOperator{Since: since.Time}},
		"Kubernetes has not looked": {of(1, 0, ""), false, &standing.OwnOperator{Since: made.Time}},
		"it is switched off":        {of(0, 0, corev1.ConditionTrue), false, &standing.OwnOperator{Off: true, Since: made.Time}},
	} {
		b := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects()...)
		if c.deployment != nil {
			b = b.WithObjects(c.deployment)
		}
		api := &API{Name: "API", Now: time.Now, Reader: interceptor.NewClient(b.Build(), interceptor.Funcs{Get: func(ctx context.Context, of client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*appsv1.Deployment); is && c.forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, key.Name, nil)
			}
			return of.Get(ctx, key, o, opts...)
		}})}
		f := api.Gather(t.Context())
		got, limits := f.OwnOperator, strings.Join(f.Sources[0].Limits, "\n")
		if f.Sources[0].Failed != "" || strings.Contains(limits, "whether the operator runs") != c.forbidden {
			t.Errorf("%s: %+v", what, f.Sources)
		}
		if got.Known != (c.want != nil) || c.want != nil && (got.Value.Off != c.want.Off || got.Value.Available != c.want.Available || !got.Value.Since.Equal(c.want.Since)) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
