package install

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/firewall"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
)

// tellFirewalls logs what firewalls of the site on this host refuse: to other
// hosts this one would only seem silent. It stops nothing, because an
// administrator may open them meanwhile, and knows rules that nobody here
// understands.
func (r *run) tellFirewalls(ctx context.Context) {
	machines, err := r.Site.MachineNetworks()
	pods, errPods := r.Site.PodNetworks()
	if err != nil || errPods != nil {
		return // the step itself reports it
	}
	kind := ports.Kind{ControlPlane: r.Site.Role.ControlPlane(), Fencing: r.Site.Topology().Fencing, Flannel: r.Site.Flannel()}
	found, err := firewall.ThisSite().Inspect(ctx, kind, ports.Place{Interface: r.facts.Interface, Machines: machines, Pods: pods})
	if err != nil {
		r.logf("  firewalls of the site: %v", err)
	}
	for _, line := range refusals(found) {
		r.logf("  %s", line)
	}
}

func refusals(found []state.SiteFirewall) []string {
	var out []string
	for _, f := range found {
		switch {
		case f.Refuses():
			out = append(out, f.Name+" on this host refuses "+strings.Join(slices.Concat(f.Cluster, f.Pods, f.Applications), ", ")+
				": other hosts and pods get no answer; see docs/runbook/firewall.md")
		case f.Unjudged:
			out = append(out, f.Name+" refuses everything that its rules do not allow: make sure that they allow what docs/ports.md lists")
		}
	}
	return out
}
