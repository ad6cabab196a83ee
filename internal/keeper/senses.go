package keeper

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/observe/reach"
	"github.com/holdfast/holdfast/internal/model/state"
)

// senses tells a host how well it is itself: whether its network reaches
// anybody, whether its etcd commits anything, and what its peer reports of
// itself.
type senses struct {
	pulse  *pulse
	race   *race
	prober *reach.Prober
	link   pairTLS
}

func newSenses(name, peer string, p state.EtcdParameters, client *etcd.Client, process *process, log *slog.Logger) *senses {
	const pki = state.EtcdPKIDir
	s := &senses{
		pulse: &pulse{
			uptime: uptime, read: client.Confirm, put: client.Pulse, write: writeCanary,
			blocked: func() bool { return process.State(uptime()).Blocked },
		},
		race:   newRace(name > peer, uptime, log),
		prober: &reach.Prober{Own: p.Nodes[name], Peer: p.Nodes[peer], Uptime: uptime},
		link:   pairTLS{peer: peer, ca: pki + "/ca.crt", cert: pki + "/peer.crt", key: pki + "/peer.key"},
	}
	s.race.peer, s.race.answers = peer, reach.Answers
	s.race.heardOf([]netip.Addr{p.Nodes[peer]})
	s.race.ask = func(ctx context.Context, back bool) (state.RaceAnswer, error) {
		return s.link.ask(ctx, state.RacePort, s.race.peerAt(), back)
	}
	return s
}

// watch runs the senses until the context ends.
func (s *senses) watch(ctx context.Context, group *errgroup.Group, log *slog.Logger) {
	group.Go(func() error { return s.pulse.run(ctx) })
	group.Go(func() error { return s.race.listen(ctx) })
	group.Go(func() error { return s.link.serve(ctx, state.RacePort, s.race.answer, log) })
	group.Go(func() error {
		return reach.Watch(ctx, s.prober, s.race.contact, s.race.hurry, s.race.setReach, func(err error) {
			log.Warn("cannot measure this host's network reach", "err", err)
		})
	})
}

// addresses returns this host's addresses, to be told to the peer.
func (s *senses) addresses() []netip.Addr {
	list, err := reach.Addresses()
	if err != nil {
		return nil
	}
	return list[:min(len(list), mostAddresses)]
}

// heardOf adds addresses at which to ask the peer, for the time when it is
// lost.
func (r *race) heardOf(addresses []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range addresses {
		if !slices.Contains(r.addresses, a) {
			r.addresses = append(r.addresses, a)
		}
	}
	r.addresses = r.addresses[max(0, len(r.addresses)-mostAddresses):]
}

func (r *race) peerAt() []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.addresses)
}

// staleAfter is the stall after which the local etcd itself counts as stuck, if
// it names a leader and its peer knows of none.
const staleAfter = 10 * time.Second

// stale reports whether the local etcd holds everything up, and not its disk or
// the network: a restart in place is worth a try.
func stale(s state.EtcdSnapshot) bool {
	return s.Local.Stalled >= staleAfter && s.Local.Sick == "" && s.Local.Leader.Known && s.Local.Leader.Value != 0 &&
		s.Statement.Known && s.Statement.Value.Ring == s.Pacemaker.Ring && s.Statement.Value.Leaderless
}
