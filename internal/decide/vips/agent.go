package vips

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ReportOf returns what a host publishes about virtual IPs, from what its agent
// sees. The certificate's VIPs and the trouble of the reconcilers are not in the
// view, so the caller passes them.
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

// ownInCluster reports whether an address is one of the host's own in the cluster's
// networks. It leaves out private ones, such as the bridge of the host's pods.
// Where a site names no machine networks, the host's interface and the networks of
// the VIPs count.
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

// Through returns the interface on whose network an address lies, the one with the
// longest match. It goes by the host's own addresses, or by its routes where DHCPv6
// gave it single addresses. It returns nothing where the host has no such network;
// then the host cannot say who answers there.
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

// Question is one question to a host, with the name of the asker.
type Question struct {
	Asker string
	Probe state.VIPProbe
}

// Open reads from the annotations of a host's node the questions that it has not
// answered yet, and the names of those answers that nobody wants any more.
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

// Turn returns the control plane whose certificate has to be renewed before that of
// host self, empty where it is the host's turn. Control planes take turns in the
// order of their names. A node that is not ready is skipped.
func Turn(self string, wanted []netip.Addr, nodes []state.Node) string {
	for _, n := range nodes {
		report := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs])
		if n.Name < self && n.ControlPlane() && n.Ready && len(without(wanted, report.Value.Certificate)) > 0 {
			return n.Name
		}
	}
	return ""
}
