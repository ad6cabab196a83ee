package readdress

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Refused is the error of everything for which a site cannot move as a file says.
func Refused(found ...config.Difference) *config.RefusedError {
	return &config.RefusedError{What: "this site cannot move as the file says", Differences: found}
}

// moves matches the fields that a file may change. The account of a BMC may differ and stays: `holdfast
// fencing rotate` and pin change it on the hosts, and a person may have kept the file true to that.
var moves = regexp.MustCompile(`^(networking\.machineNetwork|platform\.baremetal\.(api|ingress)VIPs|rendezvousIP$` +
	`|platform\.baremetal\.hosts\[\d+\]\.bmc\.address$` +
	`|controlPlane\.fencing\.credentials\[\d+\]\.(address|username|password|certificateFingerprint|certificateVerification|systemID|tls)$)`)

// Read returns the place to which a file moves a site. have is the configuration of the
// site, with the virtual IPs and networks that it has now; file is what config.Parse
// returned; to are the hosts' own addresses there. A difference in any other field is
// refused, all at once, as *config.RefusedError.
func Read(have, file *config.InstallConfig, to map[string][]netip.Addr) (Place, error) {
	found, err := config.Compare(have, file)
	if err != nil {
		return Place{}, err
	}
	refused := slices.DeleteFunc(found, func(d config.Difference) bool {
		return moves.MatchString(d.Path)
	})
	for i := range refused {
		refused[i].How = "only addresses change with a move: leave it as it is"
	}
	if len(refused) > 0 {
		return Place{}, Refused(refused...)
	}
	return PlaceOf(file, to), nil
}

// Today returns a configuration with the virtual IPs and machine networks that the site has now, as a
// host keeps them.
func Today(have *config.InstallConfig, now state.NetworkSettings) *config.InstallConfig {
	out := *have
	if have.Platform.BareMetal != nil && now.ManagedVIPs {
		metal := *have.Platform.BareMetal
		metal.APIVIPs, metal.IngressVIPs = texts(now.APIVIPs), texts(now.IngressVIPs)
		out.Platform.BareMetal = &metal
	}
	if len(now.MachineNetworks) > 0 {
		out.Networking.MachineNetwork = nil
		for _, n := range now.MachineNetworks {
			out.Networking.MachineNetwork = append(out.Networking.MachineNetwork, config.MachineNetworkEntry{CIDR: n.String()})
		}
	}
	return &out
}

func texts(list []netip.Addr) []string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return out
}

// OfWorker completes the configuration that a worker keeps by a file. It has neither the BMCs nor the whole
// pull secret, and changes nothing by them. The control planes compare them.
func OfWorker(have, file *config.InstallConfig) *config.InstallConfig {
	out := *have
	out.PullSecret, out.ControlPlane.Fencing = file.PullSecret, file.ControlPlane.Fencing
	if have.Platform.BareMetal != nil && file.Platform.BareMetal != nil {
		platform := *have.Platform.BareMetal
		platform.Hosts = file.Platform.BareMetal.Hosts
		out.Platform.BareMetal = &platform
	}
	return &out
}

// New returns the plan of a move, or everything that keeps the site from it. hosts are the
// hosts' own addresses now, to those at the new place. Of BMCs the plan has those whose
// address changes: the addresses of the others may be newer in the cluster than in any file.
func New(have, file *config.InstallConfig, hosts, to map[string][]netip.Addr) (Plan, error) {
	place, err := Read(have, file, to)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{From: PlaceOf(have, hosts), To: place}
	for _, list := range [][2]map[string]string{{p.From.BMCs, p.To.BMCs}, {p.From.HostBMCs, p.To.HostBMCs}} {
		for name, at := range list[1] {
			if list[0][name] == at {
				delete(list[0], name)
				delete(list[1], name)
			}
		}
	}
	if still := p.still(); len(still) > 0 {
		return Plan{}, Refused(still...)
	}
	if bad := slices.Concat(p.From.check(string(From)), p.To.check(string(To)), p.alike(), p.contested()); len(bad) > 0 {
		return Plan{}, Refused(bad...)
	}
	return p, nil
}

// still says of a plan by which no host moves what changes these addresses instead, nil if a host
// moves. Hosts begin when they see that their own addresses are other ones.
func (p Plan) still() []config.Difference {
	for name := range p.From.Hosts {
		if !p.stays(name) {
			return nil
		}
	}
	var out []config.Difference
	say := func(differs bool, path, how string) {
		if differs {
			out = append(out, config.Difference{Path: path, How: "no host gets another address (--address NAME=ADDRESS), so the site does not move: " + how})
		}
	}
	const vips = "holdfast vip remove and holdfast vip add change the second pair of virtual IPs; the first pair changes only with the addresses of all hosts"
	say(!slices.Equal(p.From.MachineNetworks, p.To.MachineNetworks), "networking.machineNetwork", "the networks change only with the addresses of all hosts")
	say(!slices.Equal(p.From.APIVIPs, p.To.APIVIPs), "platform.baremetal.apiVIPs", vips)
	say(!slices.Equal(p.From.IngressVIPs, p.To.IngressVIPs), "platform.baremetal.ingressVIPs", vips)
	say(len(p.To.BMCs) > 0, "controlPlane.fencing", "sudo holdfast fencing rotate NODE --address URL changes the address of a BMC, on the host that fences NODE")
	say(len(p.To.HostBMCs) > 0, "platform.baremetal.hosts", "nothing uses these addresses of BMCs: leave them as they are")
	if len(out) == 0 {
		out = append(out, config.Difference{Path: "networking.machineNetwork", How: "the file names no other address than the site has"})
	}
	return out
}

// Change is an address, or a list of them, that differs between the two places.
type Change struct{ What, From, To string }

// Changes lists what the plan changes, for people.
func (p Plan) Changes() []Change {
	var out []Change
	add := func(what, from, to string) {
		if from != to {
			out = append(out, Change{what, orNone(from), orNone(to)})
		}
	}
	add("machine networks", strings.Join(p.From.MachineNetworks, ", "), strings.Join(p.To.MachineNetworks, ", "))
	add("API VIPs", strings.Join(p.From.APIVIPs, ", "), strings.Join(p.To.APIVIPs, ", "))
	add("ingress VIPs", strings.Join(p.From.IngressVIPs, ", "), strings.Join(p.To.IngressVIPs, ", "))
	for _, name := range slices.Sorted(maps.Keys(p.From.Hosts)) {
		to := "the address that it gets there"
		if listed := p.To.Hosts[name]; len(listed) > 0 {
			to = join(listed)
		}
		add(name, join(p.From.Hosts[name]), to)
	}
	for _, name := range slices.Sorted(maps.Keys(p.To.BMCs)) {
		add("BMC of "+name, p.From.BMCs[name], p.To.BMCs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(p.To.HostBMCs)) {
		add("BMC of "+name+" in platform.baremetal.hosts", p.From.HostBMCs[name], p.To.HostBMCs[name])
	}
	return out
}
