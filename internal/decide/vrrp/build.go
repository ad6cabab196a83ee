package vrrp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// builder gathers the instances of one host.
type builder struct {
	view state.NetworkView
	ids  state.RouterIDs
	out  []Instance
	// missing are the own addresses that are on no interface, undecided the VIPs that go by one.
	missing   []string
	undecided []netip.Addr
	// away lists the VIPs that this host does not hold, each with the reason.
	away []string
}

func newBuilder(v state.NetworkView) *builder {
	return &builder{view: v, ids: IDs(v.Settings)}
}

// add adds one instance per VIP for which this host has an address. A host without
// an address of the VIP's family stays out, and so does one in another network than
// the VIP. Of a VIP whose own address is on no interface at the moment nothing is decided.
func (b *builder) add(kind Kind, vips []netip.Addr, self state.Node, nodes []state.Node) {
	for i, vip := range vips {
		net, away := b.place(vip, nodes)
		source, ok := addressFor(self, vip, net, b.view.Settings.VIPs())
		if !ok {
			continue
		}
		nic, ok := interfaceOf(b.view, source)
		if !ok {
			b.undecided = append(b.undecided, vip)
			if !slices.Contains(b.missing, source.String()) {
				b.missing = append(b.missing, source.String())
			}
			continue
		}
		if away == "" {
			away = b.unheard(net, source, nodes)
		}
		if away != "" {
			b.away = append(b.away, vip.String()+" "+away)
			continue
		}
		b.out = append(b.out, Instance{
			Name: b.name(kind, i), Kind: kind, VIP: vip, Interface: nic, Device: device(net, nic), Source: source,
			Peers: b.peers(vip, net, source, nodes), RouterID: b.id(kind), Priority: base(kind),
		})
	}
}

func (b *builder) name(kind Kind, i int) string {
	return fmt.Sprintf("%s_%s_%d", b.view.Settings.Cluster, strings.ToUpper(string(kind)), i)
}

func (b *builder) id(kind Kind) uint8 {
	if kind == API {
		return b.ids.API
	}
	return b.ids.Ingress
}

func base(kind Kind) int {
	if kind == API {
		return APIPriority
	}
	return IngressPriority
}

// device returns the interface for the VIP: the one on the VIP's own subnet, else
// the one of the own address.
func device(net subnet, nic string) string {
	if net.nic != "" {
		return net.nic
	}
	return nic
}

// peers returns the other hosts' addresses. Where this host is on the VIP's own
// subnet it leaves out a node that is not, because that node could neither receive
// the adverts nor hold the VIP. A node of a site that moves counts by its addresses of both
// places: whichever it has, the two hear each other.
func (b *builder) peers(vip netip.Addr, net subnet, source netip.Addr, nodes []state.Node) []netip.Addr {
	var out []netip.Addr
	for _, n := range nodes {
		if n.Name == b.view.Host.NodeName {
			continue
		}
		for _, a := range bothOf(n, vip, net, b.view.Settings.VIPs()) {
			reachable := !net.prefix.Contains(source) || net.prefix.Contains(a)
			if reachable && a != source && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// verdict returns what was gathered. While no own address is on an interface, as when it moves from a
// network card to a bridge, it decides nothing. Where one family alone lacks its address, the VIPs of
// the other one follow hosts that come and go: a newcomer that they do not know would take them too.
func (b *builder) verdict(why string) Verdict {
	reasons := append([]string{why}, b.away...)
	if len(b.missing) > 0 {
		gone := "own address " + strings.Join(b.missing, ", ") + " is not on any interface"
		if len(b.out) == 0 || b.view.Settings.SyncFamilies { // a group moves as one
			return keep(gone)
		}
		reasons = append(reasons, gone)
	}
	return Verdict{Known: true, Why: strings.Join(reasons, "; "), Instances: b.out, Undecided: b.undecided, Sync: b.view.Settings.SyncFamilies}
}
