package vote

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// pair is a survivor, which is etcd's own Raft with etcd's settings, and a
// stand-in. The network between them drops, repeats and reorders messages, and
// either may crash.
type pair struct {
	t       *testing.T
	rnd     *rand.Rand
	store   *raft.MemoryStorage
	node    *raft.RawNode
	voter   *Voter
	network []raftpb.Message
	applied uint64
	// entries holds the entries that the survivor had at the beginning.
	entries []raftpb.Entry
	removed bool
}

// newPair makes a survivor whose log ends in entries that may not be committed.
func newPair(t *testing.T, seed uint64) *pair {
	p := &pair{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), store: raft.NewMemoryStorage()}
	must(t, p.store.ApplySnapshot(raftpb.Snapshot{Metadata: raftpb.SnapshotMetadata{
		Index: 5, Term: 2, ConfState: raftpb.ConfState{Voters: []uint64{dead, live}},
	}}))
	last := 6 + p.rnd.Uint64N(20)
	term := uint64(2)
	for i := uint64(6); i <= last; i++ {
		term += p.rnd.Uint64N(2)
		p.entries = append(p.entries, raftpb.Entry{Term: term, Index: i, Data: fmt.Append(nil, i)})
	}
	must(t, p.store.Append(p.entries))
	must(t, p.store.SetHardState(raftpb.HardState{Term: term + p.rnd.Uint64N(2), Commit: 5 + p.rnd.Uint64N(last-4)}))
	p.applied = 5
	p.startSurvivor()
	p.startVoter()
	return p
}

func (p *pair) startSurvivor() {
	var err error
	p.node, err = raft.NewRawNode(&raft.Config{
		ID: live, ElectionTick: 10, HeartbeatTick: 1, Storage: p.store, Applied: p.applied, CheckQuorum: true, PreVote: true,
		MaxSizePerMsg: 1 + p.rnd.Uint64N(200), MaxInflightMsgs: 512, Logger: quiet{},
	})
	must(p.t, err)
}

func (p *pair) startVoter() {
	p.voter = New(Config{Self: dead, Survivor: live, Least: p.entries[len(p.entries)-1].Index, Nudge: p.rnd.IntN(2) == 0})
}

// step makes one event happen.
func (p *pair) step() {
	switch n := p.rnd.IntN(100); {
	case n < 30:
		p.node.Tick()
	case n < 35:
		p.network = append(p.network, p.voter.Ask()...)
	case n < 36:
		p.startVoter()
	case n < 37 && !p.removed:
		p.startSurvivor()
		p.network = nil
	case n < 90:
		p.deliver()
	}
	p.drain()
}

// deliver delivers any message of the network. Some are lost, some come twice.
func (p *pair) deliver() {
	if len(p.network) == 0 {
		return
	}
	i := p.rnd.IntN(len(p.network))
	if p.rnd.IntN(3) > 0 {
		i = 0
	}
	m := p.network[i]
	if p.rnd.IntN(10) > 0 {
		p.network = slices.Delete(p.network, i, i+1)
	}
	if p.rnd.IntN(10) == 0 {
		return
	}
	if m.To == live {
		_ = p.node.Step(m) // it may reject the message
		return
	}
	answers, err := p.voter.Step(m)
	must(p.t, err)
	p.network = append(p.network, answers...)
}

// drain stores, sends and applies whatever the survivor has ready.
func (p *pair) drain() {
	for p.node.HasReady() {
		rd := p.node.Ready()
		must(p.t, p.store.Append(rd.Entries))
		if !raft.IsEmptyHardState(rd.HardState) && raft.MustSync(rd.HardState, raftpb.HardState{}, len(rd.Entries)) {
			must(p.t, p.store.SetHardState(rd.HardState))
		}
		p.network = append(p.network, rd.Messages...)
		for _, e := range rd.CommittedEntries {
			p.apply(e)
		}
		p.node.Advance(rd)
	}
}

func (p *pair) apply(e raftpb.Entry) {
	if e.Type == raftpb.EntryConfChange {
		var cc raftpb.ConfChange
		must(p.t, cc.Unmarshal(e.Data))
		p.node.ApplyConfChange(cc)
		p.removed = true
	}
	for _, old := range p.entries {
		if old.Index == e.Index && (old.Term != e.Term || string(old.Data) != string(e.Data)) {
			p.t.Fatalf("entry %d became another one", e.Index)
		}
	}
}

// remove proposes the removal now and then while the survivor leads.
func (p *pair) remove() {
	if p.node.BasicStatus().RaftState == raft.StateLeader && p.rnd.IntN(20) == 0 {
		_ = p.node.ProposeConfChange(raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode, NodeID: dead})
	}
}

// TestARealRaftAlwaysCommitsItsWholeLog runs etcd's Raft against a Voter under
// seeded schedules of losses, repetitions, reordering and crashes.
func TestARealRaftAlwaysCommitsItsWholeLog(t *testing.T) {
	for seed := range uint64(500) {
		p := newPair(t, seed)
		for n := 0; !p.removed; n++ {
			if n == 200000 {
				t.Fatalf("seed %d: no end: %+v, %+v", seed, p.node.BasicStatus(), p.voter.Progress())
			}
			p.step()
			p.remove()
		}
		if last := p.entries[len(p.entries)-1].Index; p.node.BasicStatus().Commit <= last {
			t.Errorf("seed %d: committed up to %d of %d", seed, p.node.BasicStatus().Commit, last)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quiet is a logger that is silent except for panics.
type quiet struct{}

func (quiet) Debug(...any)            {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Error(...any)            {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Info(...any)             {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warning(...any)          {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Fatal(v ...any)          { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
