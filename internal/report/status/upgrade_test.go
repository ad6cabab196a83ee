package status

import (
	"context"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheAPITellsOfAnUpgradeAndOfNoneWithoutAClusterVersion.
func TestTheAPITellsOfAnUpgradeAndOfNoneWithoutAClusterVersion(t *testing.T) {
	version := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: annotation.VersionName}, Spec: configv1.ClusterVersionSpec{DesiredUpdate: &configv1.Update{Image: "sha256:2"}}}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, Data: map[string]string{annotation.RecordKey: `{"format":1}`}}
	gather := func(forbidden bool, more ...client.Object) *API {
		c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(objects(), more...)...).Build()
		guarded := interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if forbidden && key.Name == annotation.RecordName {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		}})
		return &API{Name: "API", Reader: guarded, Now: time.Now}
	}
	if f := gather(false, record).Gather(t.Context()); f.Upgrade.Known || !f.Hosts[0].Release.Known || len(f.Sources[0].Limits) > 0 {
		t.Errorf("%+v, %+v", f.Upgrade, f.Sources)
	}
	if f := gather(false, version).Gather(t.Context()); !f.Upgrade.Known || f.Upgrade.Value.Version.Spec.DesiredUpdate.Image != "sha256:2" || !state.Is(f.Upgrade.Value.Record, "") {
		t.Errorf("%+v", f.Upgrade)
	}
	if f := gather(false, version, record).Gather(t.Context()); !state.Is(f.Upgrade.Value.Record, `{"format":1}`) {
		t.Errorf("%+v", f.Upgrade)
	}
	f := gather(true, version, record).Gather(t.Context())
	if !f.Upgrade.Known || f.Upgrade.Value.Record.Known || f.Sources[0].Failed != "" || !strings.Contains(strings.Join(f.Sources[0].Limits, "\n"), "the record of upgrades was not read") {
		t.Errorf("%+v, %+v", f.Upgrade, f.Sources)
	}
}
