package guards

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The terms of the operator that provisions hosts. Only in the state detached
// does it leave a host's power alone, and only for a host that it does not have
// to provision.
const (
	detached       = "baremetalhost.metal3.io/detached"
	rebootOnce     = "reboot.metal3.io"
	inspectAnew    = "inspect.metal3.io"
	roleOfHost     = "installer.openshift.io/role"
	roleOfAWorker  = "worker"
	notToInspectIt = "disabled"
)

const whyOneMaster = "only Pacemaker switches the power of two control planes, since another one would switch off the host that just took over, or both. "

// bareMetalHosts allows listing a control plane, and refuses everything that
// would be done to it.
func bareMetalHosts(hosts []ControlPlane) Guard {
	annotations := func(o string) string { return field(o, "metadata.annotations", "{}") }
	return newGuard("bare-metal-hosts",
		on([]string{"baremetalhosts"}, []string{"metal3.io"}, create, update, remove),
		whose(hosts),
		checks{
			check(fmt.Sprintf("!variables.ours || object == null || '%s' in %s", detached, annotations("object")),
				"this is the BareMetalHost of a control plane, or may be, and is not detached: "+whyOneMaster+
					"Annotate it "+detached+"=''. If it is another host's, label it "+roleOfHost+"="+roleOfAWorker+"."),
			check(fmt.Sprintf("!variables.ours || object == null || !%s.exists(k, k == '%[2]s' || k.startsWith('%[2]s/'))", annotations("object"), rebootOnce),
				"the annotation "+rebootOnce+" reboots a control plane: "+whyOneMaster+"Drain the node and reboot it on the host."),
			check(fmt.Sprintf("!variables.ours || object == null || !('%[2]s' in %[1]s) || %[1]s['%[2]s'] == '%[3]s'",
				annotations("object"), inspectAnew, notToInspectIt),
				"the annotation "+inspectAnew+" boots a control plane into an inspection: "+whyOneMaster+"Only the value "+notToInspectIt+" is taken."),
			check("!variables.ours || object == null || "+field("object", "spec.online", "false")+" == true || "+
				"(oldObject != null && "+field("object", "spec.online", "false")+" == "+field("oldObject", "spec.online", "false")+")",
				"spec.online must be true: it takes effect on a control plane once the object is attached: "+whyOneMaster+"Shut it down on the host."),
			check("!variables.ours || object == null || "+field("object", "spec.externallyProvisioned", "false")+" == true || "+
				"(oldObject != null && "+field("oldObject", "spec.externallyProvisioned", "false")+" != true)",
				"spec.externallyProvisioned must be true: else the host is inspected and provisioned, detached or not, which reboots it and erases its disk. "+
					"A control plane is replaced with its Ignition, not from here."),
			check(fmt.Sprintf("!variables.ours || object != null || '%s' in %s", detached, annotations("oldObject")),
				"deleting the BareMetalHost of a control plane that is not detached switches the host off: "+whyOneMaster+
					"Annotate it "+detached+"='' first, then delete it."),
		})
}

// whose returns variables that tell whether a BareMetalHost belongs to a
// control plane. If its BMC has an address that could be another name of a
// control plane's BMC, the object must declare that it is another host's.
func whose(hosts []ControlPlane) variables {
	known := knownOf(hosts)
	const address = "spec.bmc.address"
	return variables{
		{"both", "[dyn(object), dyn(oldObject)].filter(o, o != null)"},
		{"roles", fmt.Sprintf("variables.both.map(o, %[1]s).map(l, '%[2]s' in l ? l['%[2]s'] : '')", field("o", "metadata.labels", "{}"), roleOfHost)},
		// Of two versions the new one's label counts: otherwise nobody could correct
		// it.
		{"aWorker", fmt.Sprintf("variables.roles[0] == '%s'", roleOfAWorker)},
		{"places", fmt.Sprintf("variables.both.map(o, string(%s).lowerAscii()).filter(a, a != '')"+
			".map(a, a.contains('://') ? a.substring(a.indexOf('://') + 3) : a)", field("o", address, "''"))},
		{"authorities", "variables.places.map(p, p.split('/')[0]).map(a, a.substring(a.lastIndexOf('@') + 1))"},
		{"bmcs", "variables.authorities.map(a, a.startsWith('[') ? a.substring(1).split(']')[0] : a.split(':').size() > 2 ? a : a.split(':')[0])" +
			".map(h, isIP(h) ? string(ip(h)) : h)"},
		{"systems", "variables.places.map(p, p.contains('/') ? p.substring(p.indexOf('/')) : '').map(s, s.endsWith('/') ? s.substring(0, s.size() - 1) : s)"},
		{"named", fmt.Sprintf("variables.both.exists(o, o.metadata.name in %s)", list(known.names))},
		// One BMC may have several systems; their paths count only for a worker.
		{"ourBMC", fmt.Sprintf("variables.bmcs.exists(h, h in %s) && (!variables.aWorker || variables.systems.exists(s, %s))",
			list(known.bmcs), known.sameSystem())},
		{"unclear", fmt.Sprintf("!variables.aWorker && variables.bmcs.exists(h, !(isIP(h) && ip(h).family() in %s))", known.families)},
		{"ours", "variables.roles.exists(r, r in ['control-plane', 'master']) || variables.named || variables.ourBMC || variables.unclear"},
	}
}

// known holds everything by which a control plane can be recognised.
type known struct {
	names, bmcs, systems []string
	// families lists, as a CEL list, the address families in which different
	// addresses mean different BMCs. If a control plane's BMC is known by a name
	// or by an address of another family, an address proves nothing.
	families string
}

func knownOf(hosts []ControlPlane) known {
	var out known
	v4, v6 := len(hosts) > 0, len(hosts) > 0
	for _, h := range hosts {
		short, _, _ := strings.Cut(h.Name, ".")
		out.names = append(out.names, h.Name, short)
		address, err := netip.ParseAddr(h.BMC.Host)
		v4, v6 = v4 && err == nil && address.Is4(), v6 && err == nil && address.Is6()
		if h.BMC.Host != "" {
			out.bmcs = append(out.bmcs, h.BMC.Host)
			out.systems = append(out.systems, strings.ToLower(strings.TrimSuffix(h.BMC.System, "/")))
		}
	}
	out.families = "[]"
	if v4 {
		out.families = "[4]"
	}
	if v6 {
		out.families = "[6]"
	}
	for _, l := range []*[]string{&out.names, &out.bmcs, &out.systems} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	return out
}

// sameSystem returns the expression that the system s of a control plane's BMC
// is that control plane. A missing path, on either side, means the only system.
func (k known) sameSystem() string {
	if slices.Contains(k.systems, "") {
		return "true"
	}
	return fmt.Sprintf("s == '' || s in %s", list(k.systems))
}
