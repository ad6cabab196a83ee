package keeper

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/observe/member"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/keeper/act"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// attribute is the private node attribute that carries a host's statement.
const attribute = "holdfast-etcd"

// assemble puts the adapters of this host together.
func (d *daemon) assemble(p state.EtcdParameters) (*Keeper, error) {
	peer, err := p.Peer(d.Host)
	if err != nil {
		return nil, err
	}
	boot, _, err := d.boot()
	if err != nil {
		return nil, err
	}
	memory, err := member.OpenMemory(d.files.Path(memoryPath), boot)
	if err != nil {
		return nil, err
	}
	own, there := p.Nodes[d.Host], p.Nodes[peer]
	client, remote, err := d.openBoth(own, there)
	if err != nil {
		return nil, err
	}
	process := &process{effects: d.effects, files: d.files, parameters: p}
	bmc := &bmc{peer: peer, power: d.power, stale: bmcStale}
	vote := &standIn{effects: d.effects, address: own}
	statements := &statements{effects: d.effects}
	var reached atomic.Uint64 // the index of etcd's log at the last look
	var size atomic.Int64     // and the size of its database
	third := &thirdLog{applied: d.applied, own: reached.Load, wake: make(chan struct{}, 1)}
	sense := newSenses(d.Host, peer, p, client, process, d.Log)
	k := &Keeper{
		Observer: &member.Observer{Host: d.Host, Peer: peer, Memory: memory, Sources: member.Sources{
			Boot: d.boot, Now: d.Now, Record: d.files.Record,
			Held: process.held,
			Look: func(ctx context.Context) (member.Look, error) {
				l, err := client.Status(ctx)
				vote.reached(l.Cluster, l.RaftIndex)
				reached.Store(l.RaftIndex)
				size.Store(l.DBSize)
				sense.pulse.moved(l.RaftIndex)
				return member.Look{Cluster: l.Cluster, Member: l.Member, Leader: l.Leader, Members: l.Members}, err
			},
			Inspect:   process.examine,
			StandIn:   d.standingFor,
			Statement: statements.read,
			Fenced:    d.files.Fenced,
			Human:     d.files.Confirmation,
			Retired:   d.files.Retired,
			Third:     d.files.Third,
			Behind:    third.behind,
			Power:     bmc.state,
			Pulse:     sense.pulse.state,
			GivesWay:  sense.race.given,
			Addresses: sense.told,
		}},
		Process:       process,
		Publish:       func(ctx context.Context, text string) error { return d.publish(ctx, attribute, text) },
		StandInResult: d.lastStandIn,
		SaveWish:      d.files.WriteWish, Log: d.Log, Event: d.events.Append, Reach: sense.race.reach,
		Close: func() error { return errors.Join(client.Close(), remote.Close()) },
	}
	k.Observer.Sources = limited(k.Observer.Sources)
	bmc.wanted, statements.keeper, statements.race = k.wantsPower, k, sense.race
	k.Doer = &act.Doer{
		Etcd: membership{client, &silence{}, remote, reached.Load, size.Load}, Process: process, Copy: copies{d.effects, process.data(), p, func() { process.starts = etcdhealth.Starts{} }},
		StandIn: vote, Peer: other{d.effects, peer},
		PeerURL:     etcdpod.PeerURL(there),
		WriteRecord: d.files.WriteRecord, Ring: k.Observer.Ring, Log: d.Log, Event: d.events.Append,
	}
	d.bmc, d.sense, d.third = bmc, sense, third
	sense.race.promised, sense.race.fenced = k.Wake, func() time.Duration { return d.provenOff(peer) }
	sense.race.behind = func() bool { return behind(d.report()) }
	d.race.Store(sense.race)
	return k, nil
}

// openBoth returns the clients of both hosts' etcds. A daemon that lacks something tries every two
// seconds, so what was opened in vain is closed.
func (d *daemon) openBoth(own, there netip.Addr) (client, remote etcdClient, err error) {
	client, err = d.open(etcd.Config{ClientURL: etcdpod.LocalURL(own), PeerURL: etcdpod.PeerURL(own)})
	if err != nil {
		return nil, nil, err
	}
	remote, err = d.open(etcd.Config{ClientURL: etcdpod.ClientURL(there), PeerURL: etcdpod.PeerURL(there)})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return client, remote, nil
}

// provenOff returns when the peer was last proven to be off in this boot, zero for
// never.
func (d *daemon) provenOff(peer string) time.Duration {
	f, err := d.files.Fenced(peer)
	boot, _, bootErr := d.boot()
	if err != nil || bootErr != nil || !f.Known || f.Value.State != state.PowerOff || f.Value.Boot != boot {
		return 0
	}
	return f.Value.At
}

// lastStandIn returns the outcome of the last take-over and describes it.
func (e effects) lastStandIn() (state.StandInOutcome, string) {
	s, err := e.standIn()
	if err != nil || s.Last == nil {
		return "", ""
	}
	return s.Last.Outcome, describe(*s.Last)
}

func describe(r etcd.StandInResult) string {
	out := string(r.Outcome)
	if r.Reason != "" {
		out += ", " + r.Reason + ": " + r.Detail
	}
	if ms, ok := r.MS["committing"]; ok {
		out += fmt.Sprintf("; writes worked after %s", time.Duration(ms*float64(time.Millisecond)).Round(time.Millisecond))
	}
	return out
}

// statements reads the statements that the peer publishes, less often while all is
// well: each read starts a process.
type statements struct {
	effects
	keeper *Keeper
	race   *race
	at     time.Time
	ring   uint64
	last   state.EtcdStatement
	found  bool
}

func (st *statements) read(ctx context.Context, peer string) (state.EtcdStatement, bool, error) {
	ring := st.keeper.Observer.Ring()
	if st.found && st.ring == ring && time.Since(st.at) < st.keeper.listenEvery() {
		return st.last, true, nil
	}
	values, err := st.attributes(ctx, attribute)
	if err != nil {
		st.found = false
		return state.EtcdStatement{}, false, err
	}
	st.keeper.heardSelf(values[st.keeper.Observer.Host])
	text, found := values[peer]
	if !found {
		st.found = false
		return state.EtcdStatement{}, false, nil
	}
	got, err := state.DecodeEtcdStatement([]byte(text))
	if err != nil {
		st.found = false
		return state.EtcdStatement{}, false, fmt.Errorf("statement of %s: %w", peer, err)
	}
	st.race.heardOf(got.Addresses)
	st.race.takeHardware(got.Hardware)
	st.race.spoke(got.Boot)
	if err := st.addStopping(ctx, peer, &got); err != nil {
		return state.EtcdStatement{}, false, err
	}
	st.at, st.ring, st.last, st.found = time.Now(), ring, got, true
	return got, true, nil
}

// addStopping marks the peer as leaving if Pacemaker shuts it down while this host
// leaves too: Pacemaker stops etcd on one host seconds after the other, but
// announces both stops at once.
func (st *statements) addStopping(ctx context.Context, peer string, got *state.EtcdStatement) error {
	if st.keeper.Wish().Wish != state.EtcdStopped || got.Leaving {
		return nil
	}
	stopping, err := st.shutsDown(ctx, peer)
	got.Leaving = stopping
	return err
}
