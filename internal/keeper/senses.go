package keeper

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/observe/reach"
	"github.com/holdfast/holdfast/internal/model/state"
)

// senses tells a host how well it is itself: whether its network reaches
// anybody, whether its etcd commits anything, and what its peer reports of
// itself.
type senses struct {
	effects
	pulse  *pulse
	race   *race
	prober *reach.Prober
	link   pairTLS
}

func newSenses(name, peer string, p state.EtcdParameters, client etcdClient, process *process, log *slog.Logger) *senses {
	const pki = state.EtcdPKIDir
	e := process.effects
	s := &senses{
		effects: e,
		pulse: &pulse{
			uptime: e.uptime, read: client.Confirm, put: client.Pulse,
			write:   func() error { return e.writeBlock(process.files.Path(canaryPath)) },
			blocked: func() bool { return process.State(e.uptime()).Blocked },
			excused: func() bool { return process.defragments(e.uptime()) },
		},
		race:   newRace(name > peer, e.uptime, log),
		prober: &reach.Prober{Own: p.Nodes[name], Peer: p.Nodes[peer], Uptime: e.uptime},
		link:   pairTLS{peer: peer, ca: pki + "/ca.crt", cert: pki + "/peer.crt", key: pki + "/peer.key"},
	}
	s.race.peer, s.race.answers, s.prober.PeerAt = peer, e.answers, s.race.seenAt
	s.race.heardOf([]netip.Addr{p.Nodes[peer]})
	s.race.ask = func(ctx context.Context, back bool) (state.RaceAnswer, error) {
		return e.askPeer(s.link, ctx, state.RacePort, s.race.peerAt(), back)
	}
	return s
}

// watch runs the senses until the context ends.
func (s *senses) watch(ctx context.Context, group *errgroup.Group, log *slog.Logger) {
	group.Go(func() error { return s.pulse.run(ctx) })
	group.Go(func() error { return s.race.listen(ctx) })
	group.Go(func() error { return s.servePeer(s.link, ctx, state.RacePort, s.race.answer, log) })
	group.Go(func() error {
		return s.watchReach(ctx, s.prober, s.race.contact, s.race.hurry, s.race.setReach, func(err error) {
			log.Warn("cannot measure this host's network reach", "err", err)
		})
	})
}

// told returns this host's addresses, and the hardware addresses of its NICs, to be told
// to the peer.
func (s *senses) told() ([]netip.Addr, []string) {
	list, hardware, err := s.addresses()
	if err != nil {
		return nil, nil
	}
	return list[:min(len(list), mostAddresses)], hardware
}

// takeHardware takes the hardware addresses that the peer reports.
func (r *race) takeHardware(list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.hardware, list) {
		r.hardware, r.confirmed = list, false
	}
	r.confirm()
}

// seenAt takes the hardware address at which the kernel reaches the peer.
func (r *race) seenAt(mac net.HardwareAddr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kernel = mac
	r.confirm()
}

// confirm notes that the kernel reaches the peer where it says that it is.
func (r *race) confirm() {
	r.confirmed = r.confirmed || slices.Contains(r.hardware, r.kernel.String())
}

// own returns the hardware addresses of the peer. Until the kernel has confirmed one of them
// nothing is judged by what the peer says: the network may write other ones into its frames.
func (r *race) own() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.confirmed {
		return nil
	}
	return r.hardware
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
