package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/retired"
)

// retired reads the list of hosts that somebody took out of the cluster. If the account may
// not read it, that is unknown.
func (a *API) retired(ctx context.Context, t *answers) error {
	var cm corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: retired.Namespace, Name: retired.ConfigMap}, &cm)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read which hosts were taken out of the cluster: %w", err)
	}
	list, err := retired.Read(cm.Data)
	if err != nil {
		t.limit(firstLine(err.Error()))
	}
	out := map[string]string{}
	for _, h := range list {
		if h.Open() {
			out[h.Name] = h.String()
		}
	}
	t.with(func(f *standing.Facts) { f.Retired = standing.Know(out, saidAPI, t.now) })
	return nil
}
