// Package cluster is a CoreDNS plugin that answers for the names of one
// cluster from a file that it follows.
package cluster

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// Cluster answers for the names of a file, and passes on all others.
type Cluster struct {
	Next plugin.Handler
	file *file
}

// Name implements plugin.Handler.
func (c *Cluster) Name() string { return "cluster" }

// Ready implements ready.Readiness.
func (c *Cluster) Ready() bool { return c.file.zone.Load() != empty }

// ServeDNS implements plugin.Handler. A name that is here exists: whatever is
// asked about it besides its addresses has an empty answer, since a resolver
// would take the "no such name" of somebody else for the addresses too.
func (c *Cluster) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	z := c.file.zone.Load()
	found := z.lookup(state.Name())
	if found == nil || state.QClass() != dns.ClassINET {
		return plugin.NextOrFailure(c.Name(), c.Next, ctx, w, r)
	}
	m := new(dns.Msg)
	m.SetReply(r)
	m.Authoritative, m.RecursionAvailable = true, true
	m.Answer = found.answer(state.QName(), state.QType())
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{z.authority(state.QName())}
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(c.Name(), err)
	}
	return dns.RcodeSuccess, nil
}
