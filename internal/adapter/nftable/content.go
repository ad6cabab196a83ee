package nftable

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// BeforeDestinationNAT is before dstnat, which kube-proxy, firewalld and container runtimes use:
// the first one that translates a connection decides.
const BeforeDestinationNAT = -110

// Content is a whole table of the family inet, all of whose chains have the same rules.
type Content struct {
	Table  *nftables.Table
	Chains []*nftables.Chain
	Rules  [][]expr.Any
}

// NewContent returns a table without chains.
func NewContent(name string) Content {
	return Content{Table: &nftables.Table{Name: name, Family: nftables.TableFamilyINet}}
}

// Translate adds a chain that translates connections at a hook, before others do.
func (c *Content) Translate(name string, hook *nftables.ChainHook) {
	accept := nftables.ChainPolicyAccept
	c.Chains = append(c.Chains, &nftables.Chain{
		Name: name, Table: c.Table, Type: nftables.ChainTypeNAT,
		Hooknum: hook, Priority: nftables.ChainPriorityRef(BeforeDestinationNAT), Policy: &accept,
	})
}

// Open returns a connection to a network namespace, 0 for this process's own. The caller ends it
// with CloseLasting.
func Open(netns int) (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(netns))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return conn, nil
}

// Matches reports whether the table is as it is wanted; there is false if none is.
func (c Content) Matches(conn *nftables.Conn, there bool) (bool, error) {
	found, err := Exists(conn, c.Table.Name)
	if err != nil || !found || !there {
		return found == there, err
	}
	chains, err := Chains(conn, c.Table.Name)
	if err != nil || !slices.EqualFunc(chains, c.Chains, SameChain) {
		return false, err
	}
	for _, chain := range chains {
		rules, err := conn.GetRules(c.Table, chain)
		if err != nil {
			return false, fmt.Errorf("list rules of nftables chain %s: %w", chain.Name, err)
		}
		if !SameRules(rules, c.Rules) {
			return false, nil
		}
	}
	return true, nil
}

// Set makes the table as it is wanted, in one transaction, and only if it differs. Without there
// the table goes. It compares the complete table, and does not rely on a mark that it left itself.
func (c Content) Set(conn *nftables.Conn, there bool) (changed bool, err error) {
	if same, err := c.Matches(conn, there); err != nil || same {
		return false, err
	}
	conn.AddTable(c.Table) // so that the next line has a table to delete
	conn.DelTable(c.Table)
	if there {
		conn.AddTable(c.Table)
		for _, chain := range c.Chains {
			conn.AddChain(chain)
			for _, e := range c.Rules {
				conn.AddRule(&nftables.Rule{Table: c.Table, Chain: chain, Exprs: e})
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return false, fmt.Errorf("replace nftables table %s: %w", c.Table.Name, err)
	}
	return true, nil
}

// Family returns the number of an address's family, as rules name it.
func Family(a netip.Addr) uint32 {
	if a.Is6() {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// ToTCP is, in nft's notation: ip daddr ADDRESS tcp dport PORT, or ip6.
func ToTCP(a netip.Addr, port uint16) []expr.Any {
	offset := uint32(16) // of the destination in the header
	if a.Is6() {
		offset = 24
	}
	address := a.AsSlice()
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		Equal([]byte{byte(Family(a))}), //nolint:gosec // 2 or 10
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(address))}, //nolint:gosec // 4 or 16
		Equal(address),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		Equal([]byte{unix.IPPROTO_TCP}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		Equal(binaryutil.BigEndian.PutUint16(port)),
	}
}

// Equal compares the first register with data.
func Equal(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
