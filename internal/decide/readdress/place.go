// Package readdress decides how a site gets other addresses: which ones a file may change,
// what that means for each host, and when a host takes them (docs/adr/0095). It takes data
// and returns data; internal/install/readdress and internal/agent/readdress do it.
package readdress

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/config"
)

// Place is where a site is: every address that it has there and not elsewhere.
type Place struct {
	// MachineNetworks are the networks of the hosts, as CIDRs.
	MachineNetworks []string `json:"machineNetworks"`
	// APIVIPs and IngressVIPs are the virtual IPs; a site without them has none.
	APIVIPs     []string `json:"apiVIPs,omitempty"`
	IngressVIPs []string `json:"ingressVIPs,omitempty"`
	// RendezvousIP is the address of the first host, if the file names it.
	RendezvousIP string `json:"rendezvousIP,omitempty"`
	// Hosts are the hosts' own addresses by their names, in the order of the families. A host
	// that is not listed takes the address in the machine networks that it gets there.
	Hosts map[string][]netip.Addr `json:"hosts,omitempty"`
	// BMCs are the URLs of the control planes' BMCs by the names of the hosts. HostBMCs are those
	// below platform.baremetal.hosts, which nothing uses but the site's install-config.yaml.
	BMCs     map[string]string `json:"bmcs,omitempty"`
	HostBMCs map[string]string `json:"hostBMCs,omitempty"`
}

// PlaceOf returns the place that a configuration names, with the hosts' own addresses.
func PlaceOf(c *config.InstallConfig, hosts map[string][]netip.Addr) Place {
	p := Place{RendezvousIP: c.RendezvousIP, Hosts: maps.Clone(hosts)}
	for _, n := range c.Networking.MachineNetwork {
		p.MachineNetworks = append(p.MachineNetworks, n.CIDR)
	}
	if m := c.Platform.BareMetal; m != nil {
		p.APIVIPs, p.IngressVIPs = slices.Clone(m.APIVIPs), slices.Clone(m.IngressVIPs)
		for _, h := range m.Hosts {
			if h.BMC.Address != "" {
				p.HostBMCs = put(p.HostBMCs, h.Name, h.BMC.Address)
			}
		}
	}
	if f := c.ControlPlane.Fencing; f != nil {
		for _, cred := range f.Credentials {
			p.BMCs = put(p.BMCs, cred.HostName, cred.Address)
		}
	}
	return p
}

func put(m map[string]string, name, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[name] = value
	return m
}

// Networks returns the parsed machine networks.
func (p Place) Networks() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for i, text := range p.MachineNetworks {
		n, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("machineNetworks[%d]: %w", i, err)
		}
		out = append(out, n)
	}
	return out, nil
}

// VIPs returns the parsed virtual IPs, those of the API first.
func (p Place) VIPs() ([]netip.Addr, error) {
	var out []netip.Addr
	for i, text := range slices.Concat(p.APIVIPs, p.IngressVIPs) {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("virtual IP %d: %w", i+1, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// Config returns a copy of a configuration with the addresses of the place.
func (p Place) Config(c *config.InstallConfig) *config.InstallConfig {
	out := *c
	out.Networking.MachineNetwork = nil
	for _, n := range p.MachineNetworks {
		out.Networking.MachineNetwork = append(out.Networking.MachineNetwork, config.MachineNetworkEntry{CIDR: n})
	}
	out.RendezvousIP = p.RendezvousIP
	if c.Platform.BareMetal != nil {
		metal := *c.Platform.BareMetal
		metal.APIVIPs, metal.IngressVIPs = slices.Clone(p.APIVIPs), slices.Clone(p.IngressVIPs)
		metal.Hosts = slices.Clone(metal.Hosts)
		for i, h := range metal.Hosts {
			if at, named := p.HostBMCs[h.Name]; named {
				metal.Hosts[i].BMC.Address = at
			}
		}
		out.Platform.BareMetal = &metal
	}
	if f := c.ControlPlane.Fencing; f != nil {
		fencing := config.Fencing{Credentials: slices.Clone(f.Credentials)}
		for i, cred := range fencing.Credentials {
			if at, named := p.BMCs[cred.HostName]; named {
				fencing.Credentials[i].Address = at
			}
		}
		out.ControlPlane.Fencing = &fencing
	}
	return &out
}

// Same reports whether two places have the same addresses, but for those of BMCs.
func (p Place) Same(q Place) bool {
	return slices.Equal(p.MachineNetworks, q.MachineNetworks) && slices.Equal(p.APIVIPs, q.APIVIPs) && slices.Equal(p.IngressVIPs, q.IngressVIPs) &&
		maps.EqualFunc(p.Hosts, q.Hosts, slices.Equal)
}

// Has reports whether addresses of a host are those of the place.
func (p Place) Has(host string, addresses []netip.Addr) bool {
	if want := p.Hosts[host]; len(want) > 0 {
		return slices.Equal(want, addresses)
	}
	nets, err := p.Networks()
	return err == nil && len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return !slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
	})
}

// All returns the listed addresses of all hosts.
func (p Place) All() []netip.Addr {
	var out []netip.Addr
	for _, name := range slices.Sorted(maps.Keys(p.Hosts)) {
		out = append(out, p.Hosts[name]...)
	}
	return out
}
