package upgrade

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
)

// asks writes the wish for a backup that the record has to the node of its host, until the
// wish stands there or was answered. What a person asked of that host later takes its place
// and is left alone. When the upgrade is over the wish stays, as each one does: its host has
// answered it.
func (r *Reconciler) asks(ctx context.Context, g *gathered) error {
	wish := g.book.record.Backup
	for i := range g.seen.Nodes {
		n := &g.seen.Nodes[i]
		if !g.book.record.Started || n.Name != wish.Host || !backup.HostOf(n.Name, n.Annotations).Lacks(wish.Text) {
			continue
		}
		if _, err := r.give(ctx, n, map[string]string{backup.WantedOf: wish.Text}); err != nil {
			return err
		}
		r.event(ctx, n, corev1.EventTypeNormal, "UpgradeBackup", "the host is asked for a backup: "+backup.ReadAsked(wish.Text).Reason)
	}
	return nil
}
