package dualstack

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Spare is how many shares the second pod network has at least, for each host. Shares that a
// plan gives are taken from the network's end, and those that Kubernetes gives from its
// beginning: with room between them nobody is given the share of another one.
const Spare = 4

// Refused is the error of everything for which a site does not get a second family as a file says.
func Refused(found ...config.Difference) *config.RefusedError {
	return &config.RefusedError{What: "this site does not get a second address family as the file says", Differences: found}
}

// Member is a host of the cluster as its Node says.
type Member struct {
	ControlPlane bool
	Shares       []netip.Prefix
}

// list is one of the three lists that a file makes longer.
type list struct {
	path      string
	have, new []string
}

func lists(have, file *config.InstallConfig) []list {
	var machines, pods [2][]string
	for i, c := range []*config.InstallConfig{have, file} {
		for _, e := range c.Networking.MachineNetwork {
			machines[i] = append(machines[i], e.CIDR)
		}
		for _, e := range c.Networking.ClusterNetwork {
			pods[i] = append(pods[i], fmt.Sprintf("%s hostPrefix %d", e.CIDR, e.HostPrefix))
		}
	}
	return []list{
		{"networking.machineNetwork", machines[0], machines[1]},
		{"networking.clusterNetwork", pods[0], pods[1]},
		{"networking.serviceNetwork", have.Networking.ServiceNetwork, file.Networking.ServiceNetwork},
	}
}

// wrong says why a list is not that of the site with one network of another family at its end.
func (l list) wrong(has netaddr.Family) []config.Difference {
	one := func(i int, how string) []config.Difference {
		at := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return ""
		}
		return []config.Difference{{Path: fmt.Sprintf("%s[%d]", l.path, i), Now: at(l.have), File: at(l.new), How: how}}
	}
	for i, was := range l.have {
		switch {
		case i >= len(l.new):
			return one(i, "a network is never taken away: put it back")
		case l.new[i] == was:
		case i == 0:
			return one(i, "the first network stays the first, and so its family the primary one: put it back, and the new network behind it")
		default:
			return one(i, "the networks of the site stay as they are: put it back, and the new network at the end")
		}
	}
	n := len(l.have)
	if len(l.new) == n {
		return one(n, fmt.Sprintf("is missing: name one network of the other family than %s here", has))
	}
	out := []config.Difference{}
	if p, err := netip.ParsePrefix(strings.Fields(l.new[n])[0]); err == nil && netaddr.FamilyOf(p.Addr()) == has {
		out = append(out, one(n, fmt.Sprintf("is of the family that the site has: name one network of the other family than %s", has))...)
	}
	if len(l.new) > n+1 {
		out = append(out, one(n+1, "one network of the second family is added, not several")...)
	}
	return out
}

// New returns the plan by which a site gets the family that a file adds, or everything that
// keeps the site from it, at once, as *config.RefusedError. have is the configuration that the site
// has now, file is what config.Parse returned: that networks overlap nothing, and that masks
// are of a size that Kubernetes takes, is told there.
func New(have, file *config.InstallConfig, hosts map[string]Member) (Plan, error) {
	found, err := config.Compare(have, file)
	if err != nil {
		return Plan{}, err
	}
	all := lists(have, file)
	var bad []config.Difference
	for _, d := range found {
		if !slices.ContainsFunc(all, func(l list) bool { return strings.HasPrefix(d.Path, l.path+"[") }) {
			d.How = "only the networks of the second family are added: leave it as it is"
			bad = append(bad, d)
		}
	}
	if families := have.Families(); len(families) != 1 {
		bad = append(bad, config.Difference{Path: "networking.machineNetwork", How: "the site has both families already"})
	} else {
		for _, l := range all {
			bad = append(bad, l.wrong(families[0])...)
		}
	}
	if have.Networking.NetworkType != config.NetworkTypeFlannel {
		bad = append(bad, config.Difference{Path: "networking.networkType", How: fmt.Sprintf("is %s: the pod network is not Holdfast's, and nothing here gives it a second family", have.Networking.NetworkType)})
	}
	if len(bad) > 0 {
		return Plan{}, Refused(bad...)
	}
	last := file.Networking
	p := Plan{
		Machines: last.MachineNetwork[len(last.MachineNetwork)-1].CIDR,
		Pods:     last.ClusterNetwork[len(last.ClusterNetwork)-1], Services: last.ServiceNetwork[len(last.ServiceNetwork)-1],
	}
	return p, p.choose(hosts)
}

// choose gives each host a share of the second pod network, from its end.
func (p *Plan) choose(hosts map[string]Member) error {
	pods := netip.MustParsePrefix(p.Pods.CIDR)
	bits := int(p.Pods.HostPrefix)
	if room := 1 << (bits - pods.Bits()); room < Spare*len(hosts) {
		return Refused(config.Difference{
			Path: "networking.clusterNetwork[1].cidr", File: p.Pods.CIDR,
			How: fmt.Sprintf("has room for %d hosts; on a living site it has room for at least %d, four times the hosts that there are", room, Spare*len(hosts)),
		})
	}
	p.Hosts = map[string]Host{}
	for name, m := range hosts {
		p.Hosts[name] = Host{ControlPlane: m.ControlPlane}
	}
	for i, name := range p.Order() {
		h := p.Hosts[name]
		h.Share = shareAt(pods, bits, 1<<(bits-pods.Bits())-1-i)
		p.Hosts[name] = h
	}
	return nil
}

// shareAt returns the share of a network with an index.
func shareAt(n netip.Prefix, bits, index int) netip.Prefix {
	raw := n.Masked().Addr().AsSlice()
	at := new(big.Int).SetBytes(raw)
	at.Add(at, new(big.Int).Lsh(big.NewInt(int64(index)), uint(len(raw)*8-bits)))
	addr, _ := netip.AddrFromSlice(at.FillBytes(raw))
	return netip.PrefixFrom(addr, bits)
}
