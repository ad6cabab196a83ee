// Package redirect owns one nftables table of a host. The table leads the API
// port of the virtual IPs to the host's load balancer, for packets that arrive
// at the host and for packets that the host itself sends.
package redirect

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/nftable"
	"github.com/holdfast/holdfast/internal/decide/apilb"
)

// TableName is the table's name in the family inet.
const TableName = "holdfast_api"

// Table is the table in one network namespace.
type Table struct {
	// NetNS is a descriptor of the namespace, 0 for this process's own.
	NetNS int
}

// content returns the table for a redirect. Each chain has a rule per virtual
// IP; it takes effect only while the host itself has the address. So a virtual
// IP that moves needs no change here, and a pod's request that leaves this host
// is left to the holder. Only the port is translated, never the address: the
// host's own sockets and pods see the address that they asked for.
func content(r apilb.Redirect) nftable.Content {
	c := nftable.NewContent(TableName)
	c.Translate("arriving", nftables.ChainHookPrerouting)
	c.Translate("own", nftables.ChainHookOutput)
	c.Rules = append(c.Rules, tracking())
	for _, vip := range r.VIPs {
		c.Rules = append(c.Rules, rule(vip))
	}
	return c
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
	return append(nftable.ToTCP(vip, apilb.ServerPort),
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		nftable.Equal(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)),
		&expr.Immediate{Register: 1, Data: vip.AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(apilb.BalancerPort)},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: nftable.Family(vip),
			RegAddrMin: 1, RegAddrMax: 1, RegProtoMin: 2, RegProtoMax: 2, Specified: true,
		},
	)
}

// Set makes the table match the redirect, in one transaction, and reports
// whether it had to change anything.
func (t Table) Set(r apilb.Redirect) (changed bool, err error) {
	conn, err := nftable.Open(t.NetNS)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	return content(r).Set(conn, r.Table)
}

// Matches reports whether the table matches the redirect.
func (t Table) Matches(r apilb.Redirect) (bool, error) {
	conn, err := nftable.Open(t.NetNS)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseLasting() }()
	return content(r).Matches(conn, r.Table)
}
