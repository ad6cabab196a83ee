// Package exists keeps others from denying a name that is known here.
package exists

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/miekg/dns"
)

// Ask lets the next plugin answer about a name that exists here, for what is not
// known here of it. What others say counts, but for "no such name": a resolver
// would believe it of all types (RFC 2308) and of all names below it (RFC 8020).
// An empty answer with the SOA record soa stands in its place.
func Ask(ctx context.Context, asker string, next plugin.Handler, w dns.ResponseWriter, r *dns.Msg, soa dns.RR) (int, error) {
	said := nonwriter.New(w)
	code, err := plugin.NextOrFailure(asker, next, ctx, said, r)
	m := said.Msg
	if m == nil {
		return code, err
	}
	// With an answer the name is an alias there, and its target is denied.
	if m.Rcode == dns.RcodeNameError && len(m.Answer) == 0 {
		m = Empty(r, soa)
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(asker, err)
	}
	return dns.RcodeSuccess, err
}

// Empty is an answer that holds nothing: the name is there, the type is not.
func Empty(r *dns.Msg, soa dns.RR) *dns.Msg {
	m := new(dns.Msg).SetReply(r)
	m.Authoritative, m.RecursionAvailable = true, true
	m.Ns = []dns.RR{soa}
	return m
}
