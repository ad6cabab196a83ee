package status

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// upgrade reads what the API has of an upgrade, beside the annotations of the Nodes.
// Without a ClusterVersion there was never one.
func (a *API) upgrade(ctx context.Context, t *answers) error {
	v := &configv1.ClusterVersion{}
	err := a.Reader.Get(ctx, client.ObjectKey{Name: annotation.VersionName}, v)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the ClusterVersion: %w", err)
	}
	o := standing.UpgradeObjects{Version: v, Record: state.Known("")}
	var record corev1.ConfigMap
	err = a.Reader.Get(ctx, client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &record)
	switch {
	case err == nil:
		o.Record = state.Known(record.Data[annotation.RecordKey])
	case apierrors.IsForbidden(err):
		o.Record = state.Fact[string]{}
		t.limit("the record of upgrades was not read: this account may not read " + annotation.RecordNamespace + "/" + annotation.RecordName)
	case !absent(err):
		return fmt.Errorf("read the record of upgrades: %w", err)
	}
	t.with(func(f *standing.Facts) { f.Upgrade = standing.Know(o, saidAPI, t.now) })
	return nil
}
