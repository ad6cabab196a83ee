// Package holders publishes which VIPs this host holds and does not give away, in an
// annotation of its node.
package holders

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotation of a node lists the virtual IPs that its host holds and does not give away.
const Annotation = vrrp.HoldsAnnotation

// Announcer is the reconciler that owns the annotation of this host's node.
type Announcer struct {
	// Annotate sets an annotation of this host's node.
	Annotate func(ctx context.Context, node, name, value string) error
}

// Name implements network.Reconciler.
func (a *Announcer) Name() string { return "announcer" }

// Reconcile implements network.Reconciler.
func (a *Announcer) Reconcile(ctx context.Context, v state.NetworkView) (string, error) {
	self, listed := v.Self()
	kept := slices.DeleteFunc(network.HeldVIPs(v), func(vip netip.Addr) bool { return vrrp.GivesAway(v, vip) })
	want := words(kept)
	if !listed || self.Absent || v.Stale || self.Annotations[Annotation] == want {
		return "", nil
	}
	if err := a.Annotate(ctx, self.Name, Annotation, want); err != nil {
		return "", err
	}
	if want == "" {
		return "published that this host keeps no virtual IP", nil
	}
	return "published that this host keeps " + want, nil
}

// Withdraw implements network.Reconciler. It does nothing: the host may go on holding.
func (a *Announcer) Withdraw(context.Context) error { return nil }

func words(list []netip.Addr) string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return strings.Join(out, ",")
}
