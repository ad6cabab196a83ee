package firewall

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Other is somebody else's chain that refuses whatever no earlier rule lets
// through.
type Other struct {
	// Table is its table, with the family, for example "inet firewalld".
	Table, Chain string
	// Forward is true for a chain with the packets that the host forwards, to
	// and from pods, and false for one with packets to the host itself.
	Forward bool
}

func (o Other) String() string { return "chain " + o.Chain + " of table " + o.Table }

// deepest bounds how many jumps at the end of chains are followed.
const deepest = 8

// Others finds chains of others that refuse. It does not see tables of the
// older iptables, which are not in nftables.
func (t Table) Others() ([]Other, error) {
	conn, err := t.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseLasting() }()
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	var out []Other
	for _, c := range chains {
		hook, filters := filtering(c)
		if !filters || strings.HasPrefix(c.Table.Name, "holdfast_") {
			continue
		}
		refuses := c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
		if !refuses {
			if refuses, err = endRefuses(conn, c, deepest); err != nil {
				return nil, err
			}
		}
		if refuses {
			out = append(out, Other{Table: family(c.Table) + " " + c.Table.Name, Chain: c.Name, Forward: hook == *nftables.ChainHookForward})
		}
	}
	return out, nil
}

// family returns the family of an IP table, empty for any other.
func family(t *nftables.Table) string {
	switch t.Family {
	case nftables.TableFamilyINet:
		return "inet"
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyIPv6:
		return "ip6"
	default:
		return ""
	}
}

// filtering returns the hook of a chain, and whether IP packets to a host, or
// through it, pass the chain.
func filtering(c *nftables.Chain) (nftables.ChainHook, bool) {
	if family(c.Table) == "" || c.Type != nftables.ChainTypeFilter || c.Hooknum == nil {
		return 0, false
	}
	return *c.Hooknum, *c.Hooknum == *nftables.ChainHookInput || *c.Hooknum == *nftables.ChainHookForward
}

// endRefuses reports whether the last rule of a chain refuses whatever reaches
// it, or leads to a chain for which that is true.
func endRefuses(conn *nftables.Conn, c *nftables.Chain, depth int) (bool, error) {
	rules, err := conn.GetRules(c.Table, c)
	if err != nil {
		return false, fmt.Errorf("list rules of nftables chain %s: %w", c.Name, err)
	}
	if len(rules) == 0 || depth == 0 {
		return false, nil
	}
	refuses, next := judge(rules[len(rules)-1].Exprs)
	if next == "" {
		return refuses, nil
	}
	return endRefuses(conn, &nftables.Chain{Name: next, Table: c.Table}, depth-1)
}

// judge returns what a rule does with every packet: it refuses it, or leads it
// to a chain. A rule with a condition does neither.
func judge(list []expr.Any) (refuses bool, next string) {
	if len(list) == 0 || slices.ContainsFunc(list[:len(list)-1], asks) {
		return false, ""
	}
	switch e := list[len(list)-1].(type) {
	case *expr.Reject:
		return true, ""
	case *expr.Verdict:
		return e.Kind == expr.VerdictDrop, e.Chain
	}
	return false, ""
}

func asks(e expr.Any) bool {
	switch e.(type) {
	case *expr.Counter, *expr.Log:
		return false
	}
	return true
}
