package kube

import (
	"encoding/json"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func FuzzNodesAsTheyComeFromAWatch(f *testing.F) {
	f.Add(line("ADDED", "a", "1", "10.98.0.11", "fd98::11"))
	f.Add(line("DELETED", "a", "2"))
	f.Add(end)
	f.Add(gone)
	f.Add(`{"type":"ADDED","object":{"metadata":{"name":"b","annotations":{"holdfast.io/vips":"x"}},"status":{"addresses":[{"type":"InternalIP","address":"::ffff:10.0.0.1%eth0"}]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e event
		if json.Unmarshal([]byte(text), &e) != nil {
			return
		}
		c := &collection[state.Node]{read: readNode, items: map[string]state.Node{"known": {Name: "known"}}, whole: true, version: "1"}
		c.begin()
		changed, err := c.take(e)
		if err != nil && changed {
			t.Error("an event that is not understood changes something")
		}
		for _, n := range c.list() {
			for _, a := range n.Addresses {
				if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
					t.Errorf("address %q", a)
				}
			}
		}
	})
}

func FuzzTheInfrastructure(f *testing.F) {
	f.Add(`{"metadata":{"annotations":{"holdfast.io/vrrp-router-ids":"77,92","holdfast.io/name-clients":"10.7.0.0/16, fd07::/48"}},"status":{"platformStatus":{"type":"BareMetal","baremetal":{"apiServerInternalIPs":["10.98.0.5"],"ingressIPs":["fe80::1%x"],"machineNetworks":["10.98.0.0/24"]}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := readInfrastructure([]byte(text))
		if err != nil {
			return
		}
		for _, a := range append(in.APIVIPs, in.IngressVIPs...) {
			if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
				t.Errorf("address %q", a)
			}
		}
	})
}
