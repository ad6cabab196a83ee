// Package exists keeps other servers from denying a name that is known here.
package exists

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/miekg/dns"
)

// Ask lets the next plugin answer about a name that exists here, for types that
// are not known here. Its answer counts, except "no such name": a resolver
// would believe that of all types (RFC 2308) and of all names below it (RFC
// 8020). An empty answer with the SOA record soa replaces it.
func Ask(ctx context.Context, asker string, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg, soa dns.RR) (int, error) {
	said := nonwriter.New(w)
	code, err := plugin.NextOrFailure(asker, next, ctx, said, r)
	m := said.Msg
	if m == nil {
		return code, err
	}
	// If there is an answer, the name is an alias there, and the denial is of
	// its target.
	if m.Rcode == dns.RcodeNameError && len(m.Answer) == 0 {
		m = Empty(r, soa)
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(asker, err)
	}
	return dns.RcodeSuccess, err
}

// Empty returns an answer without records: the name exists, the type does not.
func Empty(r *dns.Msg, soa dns.RR) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.Authoritative, m.RecursionAvailable = true, true
	m.Ns = []dns.RR{soa}
	return m
}
