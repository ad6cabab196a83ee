package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// backupProof reads the proof that somebody has opened a backup. If there is no ConfigMap,
// nobody has.
func (a *API) backupProof(ctx context.Context, t *answers) error {
	var o corev1.ConfigMap
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: backup.ProofNamespace, Name: backup.ProofName}, &o)
	switch {
	case apierrors.IsForbidden(err):
		t.limit("it is not known whether somebody has opened a backup: this account may not read " + backup.ProofNamespace + "/" + backup.ProofName)
		return nil
	case err != nil && !absent(err):
		return fmt.Errorf("read the proof of backups: %w", err)
	}
	t.with(func(f *standing.Facts) { f.BackupProof = standing.Know(backup.ReadProof(o.Data), saidAPI, t.now) })
	return nil
}
