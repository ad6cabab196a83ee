package vips

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ReportOf is what a host says about virtual IPs, from what its agent sees.
// The certificate's VIPs and the trouble of the pieces are not in the view.
func ReportOf(v state.NetworkView, before state.VIPReport, certificate []netip.Addr, trouble string) state.VIPReport {
	out := state.VIPReport{
		VIPs: v.Settings.VIPs(), Certificate: among(v.Settings.APIVIPs, certificate), Trouble: trouble,
		Router: v.Router.Known && v.Router.Value.Ready,
	}
	maybe := slices.Concat(out.VIPs, before.Holds, before.VIPs)
	hardware := map[netip.Addr][]string{}
	for _, a := range v.Addresses {
		own := a.Prefix.Addr()
		switch {
		case slices.Contains(maybe, own) && !slices.Contains(v.Host.Addresses, own):
			out.Holds = append(out.Holds, own)
		case ownInCluster(a, v):
			out.Addresses = append(out.Addresses, a.Prefix)
			if list := v.Hardware[a.Interface]; len(list) > 0 {
				hardware[own] = list
			}
		}
	}
	for _, r := range v.Routes {
		if r.Destination.Bits() == 0 && r.Gateway.IsValid() && !r.Gateway.IsLinkLocalUnicast() {
			out.Gateways = append(out.Gateways, r.Gateway)
		}
	}
	out.Holds, out.Gateways = distinct(out.Holds), distinct(out.Gateways)
	if len(hardware) > 0 {
		out.Hardware = hardware
	}
	slices.SortFunc(out.Addresses, netip.Prefix.Compare)
	out.Addresses = slices.Compact(out.Addresses)
	return out
}

// ownInCluster leaves out what is a host's own affair, such as the bridge of
// its pods. A site that names no machine networks has those of its VIPs.
func ownInCluster(a state.HostAddress, v state.NetworkView) bool {
	addr := a.Prefix.Addr()
	if !a.Usable || addr.IsLoopback() || addr.IsLinkLocalUnicast() {
		return false
	}
	if len(v.Settings.MachineNetworks) == 0 {
		return a.Interface == v.Host.Interface || slices.ContainsFunc(v.Settings.VIPs(), a.Prefix.Contains)
	}
	return netaddr.InAny(addr, v.Settings.MachineNetworks)
}

func among(list, other []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		if slices.Contains(other, a) {
			out = append(out, a)
		}
	}
	return out
}

func distinct(list []netip.Addr) []netip.Addr {
	list = sorted(list)
	return slices.Compact(list)
}

// Through returns the interface on whose network an address lies, the one with
// the longest match: by the host's own addresses or, where DHCPv6 gave single
// ones, by its routes. It is empty where the host has no such network, and then
// the host cannot say who answers there.
func Through(a netip.Addr, addresses []state.HostAddress, routes []state.HostRoute) string {
	best, iface := -1, ""
	consider := func(p netip.Prefix, name string) {
		if p.Contains(a) && p.Bits() > best && p.Bits() < a.BitLen() && p.Bits() > 0 {
			best, iface = p.Bits(), name
		}
	}
	for _, own := range addresses {
		if own.Usable {
			consider(own.Prefix.Masked(), own.Interface)
		}
	}
	for _, r := range routes {
		if !r.Gateway.IsValid() {
			consider(r.Destination, r.Interface)
		}
	}
	return iface
}

// Question is one question to a host, and who asks.
type Question struct {
	Asker string
	Probe state.VIPProbe
}

// Open reads from the annotations of a host's node which questions it has not
// answered yet, and which of its answers nobody wants any more.
func Open(annotations map[string]string) (questions []Question, obsolete []string) {
	for name, text := range annotations {
		if asker, ok := strings.CutPrefix(name, state.AnnotationVIPProbe); ok {
			probe := state.ParseAnnotation[state.VIPProbe](text)
			answer := state.ParseAnnotation[state.VIPAnswer](annotations[state.AnnotationVIPAnswer+asker])
			if probe.Known && (!answer.Known || answer.Value.ID != probe.Value.ID) {
				questions = append(questions, Question{asker, probe.Value})
			}
		}
		if asker, ok := strings.CutPrefix(name, state.AnnotationVIPAnswer); ok {
			if _, asked := annotations[state.AnnotationVIPProbe+asker]; !asked {
				obsolete = append(obsolete, name)
			}
		}
	}
	slices.SortFunc(questions, func(a, b Question) int { return cmp.Compare(a.Asker, b.Asker) })
	slices.Sort(obsolete)
	return questions, obsolete
}

// Turn says whose certificate has to be renewed before that of a host: control
// planes take it one after the other, in the order of their names. A node that
// is not ready is not waited for. It is empty where it is the host's turn.
func Turn(self string, wanted []netip.Addr, nodes []state.Node) string {
	for _, n := range nodes {
		report := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs])
		if n.Name < self && n.ControlPlane() && n.Ready && len(without(wanted, report.Value.Certificate)) > 0 {
			return n.Name
		}
	}
	return ""
}
