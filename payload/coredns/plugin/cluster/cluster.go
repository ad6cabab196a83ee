// Package cluster is a CoreDNS plugin that answers for the names of one
// cluster from a file that it follows.
package cluster

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/payload/coredns/plugin/exists"
)

// Cluster answers for the names of a file, and passes on all others.
type Cluster struct {
	Next plugin.Handler
	file *file
}

// Name implements plugin.Handler.
func (c *Cluster) Name() string { return "cluster" }

// ServeDNS implements plugin.Handler. A name in the file exists, and an address
// that the file lacks does not exist: a resolver would take another server's
// "no such name" for the whole name. The next plugin is asked for the other
// record types of a name in the zone, and for a name that exists only because
// names below it do.
func (c *Cluster) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	state := request.Request{W: w, Req: r}
	z := c.file.zone.Load()
	found, there := z.lookup(state.Name())
	if !there || state.QClass() != dns.ClassINET {
		return plugin.NextOrFailure(c.Name(), c.Next, ctx, w, r)
	}
	soa := z.authority(state.QName())
	if found == nil || !found.whole(state.QType()) && z.holds(state.Name()) {
		return exists.Ask(ctx, c.Name(), c.Next, w, r, soa)
	}
	m := exists.Empty(r, soa)
	if m.Answer = found.answer(state.QName(), state.QType()); len(m.Answer) > 0 {
		m.Ns = nil
	}
	if err := w.WriteMsg(m); err != nil {
		return dns.RcodeServerFailure, plugin.Error(c.Name(), err)
	}
	return dns.RcodeSuccess, nil
}
