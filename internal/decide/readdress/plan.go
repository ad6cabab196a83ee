package readdress

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Plan is the announcement that a site moves from one place to another. It holds no secret.
// Every host keeps a copy, so that it needs nobody when it wakes up in the other network.
type Plan struct {
	// ID is random: by it a host knows the plan again. That of a plan which hosts get one by one is
	// LocalID.
	ID string    `json:"id"`
	By string    `json:"by"`
	At time.Time `json:"at"`
	// From is where the site is, To where it will be.
	From Place `json:"from"`
	To   Place `json:"to"`
	// Local is true for a plan that a person gave to this host alone, without the API.
	Local bool `json:"local,omitempty"`
}

// LocalID returns the id of a plan that a person gives to one host after the other: it follows
// from the new place, so they all know it as the same.
func LocalID(to Place) string {
	to.BMCs, to.HostBMCs = nil, nil
	data, _ := json.Marshal(to) // texts and addresses alone
	return fmt.Sprintf("%x", sha256.Sum256(data))[:12]
}

// Side is one of the two places of a plan.
type Side string

// The sides.
const (
	From Side = "from"
	To   Side = "to"
)

// Other returns the other side.
func (s Side) Other() Side {
	if s == To {
		return From
	}
	return To
}

// Own returns the addresses of a host at a side: those that the host took there, else those that
// the plan lists. They differ if the host was replaced at that side.
func (p Plan) Own(host string, s Side, j Journal) []netip.Addr {
	if took := j.Taken[s]; len(took) > 0 {
		return took
	}
	return p.Place(s).Hosts[host]
}

// Of says at which side of the plan addresses of a host are: those that the plan lists for it, or
// of a host that was replaced at the new place, others in the networks of that place alone. It is
// empty for neither. A member of etcd, whose name nobody says, is the host without a name.
func (p Plan) Of(host string, at []netip.Addr) Side {
	if p.To.Has(host, at) {
		return To
	}
	if p.From.Has(host, at) {
		return From
	}
	inside := func(place Place) func(netip.Addr) bool {
		nets, _ := place.Networks() // a plan is checked before it is kept
		return func(a netip.Addr) bool {
			return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
		}
	}
	was, is := inside(p.From), inside(p.To)
	if len(at) == 0 || slices.ContainsFunc(at, func(a netip.Addr) bool { return was(a) || !is(a) }) {
		return ""
	}
	return To
}

// Same reports whether two plans are about the same two places: the one that a person gave to a
// host alone, and the one that is announced to all.
func (p Plan) Same(q Plan) bool { return p.From.Same(q.From) && p.To.Same(q.To) }

// Place returns the place of a side.
func (p Plan) Place(s Side) Place {
	if s == To {
		return p.To
	}
	return p.From
}

// Check returns everything that keeps a plan from being followed, by its fields. A plan
// comes from the API or from a file, so a host checks it before it keeps it.
func (p Plan) Check() []config.Difference {
	var out []config.Difference
	if p.ID == "" || p.At.IsZero() {
		out = append(out, config.Difference{Path: "id", How: "a plan has an id and a time"})
	}
	for _, s := range []Side{From, To} {
		out = append(out, p.Place(s).check(string(s))...)
	}
	return slices.Concat(out, p.alike(), p.contested())
}

func (p Place) check(path string) []config.Difference {
	c := checker{path: path}
	nets, err := p.Networks()
	if err != nil || len(nets) == 0 {
		c.say("machineNetworks", "names networks as 192.0.2.0/24")
	}
	if len(p.APIVIPs) != len(p.IngressVIPs) {
		c.say("ingressVIPs", "has as many addresses as apiVIPs")
	}
	seen := map[netip.Addr]string{}
	take := func(field string, a netip.Addr) {
		switch other := seen[a]; {
		case !slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) }):
			c.say(field, fmt.Sprintf("%s is in none of the machine networks (%s)", a, strings.Join(p.MachineNetworks, ", ")))
		case other != "":
			c.say(field, fmt.Sprintf("%s is %s already", a, other))
		}
		seen[a] = field
	}
	for _, list := range []struct {
		field string
		texts []string
	}{{"apiVIPs", p.APIVIPs}, {"ingressVIPs", p.IngressVIPs}} {
		for i, text := range list.texts {
			field := fmt.Sprintf("%s[%d]", list.field, i)
			if a, err := netip.ParseAddr(text); err != nil {
				c.say(field, "is an IP address")
			} else {
				take(field, a)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Hosts)) {
		for _, a := range p.Hosts[name] {
			take(fmt.Sprintf("hosts[%s]", name), a)
		}
	}
	for _, list := range []struct {
		field string
		urls  map[string]string
	}{{"bmcs", p.BMCs}, {"hostBMCs", p.HostBMCs}} {
		for _, name := range slices.Sorted(maps.Keys(list.urls)) {
			if _, err := bmc.Parse(list.urls[name]); err != nil {
				c.say(fmt.Sprintf("%s[%s]", list.field, name), err.Error())
			}
		}
	}
	return c.found
}

// alike says where the two places are of another kind: a move changes addresses, and
// neither families, nor virtual IPs that there are, nor hosts.
func (p Plan) alike() []config.Difference {
	c := checker{path: string(To)}
	if a, b := families(p.From.MachineNetworks), families(p.To.MachineNetworks); a != b {
		c.say("machineNetworks", fmt.Sprintf("is of the families that the site has, in this order: %s, not %s", a, b))
	}
	for _, list := range []struct {
		field  string
		is, be []string
	}{{"apiVIPs", p.From.APIVIPs, p.To.APIVIPs}, {"ingressVIPs", p.From.IngressVIPs, p.To.IngressVIPs}} {
		if a, b := families(list.is), families(list.be); a != b {
			c.say(list.field, fmt.Sprintf("has addresses of the families that the site has, in this order: %s, not %s", orNone(a), orNone(b)))
		}
	}
	hosts := slices.Sorted(maps.Keys(p.From.Hosts))
	for _, name := range hosts {
		is, listed := p.To.Hosts[name]
		switch {
		case !listed && len(hosts) > 1:
			c.say(fmt.Sprintf("hosts[%s]", name), "is missing: hosts find one another by the addresses in the plan")
		case listed && familiesOf(is) != familiesOf(p.From.Hosts[name]):
			c.say(fmt.Sprintf("hosts[%s]", name), fmt.Sprintf("has one address of each family that the host has: %s", familiesOf(p.From.Hosts[name])))
		case listed && p.stays(name):
			c.say(fmt.Sprintf("hosts[%s]", name), fmt.Sprintf("is what %[1]s has now, and a host moves when it lacks its old addresses: name other ones (--address %[1]s=ADDRESS)", name))
		case p.stays(name):
			c.say(fmt.Sprintf("hosts[%s]", name), fmt.Sprintf("is missing: what %[1]s has now is in the networks of both places, so nobody can tell where it is; name another one (--address %[1]s=ADDRESS)", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.To.Hosts)) {
		for _, other := range hosts {
			// etcd's members look for one another at the old addresses until all have moved
			if i := slices.IndexFunc(p.To.Hosts[name], func(a netip.Addr) bool { return slices.Contains(p.From.Hosts[other], a) }); i >= 0 && other != name {
				c.say(fmt.Sprintf("hosts[%s]", name), fmt.Sprintf("%s is the old address of %s, which is looked for there until the move ends: take another one", p.To.Hosts[name][i], other))
			}
		}
		if _, known := p.From.Hosts[name]; !known {
			c.say(fmt.Sprintf("hosts[%s]", name), "is no host of this site: it has "+strings.Join(hosts, ", "))
		}
	}
	return c.found
}

// contested names the virtual IPs that two hosts would hold: those of both places, in networks that are not
// equal. A host takes for a peer who is in the virtual IP's network as it has that network itself, so one that
// has moved and one that has not would not hear each other. A lone host has no peer.
func (p Plan) contested() []config.Difference {
	c := checker{path: string(To)}
	was, _ := p.From.Networks() // check says what cannot be read
	is, _ := p.To.Networks()
	kept := parsed(slices.Concat(p.From.APIVIPs, p.From.IngressVIPs))
	for _, list := range []struct {
		field string
		texts []string
	}{{"apiVIPs", p.To.APIVIPs}, {"ingressVIPs", p.To.IngressVIPs}} {
		for i, text := range list.texts {
			a, err := netip.ParseAddr(text)
			if err != nil || !slices.Contains(kept, a) || len(p.From.Hosts) < 2 {
				continue
			}
			if from, to := holding(was, a), holding(is, a); from.IsValid() && to.IsValid() && from != to {
				c.say(fmt.Sprintf("%s[%d]", list.field, i), fmt.Sprintf("%s is a virtual IP now, too, in %s, and at the new place in %s: a host that has moved and one that has not would not hear each other, and both hold it. "+
					"Take another virtual IP there, or the same network (networking.machineNetwork)", a, from, to))
			}
		}
	}
	return c.found
}

// holding returns the network that has an address, invalid for none. Machine networks do not overlap.
func holding(nets []netip.Prefix, a netip.Addr) netip.Prefix {
	if i := slices.IndexFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) }); i >= 0 {
		return nets[i].Masked()
	}
	return netip.Prefix{}
}

// stays reports whether a host has, as far as the plan says, the same addresses at both places.
func (p Plan) stays(name string) bool {
	was, is := p.From.Hosts[name], p.To.Hosts[name]
	if len(is) == 0 {
		return Place{MachineNetworks: p.To.MachineNetworks}.Has(name, was)
	}
	return !slices.ContainsFunc(is, func(a netip.Addr) bool { return !slices.Contains(was, a) })
}

// checker gathers mistakes below a path.
type checker struct {
	path  string
	found []config.Difference
}

func (c *checker) say(field, how string) {
	c.found = append(c.found, config.Difference{Path: c.path + "." + field, How: how})
}

// families names the families of addresses or networks in their order, each once.
func families(texts []string) string {
	var list []netip.Addr
	for _, t := range texts {
		if n, err := netip.ParsePrefix(t); err == nil {
			list = append(list, n.Addr())
		} else if a, err := netip.ParseAddr(t); err == nil {
			list = append(list, a)
		}
	}
	return familiesOf(list)
}

func familiesOf(list []netip.Addr) string {
	var names []string
	for _, a := range list {
		if n := fmt.Sprint(netaddr.FamilyOf(a)); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
