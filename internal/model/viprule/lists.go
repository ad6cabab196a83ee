package viprule

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// maxPerList allows one address of each family.
const maxPerList = 2

// Lists holds the two lists of a cluster's virtual IPs, with their places.
type Lists struct {
	API, Ingress List
	Networks     netaddr.Networks
	// UserManaged is true if a load balancer of the site holds the VIPs: it may
	// have one address for both, in a network of its own.
	UserManaged bool
	// Unreadable reports whether the value at a path could not be read, which is
	// already a mistake of its own. Nil means that all could.
	Unreadable func(path string) bool
}

// List is one list of addresses as written.
type List struct {
	Path  *field.Path
	Texts []string
}

// entry is an address of a list that is valid by itself.
type entry struct {
	addr netip.Addr
	// at is its place in the list, from 0.
	at   int
	path *field.Path
}

// Findings returns every mistake of the lists, in their order.
func (l Lists) Findings() []Finding {
	api, bad := l.check(l.API)
	ingress, alsoBad := l.check(l.Ingress)
	out := append(bad, alsoBad...)
	out = append(out, l.lengths()...)
	out = append(out, l.beginnings(api, ingress)...)
	return append(out, l.duplicates(api, ingress)...)
}

// check checks one list and returns its valid entries.
func (l Lists) check(list List) (sound []entry, out []Finding) {
	if len(list.Texts) == 0 {
		out = append(out, Finding{Required, field.Required(list.Path, "one address, or one of each family")})
	}
	if len(list.Texts) > maxPerList {
		out = append(out, Finding{AtMostTwo, field.TooMany(list.Path, len(list.Texts), maxPerList)})
	}
	for i, text := range list.Texts {
		path := list.Path.Index(i)
		if l.Unreadable != nil && l.Unreadable(path.String()) {
			continue
		}
		addr, rule, detail := l.place(text)
		if detail != "" {
			out = append(out, Finding{rule, field.Invalid(path, text, detail)})
			continue
		}
		sound = append(sound, entry{addr, i, path})
	}
	return sound, append(out, l.families(sound)...)
}

// place checks one address by itself and among the networks.
func (l Lists) place(text string) (addr netip.Addr, rule Rule, detail string) {
	addr, detail = netaddr.Parse(text)
	if detail != "" {
		return addr, Address, detail
	}
	for _, c := range []struct {
		rule   Rule
		detail string
	}{
		{Reachable, netaddr.Unreachable(addr)},
		{PodNetwork, l.Networks.InPods(addr)},
		{ServiceNetwork, l.Networks.InServices(addr)},
		{MachineNetwork, l.outside(addr)},
		{Edge, l.Networks.AtEdge(addr)},
	} {
		if c.detail != "" {
			return addr, c.rule, c.detail
		}
	}
	return addr, "", ""
}

// outside returns an empty text also if no machine network is known: older
// clusters do not name any.
func (l Lists) outside(a netip.Addr) string {
	if l.UserManaged || len(l.Networks.Machine) == 0 {
		return ""
	}
	return l.Networks.OutsideMachines(a)
}

func (l Lists) families(list []entry) []Finding {
	var out []Finding
	for i, second := range list {
		if i > 0 && netaddr.FamilyOf(second.addr) == netaddr.FamilyOf(list[0].addr) {
			out = append(out, Finding{OneOfEach, field.Invalid(second.path, second.addr.String(), fmt.Sprintf(
				"is %s as the first: two addresses must be one of each family", netaddr.FamilyOf(second.addr)))})
		}
	}
	primary := netaddr.Families(l.Networks.Machine)
	if !l.Networks.Complete || len(primary) != 2 || len(list) == 0 || list[0].at != 0 || netaddr.FamilyOf(list[0].addr) == primary[0] {
		return out
	}
	return append(out, Finding{PrimaryFamily, field.Invalid(list[0].path, list[0].addr.String(), fmt.Sprintf(
		"must be %s, the family of the first machine network", primary[0]))})
}

func (l Lists) lengths() []Finding {
	api, ingress := len(l.API.Texts), len(l.Ingress.Texts)
	if api == 0 || ingress == 0 || api == ingress {
		return nil
	}
	return []Finding{{SameLength, field.Invalid(l.Ingress.Path, ingress, fmt.Sprintf(
		"must have as many addresses as %s, which has %d", lastOf(l.API.Path), api))}}
}

// lastOf returns the name of the field at a path.
func lastOf(path *field.Path) string {
	text := path.String()
	return text[strings.LastIndexByte(text, '.')+1:]
}

// beginnings demands the same first family in both lists if no machine networks
// fix it.
func (l Lists) beginnings(api, ingress []entry) []Finding {
	if len(netaddr.Families(l.Networks.Machine)) == 2 || len(api) == 0 || len(ingress) == 0 || api[0].at+ingress[0].at > 0 {
		return nil
	}
	if f := netaddr.FamilyOf(api[0].addr); netaddr.FamilyOf(ingress[0].addr) != f {
		return []Finding{{SameFirstFamily, field.Invalid(ingress[0].path, ingress[0].addr.String(), fmt.Sprintf(
			"must be %s as the first of %s", f, lastOf(l.API.Path)))}}
	}
	return nil
}

func (l Lists) duplicates(api, ingress []entry) []Finding {
	var out []Finding
	all := slices.Concat(api, ingress)
	for j, e := range all {
		for i, first := range all[:j] {
			across := i < len(api) && j >= len(api)
			if first.addr != e.addr || across && l.UserManaged {
				continue
			}
			err := field.Duplicate(e.path, e.addr.String())
			err.Detail = fmt.Sprintf("is the same as %s", first.path)
			out = append(out, Finding{Distinct, err})
			break
		}
	}
	return out
}
