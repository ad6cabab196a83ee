package vips

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/viprule"
)

// networkFindings checks the machine networks of the spec against each other,
// against the other networks and against the status.
func (s Snapshot) networkFindings() []viprule.Finding {
	path := s.Path.Child("machineNetworks")
	if sameNetworks(s.Spec.MachineNetworks, s.Status.MachineNetworks) {
		return nil
	}
	if len(s.Spec.MachineNetworks) == 0 {
		return []viprule.Finding{viprule.NetworksKept.Broken(field.Required(path, "the networks of the hosts, of which the first is "+s.Status.MachineNetworks[0]))}
	}
	out := s.soundNetworks(path)
	if now := s.Status.MachineNetworks; len(now) > 0 && !sameNetworks(s.Spec.MachineNetworks[:1], now[:1]) {
		out = append(out, viprule.NetworksFirst.Broken(field.Invalid(path.Index(0), s.Spec.MachineNetworks[0],
			"the first machine network cannot be changed: it must stay "+now[0])))
	}
	return append(out, s.leftBehind(path)...)
}

// soundNetworks checks that each network is valid and that none overlaps another.
func (s Snapshot) soundNetworks(path *field.Path) []viprule.Finding {
	var out []viprule.Finding
	apart := append(named("the pod network", s.Cluster), named("the service network", s.Service)...)
	for i, text := range s.Spec.MachineNetworks {
		p, detail := netaddr.ParseNetwork(text)
		if detail != "" {
			out = append(out, viprule.NetworksSound.Broken(field.Invalid(path.Index(i), text, detail)))
			continue
		}
		for _, other := range apart {
			if other.prefix.Overlaps(p) {
				out = append(out, viprule.NetworksOverlap.Broken(field.Invalid(path.Index(i), text,
					fmt.Sprintf("overlaps %s %s", other.name, other.prefix))))
				break
			}
		}
		apart = append(apart, namedNetwork{path.Index(i).String(), p})
	}
	return out
}

type namedNetwork struct {
	name   string
	prefix netip.Prefix
}

func named(name string, list []string) []namedNetwork {
	var out []namedNetwork
	for _, p := range prefixes(list) {
		out = append(out, namedNetwork{name, p})
	}
	return out
}

// strangeFamilies finds new VIPs of a family that pods or Services do not have. The
// installer refuses them too: a second pair is for a dual-stack cluster. VIPs that
// a load balancer of the site holds are not checked.
func (s Snapshot) strangeFamilies(wish []added) []viprule.Finding {
	if !s.NetworksKnown || s.UserManaged {
		return nil
	}
	var out []viprule.Finding
	for _, a := range wish {
		for _, of := range []struct {
			name string
			list []string
		}{{"pod", s.Cluster}, {"service", s.Service}} {
			nets := prefixes(of.list)
			if f := netaddr.FamilyOf(a.addr); len(nets) > 0 && !slices.Contains(netaddr.Families(nets), f) {
				out = append(out, viprule.ClusterFamily.Broken(field.Invalid(a.path, a.addr.String(), fmt.Sprintf(
					"is %s, but the %s network is %s: only a cluster whose pods and services have both families can have a second pair", f, of.name, netaddr.Join(nets)))))
				break
			}
		}
	}
	return out
}

// leftBehind finds nodes whose address lies in a network that the spec removes.
func (s Snapshot) leftBehind(path *field.Path) []viprule.Finding {
	var out []viprule.Finding
	wish := prefixes(s.Spec.MachineNetworks)
	for _, gone := range prefixes(s.Status.MachineNetworks) {
		for _, h := range s.Hosts {
			i := slices.IndexFunc(h.Addresses, func(a netip.Addr) bool { return gone.Contains(a) && !netaddr.InAny(a, wish) })
			if i >= 0 {
				out = append(out, viprule.NetworksHosts.Broken(field.Invalid(path, gone.String(), fmt.Sprintf(
					"cannot be removed: node %s has %s there", h.Name, h.Addresses[i]))))
				break
			}
		}
	}
	return out
}

// sameNetworks reports whether two lists have the same networks in the same
// order, however they are written.
func sameNetworks(a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool {
		p, errP := netip.ParsePrefix(x)
		q, errQ := netip.ParsePrefix(y)
		if errP != nil || errQ != nil {
			return x == y
		}
		return p.Masked() == q.Masked()
	})
}
