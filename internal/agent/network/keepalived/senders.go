package keepalived

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keepalived"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// follow watches at which hardware addresses the kernel reaches the peers. As
// soon as a peer is not where it said, its adverts are let in from any address.
func (p *Reconciler) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		p.mu.Lock()
		clear(p.seen)
		p.mu.Unlock()
		err := keepalived.FollowNeighbours(ctx, p.neighbour)
		if err != nil && ctx.Err() == nil {
			p.Logf("keepalived: %v", err)
		}
		_ = host.Sleep(ctx, guardEvery) // the loop checks the context
	}
	return context.Cause(ctx)
}

// neighbour takes in what the kernel reports of a neighbour.
func (p *Reconciler) neighbour(n keepalived.Neighbour, at string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[n] == at {
		return // only its state changed: there are many such messages
	}
	p.seen[n] = at
	if at == "" {
		delete(p.seen, n)
	}
	if p.verdict.Known && !maps.Equal(p.neighbours, p.reached()) {
		p.refiltered()
	}
}

// reached returns the hardware addresses at which the kernel reaches peers, each
// on the interface of its adverts. The caller holds the lock.
func (p *Reconciler) reached() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, i := range p.verdict.Instances {
		index := slices.IndexFunc(p.view.Addresses, func(a state.HostAddress) bool { return a.Interface == i.Interface })
		if index < 0 {
			continue
		}
		for _, peer := range i.Peers {
			if at := p.seen[keepalived.Neighbour{Index: p.view.Addresses[index].Index, Addr: peer}]; at != "" {
				out[peer] = at
			}
		}
	}
	return out
}

// senders returns the hardware addresses that the filter lets adverts in from.
// said describes the peers that publish theirs and yet are let in from any. The
// caller holds the lock.
func (p *Reconciler) senders() (list map[netip.Addr][]string, said []string) {
	p.neighbours = p.reached()
	list = vrrp.Senders(p.view, p.verdict.Instances, p.neighbours)
	var loose []netip.Addr
	for peer, at := range p.neighbours {
		own := vrrp.Says(p.view, peer)
		if _, bound := list[peer]; bound || len(own) == 0 {
			continue
		}
		if loose = append(loose, peer); !slices.Contains(p.loose, peer) {
			said = append(said, peer.String()+" is reached at "+at+" but reports "+join(own...)+": its adverts are let in from any hardware address")
		}
	}
	p.loose = loose
	slices.Sort(said)
	return list, said
}

// refiltered writes the filter outside of a reconciliation. The caller holds
// the lock.
func (p *Reconciler) refiltered() {
	told, err := p.filter()
	if told != "" {
		p.Logf("keepalived: %s", told)
	}
	if err != nil {
		p.Logf("keepalived: %v", err)
	}
}
