package keeper

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencerace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatAHostTellsAPeerThatIsBack: its reach, and whether it holds no promise any more.
func TestWhatAHostTellsAPeerThatIsBack(t *testing.T) {
	const now = time.Hour
	for rule, c := range map[string]struct {
		there bool
		given time.Duration
		free  bool
	}{
		"both are there":                    {true, 0, true},
		"a promise still counts":            {true, now + 1, false},
		"a promise is over":                 {true, now, true},
		"the peer is not there by Corosync": {false, 0, false},
	} {
		r := newRace(false, func() time.Duration { return now }, logOf(t))
		r.setReach(state.Reach{State: state.ReachNo, Why: "no signal"})
		if c.there {
			r.setMembership(anyRing, true)
		}
		r.side.Given = c.given
		want := state.RaceAnswer{Reach: state.Reach{State: state.ReachNo, Why: "no signal"}, Free: c.free}
		if got := r.answer(true); got != want || r.side.Kept != 0 {
			t.Errorf("%s: %+v, kept until %s", rule, got, r.side.Kept)
		}
	}
}

// TestAPeerYieldsWhileItIsLostAndItsPromiseLasts, with time enough for a fence.
func TestAPeerYieldsWhileItIsLostAndItsPromiseLasts(t *testing.T) {
	const now = time.Hour
	for rule, c := range map[string]struct {
		there bool
		given time.Duration
		want  bool
	}{
		"it promised nothing":            {false, 0, false},
		"long enough":                    {false, now + fencerace.Enough, true},
		"too short for a fence":          {false, now + fencerace.Enough - 1, false},
		"the peer that promised is back": {true, now + fencerace.Promise, false},
	} {
		r := newRace(false, func() time.Duration { return now }, logOf(t))
		r.there, r.side.Given = c.there, c.given
		if got := r.given(); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
	for kept, want := range map[time.Duration]bool{0: false, now: false, now + 1: true} {
		r := newRace(false, func() time.Duration { return now }, logOf(t))
		if r.side.Kept = kept; r.gives() != want {
			t.Errorf("this host promised until %s: %t", kept, !want)
		}
	}
}

// TestAPeerThatIsBackEndsWhatIsKeptOnlyByALaterAnswer: one to a question of before says
// nothing, and a peer that is lost again neither.
func TestAPeerThatIsBackEndsWhatIsKeptOnlyByALaterAnswer(t *testing.T) {
	const now = time.Hour
	for rule, c := range map[string]struct {
		kept time.Duration
		lost bool
		ends bool
	}{
		"it holds no promise":            {now + time.Minute, false, true},
		"this host's part is over":       {now, false, false},
		"it is lost while it was asked":  {now + time.Minute, true, false},
		"it is lost, and that part over": {now, true, false},
	} {
		r := newRace(false, func() time.Duration { return now }, logOf(t))
		r.setMembership(anyRing, true)
		r.side.Kept = c.kept
		r.ask = func(_ context.Context, back bool) (state.RaceAnswer, error) {
			r.there = !c.lost
			return state.RaceAnswer{Free: back}, nil
		}
		if r.askBack(t.Context()); (r.side.Kept == 0) != c.ends {
			t.Errorf("%s: kept until %s", rule, r.side.Kept)
		}
	}
}

// TestWhatAPowerCutLeavesOver: the return of the peer ends it only once a fence proved
// that it is over.
func TestWhatAPowerCutLeavesOver(t *testing.T) {
	for fenced, over := range map[time.Duration]bool{0: false, time.Hour: true} {
		r := newRace(false, func() time.Duration { return time.Hour }, logOf(t))
		r.setMembership(anyRing, true)
		r.setMembership(anyRing, false)
		r.setReach(state.Reach{State: state.ReachYes})
		r.decide(state.RaceRequest{Readable: true, Cut: true}, state.EtcdReport{})
		if r.fenced = func() time.Duration { return fenced }; r.side.Committed == 0 {
			t.Fatal("nothing is cut")
		}
		if r.setMembership(anyRing, true); (r.side.Committed == 0) != over {
			t.Errorf("fenced at %s: committed until %s", fenced, r.side.Committed)
		}
	}
}

// TestALostPeerIsAskedForAWhileAtOnceAndThenRarely: to the moment.
func TestALostPeerIsAskedForAWhileAtOnceAndThenRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lostRace(t)
		_, lost := r.contact()
		var at []time.Duration
		r.ask = func(context.Context, bool) (state.RaceAnswer, error) {
			at = append(at, r.uptime()-lost)
			return state.RaceAnswer{}, errors.New("off")
		}
		<-r.wake // of the loss
		ctx, end := context.WithCancel(t.Context())
		go func() { _ = r.listen(ctx) }()
		time.Sleep(soonUntil + 3*askLater - 1)
		end()
		synctest.Wait()
		var want []time.Duration
		for d := time.Duration(0); d <= soonUntil; d += askSoon {
			want = append(want, d)
		}
		want = append(want, soonUntil+askLater, soonUntil+2*askLater)
		if !reflect.DeepEqual(at, want) {
			t.Errorf("asked at %v", at)
		}
	})
}

// TestTheAddressesThatAreTold are the first ones; what cannot be read is not told.
func TestTheAddressesThatAreTold(t *testing.T) {
	var list []netip.Addr
	for n := range byte(mostAddresses + 2) {
		list = append(list, netip.AddrFrom4([4]byte{192, 0, 2, n}))
	}
	macs := []string{"02:00:00:00:00:01"}
	for n, want := range map[int]int{0: 0, 3: 3, mostAddresses: mostAddresses, mostAddresses + 2: mostAddresses} {
		s := &senses{effects: effects{addresses: func() ([]netip.Addr, []string, error) { return list[:n], macs, nil }}}
		if got, hardware := s.told(); len(got) != want || want > 0 && got[0] != list[0] || !slices.Equal(hardware, macs) {
			t.Errorf("of %d: %v, %v", n, got, hardware)
		}
	}
	s := &senses{effects: effects{addresses: func() ([]netip.Addr, []string, error) { return list, macs, errors.New("no netlink") }}}
	if got, hardware := s.told(); got != nil || hardware != nil {
		t.Errorf("%v, %v", got, hardware)
	}
}

// TestOfTwoHostsTheOneOfTheGreaterNameIsSecond in a race that nothing else decides.
func TestOfTwoHostsTheOneOfTheGreaterNameIsSecond(t *testing.T) {
	for name, second := range map[string]bool{"alpha": false, "gamma": true} {
		s := newSenses(name, "beta", state.EtcdParameters{}, etcdOf{}, etcdProcess(t), logOf(t))
		if s.race.side.Second != second {
			t.Errorf("%s: %t", name, s.race.side.Second)
		}
	}
}

func TestARecordTellsWhetherTheDataMayLackWrites(t *testing.T) {
	of := func(s state.EtcdState) state.EtcdReport {
		return state.EtcdReport{Snapshot: state.EtcdSnapshot{Record: state.Known(state.EtcdRecord{State: s})}}
	}
	for _, s := range []state.EtcdState{state.EtcdNone, state.EtcdLearner, state.EtcdVoter, state.EtcdDeparting} {
		if !behind(of(s)) {
			t.Errorf("%s", s)
		}
	}
	for _, s := range []state.EtcdState{state.EtcdPair, state.EtcdSole, state.EtcdTakingOver, state.EtcdWidening, state.EtcdMajority} {
		if behind(of(s)) {
			t.Errorf("%s", s)
		}
	}
	if behind(state.EtcdReport{}) {
		t.Error("a record that nobody could read")
	}
}
