package vips

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Plan holds the virtual IPs that a cluster's status names.
type Plan struct {
	API, Ingress []netip.Addr
	UserManaged  bool
}

// PlanOf reads the lists of a status.
func PlanOf(v Values, userManaged bool) Plan {
	return Plan{API: parsed(v.API), Ingress: parsed(v.Ingress), UserManaged: userManaged}
}

// All returns the VIPs of both lists.
func (p Plan) All() []netip.Addr { return slices.Concat(p.API, p.Ingress) }

// HostProgress describes how far one host has got with the VIPs that it must have.
type HostProgress struct {
	Name string `json:"name"`
	// Ready is the node's own condition.
	Ready   bool `json:"ready"`
	Applied bool `json:"applied"`
	// Waiting says what is missing, empty for nothing.
	Waiting string       `json:"waiting,omitempty"`
	Holds   []netip.Addr `json:"holds,omitempty"`
}

// VIPProgress describes how far one VIP has got.
type VIPProgress struct {
	Address netip.Addr `json:"address"`
	// Role is api or ingress.
	Role string `json:"role"`
	// Holder is the node that reports that it has the VIP, empty for none.
	Holder string `json:"holder,omitempty"`
	// Answers is true once clients get an answer at the VIP, or need none yet.
	Answers bool `json:"answers"`
	// Waiting says what is missing, empty for nothing.
	Waiting string `json:"waiting,omitempty"`
}

// Rollout describes how far a cluster has got with its VIPs.
type Rollout struct {
	Hosts []HostProgress `json:"hosts,omitempty"`
	VIPs  []VIPProgress  `json:"vips,omitempty"`
	// Everywhere is true once no host lacks anything. Applied is true once each
	// ready host has the VIPs, and each VIP has a holder and answers.
	Everywhere bool `json:"everywhere"`
	Applied    bool `json:"applied"`
}

// Follow compares the reports of the hosts, and the answers at each VIP, with the
// plan. answers maps a VIP to the reason why it does not answer, empty where it
// does; a VIP that is missing there was not asked.
func Follow(p Plan, hosts []Host, answers map[netip.Addr]string) Rollout {
	out := Rollout{Everywhere: true, Applied: true}
	for _, h := range hosts {
		one := p.host(h)
		out.Hosts = append(out.Hosts, one)
		out.Everywhere = out.Everywhere && one.Applied
		out.Applied = out.Applied && (one.Applied || !one.Ready)
	}
	for i, a := range p.All() {
		one := p.vip(a, i < len(p.API), hosts, answers)
		out.VIPs = append(out.VIPs, one)
		out.Applied = out.Applied && one.Waiting == ""
	}
	out.Applied = out.Applied && len(hosts) > 0
	return out
}

// host returns how far one host is. A host that is gone shows its last report. It
// may come back with something else, but it reports anew by then.
func (p Plan) host(h Host) HostProgress {
	r := h.Report.Value
	out := HostProgress{Name: h.Name, Ready: h.Ready, Holds: r.Holds}
	if p.UserManaged {
		p = Plan{} // hosts do not hold these
	}
	lacks, keeps := without(p.All(), r.VIPs), without(r.VIPs, p.All())
	switch {
	case !h.Report.Known:
		out.Waiting = "has not reported yet"
	case len(lacks) > 0:
		out.Waiting = "does not have " + netaddr.Join(lacks) + " yet"
	case len(keeps) > 0:
		out.Waiting = "still has " + netaddr.Join(keeps)
	case r.Trouble != "":
		out.Waiting = r.Trouble
	case h.ControlPlane && len(without(p.API, r.Certificate)) > 0:
		out.Waiting = "its API server's certificate is not valid for " + netaddr.Join(without(p.API, r.Certificate)) + " yet"
	case h.Ready && len(without(r.Holds, p.All())) > 0:
		out.Waiting = "still holds " + netaddr.Join(without(r.Holds, p.All()))
	}
	out.Applied = out.Waiting == ""
	if out.Waiting != "" && !h.Ready {
		out.Waiting += "; the node is not ready and catches up once it is"
	}
	return out
}

func (p Plan) vip(a netip.Addr, api bool, hosts []Host, answers map[netip.Addr]string) VIPProgress {
	out := VIPProgress{Address: a, Role: "ingress"}
	if api {
		out.Role = "api"
	}
	router := slices.ContainsFunc(hosts, func(h Host) bool { return h.Ready && h.Report.Value.Router })
	if p.UserManaged || !api && !router {
		out.Answers = true // the site's load balancer holds it, or nobody does before there is a router
		return out
	}
	for _, h := range hosts {
		if h.Ready && slices.Contains(h.Report.Value.Holds, a) {
			out.Holder = h.Name
			break
		}
	}
	why, asked := answers[a]
	switch {
	case out.Holder == "":
		out.Waiting = "no host holds it"
	case !asked:
		out.Waiting = "not checked yet"
	case why != "":
		out.Waiting = "does not answer: " + why
	default:
		out.Answers = true
	}
	return out
}

// without returns the addresses of a that are not in b.
func without(a, b []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// Done counts the hosts that have the VIPs.
func (r Rollout) Done() int {
	n := 0
	for _, h := range r.Hosts {
		if h.Applied {
			n++
		}
	}
	return n
}

// Words describe the progress: "2 of 3 hosts; cp-3: ...".
func (r Rollout) Words() string {
	words := []string{fmt.Sprintf("%d of %d hosts", r.Done(), len(r.Hosts))}
	for _, h := range r.Hosts {
		if h.Waiting != "" {
			words = append(words, h.Name+": "+h.Waiting)
		}
	}
	for _, v := range r.VIPs {
		if v.Waiting != "" {
			words = append(words, fmt.Sprintf("%s VIP %s: %s", v.Role, v.Address, v.Waiting))
		}
	}
	return strings.Join(words, "; ")
}
