// Package nftable compares an nftables table of a host with the wanted one, and replaces it.
package nftable

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Exists reports whether the family inet has a table of this name.
func Exists(conn *nftables.Conn, name string) (bool, error) {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables tables: %w", err)
	}
	return slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == name }), nil
}

// Chains lists the chains of a table of the family inet.
func Chains(conn *nftables.Conn, table string) ([]*nftables.Chain, error) {
	all, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	return slices.DeleteFunc(all, func(c *nftables.Chain) bool { return c.Table.Name != table }), nil
}

// SameChain compares the identity of two chains: name, type, hook, priority and
// policy.
func SameChain(got, want *nftables.Chain) bool {
	return got.Name == want.Name && got.Type == want.Type && got.Hooknum != nil && got.Priority != nil && got.Policy != nil &&
		*got.Hooknum == *want.Hooknum && *got.Priority == *want.Priority && *got.Policy == *want.Policy
}

// SameRules compares what rules say, but neither their counts nor the numbers
// of sets, which are valid only within one transaction.
func SameRules(got []*nftables.Rule, want [][]expr.Any) bool {
	return slices.EqualFunc(got, want, func(r *nftables.Rule, exprs []expr.Any) bool {
		return reflect.DeepEqual(said(r.Exprs), said(exprs))
	})
}

func said(exprs []expr.Any) []expr.Any {
	out := make([]expr.Any, len(exprs))
	for i, e := range exprs {
		switch e := e.(type) {
		case *expr.Counter:
			out[i] = &expr.Counter{}
		case *expr.Lookup:
			named := *e
			named.SetID = 0
			out[i] = &named
		default:
			out[i] = e
		}
	}
	return out
}
