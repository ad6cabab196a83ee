package keepalived

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
)

// relayTable is the name of two nftables tables that this package owns, of the
// families ip and ip6: nft cannot pass packets on in inet.
const relayTable = "holdfast_relay"

// relaySide is the table of one family.
type relaySide struct {
	table  *nftables.Table
	chain  *nftables.Chain
	former *nftables.Set
	rule   []expr.Any
}

func relaySides() []relaySide {
	return []relaySide{
		newRelaySide(nftables.TableFamilyIPv4, nftables.TypeIPAddr, 16, 4),
		newRelaySide(nftables.TableFamilyIPv6, nftables.TypeIP6Addr, 24, 16),
	}
}

// newRelaySide returns the table with, in nft's notation:
//
//	tcp flags & syn == 0x0 ct state invalid,new dup to ip daddr map @former drop
//
// A packet of a connection that began elsewhere goes to the former holder of its
// VIP, and to nobody on this host, who would reset it. The kernel limits how often
// two hosts can pass a packet to and fro by its remaining hops.
func newRelaySide(family nftables.TableFamily, address nftables.SetDatatype, offset, length uint32) relaySide {
	accept := nftables.ChainPolicyAccept
	s := relaySide{table: &nftables.Table{Name: relayTable, Family: family}}
	// After connection tracking, before the translation of addresses.
	s.chain = &nftables.Chain{
		Name: "arriving", Table: s.table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityMangle, Policy: &accept,
	}
	s.former = &nftables.Set{Table: s.table, ID: 1, Name: "former", IsMap: true, HasTimeout: true, KeyType: address, DataType: address}
	unknown := binaryutil.NativeEndian.PutUint32(expr.CtStateBitINVALID | expr.CtStateBitNEW)
	none := make([]byte, len(unknown))
	s.rule = []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{tcpSYN}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0}},
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: unknown, Xor: none},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: none},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: s.former.Name, SetID: s.former.ID},
		&expr.Dup{RegAddr: 1},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}
	return s
}

// tcpSYN is the flag of the first packet of a connection: RFC 9293.
const tcpSYN = 0x02

// PassOn has packets of unknown TCP connections to a VIP passed on to its former
// holder for a while, at the end of which the kernel forgets it.
func PassOn(r vrrp.Relay, d time.Duration) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	for _, s := range relaySides() {
		if (s.table.Family == nftables.TableFamilyIPv4) != r.VIP.Is4() {
			continue
		}
		there, err := s.there(conn)
		if err != nil {
			return err
		}
		if !there {
			if err := s.make(conn); err != nil {
				return err
			}
		}
		element := nftables.SetElement{Key: r.VIP.AsSlice(), Val: r.Former.AsSlice(), Timeout: d}
		if err := conn.SetAddElements(s.former, []nftables.SetElement{element}); err != nil {
			return fmt.Errorf("table %s: %w", relayTable, err)
		}
		if err := conn.Flush(); err != nil {
			return fmt.Errorf("write table %s: %w", relayTable, err)
		}
	}
	return nil
}

// make puts the table in place of one that somebody has changed.
func (s relaySide) make(conn *nftables.Conn) error {
	conn.AddTable(s.table) // so that the next line has a table to delete
	conn.DelTable(s.table)
	conn.AddTable(s.table)
	if err := conn.AddSet(s.former, nil); err != nil {
		return fmt.Errorf("table %s: %w", relayTable, err)
	}
	conn.AddChain(s.chain)
	conn.AddRule(&nftables.Rule{Table: s.table, Chain: s.chain, Exprs: s.rule})
	return nil
}

// there reports whether the table is on the host, with a chain and a rule.
func (s relaySide) there(conn *nftables.Conn) (bool, error) {
	tables, err := conn.ListTablesOfFamily(s.table.Family)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	if !slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == relayTable }) {
		return false, nil
	}
	rules, err := conn.GetRules(s.table, s.chain)
	if err != nil {
		return false, nil //nolint:nilerr // somebody took the chain away: the table is made anew
	}
	return len(rules) == 1, nil
}
