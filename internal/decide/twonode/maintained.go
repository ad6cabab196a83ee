package twonode

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Maintained returns the configuration in which Pacemaker acts on nothing. With it the two hosts of three
// begin, whose etcd kubelet has (docs/adr/0102).
func Maintained(in Input) Config {
	c := Wanted(in)
	c.Properties = append(slices.Clone(c.Properties), Setting{"maintenance-mode", "true", "kubelet has etcd until the plan for two control planes gives it to the etcd keepers"})
	return c
}

// Parameters returns what Pacemaker tells the etcd keeper by Wanted's configuration.
func Parameters(in Input) (state.EtcdParameters, error) {
	p := state.UsualEtcdParameters()
	p.Nodes = map[string]netip.Addr{}
	for _, n := range in.Nodes {
		address, err := netip.ParseAddr(n.Address)
		if err != nil {
			return p, fmt.Errorf("address of %s: %w", n.Name, err)
		}
		p.Nodes[n.Name] = address
	}
	return p, nil
}
