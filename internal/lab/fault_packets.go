package lab

import (
	"fmt"
	"strings"
)

// packetRules returns the nftables script that drops what the faults drop,
// and nothing else. The rules sit on the switch's ports, out of the hosts'
// reach, and see a host's packets with whatever address they carry.
func packetRules(l Layout, list []Fault) string {
	delayed := map[string]bool{}
	for _, f := range list {
		if f.Kind == FaultDelay {
			delayed[portOf(l, f)] = true
		}
	}
	var text strings.Builder
	text.WriteString("table netdev faults\ndelete table netdev faults\ntable netdev faults {\n")
	for i, f := range list {
		device := portOf(l, f)
		if delayed[device] {
			device = delayDevice(device)
		}
		switch f.Kind {
		case FaultDrop:
			writeChain(&text, i, f.Direction, device, "drop")
		case FaultLoss:
			rule := fmt.Sprintf("numgen random mod 100 < %d drop", f.Percent)
			writeChain(&text, i, DirectionIn, device, rule)
			writeChain(&text, i, DirectionOut, device, rule)
		default: // not a matter of packets
		}
	}
	text.WriteString("}\n")
	return text.String()
}

// writeChain writes one chain. What goes in to the host leaves the switch by
// its port, and the other way round.
func writeChain(text *strings.Builder, i int, direction, device, rule string) {
	hook := map[string]string{DirectionIn: "egress", DirectionOut: "ingress"}[direction]
	fmt.Fprintf(text, "\tchain f%d_%s {\n\t\ttype filter hook %s device %q priority 0; policy accept;\n\t\tcounter %s\n\t}\n",
		i, direction, hook, device, rule)
}

func portOf(l Layout, f Fault) string {
	h, _ := l.Host(f.Host)
	return nicOf(h, f.NIC).Port
}
