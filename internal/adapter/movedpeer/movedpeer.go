// Package movedpeer owns one nftables table of a host. While a site moves to other
// addresses, etcd still looks for its other members where they were, until each of them was
// told to be looked for elsewhere; and that takes a quorum. The table leads these
// connections to where the members are (docs/adr/0095).
package movedpeer

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/holdfast/holdfast/internal/adapter/nftable"
)

// TableName is the table's name in the family inet.
const TableName = "holdfast_moved"

// peerPort is the port at which members of etcd reach one another.
const peerPort = 2380

// Table is the table in one network namespace.
type Table struct {
	// NetNS is a descriptor of the namespace, 0 for this process's own.
	NetNS int
}

// Set makes the table lead connections of this host to the port of etcd's members at each
// address to another one of the same family. Without any the table goes. It writes in one
// transaction, and only if the table differs.
func (t Table) Set(leads map[netip.Addr]netip.Addr) (changed bool, err error) {
	conn, err := nftable.Open(t.NetNS)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	c := content(leads)
	return c.Set(conn, len(c.Rules) > 0)
}

func content(leads map[netip.Addr]netip.Addr) nftable.Content {
	c := nftable.NewContent(TableName)
	c.Translate("own", nftables.ChainHookOutput)
	for _, from := range slices.SortedFunc(maps.Keys(leads), netip.Addr.Compare) {
		if to := leads[from]; to.Is4() == from.Is4() && to != from {
			c.Rules = append(c.Rules, rule(from, to))
		}
	}
	return c
}

// rule is, in nft's notation: ip daddr FROM tcp dport 2380 dnat ip to TO.
func rule(from, to netip.Addr) []expr.Any {
	return append(nftable.ToTCP(from, peerPort),
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: nftable.Family(from), RegAddrMin: 1, RegAddrMax: 1},
	)
}
