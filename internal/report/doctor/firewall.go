package doctor

import (
	"context"
	"errors"
	"io/fs"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
)

// firewall returns the rules that keep packets from this host.
func (l *observation) firewall(ctx context.Context) (decide.Firewall, error) {
	var out decide.Firewall
	text, err := l.read(state.FirewallAlsoPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	_, out.Off, _ = ports.ReadAlso(string(text)) // the agent reports what it does not understand
	if out.Ours, err = l.Table(); err != nil {
		return out, err
	}
	site := l.Site.Value
	kind := ports.Kind{ControlPlane: site.ControlPlane, Fencing: site.Settings.Fencing, Flannel: site.Flannel}
	at := ports.Place{Interface: l.machineInterface(), Machines: site.Settings.MachineNetworks, Pods: site.Settings.PodNetworks}
	if out.Site, err = l.Firewalls(ctx, kind, at); err != nil {
		l.note("firewalls", err) // firewalls that did not answer are not judged
	}
	return out, nil
}

// machineInterface returns the interface of the first address in a machine
// network.
func (l *observation) machineInterface() string {
	for _, a := range l.network.Addresses {
		for _, n := range l.Site.Value.Settings.MachineNetworks {
			if n.Contains(a.Prefix.Addr()) {
				return a.Interface
			}
		}
	}
	return ""
}
