// Package movedpeer owns one nftables table of a host. While a site moves to other
// addresses, etcd still looks for its other members where they were, until each of them was
// told to be looked for elsewhere; and that takes a quorum. The table leads these
// connections to where the members are (docs/adr/0095).
package movedpeer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/nftable"
)

// TableName is the table's name in the family inet.
const TableName = "holdfast_moved"

// peerPort is the port at which members of etcd reach one another.
const peerPort = 2380

// priority is before dstnat, as that of the other tables of Holdfast that translate.
const priority = -110

// Table is the table in one network namespace.
type Table struct {
	// NetNS is a descriptor of the namespace, 0 for this process's own.
	NetNS int
}

// Set makes the table lead connections of this host to the port of etcd's members at each
// address to another one of the same family. Without any the table goes. It writes in one
// transaction, and only if the table differs.
func (t Table) Set(leads map[netip.Addr]netip.Addr) (changed bool, err error) {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(t.NetNS))
	if err != nil {
		return false, fmt.Errorf("open nftables: %w", err)
	}
	defer func() { _ = conn.CloseLasting() }()
	table, chain, rules := content(leads)
	same, err := matches(conn, table, chain, rules)
	if err != nil || same {
		return false, err
	}
	conn.AddTable(table) // so that the next line has a table to delete
	conn.DelTable(table)
	if len(rules) > 0 {
		conn.AddTable(table)
		conn.AddChain(chain)
		for _, e := range rules {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: e})
		}
	}
	if err := conn.Flush(); err != nil {
		return false, fmt.Errorf("replace nftables table %s: %w", TableName, err)
	}
	return true, nil
}

func content(leads map[netip.Addr]netip.Addr) (*nftables.Table, *nftables.Chain, [][]expr.Any) {
	accept := nftables.ChainPolicyAccept
	table := &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}
	chain := &nftables.Chain{
		Name: "own", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityRef(priority), Policy: &accept,
	}
	var rules [][]expr.Any
	for _, from := range slices.SortedFunc(maps.Keys(leads), netip.Addr.Compare) {
		if to := leads[from]; to.Is4() == from.Is4() && to != from {
			rules = append(rules, rule(from, to))
		}
	}
	return table, chain, rules
}

// rule is, in nft's notation: ip daddr FROM tcp dport 2380 dnat ip to TO.
func rule(from, to netip.Addr) []expr.Any {
	family, offset := uint32(unix.NFPROTO_IPV4), uint32(16)
	if from.Is6() {
		family, offset = unix.NFPROTO_IPV6, 24
	}
	address := from.AsSlice()
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		equal([]byte{byte(family)}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(address))}, //nolint:gosec // 4 or 16
		equal(address),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		equal([]byte{unix.IPPROTO_TCP}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		equal(binaryutil.BigEndian.PutUint16(peerPort)),
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: 1, RegAddrMax: 1},
	}
}

func equal(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

func matches(conn *nftables.Conn, table *nftables.Table, chain *nftables.Chain, want [][]expr.Any) (bool, error) {
	found, err := nftable.Exists(conn, TableName)
	if err != nil || !found || len(want) == 0 {
		return found == (len(want) > 0), err
	}
	chains, err := nftable.Chains(conn, TableName)
	if err != nil || len(chains) != 1 || !nftable.SameChain(chains[0], chain) {
		return false, err
	}
	rules, err := conn.GetRules(table, chain)
	if err != nil {
		return false, fmt.Errorf("list rules of nftables table %s: %w", TableName, err)
	}
	return nftable.SameRules(rules, want), nil
}
