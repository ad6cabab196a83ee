package narrow

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// TestAPlanForTwoIsTakenBackWithoutAHostThatIsLostForGood by a person's word, though the host that does it is
// cut anywhere. If the word was wrong, the other host takes its part back when somebody says so there.
func TestAPlanForTwoIsTakenBackWithoutAHostThatIsLostForGood(t *testing.T) {
	for _, stage := range []narrow.Stage{narrow.Preparing, narrow.Dressing, narrow.Pairing} {
		for at := 0; ; at++ {
			p := newTrio(t)
			if err := p.store(0).PutNarrowWish(wish); err != nil {
				t.Fatal(err)
			}
			p.play(t, p.at(t, 1, stage))
			p.off = 1
			abort := wish
			abort.Abort = true
			if err := p.store(0).PutNarrowWish(abort); err != nil {
				t.Fatal(err)
			}
			p.play(t, p.at(t, 0, narrow.TakingBack))
			abort.Lost = true
			if err := p.store(0).PutNarrowWish(abort); err != nil {
				t.Fatal(err)
			}
			p.cut = powercut.Cut{At: at}
			p.play(t, func() bool { return p.plan(t, 0).Stage.Over() && p.lock.ID == "" })
			done := p.cut.At == at // the run ended before the cut
			if a := p.plan(t, 0); a.Stage != narrow.Aborted || a.Lost != names[1] || !p.plain || !p.member || !p.node || p.hosts[0] != (side{record: state.EtcdNone}) {
				t.Fatalf("%s, cut %d: %+v, %+v: %v", stage, at, a, p.hosts[0], p.log)
			}
			p.off, p.cut = -1, powercut.Cut{}
			there := wish
			there.Abort = true
			if err := p.store(1).PutNarrowWish(there); err != nil {
				t.Fatal(err)
			}
			p.play(t, func() bool { return p.over(t) })
			if b := p.plan(t, 1); b.Stage != narrow.Aborted || p.hosts[1] != (side{record: state.EtcdNone}) {
				t.Fatalf("%s, cut %d: left on %s: %+v, %+v", stage, at, names[1], b, p.hosts[1])
			}
			if at > 0 && done {
				break
			}
		}
	}
}

// TestAPlanForTwoIsTakenBackByTheOtherHostIfItsCarrierIsLostForGood by a person's word, though the host that
// does it is cut anywhere. If the word was wrong, the carrier takes its part back once it is there again, also
// one that was a stage further than anybody knew.
func TestAPlanForTwoIsTakenBackByTheOtherHostIfItsCarrierIsLostForGood(t *testing.T) {
	abort := wish
	abort.Abort = true
	lost := abort
	lost.Lost = true
	for _, stage := range []narrow.Stage{narrow.Preparing, narrow.Dressing, narrow.Pairing, narrow.Handing, narrow.TakingBack, narrow.Aborted} {
		for at := 0; ; at++ {
			p := newTrio(t)
			put := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			put(p.store(0).PutNarrowWish(wish))
			switch stage {
			case narrow.Handing: // on its own disk alone
				p.play(t, p.at(t, 1, narrow.Pairing))
				ahead := *p.plan(t, 0)
				ahead.Stage = narrow.Handing
				put(p.store(0).PutNarrowPlan(ahead))
			case narrow.TakingBack, narrow.Aborted:
				p.play(t, p.at(t, 1, narrow.Pairing))
				put(p.store(0).PutNarrowWish(abort))
				p.play(t, p.at(t, 0, stage))
			default:
				p.play(t, p.at(t, 1, stage))
			}
			p.off = 0
			put(p.store(1).PutNarrowWish(lost))
			p.cut = powercut.Cut{At: at}
			p.play(t, func() bool { return p.plan(t, 1).Stage.Over() && p.lock.ID == "" })
			done := p.cut.At == at // the run ended before the cut
			if b := p.plan(t, 1); b.Stage != narrow.Aborted || b.Taken != names[1] || b.Lost != names[0] || !p.plain || !p.member || !p.node || p.hosts[1] != (side{record: state.EtcdNone}) {
				t.Fatalf("%s, cut %d: %+v, %+v: %v", stage, at, b, p.hosts[1], p.log)
			}
			p.off, p.cut = -1, powercut.Cut{}
			p.play(t, func() bool { return p.over(t) })
			if a, b := p.plan(t, 0), p.plan(t, 1); a.Stage != narrow.Aborted || b.Stage != narrow.Aborted || !p.plain || p.hosts != ([2]side{{record: state.EtcdNone}, {record: state.EtcdNone}}) {
				t.Fatalf("%s, cut %d: %+v, %+v, %+v: %v", stage, at, a, b, p.hosts, p.log)
			}
			if at > 0 && done {
				break
			}
		}
	}
}

// TestAPlanForTwoIsTakenBackWithoutItsCarrierAndItsLock: somebody deleted the lock once the carrier was lost for
// good. Until a person says so the other host keeps its part, and nothing of two stays after that. If the word
// was wrong, the carrier takes its part back.
func TestAPlanForTwoIsTakenBackWithoutItsCarrierAndItsLock(t *testing.T) {
	lost := wish
	lost.Abort, lost.Lost = true, true
	for _, stage := range []narrow.Stage{narrow.Preparing, narrow.Dressing, narrow.Pairing} {
		for at := 0; ; at++ {
			p := newTrio(t)
			put := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			put(p.store(0).PutNarrowWish(wish))
			p.play(t, p.at(t, 1, stage))
			p.off, p.lock, p.told = 0, narrow.Copy{}, narrow.Progress{}
			had := p.hosts[1]
			for range 2 {
				_, err := p.agent(1).Step(t.Context())
				put(err)
			}
			if b := p.plan(t, 1); b.Stage != stage || p.hosts[1] != had || !p.accounts {
				t.Fatalf("%s: nobody said that the carrier is lost: %+v, %+v", stage, b, p.hosts[1])
			}
			put(p.store(1).PutNarrowWish(lost))
			p.cut = powercut.Cut{At: at}
			p.play(t, func() bool { return p.plan(t, 1).Stage.Over() && p.lock.ID == "" })
			done := p.cut.At == at // the run ended before the cut
			if b := p.plan(t, 1); b.Stage != narrow.Aborted || b.Taken != names[1] || !p.plain || p.accounts || p.hosts[1] != (side{record: state.EtcdNone}) {
				t.Fatalf("%s, cut %d: %+v, %+v: %v", stage, at, b, p.hosts[1], p.log)
			}
			p.off, p.cut = -1, powercut.Cut{}
			p.play(t, func() bool { return p.over(t) })
			if a := p.plan(t, 0); a.Stage != narrow.Aborted || !p.plain || p.accounts || p.hosts != ([2]side{{record: state.EtcdNone}, {record: state.EtcdNone}}) {
				t.Fatalf("%s, cut %d: %+v, %+v: %v", stage, at, a, p.hosts, p.log)
			}
			if at > 0 && done {
				break
			}
		}
	}
}

// TestAHostThatTakesAPlanOverUndoesWhatTheClusterGotByIt, if it got anything: not before this host knew the
// site of two.
func TestAHostThatTakesAPlanOverUndoesWhatTheClusterGotByIt(t *testing.T) {
	_, target := sites(t)
	for sentence, c := range map[string]struct {
		stage narrow.Stage
		plan  string // of the target, empty for none
		want  bool
	}{
		"it is taken back":    {narrow.TakingBack, "p1", true},
		"nothing has begun":   {narrow.TakingBack, "", false},
		"of an earlier plan":  {narrow.TakingBack, "p0", false},
		"it was taken back":   {narrow.Aborted, "p1", false},
		"it came to its goal": {narrow.Whole, "p1", false},
	} {
		a := newTrio(t).agent(1)
		plan := narrow.Plan{Format: narrow.Format, ID: "p1", Survivor: names[0], Peer: names[1], Taken: names[1], Stage: c.stage}
		if c.plan != "" {
			if err := a.Store.PutNarrowTarget(replacement.NarrowTarget{Plan: c.plan, Site: target.Site, Devices: target.Devices}); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.act(t.Context(), narrow.Decision{Act: narrow.TakeOver, Plan: &plan}, Job{}); err != nil {
			t.Fatal(err)
		}
		trace, err := a.Store.NarrowTrace()
		if err != nil || trace.Dressing != c.want {
			t.Errorf("%s: %+v, %v", sentence, trace, err)
		}
		if p, err := a.Store.NarrowPlan(); err != nil || p == nil || p.Taken != names[1] {
			t.Errorf("%s: %+v, %v", sentence, p, err)
		}
	}
}

// TestACarrierWhoseNodeIsGoneIsAskedWhereEtcdLooksForIt: without its address it would stay unknown whether its
// etcd serves, and nobody could say that it is lost.
func TestACarrierWhoseNodeIsGoneIsAskedWhereEtcdLooksForIt(t *testing.T) {
	unknown := state.Fact[bool]{}
	for sentence, c := range map[string]struct {
		change func(l *lab)
		want   state.Fact[bool]
	}{
		"it serves":                         {func(*lab) {}, state.Known(true)},
		"it is silent":                      {func(l *lab) { delete(l.others, "cp-2") }, state.Known(false)},
		"etcd says no address":              {func(l *lab) { l.ring.At = nil }, unknown},
		"etcd of this host does not answer": {func(l *lab) { l.ring.Fails = errNow }, unknown},
		"somebody removed its member": {func(l *lab) {
			l.ring.Now.Members = slices.DeleteFunc(l.ring.Now.Members, func(m state.EtcdMember) bool { return m.Name == "cp-2" })
		}, state.Known(false)},
	} {
		l := newLab(t)
		delete(l.api.nodes, "cp-2")
		l.ring.At = map[state.MemberID][]string{2: {"https://[2001:db8::12]:2380"}}
		var asked string
		statuses := l.statuses
		l.statuses = func(ctx context.Context, at map[string]string) map[string]etcd.MemberStatus {
			asked = at["cp-2"]
			return statuses(ctx, at)
		}
		c.change(l)
		l.look(t.Context(), l.job(narrow.Preparing))
		l.clock = l.clock.Add(quietFor)
		f := l.look(t.Context(), l.job(narrow.Preparing))
		if want := map[bool]string{true: "2001:db8::12"}[c.want.Known && len(l.ring.Now.Members) == 3]; f.PeerHere != c.want || asked != want {
			t.Errorf("%s: %+v, asked at %q", sentence, f.PeerHere, asked)
		}
	}
}

// TestThePeerIsKnownToBeSilentOnlyAfterAWhile: a word that it is lost counts then. One that was not asked in
// between may have answered.
func TestThePeerIsKnownToBeSilentOnlyAfterAWhile(t *testing.T) {
	voting, unknown := etcd.MemberStatus{Serves: true, Leader: 1}, state.Fact[bool]{}
	l := newLab(t)
	for _, c := range []struct {
		sentence string
		answer   *etcd.MemberStatus
		after    time.Duration
		want     state.Fact[bool]
	}{
		{"it serves", &voting, 0, state.Known(true)},
		{"one look without an answer", nil, 0, unknown},
		{"nearly long enough", nil, quietFor - 1, unknown},
		{"long enough", nil, 1, state.Known(false)},
		{"it serves again", &voting, 0, state.Known(true)},
		{"silent again", nil, 0, unknown},
		{"it answers, and knows no leader", &etcd.MemberStatus{Serves: true}, quietFor, unknown},
		{"silent from here on", nil, time.Second, unknown},
		{"an act took long", nil, quietGap + 1, unknown},
		{"long enough since", nil, quietFor, state.Known(false)},
	} {
		l.clock = l.clock.Add(c.after)
		delete(l.others, "cp-2")
		if c.answer != nil {
			l.others["cp-2"] = *c.answer
		}
		if f := l.look(t.Context(), l.job(narrow.Preparing)); f.PeerHere != c.want {
			t.Errorf("%s: %+v", c.sentence, f.PeerHere)
		}
	}
}

// TestAWordThatWasRefusedIsDropped: the command that typed it may have been interrupted, and the carrier may
// lose its power later.
func TestAWordThatWasRefusedIsDropped(t *testing.T) {
	for age, left := range map[time.Duration]bool{0: true, time.Minute: false, time.Hour: false} {
		p := newTrio(t)
		if err := p.store(0).PutNarrowWish(wish); err != nil {
			t.Fatal(err)
		}
		p.play(t, p.at(t, 1, narrow.Preparing))
		lost := wish
		lost.Abort, lost.Lost, lost.At = true, true, noon.Add(-age)
		if err := p.store(1).PutNarrowWish(lost); err != nil {
			t.Fatal(err)
		}
		if _, err := p.agent(1).Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		w, err := p.store(1).NarrowWish()
		if b := p.plan(t, 1); err != nil || (w != nil) != left || b.Stage != narrow.Preparing || b.Taken != "" {
			t.Errorf("%s: %+v, %v, %+v", age, w, err, b)
		}
	}
}

// TestAPlanForTwoIsTakenBackThoughItsCarrierIsAnotherMachineByNow: somebody deleted the lock, and replaced the
// carrier under its own name. Its etcd serves, and it has no plan.
func TestAPlanForTwoIsTakenBackThoughItsCarrierIsAnotherMachineByNow(t *testing.T) {
	for _, stage := range []narrow.Stage{narrow.Preparing, narrow.Dressing, narrow.Pairing} {
		for _, replaced := range []bool{false, true} {
			p := newTrio(t)
			if err := p.store(0).PutNarrowWish(wish); err != nil {
				t.Fatal(err)
			}
			p.play(t, p.at(t, 1, stage))
			if _, err := p.agent(1).Step(t.Context()); err != nil { // it has its part
				t.Fatal(err)
			}
			p.lock, p.told, p.roots[0], p.hosts[0] = narrow.Copy{}, narrow.Progress{}, t.TempDir(), side{record: state.EtcdNone}
			lost := wish
			lost.Abort, lost.Lost, lost.Replaced = true, true, replaced
			if err := p.store(1).PutNarrowWish(lost); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := p.agent(1).Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			b := p.plan(t, 1)
			if back := b.Stage == narrow.Aborted && p.plain && !p.accounts && p.lock.ID == "" && p.hosts[1] == (side{record: state.EtcdNone}); back != replaced || !replaced && b.Stage != stage {
				t.Errorf("%s, another machine: %t: %+v, %+v: %v", stage, replaced, b, p.hosts[1], p.log)
			}
		}
	}
}

// TestTheAccountsAreLookedForUntilTheAPISaysWhetherTheyAreThere: once the plan is over and its lock is gone,
// nobody else looks for them.
func TestTheAccountsAreLookedForUntilTheAPISaysWhetherTheyAreThere(t *testing.T) {
	l := newLab(t)
	l.do(narrow.CopyPlan, l.job(narrow.Preparing))
	delete(l.api.Maps, replace.LockNamespace+"/"+replace.LockName)
	a := &Agent{Store: l.store, World: l.world(), Now: l.now, news: carry.News{Annotation: Annotation}, kick: loop.NewKick()}
	if err := a.Store.PutNarrowPlan(*l.job(narrow.Aborted).Plan); err != nil {
		t.Fatal(err)
	}
	for _, mute := range []bool{true, true, false} {
		l.api.mute = mute
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := l.api.Secrets[replace.LockNamespace+"/"+targetSecret] != nil; left != mute {
			t.Errorf("the API says nothing: %t, the accounts are there: %t", mute, left)
		}
	}
}

// TestTheAccountsAreLookedForOnceTheLockIsGone, also before the plan is over: they say whether somebody deleted
// the lock.
func TestTheAccountsAreLookedForOnceTheLockIsGone(t *testing.T) {
	l := newLab(t)
	l.do(narrow.CopyPlan, l.job(narrow.Preparing))
	if f := l.look(t.Context(), l.job(narrow.Pairing)); f.Left.Known {
		t.Error("the lock is there, and they are looked for")
	}
	delete(l.api.Maps, replace.LockNamespace+"/"+replace.LockName)
	if f := l.look(t.Context(), l.job(narrow.Pairing)); !is(f.Left) {
		t.Errorf("somebody deleted the lock: %+v", f.Left)
	}
	l.do(narrow.DropLock, l.job(narrow.Aborted))
	if f := l.look(t.Context(), l.job(narrow.Pairing)); !state.Is(f.Left, false) {
		t.Errorf("the plan has ended: %+v", f.Left)
	}
}
