// Package redirect owns one nftables table of a host. The table leads the API
// port of the virtual IPs to the host's load balancer, for packets that arrive
// at the host and for packets that the host itself sends.
package redirect

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/nftable"
	"github.com/holdfast/holdfast/internal/decide/apilb"
)

// TableName is the table's name in the family inet.
const TableName = "holdfast_api"

// priority is before dstnat, which kube-proxy, firewalld and container runtimes
// use: the first one that translates a connection decides.
const priority = -110

// Table is the table in one network namespace.
type Table struct {
	// NetNS is a descriptor of the namespace, 0 for this process's own.
	NetNS int
}

// wanted is the wanted content of the table.
type wanted struct {
	table  *nftables.Table
	chains []*nftables.Chain
	// rules are the rules of each chain; all chains have the same.
	rules [][]expr.Any
}

// content returns the table for a redirect. Each chain has a rule per virtual
// IP; it takes effect only while the host itself has the address. So a virtual
// IP that moves needs no change here, and a pod's request that leaves this host
// is left to the holder. Only the port is translated, never the address: the
// host's own sockets and pods see the address that they asked for.
func content(r apilb.Redirect) wanted {
	accept := nftables.ChainPolicyAccept
	w := wanted{table: &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}}
	for _, c := range []struct {
		name string
		hook *nftables.ChainHook
	}{{"arriving", nftables.ChainHookPrerouting}, {"own", nftables.ChainHookOutput}} {
		w.chains = append(w.chains, &nftables.Chain{
			Name: c.name, Table: w.table, Type: nftables.ChainTypeNAT,
			Hooknum: c.hook, Priority: nftables.ChainPriorityRef(priority), Policy: &accept,
		})
	}
	w.rules = append(w.rules, tracking())
	for _, vip := range r.VIPs {
		w.rules = append(w.rules, rule(vip))
	}
	return w
}

// tracking is, in nft's notation: ct state established accept. It decides
// nothing, since packets of an established connection do not come here. It
// exists because the kernel tracks connections only while a rule needs it:
// without such a rule, earlier connections to haproxy would not be translated
// any more.
func tracking() []expr.Any {
	established := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED)
	none := make([]byte, len(established))
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: established, Xor: none},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: none},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}
}

// rule is, in nft's notation: daddr VIP tcp dport 6443 fib daddr type local
// dnat to VIP:9445. It names the address only because nft cannot read back a
// rule without one, and people restore what they listed.
func rule(vip netip.Addr) []expr.Any {
	family, offset := uint32(unix.NFPROTO_IPV4), uint32(16)
	if vip.Is6() {
		family, offset = unix.NFPROTO_IPV6, 24
	}
	address := vip.AsSlice()
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		equal([]byte{byte(family)}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(address))}, //nolint:gosec // 4 or 16
		equal(address),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		equal([]byte{unix.IPPROTO_TCP}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		equal(binaryutil.BigEndian.PutUint16(apilb.ServerPort)),
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		equal(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)),
		&expr.Immediate{Register: 1, Data: address},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(apilb.BalancerPort)},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: family,
			RegAddrMin: 1, RegAddrMax: 1, RegProtoMin: 2, RegProtoMax: 2, Specified: true,
		},
	}
}

func equal(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

// Set makes the table match the redirect, in one transaction, and reports
// whether it had to change anything. It compares the complete table, and does
// not rely on a mark that it left itself.
func (t Table) Set(r apilb.Redirect) (changed bool, err error) {
	conn, err := t.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	same, err := matches(conn, r)
	if err != nil || same {
		return false, err
	}
	w := content(r)
	conn.AddTable(w.table) // so that the next line has a table to delete
	conn.DelTable(w.table)
	if r.Table {
		conn.AddTable(w.table)
		for _, c := range w.chains {
			conn.AddChain(c)
			for _, e := range w.rules {
				conn.AddRule(&nftables.Rule{Table: w.table, Chain: c, Exprs: e})
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return false, fmt.Errorf("replace nftables table %s: %w", TableName, err)
	}
	return true, nil
}

// Matches reports whether the table matches the redirect.
func (t Table) Matches(r apilb.Redirect) (bool, error) {
	conn, err := t.open()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	return matches(conn, r)
}

func (t Table) open() (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(t.NetNS))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return conn, nil
}

func matches(conn *nftables.Conn, r apilb.Redirect) (bool, error) {
	if found, err := nftable.Exists(conn, TableName); err != nil || !found || !r.Table {
		return found == r.Table, err
	}
	w := content(r)
	chains, err := nftable.Chains(conn, TableName)
	if err != nil || !slices.EqualFunc(chains, w.chains, nftable.SameChain) {
		return false, err
	}
	for _, c := range chains {
		rules, err := conn.GetRules(w.table, c)
		if err != nil {
			return false, fmt.Errorf("list rules of nftables chain %s: %w", c.Name, err)
		}
		if !nftable.SameRules(rules, w.rules) {
			return false, nil
		}
	}
	return true, nil
}
