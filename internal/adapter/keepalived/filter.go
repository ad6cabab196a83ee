package keepalived

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/nftable"
)

// filterTable is the nftables table that this package owns.
const filterTable = "holdfast_vrrp"

// vrrpProtocol is the IP protocol number of VRRP: RFC 9568.
const vrrpProtocol = 112

// Filter lists the hosts that may send VRRP to this host's own addresses.
// Adverts do not prove who sent them. The filter drops adverts from foreign
// hosts, adverts in a peer's name from a hardware address that is not the
// peer's, and adverts of a peer for a VIP that it may never hold, as a worker
// for the API's. keepalived drops these too, but then forgets to send its own
// (seen with 2.2.7). Multicast, and other router ids, belong to other programs
// on this host.
type Filter struct {
	Own []netip.Addr
	// Peers holds the peers of each VIP, by its router id.
	Peers map[uint8][]netip.Addr
	// Senders holds the hardware addresses of peers; a peer without an entry
	// may send from any.
	Senders map[netip.Addr][]string
}

// side is one family of the filter: the offsets of its addresses in a packet.
type side struct {
	suffix      string
	key, pair   nftables.SetDatatype
	family      byte
	source, dst uint32
	// hops is the offset of the remaining hop limit.
	hops   uint32
	length uint32
	keep   func(netip.Addr) bool
}

var sides = []side{
	{"4", nftables.TypeIPAddr, paired(nftables.TypeIPAddr), unix.NFPROTO_IPV4, 12, 16, 8, 4, netip.Addr.Is4},
	{"6", nftables.TypeIP6Addr, paired(nftables.TypeIP6Addr), unix.NFPROTO_IPV6, 8, 24, 7, 16, netip.Addr.Is6},
}

// wanted is the wanted content of the table.
type wanted struct {
	table *nftables.Table
	chain *nftables.Chain
	sets  []wantedSet
	rules [][]expr.Any
}

type wantedSet struct {
	*nftables.Set
	keys [][]byte
}

// content returns the table for a filter.
func (f Filter) content() wanted {
	accept := nftables.ChainPolicyAccept
	table := &nftables.Table{Name: filterTable, Family: nftables.TableFamilyINet}
	w := wanted{table: table, chain: &nftables.Chain{
		Name: "input", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
		Priority: nftables.ChainPriorityFilter, Policy: &accept,
	}}
	add := func(name string, key nftables.SetDatatype, keys [][]byte) *nftables.Set {
		id := uint32(len(w.sets)) + 1 //nolint:gosec // a handful
		set := &nftables.Set{Table: table, ID: id, Name: name, KeyType: key}
		w.sets = append(w.sets, wantedSet{set, keys})
		return set
	}
	for _, s := range sides {
		own := add("own"+s.suffix, s.key, keys(of(f.Own, s)))
		peers := add("peers"+s.suffix, s.key, keys(of(slices.Concat(slices.Collect(maps.Values(f.Peers))...), s)))
		bound := add("bound"+s.suffix, s.key, keys(of(f.bound(), s)))
		pairs := add("pairs"+s.suffix, s.pair, f.pairs(s))
		strangers := [][]expr.Any{fromNoPeer(s, peers), fromAfar(s), fromAnotherNIC(s, bound, pairs)}
		for _, id := range slices.Sorted(maps.Keys(f.Peers)) {
			name := fmt.Sprintf("peers%s_%d", s.suffix, id)
			peers := add(name, s.key, keys(of(f.Peers[id], s)))
			strangers = append(strangers, append(about(id), fromNoPeer(s, peers)...))
		}
		for _, stranger := range strangers {
			exprs := append(advertTo(s, own), stranger...)
			w.rules = append(w.rules, append(exprs, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}))
		}
	}
	return w
}

// Apply makes the host's table match the filter, in one transaction, and
// reports whether it had to. It compares the complete table: somebody who edits
// a rule in its place leaves the number of rules unchanged.
func (f Filter) Apply() (changed bool, err error) {
	conn, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("nftables: %w", err)
	}
	w := f.content()
	if w.applied(conn) {
		return false, nil
	}
	conn.AddTable(w.table) // so that the next line has a table to delete
	conn.DelTable(w.table)
	conn.AddTable(w.table)
	conn.AddChain(w.chain)
	for _, s := range w.sets {
		if err := conn.AddSet(s.Set, elements(s.keys)); err != nil {
			return false, fmt.Errorf("table %s: %w", filterTable, err)
		}
	}
	for _, exprs := range w.rules {
		conn.AddRule(&nftables.Rule{Table: w.table, Chain: w.chain, Exprs: exprs})
	}
	if err := conn.Flush(); err != nil {
		return false, fmt.Errorf("write table %s: %w", filterTable, err)
	}
	return true, nil
}

// advertTo matches VRRP packets to one of this host's own addresses.
func advertTo(s side, own *nftables.Set) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{s.family}},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{vrrpProtocol}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: s.dst, Len: s.length},
		&expr.Lookup{SourceRegister: 1, SetName: own.Name, SetID: own.ID},
	}
}

// about matches adverts with this router id: the second byte of VRRP (RFC
// 9568).
func about(id uint8) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 1, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{id}},
	}
}

func fromNoPeer(s side, peers *nftables.Set) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: s.source, Len: s.length},
		&expr.Lookup{SourceRegister: 1, SetName: peers.Name, SetID: peers.ID, Invert: true},
	}
}

// fromAfar matches packets that a router has forwarded: peers are on the same
// network and send with 255. keepalived checks that too, but many such adverts
// make it forget the time of the good ones (seen with 2.2.7).
func fromAfar(s side) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: s.hops, Len: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{255}},
	}
}

// fromAnotherNIC matches packets in a peer's name from a hardware address that
// the peer does not have. It compares nothing on a NIC that is not Ethernet.
func fromAnotherNIC(s side, bound, pairs *nftables.Set) []expr.Any {
	// The second part of a pair follows the first. After an IPv4 address it is
	// in a register of 4 bytes (NFT_REG32_01), after an IPv6 address in the
	// next 16-byte register, by the numbers that the kernel gives back.
	second := uint32(9)
	if s.length == 16 {
		second = 2
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: s.source, Len: s.length},
		&expr.Lookup{SourceRegister: 1, SetName: bound.Name, SetID: bound.ID},
		&expr.Meta{Key: expr.MetaKeyIIFTYPE, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint16(unix.ARPHRD_ETHER)},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: s.source, Len: s.length},
		&expr.Payload{DestRegister: second, Base: expr.PayloadBaseLLHeader, Offset: etherSource, Len: etherLength},
		&expr.Lookup{SourceRegister: 1, SetName: pairs.Name, SetID: pairs.ID, Invert: true},
	}
}

// The position of the sender's address in a frame.
const (
	etherSource = 6
	etherLength = 6
)

// paired returns the type of an address together with a hardware address.
func paired(address nftables.SetDatatype) nftables.SetDatatype {
	pair, err := nftables.ConcatSetType(address, nftables.TypeEtherAddr)
	if err != nil {
		panic(err) // two are not too many
	}
	return pair
}

// pairs returns a family's peers with each of their hardware addresses, in the
// layout of nftables: each part filled up to 4 bytes. It leaves out texts that
// are no hardware address.
func (f Filter) pairs(s side) [][]byte {
	var out [][]byte
	for a, list := range f.Senders {
		if !s.keep(a) {
			continue
		}
		for _, mac := range ethernet(list) {
			out = append(out, slices.Concat(a.AsSlice(), mac, []byte{0, 0}))
		}
	}
	slices.SortFunc(out, bytes.Compare)
	return slices.CompactFunc(out, bytes.Equal)
}

// bound returns the peers with a known hardware address.
func (f Filter) bound() []netip.Addr {
	var out []netip.Addr
	for a, list := range f.Senders {
		if len(ethernet(list)) > 0 {
			out = append(out, a)
		}
	}
	return out
}

// ethernet returns the hardware addresses in a list, without invalid texts.
func ethernet(list []string) []net.HardwareAddr {
	var out []net.HardwareAddr
	for _, text := range list {
		if mac, err := net.ParseMAC(text); err == nil && len(mac) == etherLength {
			out = append(out, mac)
		}
	}
	return out
}

// of returns the addresses of a family, each once.
func of(list []netip.Addr, s side) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		if s.keep(a) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func keys(list []netip.Addr) [][]byte {
	var out [][]byte
	for _, a := range list {
		out = append(out, a.AsSlice())
	}
	return out
}

func elements(list [][]byte) []nftables.SetElement {
	var out []nftables.SetElement
	for _, k := range list {
		out = append(out, nftables.SetElement{Key: k})
	}
	return out
}

// applied reports whether the host's table is this one. A table that cannot be
// read is not.
func (w wanted) applied(conn *nftables.Conn) bool {
	chains, err := nftable.Chains(conn, filterTable)
	if err != nil || len(chains) != 1 || !nftable.SameChain(chains[0], w.chain) {
		return false
	}
	rules, err := conn.GetRules(w.table, w.chain)
	if err != nil || !nftable.SameRules(rules, w.rules) {
		return false
	}
	for _, s := range w.sets {
		if !has(conn, w.table, s.Name, s.keys) {
			return false
		}
	}
	return true
}

func has(conn *nftables.Conn, table *nftables.Table, name string, want [][]byte) bool {
	set, err := conn.GetSetByName(table, name)
	if err != nil {
		return false
	}
	list, err := conn.GetSetElements(set)
	if err != nil || len(list) != len(want) {
		return false
	}
	for _, e := range list {
		if !slices.ContainsFunc(want, func(k []byte) bool { return bytes.Equal(k, e.Key) }) {
			return false
		}
	}
	return true
}

// DroppedAdverts returns how many adverts the filter has dropped since the table was
// last written, 0 without a table.
func DroppedAdverts() (uint64, error) {
	conn, err := nftables.New()
	if err != nil {
		return 0, fmt.Errorf("nftables: %w", err)
	}
	table := &nftables.Table{Name: filterTable, Family: nftables.TableFamilyINet}
	rules, err := conn.GetRules(table, &nftables.Chain{Name: "input", Table: table})
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read table %s: %w", filterTable, err)
	}
	var n uint64
	for _, r := range rules {
		for _, e := range r.Exprs {
			if c, ok := e.(*expr.Counter); ok {
				n += c.Packets
			}
		}
	}
	return n, nil
}
