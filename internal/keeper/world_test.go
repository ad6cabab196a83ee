package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/observe/reach"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/model/state"
)

// effects returns the effects of a play.
func (p *play) effects() effects {
	return effects{
		boot:        p.boot,
		freeSpace:   func(dir string) (uint64, error) { return p.free, p.isData(dir) },
		restrictOOM: func() (bool, error) { return false, nil },
		awaitEnd:    p.awaitEnd,
		watchFiles: func(ctx context.Context, wake func(), dirs ...string) error {
			p.note(asking, "watches %v", dirs)
			if p.watchFails > 0 {
				p.watchFails--
				return errors.New("too many open files")
			}
			p.wake = wake
			<-ctx.Done()
			return context.Cause(ctx)
		},
		writeBlock: func(path string) error { p.note(proving, "writes a block to %s", path); return p.block },
		run:        p.runEtcd,
		look:       func(context.Context) (podman.Process, error) { p.mu.Lock(); defer p.mu.Unlock(); return p.process, nil },
		blocked:    func(podman.Process) (bool, error) { return p.blocked, nil },
		stop: func(ctx context.Context, grace time.Duration) error {
			p.note(loop, "asks etcd to end, and kills it after %s", grace)
			err := takes(ctx, 300*time.Millisecond)
			p.exits()
			return err
		},
		kill: func(ctx context.Context) error {
			p.note(loop, "kills etcd")
			err := takes(ctx, 20*time.Millisecond)
			p.exits()
			return err
		},
		open: func(c etcd.Config) (etcdClient, error) {
			p.note(loop, "speaks to etcd at %s, as a peer at %s", c.ClientURL, c.PeerURL)
			if strings.Contains(c.ClientURL, "192.0.2.2") {
				return peersEtcd{etcdOf{p}}, nil
			}
			return etcdOf{p}, nil
		},
		locked:  func(dir string) (bool, error) { p.mu.Lock(); defer p.mu.Unlock(); return p.holds, p.isData(dir) },
		inspect: func(_ context.Context, dir string) (state.EtcdData, error) { return p.data, p.isData(dir) },
		settle:  func(_ context.Context, dir string) error { p.note(loop, "settles %s", dir); return nil },
		backup: func(_ context.Context, dir, to string, keep int, most int64) (string, error) {
			p.note(loop, "backs %s up to %s, keeps %d of at most %d GiB", dir, to, keep, most>>30)
			return "", nil
		},
		setAside: func(dir, to string, _ int, _ bool) (string, error) {
			p.note(loop, "sets %s aside below %s", dir, to)
			return to, nil
		},
		empty: func(dir string) error {
			p.note(loop, "empties %s", dir)
			p.data = state.EtcdData{Copy: state.CopyNone}
			return os.RemoveAll(filepath.Join(dir, "member"))
		},
		standIn:      func() (etcd.StandIn, error) { p.mu.Lock(); defer p.mu.Unlock(); return p.standIn, nil },
		startStandIn: p.standsIn,
		stopStandIn: func(context.Context) error {
			p.note(loop, "ends the stand-in")
			p.mu.Lock()
			defer p.mu.Unlock()
			p.standIn.Member = 0
			return nil
		},
		watchMembers: func(ctx context.Context, changed func(state.Fact[state.Membership])) error {
			for {
				select {
				case m := <-p.members:
					changed(m)
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		},
		publish: func(ctx context.Context, name, value string) error {
			p.note(loop, "publishes %s: %s", name, statementText(value))
			p.mu.Lock()
			p.statements["alpha"] = value
			p.mu.Unlock()
			return takes(ctx, 11*time.Millisecond)
		},
		attributes: func(ctx context.Context, name string) (map[string]string, error) {
			if name != attribute {
				return nil, errors.New("another attribute")
			}
			err := takes(ctx, 7*time.Millisecond)
			p.mu.Lock()
			defer p.mu.Unlock()
			return maps.Clone(p.statements), err
		},
		shutsDown: func(_ context.Context, node string) (bool, error) {
			p.note(asking, "asks whether Pacemaker of %s stops", node)
			return p.stops, nil
		},
		fencingAllowed: func(_ context.Context, resource string) error {
			p.note(asking, "asks whether Pacemaker may act on %s", resource)
			return p.barred
		},
		fence: func(ctx context.Context, node string, budget time.Duration, anew bool) error {
			p.note(beside, "has %s fenced within %s, anew %t", node, budget, anew)
			return takes(ctx, 20*time.Second)
		},
		grantQuorum: func(context.Context) error {
			p.note(loop, "grants quorum")
			p.members <- state.Known(state.Membership{Ring: 3, Members: []string{"alpha"}, Quorate: true})
			return nil
		},
		power: func(ctx context.Context, node string) (string, time.Duration, error) {
			p.note(asking, "asks the BMC of %s", node)
			return p.power, 0, errors.Join(p.powerErr, takes(ctx, 70*time.Millisecond))
		},
		confirmOff: func(_ context.Context, node string) error {
			p.note(beside, "asks the BMC of %s for evidence", node)
			p.fenced(p.now())
			return nil
		},
		addresses: func() ([]netip.Addr, []string, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, []string{"02:00:00:00:00:01"}, nil
		},
		answers: func(context.Context, []netip.Addr, []string) (state.Fact[bool], error) {
			return state.Fact[bool]{}, nil
		},
		watchReach: p.watchReach,
		askPeer:    p.askPeer,
		servePeer: func(link pairTLS, ctx context.Context, port int, _ func(bool) state.RaceAnswer, _ *slog.Logger) error {
			p.note(asking, "answers %s at port %d with %s, %s and %s", link.peer, port, link.cert, link.key, link.ca)
			<-ctx.Done()
			return context.Cause(ctx)
		},
	}
}

func (p *play) isData(dir string) error {
	if dir != filepath.Join(p.root, state.EtcdDataDir) {
		return fmt.Errorf("%s is not the folder of etcd's data", dir)
	}
	return nil
}

func (p *play) awaitEnd(ctx context.Context, _ int) error {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *play) runEtcd(ctx context.Context, s podman.Spec) error {
	p.note(loop, "starts etcd from %s with oom-score-adj %d", s.Image, *s.OOMScore)
	if err := errors.Join(p.fails, takes(ctx, 150*time.Millisecond)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = make(chan struct{})
	p.process = podman.Process{Running: true, PID: 7, Started: uint64((p.now() + bootedFor) / clockTick), Spec: s.Hash()}
	p.holds = true
	return nil
}

func (p *play) standsIn(r etcd.StandInRequest) (int, error) {
	text, err := json.Marshal(r)
	p.note(loop, "has a stand-in vote: %s", text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standIn.Member = r.Target
	return 8, err
}

func (p *play) watchReach(ctx context.Context, prober *reach.Prober, contact reach.Contact, hurry <-chan struct{}, changed func(state.Reach), _ func(error)) error {
	p.note(asking, "asks the neighbours of %s, whose peer is %s", prober.Own, prober.Peer)
	for {
		select {
		case <-hurry:
			there, lost := contact()
			p.note(asking, "asks the neighbours at once: the peer is there %t, lost %t", there, lost != 0)
		case r := <-p.reaches:
			changed(r)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

//nolint:revive // it is of the form of a method expression
func (p *play) askPeer(link pairTLS, ctx context.Context, port int, at []netip.Addr, back bool) (state.RaceAnswer, error) {
	p.note(asking, "asks %s at %v, port %d, whether it yields; back %t", link.peer, at, port, back)
	if err := takes(ctx, 30*time.Millisecond); err != nil || p.peerMute {
		return state.RaceAnswer{}, errors.Join(err, errors.New("no answer"))
	}
	return state.RaceAnswer{GivesWay: p.gives, Free: true}, nil
}

// etcdOf is the client of the etcd of a play.
type etcdOf struct{ *play }

func (e etcdOf) Status(ctx context.Context) (etcd.MemberStatus, error) {
	if err := takes(ctx, 5*time.Millisecond); err != nil || e.mute || !e.holds {
		return etcd.MemberStatus{}, errors.New("no answer")
	}
	return e.statusNow(), nil
}

// peersEtcd is the client of the peer's etcd, which is a learner.
type peersEtcd struct{ etcdOf }

func (e peersEtcd) Status(ctx context.Context) (etcd.MemberStatus, error) {
	err := takes(ctx, 5*time.Millisecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	return etcd.MemberStatus{Member: 0xd, RaftIndex: e.status.RaftIndex, Applied: e.peerApplied}, err
}

func (e etcdOf) commit(ctx context.Context, what string) error {
	e.note(proving, "%s", what)
	return errors.Join(e.commits, takes(ctx, 3*time.Millisecond))
}

func (e etcdOf) Close() error { return nil }

func (e etcdOf) Confirm(ctx context.Context) error { return e.commit(ctx, "reads by quorum") }
func (e etcdOf) Pulse(ctx context.Context) error   { return e.commit(ctx, "writes an entry") }

func (e etcdOf) change(what string, do func([]state.EtcdMember) []state.EtcdMember) error {
	e.note(loop, "etcd: %s", what)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Members = do(e.status.Members)
	e.status.RaftIndex++
	return nil
}

func (e etcdOf) AddLearner(_ context.Context, url string) (state.MemberID, error) {
	return 0xd, e.change("adds a learner at "+url, func(m []state.EtcdMember) []state.EtcdMember {
		return append(m, state.EtcdMember{ID: 0xd, Learner: true})
	})
}

func (e etcdOf) Promote(_ context.Context, id state.MemberID) error {
	return e.change("promotes "+id.String(), func(m []state.EtcdMember) []state.EtcdMember {
		m[len(m)-1].Learner = false
		return m
	})
}

func (e etcdOf) RemoveMember(_ context.Context, id state.MemberID) error {
	return e.change("removes "+id.String(), func(m []state.EtcdMember) []state.EtcdMember {
		return slices.DeleteFunc(m, func(m state.EtcdMember) bool { return m.ID == id })
	})
}

func (e etcdOf) Mark(_ context.Context, id state.MemberID, seq uint64) error {
	return e.change(fmt.Sprintf("marks %s with %d", id, seq), func(m []state.EtcdMember) []state.EtcdMember {
		m[len(m)-1].Marked = seq
		return m
	})
}

func (e etcdOf) MoveLeader(_ context.Context, to state.MemberID) error {
	return e.change("moves leadership to "+to.String(), func(m []state.EtcdMember) []state.EtcdMember {
		e.status.Leader = to
		return m
	})
}
