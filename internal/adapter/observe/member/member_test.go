package member

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// seen is what an observer can see of a host; each look is one second later.
type seen struct {
	clock     time.Duration
	held      bool
	heldErr   error
	leader    state.MemberID
	lookErr   error
	inspected int
	copy      state.CopyState // empty for whole
	statement state.EtcdStatement
	record    error
}

func newObserver(t *testing.T, h *seen) *Observer {
	t.Helper()
	memory, err := OpenMemory(filepath.Join(t.TempDir(), "memory"), "boot")
	if err != nil {
		t.Fatal(err)
	}
	return &Observer{Host: "alpha", Peer: "beta", Memory: memory, Sources: Sources{
		Boot:   func() (string, time.Duration, error) { h.clock += time.Second; return "boot", h.clock, nil },
		Now:    func() time.Time { return time.Unix(0, 0) },
		Record: func() (state.EtcdRecord, error) { return state.EtcdRecord{State: state.EtcdPair}, h.record },
		Held:   func() (bool, error) { return h.held, h.heldErr },
		Look: func(context.Context) (Look, error) {
			return Look{Cluster: 0xc, Member: 0xa, Leader: h.leader, Members: []state.EtcdMember{{ID: 0xa}}}, h.lookErr
		},
		Inspect: func(context.Context) (state.EtcdData, error) {
			h.inspected++
			return state.EtcdData{Copy: cmp.Or(h.copy, state.CopyWhole), Members: []state.EtcdMember{{ID: 0xa}}}, nil
		},
		StandIn: func() (state.MemberID, error) { return 0, nil },
		Statement: func(context.Context, string) (state.EtcdStatement, bool, error) {
			return h.statement, h.statement.Boot != "", nil
		},
		Fenced: func(string) (state.Fact[state.EtcdFenced], error) {
			return state.Fact[state.EtcdFenced]{}, errors.New("torn")
		},
		Human: func() (state.Fact[state.Confirmation], error) { return state.Fact[state.Confirmation]{}, nil },
		Power: func() state.Fact[string] { return state.Fact[string]{} },
	}}
}

func look(t *testing.T, o *Observer, w state.EtcdWishNote) state.EtcdSnapshot {
	t.Helper()
	s, err := o.Snapshot(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatCannotBeSeenIsUnknown(t *testing.T) {
	h := &seen{heldErr: errors.New("disk"), record: errors.New("torn")}
	s := look(t, newObserver(t, h), state.EtcdWishNote{})
	if s.Record.Known || s.Local.Running.Known || s.Data.Known || s.Pacemaker.Contact.Known || s.Pacemaker.Inert.Known || s.Proofs.Fenced.Known || s.Statement.Known {
		t.Errorf("%+v", s)
	}
	h.heldErr, h.held, h.lookErr = nil, true, errors.New("no answer")
	s = look(t, newObserver(t, h), state.EtcdWishNote{})
	if !state.Is(s.Local.Running, true) || s.Local.Members.Known || s.Local.Leader.Known || s.Data.Known {
		t.Errorf("an etcd that does not answer: %+v", s.Local)
	}
}

func TestDurationsBeginWhenSomethingIsFirstSeen(t *testing.T) {
	h := &seen{held: true, leader: 0xa}
	o := newObserver(t, h)
	if s := look(t, o, state.EtcdWishNote{}); s.Local.Leaderless != 0 || o.Mute(s) != 0 || o.Down(s) != 0 {
		t.Errorf("well: %+v", s.Local)
	}
	h.leader = 0
	look(t, o, state.EtcdWishNote{})
	if s := look(t, o, state.EtcdWishNote{}); s.Local.Leaderless != time.Second {
		t.Errorf("leaderless for %s", s.Local.Leaderless)
	}
	h.leader = 0xa
	if s := look(t, o, state.EtcdWishNote{}); s.Local.Leaderless != 0 {
		t.Error("a leader ends it")
	}
	h.lookErr = errors.New("no answer")
	look(t, o, state.EtcdWishNote{})
	if s := look(t, o, state.EtcdWishNote{}); o.Mute(s) != 2*time.Second {
		t.Errorf("mute for %s", o.Mute(s))
	}
	h.held = false
	look(t, o, state.EtcdWishNote{})
	if s := look(t, o, state.EtcdWishNote{}); o.Down(s) != time.Second || o.Mute(s) != 0 {
		t.Errorf("down for %s", o.Down(s))
	}
	h.held = true
	if s := look(t, o, state.EtcdWishNote{}); o.Down(s) != 0 || o.Mute(s) != 0 {
		t.Errorf("a young process gets its time: mute for %s", o.Mute(s))
	}
}

func TestACopyIsExaminedOnceForEachTimeThatEtcdStops(t *testing.T) {
	h := &seen{}
	o := newObserver(t, h)
	for range 3 {
		look(t, o, state.EtcdWishNote{})
	}
	if h.inspected != 1 {
		t.Errorf("examined %d times", h.inspected)
	}
	o.Forget()
	look(t, o, state.EtcdWishNote{})
	h.held = true
	look(t, o, state.EtcdWishNote{})
	h.held = false
	if s := look(t, o, state.EtcdWishNote{}); h.inspected != 3 || len(s.Data.Value.Members) != 1 {
		t.Errorf("examined %d times; %+v", h.inspected, s.Data)
	}
}

// Data that are damaged, or are not there, are examined again: a disk that was full has room, or the
// file system of etcd was mounted late.
func TestDataThatAreNotWholeAreExaminedAgainNowAndThen(t *testing.T) {
	for _, copy := range []state.CopyState{state.CopyDamaged, state.CopyNone} {
		h := &seen{copy: copy}
		o := newObserver(t, h)
		for range 11 { // each look comes a second after the one before
			look(t, o, state.EtcdWishNote{})
		}
		if h.inspected != 2 {
			t.Errorf("%s: examined %d times in 11 s", copy, h.inspected)
		}
		h.copy = ""
		for range 9 {
			look(t, o, state.EtcdWishNote{})
		}
		if s := look(t, o, state.EtcdWishNote{}); s.Data.Value.Copy != state.CopyWhole {
			t.Errorf("%s: the data are whole for 10 s, and this host says %+v", copy, s.Data.Value)
		}
	}
}

func TestContactIsTheMembershipOfCorosync(t *testing.T) {
	h := &seen{statement: state.EtcdStatement{Boot: "p", Serial: 1}}
	o := newObserver(t, h)
	o.SetMembership(state.Known(state.Membership{Ring: 5, Members: []string{"alpha", "beta-2"}, Quorate: false}))
	if s := look(t, o, state.EtcdWishNote{}); !state.Is(s.Pacemaker.Contact, false) || !state.Is(s.Pacemaker.Inert, true) || s.Statement.Known {
		t.Errorf("a name that only begins like the peer's: %+v", s.Pacemaker)
	}
	o.SetMembership(state.Known(state.Membership{Ring: 9, Members: []string{"alpha", "beta"}, Quorate: true}))
	look(t, o, state.EtcdWishNote{})
	s := look(t, o, state.EtcdWishNote{})
	if !state.Is(s.Pacemaker.Contact, true) || s.Pacemaker.Joined != 2*time.Second || s.Statement.Value.Age != time.Second {
		t.Errorf("%+v, statement %s old", s.Pacemaker, s.Statement.Value.Age)
	}
}

// When hosts meet, Pacemaker may bring back an earlier statement of the peer.
func TestAnOlderStatementOfTheSameBootDoesNotCount(t *testing.T) {
	h := &seen{}
	o := newObserver(t, h)
	o.SetMembership(state.Known(state.Membership{Ring: 9, Members: []string{"alpha", "beta"}, Quorate: true}))
	for _, c := range []struct {
		holds state.EtcdStatement
		want  uint64
	}{
		{state.EtcdStatement{Boot: "p", Serial: 4}, 4},
		{state.EtcdStatement{Boot: "p", Serial: 7}, 7},
		{state.EtcdStatement{Boot: "p", Serial: 4}, 7},
		{state.EtcdStatement{Boot: "q", Serial: 2}, 2},
	} {
		h.statement = c.holds
		if s := look(t, o, state.EtcdWishNote{}); s.Statement.Value.Serial != c.want || s.Statement.Value.Boot != c.holds.Boot {
			t.Errorf("of %+v counts %+v", c.holds, s.Statement.Value)
		}
	}
}

// TestAPeerThatIsToldToStopLeavesThoughItsStatementIsKnown: Pacemaker announces the stop
// of both hosts at once, and the peer publishes its own part of it seconds later.
func TestAPeerThatIsToldToStopLeavesThoughItsStatementIsKnown(t *testing.T) {
	h := &seen{statement: state.EtcdStatement{Boot: "p", Serial: 4}}
	o := newObserver(t, h)
	o.SetMembership(state.Known(state.Membership{Ring: 1, Members: []string{"alpha", "beta"}}))
	for i, leaving := range []bool{false, true, false} {
		h.statement.Leaving = leaving
		s := look(t, o, state.EtcdWishNote{})
		if s.Statement.Value.Leaving != leaving || s.Statement.Value.Age != time.Duration(i)*time.Second {
			t.Errorf("%d: %+v", i, s.Statement.Value)
		}
	}
	h.statement = state.EtcdStatement{Boot: "p", Serial: 3, Leaving: true}
	if s := look(t, o, state.EtcdWishNote{}); s.Statement.Value.Leaving {
		t.Error("an older statement says so")
	}
}

func TestLeavingBeginsWhenPacemakerAskedForIt(t *testing.T) {
	h := &seen{clock: time.Minute}
	o := newObserver(t, h)
	s := look(t, o, state.EtcdWishNote{Wish: state.EtcdStopped, At: 50 * time.Second})
	if !s.Pacemaker.Leaving || s.Pacemaker.LeavingFor != 11*time.Second {
		t.Errorf("%+v", s.Pacemaker)
	}
}
