package doctor

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatTheKernelDoesWithInterfacesIsTold(t *testing.T) {
	set := func(n NICs) func(*Facts) { return func(f *Facts) { f.Hosts[0].NICs.Value = n } }
	for _, c := range []one{
		{"two NICs that answer for each other", "nic-arp", set(NICs{Uplinks: []string{"eth0", "eth1"}, LooseARP: true}), finding.Warning, "cp-1: eth0, eth1 answer ARP for each other's addresses"},
		{"one NIC", "nic-arp", set(NICs{Uplinks: []string{"eth0"}, LooseARP: true}), finding.Note, "it has only one, eth0"},
		{"two NICs that do not", "nic-arp", set(NICs{Uplinks: []string{"eth0", "eth1"}}), finding.OK, ""},
		{"an older agent", "nic-arp", func(f *Facts) { f.Hosts[1].NICs = state.Fact[NICs]{} }, finding.Unknown, "ARP of interfaces of cp-2"},
		{"a NIC whose router is not heard", "nic-router-advertisements", set(NICs{Uplinks: []string{"eth0", "eth1"}, Deaf: []string{"eth1"}}), finding.Warning, "cp-1: router advertisements on eth1 are ignored"},
	} {
		t.Run(c.name, c.run)
	}
}
