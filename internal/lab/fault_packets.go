package lab

import (
	"cmp"
	"fmt"
	"strings"
)

// packetRules returns the nftables script that drops what the faults drop, and
// nothing else. The rules are on the switch's ports, out of the hosts' reach,
// and match a host's packets whatever address they carry.
func packetRules(l Layout, list []Fault) string {
	delayed := map[string]bool{}
	for _, f := range list {
		if f.Kind == FaultDelay {
			delayed[portOf(l, f)] = true
		}
	}
	var text strings.Builder
	text.WriteString("table netdev faults\ndelete table netdev faults\ntable netdev faults {\n")
	deviceOf := func(port string) string {
		if delayed[port] {
			return delayDevice(port)
		}
		return port
	}
	for i, f := range list {
		device := deviceOf(portOf(l, f))
		switch f.Kind {
		case FaultDrop:
			writeChain(&text, chain(i, f.Direction), f.Direction, device, "drop")
		case FaultNoForward:
			writeChain(&text, chain(i, DirectionIn), DirectionIn, device, "drop")
			writeChain(&text, chain(i, DirectionOut), DirectionOut, device, "drop")
		case FaultFilterPort:
			writeFilter(&text, i, l, f, deviceOf)
		case FaultLoss:
			rule := fmt.Sprintf("numgen random mod 100 < %d drop", f.Percent)
			writeChain(&text, chain(i, DirectionIn), DirectionIn, device, rule)
			writeChain(&text, chain(i, DirectionOut), DirectionOut, device, rule)
		case FaultPartition:
			writePartition(&text, i, l, f, deviceOf)
		default: // not a matter of packets
		}
	}
	text.WriteString("}\n")
	return text.String()
}

// chain returns the name of a fault's chain by the fault's number.
func chain(i int, direction string) string { return fmt.Sprintf("f%d_%s", i, direction) }

// writeChain writes one chain. Packets to the host leave the switch by the
// host's port, and the other way round.
func writeChain(text *strings.Builder, name, direction, device, rule string) {
	hook := map[string]string{DirectionIn: "egress", DirectionOut: "ingress"}[direction]
	fmt.Fprintf(text, "\tchain %s {\n\t\ttype filter hook %s device %q priority 0; policy accept;\n\t\tcounter %s\n\t}\n",
		name, hook, device, rule)
}

// writeFilter drops what goes to a port, on both networks, because a host's
// peer may be reached by either. Packets to the port on existing connections
// are dropped too; answers from it are not.
func writeFilter(text *strings.Builder, i int, l Layout, f Fault, deviceOf func(string) string) {
	h, _ := l.Host(f.Host)
	protocol := cmp.Or(f.Protocol, "{ tcp, udp }")
	rule := fmt.Sprintf("meta l4proto %s th dport %d drop", protocol, f.Port)
	for _, direction := range []string{DirectionIn, DirectionOut} {
		if f.Direction != direction && f.Direction != DirectionBoth {
			continue
		}
		for n, nic := range []NIC{h.Machine, h.Fencing} {
			writeChain(text, fmt.Sprintf("%s_%d", chain(i, direction), n), direction, deviceOf(nic.Port), rule)
		}
	}
}

// writePartition drops frames between a host and every other host by the MAC
// address of the sender: names and addresses may move, and a broadcast has no
// single receiver.
func writePartition(text *strings.Builder, i int, l Layout, f Fault, deviceOf func(string) string) {
	var others []string
	self, _ := l.Host(f.Host)
	for n, h := range l.Hosts {
		if h.Name == f.Host {
			continue
		}
		nic := nicOf(h, f.NIC)
		others = append(others, nic.MAC)
		writeChain(text, fmt.Sprintf("%s_%d", chain(i, DirectionIn), n), DirectionIn, deviceOf(nic.Port), "ether saddr "+nicOf(self, f.NIC).MAC+" drop")
	}
	if len(others) > 0 {
		writeChain(text, chain(i, DirectionIn), DirectionIn, deviceOf(nicOf(self, f.NIC).Port), "ether saddr { "+strings.Join(others, ", ")+" } drop")
	}
}

func portOf(l Layout, f Fault) string {
	h, _ := l.Host(f.Host)
	return nicOf(h, f.NIC).Port
}
