package status

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestTheStatusKnowsWhenAHostWroteLast, of all hosts, and nothing where the account may not ask.
func TestTheStatusKnowsWhenAHostWroteLast(t *testing.T) {
	last := time.Now().Add(-11 * time.Minute).Truncate(time.Microsecond)
	lease := func(namespace, name string, at time.Time) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(at)
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	leases := []client.Object{
		lease("kube-node-lease", "cp-1", last), lease("kube-node-lease", "cp-2", last.Add(-time.Hour)),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "never"}},
		lease("kube-system", "kube-scheduler", last.Add(time.Minute)), // which does not say that a host writes
	}
	for what, c := range map[string]struct {
		leases    []client.Object
		forbidden bool
		known     bool
	}{
		"hosts wrote":        {leases: leases, known: true},
		"no host has yet":    {},
		"it may not be read": {leases: leases, forbidden: true},
	} {
		refuse := interceptor.Funcs{List: func(ctx context.Context, of client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*coordinationv1.LeaseList); is && c.forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", nil)
			}
			return of.List(ctx, list, opts...)
		}}
		api := &API{Name: "API", Now: time.Now, Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects()...).WithObjects(c.leases...).WithInterceptorFuncs(refuse).Build()}
		f := api.Gather(t.Context())
		if s := f.Sources[0]; s.Failed != "" || len(s.Limits) > 0 {
			t.Errorf("%s: %+v", what, s)
		}
		if f.Heartbeat.Known != c.known || c.known && !f.Heartbeat.Value.Equal(last) {
			t.Errorf("%s: %+v", what, f.Heartbeat)
		}
	}
}
