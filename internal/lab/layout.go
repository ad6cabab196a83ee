package lab

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Names of the bridges in a lab's switch namespace, of the two NICs that every
// host has, and of the third that some have.
const (
	machineBridge = "machine0"
	fencingBridge = "fencing0"
	farBridge     = "machine1"
	machineNIC    = "eth0"
	fencingNIC    = "eth1"
	secondNIC     = "eth2"
)

// BaseDomain is the domain of every lab; the cluster's name is the lab's.
const BaseDomain = "holdfast.test"

// BMCPort is the port on which a host's BMC answers.
const BMCPort = 443

// Host numbers: the last part of an address. They are decimal digits in both
// families, so that 10.98.0.11 and fd98::11 are the same host. They stay when the lab is
// moved to another machine network.
const (
	gatewayNumber    = 1
	apiNumber        = 5
	ingressNumber    = 6
	firstMaster      = 11
	firstWorker      = 31
	bmcNumberOffset  = 100
	secondOffset     = 100
	machineNumberMAC = 0x98
	fencingNumberMAC = 0x99
	secondNumberMAC  = 0x96
)

// Layout holds everything that follows from a Spec: names, addresses and
// accounts. It is a pure function of the spec, so every command computes it
// again and nothing can drift.
type Layout struct {
	Spec    Spec
	Machine Network
	Fencing Network
	// Far is the second machine network, behind a router. Its bridge is empty
	// if the lab has none.
	Far Network
	// APIVIPs and IngressVIPs hold one address per family, and are empty on
	// platform none.
	APIVIPs     []netip.Addr
	IngressVIPs []netip.Addr
	Hosts       []Host
}

// Network is a network of a lab.
type Network struct {
	Bridge string
	// Prefixes are the networks. Gateways holds the lab's own address in each.
	Prefixes []netip.Prefix
	Gateways []netip.Addr
}

// Host is one machine of a lab.
type Host struct {
	// Name is the name of the host. A machine that another one has replaced is called
	// cp-2-old1 in the lab's own commands; its operating system still says cp-2.
	Name string
	// ID differs for each machine that ever had the name. It names what belongs to the
	// machine: its directory, ports and namespace.
	ID   string
	Role state.Role
	// Spare hosts are switched on by the user, not by lab up.
	Spare bool
	// Former hosts are machines that others have replaced.
	Former bool
	// Far hosts are in the second machine network.
	Far bool
	// Namespace and Container are the names below /run/netns and in podman.
	Namespace string
	Container string
	Machine   NIC
	Fencing   NIC
	// Second is another NIC in the machine network. Its name is empty if the
	// host has none.
	Second NIC
	BMC    BMC
	// UUID and Serial are shown by both SMBIOS and the BMC.
	UUID   string
	Serial string
}

// NIC is a network card of a host and the switch port it is plugged into.
type NIC struct {
	Name string
	Port string
	MAC  string
	// Addresses carry the prefix length of their network.
	Addresses []netip.Prefix
}

// BMC is the management controller of a host.
type BMC struct {
	Addresses []netip.Addr
	SystemID  string
	Username  string
	// Password protects only a lab on this machine. It follows from the names,
	// so that no state is needed.
	Password string
}

// NewLayout lays out a spec, which must be valid and have its defaults.
func NewLayout(s Spec) Layout {
	l := Layout{
		Spec:    s,
		Machine: network(machineBridge, s.machineNumber(), s.Families),
		Fencing: network(fencingBridge, 99, s.Families),
	}
	if s.Platform == PlatformBareMetal {
		l.APIVIPs = l.Machine.addrs(apiNumber)
		l.IngressVIPs = l.Machine.addrs(ingressNumber)
	}
	if s.FarWorkers > 0 {
		l.Far = network(farBridge, 97, s.Families)
	}
	if s.FarIngress {
		l.IngressVIPs = l.Far.addrs(ingressNumber)
	}
	for i := range s.ControlPlanes + s.SpareControlPlanes {
		role := state.RoleMaster
		if i == 0 {
			role = state.RoleBootstrap
		}
		h := l.host(s.current(fmt.Sprintf("cp-%d", i+1), firstMaster+i), role, false)
		h.Spare = i >= s.ControlPlanes
		l.Hosts = append(l.Hosts, h)
	}
	for i := range s.Workers + s.SpareWorkers {
		name := fmt.Sprintf("worker-%d", i+1)
		h := l.host(original(name, firstWorker+i), state.RoleWorker, i < s.Workers && i >= s.Workers-s.FarWorkers)
		h.Spare = i >= s.Workers
		l.Hosts = append(l.Hosts, h)
	}
	l.Hosts = append(l.Hosts, l.former()...)
	return l
}

func network(bridge string, number int, families []Family) Network {
	n := Network{Bridge: bridge}
	for _, f := range families {
		text := fmt.Sprintf("10.%d.0.0/24", number)
		if f == V6 {
			text = fmt.Sprintf("fd%d::/64", number)
		}
		n.Prefixes = append(n.Prefixes, netip.MustParsePrefix(text))
	}
	n.Gateways = n.addrs(gatewayNumber)
	return n
}

// addrs returns the address with a host number in each prefix.
func (n Network) addrs(number int) []netip.Addr {
	var out []netip.Addr
	for _, p := range n.Prefixes {
		base := strings.TrimSuffix(p.Addr().String(), "0")
		out = append(out, netip.MustParseAddr(fmt.Sprintf("%s%d", base, number)))
	}
	return out
}

func (n Network) prefixed(number int) []netip.Prefix {
	var out []netip.Prefix
	for i, a := range n.addrs(number) {
		out = append(out, netip.PrefixFrom(a, n.Prefixes[i].Bits()))
	}
	return out
}

// networks returns all networks of a lab, that of the hosts first.
func (l Layout) networks() []Network { return append(l.machineNetworks(), l.Fencing) }

// machineNetworks returns the networks of the site's machines, the primary one
// first.
func (l Layout) machineNetworks() []Network {
	if l.Far.Bridge == "" {
		return []Network{l.Machine}
	}
	return []Network{l.Machine, l.Far}
}

// MachineNetworks returns the networks of the site's machines, as install-config lists them.
func (l Layout) MachineNetworks() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range l.machineNetworks() {
		out = append(out, n.Prefixes...)
	}
	return out
}

// networkOf returns the machine network that a host is in.
func (l Layout) networkOf(h Host) Network {
	if h.Far {
		return l.Far
	}
	return l.Machine
}

// nics returns all NICs of a host.
func (h Host) nics() []NIC {
	if h.Second.Name == "" {
		return []NIC{h.Machine, h.Fencing}
	}
	return []NIC{h.Machine, h.Fencing, h.Second}
}

func (l Layout) host(p place, role state.Role, far bool) Host {
	sum := sha256.Sum256([]byte(l.Spec.Name + "/" + p.id))
	id := "hf-" + l.Spec.Name + "-" + p.id
	machine := l.networkOf(Host{Far: far})
	h := Host{
		Name:      p.name,
		ID:        p.id,
		Role:      role,
		Far:       far,
		Namespace: id,
		Container: id,
		Machine:   NIC{Name: machineNIC, Port: "m-" + p.id, MAC: mac(machineNumberMAC, sum[0], p.machine), Addresses: machine.prefixed(p.address)},
		Fencing:   NIC{Name: fencingNIC, Port: "f-" + p.id, MAC: mac(fencingNumberMAC, sum[0], p.machine), Addresses: l.Fencing.prefixed(p.address)},
		BMC: BMC{
			Addresses: l.Fencing.addrs(bmcNumberOffset + p.machine),
			SystemID:  p.name,
			Username:  "admin",
			Password:  strings.ToLower(base32.StdEncoding.EncodeToString(sum[20:30])),
		},
		UUID:   uuid(sum),
		Serial: fmt.Sprintf("HF%X", sum[16:20]),
	}
	if l.Spec.SecondNIC {
		h.Second = NIC{Name: secondNIC, Port: "s-" + p.id, MAC: mac(secondNumberMAC, sum[0], p.machine), Addresses: machine.prefixed(secondOffset + p.address)}
	}
	return h
}

// mac returns a locally administered unicast address.
func mac(network, lab byte, number int) string {
	return fmt.Sprintf("52:54:%02x:%02x:00:%02x", network, lab, number)
}

// uuid shapes a hash as a random UUID (RFC 9562 version 4).
func uuid(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// Switch returns the name of the namespace that holds the lab's bridges, its
// gateway addresses and its BMCs.
func (l Layout) Switch() string { return "hf-" + l.Spec.Name + "-net" }

// Host returns the host of a name, and reports whether it exists.
func (l Layout) Host(name string) (Host, bool) {
	for _, h := range l.Hosts {
		if h.Name == name {
			return h, true
		}
	}
	return Host{}, false
}

// ControlPlanes returns the control planes with which the site is installed, the
// rendezvous host first. Spare ones are not among them.
func (l Layout) ControlPlanes() []Host { return l.Hosts[:l.Spec.ControlPlanes] }

// APIAddresses returns the addresses of the API: its VIPs, or on platform none
// the addresses of the one control plane.
func (l Layout) APIAddresses() []netip.Addr {
	if len(l.APIVIPs) > 0 {
		return l.APIVIPs
	}
	return l.Hosts[0].Machine.addrs()
}

// IngressAddresses returns the addresses of the routers: the ingress VIPs, or
// on platform none those of the one control plane.
func (l Layout) IngressAddresses() []netip.Addr {
	if len(l.IngressVIPs) > 0 {
		return l.IngressVIPs
	}
	return l.Hosts[0].Machine.addrs()
}

// ClusterDomain returns the domain below which the cluster's names lie.
func (l Layout) ClusterDomain() string { return l.Spec.Name + "." + BaseDomain }

func (n NIC) addrs() []netip.Addr {
	var out []netip.Addr
	for _, p := range n.Addresses {
		out = append(out, p.Addr())
	}
	return out
}
