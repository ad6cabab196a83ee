package readdress

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/config"
)

// Refused is the error of everything for which a site cannot move as a file says.
func Refused(found ...config.Difference) *config.RefusedError {
	return &config.RefusedError{What: "this site cannot move as the file says", Differences: found}
}

// moves are the fields that a file may change.
var moves = []string{
	"networking.machineNetwork", "platform.baremetal.apiVIPs", "platform.baremetal.ingressVIPs", "platform.baremetal.hosts", "rendezvousIP", "controlPlane.fencing",
}

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
		return slices.ContainsFunc(moves, func(path string) bool { return strings.HasPrefix(d.Path, path) })
	})
	for i := range refused {
		refused[i].How = "only addresses change with a move: leave it as it is"
	}
	if len(refused) > 0 {
		return Place{}, Refused(refused...)
	}
	return PlaceOf(file, to), nil
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
	for name, at := range p.To.BMCs {
		if p.From.BMCs[name] == at {
			delete(p.From.BMCs, name)
			delete(p.To.BMCs, name)
		}
	}
	bad := append(p.From.check(string(From)), append(p.To.check(string(To)), p.alike()...)...)
	if len(bad) > 0 {
		return Plan{}, Refused(bad...)
	}
	if len(p.Changes()) == 0 {
		return Plan{}, Refused(config.Difference{Path: "networking.machineNetwork", How: "the file names no other address than the site has"})
	}
	return p, nil
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
	return out
}
