package hostnet

import (
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// apiServers returns the URLs at which a host looks for the API, in this order:
// the VIPs, or without managed VIPs the name that the site resolves; then this
// host, if it is a control plane; then the other control planes. Those are asked
// directly only when nobody answers for all of them.
func apiServers(v state.NetworkView, name string) []string {
	out := at(site.APIPort, v, name)
	for i := range out {
		out[i] = "https://" + out[i]
	}
	return out
}

// ConfigServers returns the addresses, HOST:PORT, at which a host looks for the
// configuration server, in the order of apiServers.
func (n *Network) ConfigServers() []string {
	return at(site.ConfigServerPort, n.agent.Views.View(), n.Site.APIHost())
}

// at returns where control planes answer at a port, each place once.
func at(port uint16, v state.NetworkView, name string) []string {
	var hosts []string
	if v.Settings.ManagedVIPs && len(v.Settings.APIVIPs) > 0 {
		hosts = append(hosts, texts(v.Settings.APIVIPs)...)
	} else {
		hosts = append(hosts, name)
	}
	if v.Role.ControlPlane() {
		hosts = append(hosts, texts(v.Host.Addresses)...)
	}
	for _, n := range v.Nodes.Value {
		if n.ControlPlane() && n.Name != v.Host.NodeName {
			hosts = append(hosts, texts(n.Addresses[:min(1, len(n.Addresses))])...)
		}
	}
	var out []string
	for _, h := range hosts {
		if place := site.HostPort(h, port); !slices.Contains(out, place) {
			out = append(out, place)
		}
	}
	return out
}

func texts(list []netip.Addr) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return out
}
