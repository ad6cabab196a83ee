package mdns

import (
	"testing"

	"github.com/miekg/dns"
)

// On one link a site's clusters may have similar names: edge, edge-2, my-edge.
func TestAClusterWhoseNameContainsOursIsAnotherOne(t *testing.T) {
	instance := func(name string) string { return escape(name) + "._workstation._tcp.local." }
	for _, c := range []struct {
		name, label string
		text        []string
		ours        bool
	}{
		{"our own", "edge Workstation-cp-9", []string{"cluster=edge"}, true},
		{"our own, in other letters", "EDGE Workstation-cp-9", []string{"org.example=1", "Cluster=Edge"}, true},
		{"a longer name", "edge-2 Workstation-cp-9", []string{"cluster=edge-2"}, false},
		{"a name that ends with ours", "my-edge Workstation-cp-9", []string{"cluster=my-edge"}, false},
		{"a host called as we are", "shop Workstation-edge", []string{"cluster=shop"}, false},
		{"a label like ours and another text", "edge Workstation-cp-9", []string{"cluster=edge-2"}, false},
		{"no text, our label", "edge Workstation-cp-9", []string{""}, true},
		{"no text, a longer label", "edge-2 Workstation-cp-9", []string{""}, false},
		{"no text, a label with ours in it", "shop Workstation-edge", []string{""}, false},
	} {
		r := newRig(t, func(conf *config) { conf.filter = "edge" })
		records := neighbour{"cp-9", "edge", []string{"192.0.2.29"}, 120}.records()
		records[0].(*dns.PTR).Ptr = instance(c.label)
		records[1].Header().Name, records[2].Header().Name = instance(c.label), instance(c.label)
		records[2].(*dns.TXT).Txt = c.text
		if got := r.hear(from("192.0.2.29", records...)); got != c.ours {
			t.Errorf("%s: taken is %v", c.name, got)
		}
	}
}
