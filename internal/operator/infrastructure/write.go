package infrastructure

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

// ask puts questions to hosts and removes those that are answered.
func (r *Reconciler) ask(ctx context.Context, p vips.Probing) error {
	for _, node := range p.Ask {
		if err := vipobject.WriteProbe(ctx, r.Client, node, asker, &p.Request); err != nil {
			return err
		}
	}
	for _, node := range p.Clear {
		if err := client.IgnoreNotFound(vipobject.WriteProbe(ctx, r.Client, node, asker, nil)); err != nil {
			return err
		}
	}
	if len(p.Ask) > 0 {
		log.FromContext(ctx).Info("hosts check who answers for the addresses", "addresses", p.Request.Addresses, "hosts", p.Ask)
	}
	return nil
}

// write makes the object what was decided. Spec and status need two requests: the
// API drops a status that comes with the rest. The second builds on the result of
// the first.
func (r *Reconciler) write(ctx context.Context, g *gathered, d vips.Decision) error {
	if d.Spec != nil {
		if err := vipobject.WriteSpec(ctx, r.Client, g.infra, *d.Spec); err != nil {
			return err
		}
		r.event(g.infra, corev1.EventTypeNormal, "SpecFilled",
			fmt.Sprintf("the spec had no virtual IPs and now has those of the status: API %v, ingress %v", d.Spec.API, d.Spec.Ingress))
	}
	if d.Status == nil {
		return nil
	}
	if err := vipobject.WriteStatus(ctx, r.Client, g.infra, *d.Status); err != nil {
		return err
	}
	if len(d.Added)+len(d.Removed) > 0 {
		r.event(g.infra, corev1.EventTypeNormal, "VirtualIPsAccepted", difference(d))
	}
	return nil
}

func difference(d vips.Decision) string {
	if len(d.Added) > 0 {
		return fmt.Sprintf("hosts are now asked to take %v", d.Added)
	}
	return fmt.Sprintf("hosts are now asked to release %v", d.Removed)
}
