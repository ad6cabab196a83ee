// Package firewall owns one nftables table of a host, which closes ports of hosts to
// clients that have no business there. It also finds tables of others that refuse
// whatever their rules do not name.
package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/nftable"
	"github.com/holdfast/holdfast/internal/adapter/nftwatch"
	"github.com/holdfast/holdfast/internal/decide/ports"
)

// TableName is the table's name in the family inet.
const TableName = "holdfast_input"

const (
	// chunk is the number of addresses in one message: the kernel's protocol cannot
	// hold more than 64 KiB.
	chunk = 512
	// buffer has room for a transaction with the addresses of thousands of hosts.
	buffer = 4 << 20
)

// Table is the table in one network namespace.
type Table struct {
	// NetNS is a descriptor of the namespace, 0 for this process's own.
	NetNS int
	// options are set by tests.
	options []nftables.ConnOption
}

// chains are the chains of the table: one for packets to the host, and one for packets
// that it forwards. Both accept everything that no rule drops; other tables may still
// drop it.
var chains = []struct {
	name string
	hook *nftables.ChainHook
}{{"input", nftables.ChainHookInput}, {"forward", nftables.ChainHookForward}}

// wanted is the wanted content of the table.
type wanted struct {
	table  *nftables.Table
	sets   []*nftables.Set
	chains []*nftables.Chain
	rules  [][]*nftables.Rule
}

func content(r ports.Rules) wanted {
	accept := nftables.ChainPolicyAccept
	w := wanted{table: &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}}
	for _, s := range r.Sets {
		w.sets = append(w.sets, &nftables.Set{Table: w.table, Name: s.Name, KeyType: sideOf(s.IPv6).key})
	}
	for i, list := range [][]ports.Rule{r.Input, r.Forward} {
		c := &nftables.Chain{
			Name: chains[i].name, Table: w.table, Type: nftables.ChainTypeFilter, Hooknum: chains[i].hook,
			Priority: nftables.ChainPriorityFilter, Policy: &accept,
		}
		w.chains = append(w.chains, c)
		rules := []*nftables.Rule{{Table: w.table, Chain: c, Exprs: known()}}
		if *c.Hooknum == *nftables.ChainHookInput {
			rules = append([]*nftables.Rule{{Table: w.table, Chain: c, Exprs: loopback()}}, rules...)
		}
		for _, rule := range list {
			rules = append(rules, &nftables.Rule{
				Table: w.table, Chain: c, Exprs: exprs(rule, w.sets),
				UserData: userdata.AppendString(nil, userdata.TypeComment, rule.Why),
			})
		}
		w.rules = append(w.rules, rules)
	}
	return w
}

// Set makes the table match the rules, in one transaction, and reports whether it had
// to change anything.
func (t Table) Set(r ports.Rules) (changed bool, err error) {
	conn, err := t.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	same, err := matches(conn, r)
	if err != nil || same {
		return false, err
	}
	if err := replace(conn, r); err != nil {
		return false, fmt.Errorf("replace nftables table %s: %w", TableName, err)
	}
	return true, nil
}

func replace(conn *nftables.Conn, r ports.Rules) error {
	w := content(r)
	conn.AddTable(w.table) // so that the next line has a table to delete
	conn.DelTable(w.table)
	if r.On {
		conn.AddTable(w.table)
		for i, s := range w.sets {
			if err := addSet(conn, s, r.Sets[i].Addresses); err != nil {
				return err
			}
		}
		for i, c := range w.chains {
			conn.AddChain(c)
			for _, rule := range w.rules[i] {
				setIDs(rule.Exprs, w.sets)
				conn.AddRule(rule)
			}
		}
	}
	return conn.Flush()
}

func addSet(conn *nftables.Conn, s *nftables.Set, addresses []netip.Addr) error {
	if err := conn.AddSet(s, nil); err != nil {
		return err
	}
	for part := range slices.Chunk(addresses, chunk) {
		var elements []nftables.SetElement
		for _, a := range part {
			elements = append(elements, nftables.SetElement{Key: a.AsSlice()})
		}
		if err := conn.SetAddElements(s, elements); err != nil {
			return err
		}
	}
	return nil
}

// setIDs makes rules refer to sets of the same transaction.
func setIDs(list []expr.Any, sets []*nftables.Set) {
	for _, e := range list {
		if l, ok := e.(*expr.Lookup); ok {
			l.SetID = find(sets, l.SetName).ID
		}
	}
}

func find(sets []*nftables.Set, name string) *nftables.Set {
	return sets[slices.IndexFunc(sets, func(s *nftables.Set) bool { return s.Name == name })]
}

// Watch calls told whenever something happened to the table, including our own
// changes, and whenever a change may have been missed. It returns with the context, or
// when it cannot go on.
func (t Table) Watch(ctx context.Context, told func()) error {
	return nftwatch.Table{Name: TableName, NetNS: t.NetNS}.Follow(ctx, func() {}, told)
}

func (t Table) open() (*nftables.Conn, error) {
	options := append([]nftables.ConnOption{
		nftables.AsLasting(), nftables.WithNetNSFd(t.NetNS),
		nftables.WithSockOptions(func(c *netlink.Conn) error { return errors.Join(c.SetWriteBuffer(buffer), c.SetReadBuffer(buffer)) }),
	}, t.options...)
	conn, err := nftables.New(options...)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return conn, nil
}

// Matches reports whether the table matches the rules: it compares everything except
// the counters.
func (t Table) Matches(r ports.Rules) (bool, error) {
	conn, err := t.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	return matches(conn, r)
}

func matches(conn *nftables.Conn, r ports.Rules) (bool, error) {
	if found, err := nftable.Exists(conn, TableName); err != nil || !found || !r.On {
		return found == r.On, err
	}
	w := content(r)
	if same, err := sameSets(conn, w, r); err != nil || !same {
		return false, err
	}
	chains, err := nftable.Chains(conn, TableName)
	if err != nil || !slices.EqualFunc(chains, w.chains, nftable.SameChain) {
		return false, err
	}
	for i, c := range w.chains {
		have, err := conn.GetRules(w.table, c)
		if err != nil {
			return false, fmt.Errorf("list rules of nftables chain %s: %w", c.Name, err)
		}
		if !nftable.SameRules(have, said(w.rules[i])) {
			return false, nil
		}
	}
	return true, nil
}

// said returns the expressions of rules.
func said(rules []*nftables.Rule) (out [][]expr.Any) {
	for _, r := range rules {
		out = append(out, r.Exprs)
	}
	return out
}

func sameSets(conn *nftables.Conn, w wanted, r ports.Rules) (bool, error) {
	have, err := conn.GetSets(w.table)
	if err != nil {
		return false, fmt.Errorf("list sets of nftables table %s: %w", TableName, err)
	}
	if len(have) != len(w.sets) {
		return false, nil
	}
	for i, s := range w.sets {
		at := slices.IndexFunc(have, func(h *nftables.Set) bool { return h.Name == s.Name })
		if at < 0 || have[at].KeyType.GetNFTMagic() != s.KeyType.GetNFTMagic() {
			return false, nil
		}
		elements, err := conn.GetSetElements(&nftables.Set{Table: w.table, Name: s.Name, KeyType: s.KeyType})
		if err != nil {
			return false, fmt.Errorf("list the addresses of nftables set %s: %w", s.Name, err)
		}
		var addresses []netip.Addr
		for _, e := range elements {
			a, _ := netip.AddrFromSlice(e.Key)
			addresses = append(addresses, a)
		}
		slices.SortFunc(addresses, netip.Addr.Compare)
		if !slices.Equal(addresses, r.Sets[i].Addresses) {
			return false, nil
		}
	}
	return true, nil
}

// There reports whether the table exists.
func (t Table) There() (bool, error) {
	conn, err := t.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	return nftable.Exists(conn, TableName)
}

// side holds the offsets of a family's addresses in a packet.
type side struct {
	key          nftables.SetDatatype
	family       byte
	source, dest uint32
	length       uint32
}

func sideOf(ipv6 bool) side {
	if ipv6 {
		return side{nftables.TypeIP6Addr, unix.NFPROTO_IPV6, 8, 24, 16}
	}
	return side{nftables.TypeIPAddr, unix.NFPROTO_IPV4, 12, 16, 4}
}

// numbers are the IP protocol numbers.
var numbers = map[ports.Protocol]byte{ports.TCP: unix.IPPROTO_TCP, ports.UDP: unix.IPPROTO_UDP, ports.VRRP: vrrp}

// vrrp is the IP protocol number of VRRP.
const vrrp = 112

// exprs returns a rule in the kernel's expressions.
func exprs(r ports.Rule, sets []*nftables.Set) []expr.Any {
	s := sideOf(r.IPv6)
	out := []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, is([]byte{s.family})}
	if r.Protocol != "" {
		out = append(out, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, is([]byte{numbers[r.Protocol]}),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2})
		if r.First == r.Last {
			out = append(out, is(binaryutil.BigEndian.PutUint16(r.First)))
		} else {
			out = append(out, compare(expr.CmpOpGte, binaryutil.BigEndian.PutUint16(r.First)), compare(expr.CmpOpLte, binaryutil.BigEndian.PutUint16(r.Last)))
		}
	}
	if r.From.IsValid() {
		out = append(out, s.in(r.From, expr.CmpOpEq)...)
	}
	if r.Not != "" {
		out = append(out, s.address(s.source), &expr.Lookup{SourceRegister: 1, SetName: find(sets, r.Not).Name, Invert: true})
	}
	for _, n := range r.Nets {
		out = append(out, s.in(n, expr.CmpOpNeq)...)
	}
	if r.To != "" {
		out = append(out, s.address(s.dest), &expr.Lookup{SourceRegister: 1, SetName: find(sets, r.To).Name})
	}
	return append(out, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})
}

func (s side) address(at uint32) *expr.Payload {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: s.length}
}

// in matches packets from a network, or all others, depending on op.
func (s side) in(n netip.Prefix, op expr.CmpOp) []expr.Any {
	mask := make([]byte, s.length)
	for i := range n.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return []expr.Any{
		s.address(s.source),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: s.length, Mask: mask, Xor: make([]byte, s.length)},
		compare(op, n.Masked().Addr().AsSlice()),
	}
}

func compare(op expr.CmpOp, data []byte) *expr.Cmp { return &expr.Cmp{Op: op, Register: 1, Data: data} }

func is(data []byte) *expr.Cmp { return compare(expr.CmpOpEq, data) }

// loopback is, in nft's notation: iifname "lo" accept.
func loopback() []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, "lo")
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, is(name), &expr.Verdict{Kind: expr.VerdictAccept}}
}

// known is, in nft's notation: ct state established,related accept. A connection that
// the host or a pod has begun, or that was let in, goes on however the rules change.
func known() []expr.Any {
	states := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED)
	none := make([]byte, len(states))
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: states, Xor: none},
		compare(expr.CmpOpNeq, none),
		&expr.Verdict{Kind: expr.VerdictAccept},
	}
}
