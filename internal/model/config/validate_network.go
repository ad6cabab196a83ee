package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
)

// Limits of Kubernetes v1.36 on the networks of a cluster.
const (
	// maxShareBits exists because the controller manager keeps a bitmap of the
	// hosts' shares of the pod network (kubeadm's PodSubnetNodeMaskMaxDiff).
	maxShareBits = 16
	// maxServiceBits exists because the API server keeps a bitmap of the service
	// addresses (validateClusterIPFlags in kube-apiserver).
	maxServiceBits = 20
	// minServiceBits leaves room for the cluster's DNS, which has the tenth
	// address.
	minServiceBits = 4
	// minShareBits leaves a host 14 pod addresses (kubeadm's
	// MinimumAddressesInPodSubnet).
	minShareBits = 4
	// maxMachineNetworks is the limit of the Infrastructure object.
	maxMachineNetworks = 32
)

// network is one CIDR of the configuration.
type network struct {
	path   *field.Path
	prefix netip.Prefix
}

// networks is the address plan, as far as it could be read.
type networks struct {
	machine, cluster, service []network
	// complete is true if every entry of every list is a sound network. Then
	// missing networks may be reported, too.
	complete bool
}

// plan returns the address plan in the form of package netaddr, which knows the
// rules for virtual IPs.
func (n networks) plan() netaddr.Networks {
	return netaddr.Networks{
		Machine: prefixes(n.machine), Cluster: prefixes(n.cluster), Service: prefixes(n.service), Complete: n.complete,
	}
}

func prefixes(list []network) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range list {
		out = append(out, n.prefix)
	}
	return out
}

func (v *validator) networking() networks {
	root := field.NewPath("networking")
	n := v.c.Networking
	if n.NetworkType != NetworkTypeFlannel && n.NetworkType != NetworkTypeNone {
		v.add(field.NotSupported(root.Child("networkType"), n.NetworkType, []string{NetworkTypeFlannel, NetworkTypeNone}))
	}
	nets := networks{complete: v.readable("networking.machineNetwork") &&
		v.readable("networking.clusterNetwork") && v.readable("networking.serviceNetwork")}
	for i, entry := range n.MachineNetwork {
		nets.machine = v.appendNetwork(nets.machine, root.Child("machineNetwork").Index(i).Child("cidr"), entry.CIDR, &nets.complete)
	}
	for i, entry := range n.ClusterNetwork {
		nets.cluster = v.appendNetwork(nets.cluster, root.Child("clusterNetwork").Index(i).Child("cidr"), entry.CIDR, &nets.complete)
	}
	for i, cidr := range n.ServiceNetwork {
		nets.service = v.appendNetwork(nets.service, root.Child("serviceNetwork").Index(i), cidr, &nets.complete)
	}
	v.presence(root, nets)
	v.overlaps(nets)
	v.families(root, nets)
	v.shares(root)
	v.serviceSizes(nets.service)
	v.machineSizes(nets)
	return nets
}

func (v *validator) appendNetwork(list []network, path *field.Path, cidr string, complete *bool) []network {
	prefix, err := soundPrefix(path, cidr)
	if err != nil {
		*complete = false
		v.add(err)
		return list
	}
	return append(list, network{path, prefix})
}

// soundPrefix parses a CIDR that can be the network of a cluster.
func soundPrefix(path *field.Path, cidr string) (netip.Prefix, *field.Error) {
	if cidr == "" {
		return netip.Prefix{}, field.Required(path, "a network in CIDR form, for example 10.0.0.0/16")
	}
	p, detail := netaddr.ParseNetwork(cidr)
	if detail != "" {
		return p, field.Invalid(path, cidr, detail)
	}
	return p, nil
}

func (v *validator) presence(root *field.Path, nets networks) {
	n := v.c.Networking
	noDefault := "at least one network is needed"
	if len(nets.machine) > 0 && nets.machine[0].prefix.Addr().Is6() {
		noDefault += ": with an IPv6 machine network there is no default"
	}
	if len(n.MachineNetwork) == 0 {
		v.add(field.Required(root.Child("machineNetwork"), "at least one network is needed"))
	}
	if len(n.MachineNetwork) > maxMachineNetworks {
		v.add(field.TooMany(root.Child("machineNetwork"), len(n.MachineNetwork), maxMachineNetworks))
	}
	// Without a sound machine network it is unknown whether there is a default.
	if len(n.ClusterNetwork) == 0 && (nets.complete || n.ClusterNetwork != nil) {
		v.add(field.Required(root.Child("clusterNetwork"), noDefault))
	}
	if len(n.ServiceNetwork) == 0 && (nets.complete || n.ServiceNetwork != nil) {
		v.add(field.Required(root.Child("serviceNetwork"), noDefault))
	}
}

func (v *validator) overlaps(nets networks) {
	all := slices.Concat(nets.machine, nets.cluster, nets.service)
	for j := range all {
		for _, first := range all[:j] {
			if first.prefix.Overlaps(all[j].prefix) {
				v.add(field.Invalid(all[j].path, all[j].prefix.String(),
					fmt.Sprintf("overlaps %s (%s)%s", first.path, first.prefix, defaultNote(all[j].prefix))))
				break
			}
		}
	}
}

// defaultNote explains a network that the person may not have written.
func defaultNote(p netip.Prefix) string {
	if s := p.String(); s == defaultClusterNetwork || s == defaultServiceNetwork {
		return "; " + s + " is the default, so give another network here"
	}
	return ""
}

// families demands the same address families in the same order everywhere.
func (v *validator) families(root *field.Path, nets networks) {
	v.onePerFamily(nets.cluster)
	v.onePerFamily(nets.service)
	if !nets.complete || len(nets.machine) == 0 {
		return
	}
	want := netaddr.Families(prefixes(nets.machine))
	v.sameFamilies(root.Child("clusterNetwork"), nets.cluster, want)
	v.sameFamilies(root.Child("serviceNetwork"), nets.service, want)
}

func (v *validator) onePerFamily(list []network) {
	var seen []netaddr.Family
	for _, n := range list {
		f := netaddr.FamilyOf(n.prefix.Addr())
		if slices.Contains(seen, f) {
			v.add(field.Invalid(n.path, n.prefix.String(), fmt.Sprintf(
				"is a second %s network; one of each family is supported", f)))
		}
		seen = append(seen, f)
	}
}

func (v *validator) sameFamilies(path *field.Path, list []network, want []netaddr.Family) {
	if len(list) == 0 {
		return // reported as missing
	}
	have := netaddr.Families(prefixes(list))
	for _, f := range want {
		if !slices.Contains(have, f) {
			v.add(field.Required(path, fmt.Sprintf("machineNetwork has %s, so one %s network is needed here too", f, f)))
		}
	}
	for _, n := range list {
		if f := netaddr.FamilyOf(n.prefix.Addr()); !slices.Contains(want, f) {
			v.add(field.Invalid(n.path, n.prefix.String(), fmt.Sprintf("is %s, but machineNetwork has no %s network", f, f)))
		}
	}
	if len(have) == 2 && len(want) == 2 && have[0] != want[0] {
		v.add(field.Invalid(list[0].path, list[0].prefix.String(), fmt.Sprintf(
			"%s must come first, as in machineNetwork: the first family is the primary one", want[0])))
	}
}

// shares checks that each host gets its part of the pod network.
func (v *validator) shares(root *field.Path) {
	for i, entry := range v.c.Networking.ClusterNetwork {
		path := root.Child("clusterNetwork").Index(i)
		p, err := soundPrefix(path, entry.CIDR)
		if err != nil || !v.readable(path.String()) {
			continue // reported already
		}
		if e := shareSize(path, p, int(entry.HostPrefix)); e != nil {
			v.add(e)
			continue
		}
		hosts, known := v.hosts()
		if shares := 1 << (int(entry.HostPrefix) - p.Bits()); known && shares < hosts {
			v.add(field.Invalid(path.Child("cidr"), entry.CIDR, fmt.Sprintf(
				"has room for %s with hostPrefix %d, and the cluster has %d", count(shares, "host"), entry.HostPrefix, hosts)))
		}
	}
}

func shareSize(path *field.Path, p netip.Prefix, hostPrefix int) *field.Error {
	prefix := path.Child("hostPrefix")
	longest := p.Addr().BitLen() - minShareBits
	switch {
	case p.Addr().Is6() && hostPrefix != defaultHostPrefixV6:
		return field.Invalid(prefix, hostPrefix, "must be 64 for IPv6")
	case hostPrefix < p.Bits():
		return field.Invalid(prefix, hostPrefix, fmt.Sprintf("must not be shorter than the mask of %s", p))
	case hostPrefix > longest:
		return field.Invalid(prefix, hostPrefix, fmt.Sprintf("must be at most %d: a host needs 14 pod addresses", longest))
	case hostPrefix-p.Bits() > maxShareBits:
		return field.Invalid(path.Child("cidr"), p.String(), fmt.Sprintf(
			"is too large for hostPrefix %d: Kubernetes allows at most 65536 shares, so the mask must be /%d or longer",
			hostPrefix, hostPrefix-maxShareBits))
	}
	return nil
}

// hosts returns the number of hosts; known is false if it could not be read.
func (v *validator) hosts() (n int, known bool) {
	if !v.readable("controlPlane.replicas") || !v.readable("compute") {
		return 0, false
	}
	pools := append([]MachinePool{v.c.ControlPlane}, v.c.Compute...)
	for _, p := range pools {
		if r := replicas(p); r < 0 || r > maxReplicas {
			return 0, false
		}
		n += replicas(p)
	}
	return n, true
}

func (v *validator) serviceSizes(list []network) {
	for _, n := range list {
		bits := n.prefix.Addr().BitLen()
		switch free := bits - n.prefix.Bits(); {
		case free > maxServiceBits:
			v.add(field.Invalid(n.path, n.prefix.String(), fmt.Sprintf(
				"is too large for kube-apiserver: the mask must be /%d or longer", bits-maxServiceBits)))
		case free < minServiceBits:
			v.add(field.Invalid(n.path, n.prefix.String(), fmt.Sprintf(
				"is too small: the mask must be /%d or shorter", bits-minServiceBits)))
		}
	}
}

// machineSizes demands an address for every host and every VIP.
func (v *validator) machineSizes(nets networks) {
	hosts, known := v.hosts()
	if !nets.complete || !known {
		return
	}
	for _, f := range netaddr.Families(prefixes(nets.machine)) {
		var room int64
		var cidrs []string
		for _, n := range nets.machine {
			if netaddr.FamilyOf(n.prefix.Addr()) == f {
				room += usable(n.prefix)
				cidrs = append(cidrs, n.prefix.String())
			}
		}
		need := int64(hosts + v.vipCount(f))
		if room < need {
			v.add(field.Invalid(field.NewPath("networking", "machineNetwork"), strings.Join(cidrs, ", "), fmt.Sprintf(
				"has room for %d addresses, and the hosts and virtual IPs need %d", room, need)))
		}
	}
}

// usable returns the number of addresses that hosts can have, at most 2^30.
func usable(p netip.Prefix) int64 {
	free := min(p.Addr().BitLen()-p.Bits(), 30)
	if free <= 1 {
		return 1 << free
	}
	return 1<<free - 2
}

func (v *validator) vipCount(f netaddr.Family) int {
	n := 0
	for _, a := range slices.Concat(v.c.APIVIPs(), v.c.IngressVIPs()) {
		if netaddr.FamilyOf(a) == f {
			n++
		}
	}
	return n
}
