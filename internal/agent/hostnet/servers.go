package hostnet

import (
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// apiServers returns where a host finds the API, in the order in which it is to
// look: at the virtual IPs, or under the name that a site without them resolves;
// then at this host itself, if it is a control plane; then at the others. They
// are asked directly only when nobody answers for all of them.
func apiServers(v state.NetworkView, name string) []string {
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
		if url := "https://" + site.HostPort(h, site.APIPort); !slices.Contains(out, url) {
			out = append(out, url)
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
