package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// encryption reads what is wished about the keys of secrets in etcd: their numbers, which are no
// secret.
func (a *API) encryption(ctx context.Context, t *answers) error {
	var cm corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: encryption.WishNamespace, Name: encryption.WishName}, &cm)
	switch {
	case apierrors.IsForbidden(err): // the account of a worker: what the Nodes of control planes say has to do
		return nil
	case err != nil && !absent(err):
		return fmt.Errorf("read which keys of secrets are wished: %w", err)
	}
	wish, err := encryption.ReadWish(cm.Data)
	if err != nil {
		t.limit(err.Error())
		return nil
	}
	t.with(func(f *standing.Facts) { f.Encryption = standing.Know(wish, saidAPI, t.now) })
	return nil
}
