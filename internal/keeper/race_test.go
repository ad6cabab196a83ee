package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/fencerace"
	"github.com/holdfast/holdfast/internal/model/state"
)

var anyRing = state.Known(state.Membership{Ring: 1})

// lostRace returns the race of a host, with its own clock, that has just lost its
// peer.
func lostRace(t *testing.T) *race {
	t.Helper()
	begin := time.Now().Add(-time.Hour)
	r := newRace(false, func() time.Duration { return time.Since(begin) }, logOf(t))
	r.setMembership(anyRing, true)
	r.setMembership(anyRing, false)
	return r
}

func TestThePeerIsAskedOftenAfterItsLossAndThenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		r := lostRace(t)
		r.ask = func(context.Context, bool) (state.RaceAnswer, error) {
			asked.Add(1)
			return state.RaceAnswer{}, errors.New("off")
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = r.listen(ctx) }()
		within := func(d time.Duration) int64 {
			before := asked.Load()
			time.Sleep(d)
			synctest.Wait()
			return asked.Load() - before
		}
		if n := within(10 * time.Second); n < 45 {
			t.Errorf("in the first ten seconds %d times", n)
		}
		time.Sleep(soonUntil)
		if n := within(time.Minute); n < 10 || n > 14 {
			t.Errorf("in a later minute %d times", n)
		}
		r.setMembership(anyRing, true)
		synctest.Wait()
		if n := within(time.Minute); n != 0 {
			t.Errorf("a peer that is there is asked %d times", n)
		}
		time.Sleep(askLater - time.Second)
		before := asked.Load()
		r.setMembership(anyRing, false)
		synctest.Wait()
		if asked.Load() != before+1 {
			t.Error("a peer that is lost is not asked at once")
		}
		stop()
	})
}

func TestAHostThatNeverHadItsPeerAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(false, func() time.Duration { return time.Hour }, logOf(t))
		r.ask = func(context.Context, bool) (state.RaceAnswer, error) {
			t.Error("asked")
			return state.RaceAnswer{}, nil
		}
		r.setMembership(anyRing, false) // the peer was not there before, either
		go func() { _ = r.listen(t.Context()) }()
		time.Sleep(time.Minute)
	})
}

func TestAPromiseCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lostRace(t)
		r.ask = func(context.Context, bool) (state.RaceAnswer, error) {
			time.Sleep(300 * time.Millisecond)
			return state.RaceAnswer{GivesWay: time.Minute}, nil
		}
		sent := r.uptime()
		if r.askOnce(t.Context()); r.side.Given != sent+time.Minute {
			t.Errorf("%s, asked at %s", r.side.Given, sent)
		}
		r.ask = func(context.Context, bool) (state.RaceAnswer, error) { return state.RaceAnswer{}, errors.New("off") }
		if r.askOnce(t.Context()); r.side.Given != sent+time.Minute {
			t.Errorf("an error took it back: %s", r.side.Given)
		}
	})
}

func TestAnAnswerThatComesAfterThePeerDoesNotCount(t *testing.T) {
	r := lostRace(t)
	r.ask = func(context.Context, bool) (state.RaceAnswer, error) {
		r.setMembership(anyRing, true)
		return state.RaceAnswer{GivesWay: time.Minute}, nil
	}
	if r.askOnce(t.Context()); r.side.Given != 0 {
		t.Errorf("%s", r.side.Given)
	}
}

func TestAMembershipThatIsUnknownChangesNothing(t *testing.T) {
	r := lostRace(t)
	<-r.hurry
	there, lost := r.contact()
	r.setMembership(state.Fact[state.Membership]{}, true)
	if now, at := r.contact(); now != there || at != lost || there {
		t.Errorf("%t at %s", now, at)
	}
	select {
	case <-r.hurry:
		t.Error("the neighbours are asked for nothing")
	default:
	}
}

func TestALossHurriesTheNeighboursAndTakesNobodysTime(t *testing.T) {
	r := newRace(false, func() time.Duration { return time.Hour }, logOf(t))
	for range 3 { // nobody listens yet
		r.setMembership(anyRing, true)
		r.setMembership(anyRing, false)
	}
	select {
	case <-r.hurry:
	default:
		t.Error("the neighbours are not asked at once")
	}
}

// stalledBy returns the report of a host whose pair commits nothing because of its
// peer.
func stalledBy(sick string) state.EtcdReport {
	two := []state.EtcdMember{{ID: 0xa, Name: "alpha"}, {ID: 0xb, Name: "beta"}}
	return state.EtcdReport{Snapshot: state.EtcdSnapshot{
		Host: "beta", Peer: "alpha", Uptime: time.Hour,
		Local:     state.EtcdLocal{Running: state.Known(true), Members: state.Known(two), Stalled: etcdmember.StallAfter},
		Record:    state.Known(state.EtcdRecord{State: state.EtcdPair, Member: 0xb}),
		Pacemaker: state.EtcdPacemaker{Contact: state.Known(true), Ring: 7},
		Statement: state.Known(state.EtcdStatement{Ring: 7, Record: state.EtcdRecord{State: state.EtcdPair, Member: 0xa}, Sick: sick}),
	}}
}

func TestAPeerAtFaultIsNotWaitedForWhileItIsAtFault(t *testing.T) {
	r := newRace(true, func() time.Duration { return time.Hour }, logOf(t))
	q := state.RaceRequest{Target: "alpha", Readable: true}
	if got := r.decide(q, stalledBy("its disk does not answer")); got.Turn != state.RaceFirst || !strings.Contains(got.Why, "its disk does not answer") {
		t.Errorf("%+v", got)
	}
	if got := r.decide(q, stalledBy("")); got.Turn != state.RaceOrder {
		t.Errorf("a fault is remembered: %+v", got)
	}
}

func TestWhoHasThePowerCutPromisesNothing(t *testing.T) {
	r := lostRace(t)
	r.setReach(state.Reach{State: state.ReachYes})
	if got := r.decide(state.RaceRequest{Target: "cp-2", Readable: true, Cut: true}, state.EtcdReport{}); got.Turn != state.RaceOrder {
		t.Fatalf("%+v", got)
	}
	r.setReach(state.Reach{State: state.ReachNo, Why: "the cable carries no signal"})
	if a := r.answer(false); a.GivesWay != 0 || a.Reach.State != state.ReachNo {
		t.Errorf("%+v", a)
	}
}

func TestGivingWayBeginsWhenTheBMCCanBeRead(t *testing.T) {
	now := time.Hour
	r := newRace(false, func() time.Duration { return now }, logOf(t))
	r.setReach(state.Reach{State: state.ReachNo, Why: "the cable carries no signal"})
	r.decide(state.RaceRequest{Target: "cp-2"}, state.EtcdReport{})
	now += 10 * time.Minute // its fencing network hangs
	if got := r.decide(state.RaceRequest{Target: "cp-2", Readable: true}, state.EtcdReport{}); got.Turn != state.RaceLast || got.Until != now+fencerace.Keep {
		t.Errorf("%+v", got)
	}
	begun := now
	now += time.Second
	if got := r.decide(state.RaceRequest{Target: "cp-2", Readable: true}, state.EtcdReport{}); got.Until != begun+fencerace.Keep {
		t.Errorf("it begins again and again: %+v", got)
	}
}

func TestTheFenceAgentIsAnswered(t *testing.T) {
	d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, hostEffects(), records.Files{Root: t.TempDir()}, "")
	ask := func(body string) (int, state.FenceRace) {
		w := httptest.NewRecorder()
		d.raceOf(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+state.RaceRequestPath, strings.NewReader(body)))
		var out state.FenceRace
		_ = json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&out)
		return w.Code, out
	}
	if code, got := ask(`{"target":"beta"}`); code != http.StatusOK || got.Turn != state.RaceOrder {
		t.Errorf("before etcd is kept the order decides: %d, %+v", code, got)
	}
	r := newRace(true, func() time.Duration { return time.Hour }, logOf(t))
	r.setReach(state.Reach{State: state.ReachNo, Why: "the cable carries no signal"})
	d.race.Store(r)
	if code, got := ask(`{"target":"beta","readable":true}`); code != http.StatusOK || got.Turn != state.RaceLast || got.Until != time.Hour+fencerace.Keep {
		t.Errorf("%d, %+v", code, got)
	}
	if code, _ := ask(`no question`); code != http.StatusBadRequest {
		t.Errorf("%d", code)
	}
}

// TestTheNextCutMayBeTheOtherHosts cuts one host off, brings both back, and then
// cuts the other one off before the first promise would have ended.
func TestTheNextCutMayBeTheOtherHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now().Add(-time.Hour)
		uptime := func() time.Duration { return time.Since(begin) }
		one, two := newRace(false, uptime, logOf(t)), newRace(true, uptime, logOf(t))
		asks := func(r, peer *race) {
			r.ask = func(_ context.Context, back bool) (state.RaceAnswer, error) { return peer.answer(back), nil }
		}
		asks(one, two)
		asks(two, one)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for _, r := range []*race{one, two} {
			r.setMembership(anyRing, true)
			go func() { _ = r.listen(ctx) }()
		}
		reach := func(r *race, s state.ReachState) { r.setReach(state.Reach{State: s}) }
		there := func(both bool) {
			one.setMembership(anyRing, both)
			two.setMembership(anyRing, both)
		}
		turn := func(r *race) state.RaceTurn {
			return r.decide(state.RaceRequest{Readable: true}, state.EtcdReport{}).Turn
		}

		reach(one, state.ReachYes)
		reach(two, state.ReachNo)
		there(false)
		time.Sleep(time.Second)
		if turn(one) != state.RaceFirst || turn(two) != state.RaceLast {
			t.Errorf("the second is cut off: %s, %s", turn(one), turn(two))
		}
		reach(two, state.ReachYes)
		there(true)
		time.Sleep(3 * askLater)
		reach(one, state.ReachNo)
		there(false)
		time.Sleep(time.Second)
		if turn(one) != state.RaceLast || turn(two) != state.RaceFirst {
			t.Errorf("now the first is: %s, %s", turn(one), turn(two))
		}
	})
}

func TestTheFenceAgentHearsWhetherThePeerAnswers(t *testing.T) {
	d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, hostEffects(), records.Files{Root: t.TempDir()}, "")
	ask := func(body string) (int, state.Fact[bool]) {
		w := httptest.NewRecorder()
		d.heardOf(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+state.HeardRequestPath, strings.NewReader(body)))
		var out state.Fact[bool]
		_ = json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&out)
		return w.Code, out
	}
	const ofPeer = `{"target":"beta"}`
	if code, got := ask(ofPeer); code != http.StatusOK || got.Known {
		t.Errorf("before etcd is kept nobody can say: %d, %+v", code, got)
	}
	if code, _ := ask(`no question`); code != http.StatusBadRequest {
		t.Errorf("%d", code)
	}
	var found state.Fact[bool]
	var failed error
	r := newRace(true, func() time.Duration { return time.Hour }, logOf(t))
	r.peer, r.answers = "beta", func(context.Context, []netip.Addr, []string) (state.Fact[bool], error) {
		return found, failed
	}
	d.race.Store(r)
	for _, c := range []struct {
		name   string
		target string
		reach  state.ReachState
		found  state.Fact[bool]
		failed error
		want   state.Fact[bool]
	}{
		{"it answers", ofPeer, state.ReachYes, state.Known(true), nil, state.Known(true)},
		{"it is silent", ofPeer, state.ReachYes, state.Known(false), nil, state.Known(false)},
		{"it is silent, and there is no neighbour to compare with", ofPeer, state.ReachUnknown, state.Known(false), nil, state.Known(false)},
		{"silence says nothing to a host that is cut off", ofPeer, state.ReachNo, state.Known(false), nil, state.Fact[bool]{}},
		{"an answer does", ofPeer, state.ReachNo, state.Known(true), nil, state.Known(true)},
		{"nobody could ask", ofPeer, state.ReachYes, state.Known(false), errors.New("no netlink"), state.Fact[bool]{}},
		{"another host", `{"target":"gamma"}`, state.ReachYes, state.Known(false), nil, state.Fact[bool]{}},
	} {
		r.setReach(state.Reach{State: c.reach})
		found, failed = c.found, c.failed
		if code, got := ask(c.target); code != http.StatusOK || got != c.want {
			t.Errorf("%s: %d, %+v", c.name, code, got)
		}
	}
}

func TestThePeerIsAskedWhereItWasHeardOfLast(t *testing.T) {
	r := newRace(false, func() time.Duration { return time.Hour }, logOf(t))
	address := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }
	for n := range byte(mostAddresses + 3) {
		r.heardOf([]netip.Addr{address(n), address(n)})
	}
	got := r.peerAt()
	if len(got) != mostAddresses || slices.Contains(got, address(2)) || got[len(got)-1] != address(mostAddresses+2) {
		t.Errorf("%v", got)
	}
	got[0] = address(99)
	if slices.Contains(r.peerAt(), address(99)) {
		t.Error("what is asked can be changed by who asks")
	}
}

// TestThePeersReportCountsOnceTheNetworkConfirmsIt: of two machines with one address the one
// that the peer describes is the peer, unless the network hides who sends.
func TestThePeersReportCountsOnceTheNetworkConfirmsIt(t *testing.T) {
	const first, second, other = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"
	mac := func(text string) net.HardwareAddr {
		m, err := net.ParseMAC(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	r := newRace(false, func() time.Duration { return time.Hour }, logOf(t))
	for _, c := range []struct {
		name string
		do   func()
		want []string
	}{
		{"nothing was said", func() { r.seenAt(mac(other)) }, nil},
		{"what it says fits nobody whom the kernel reaches", func() { r.takeHardware([]string{first, second}) }, nil},
		{"the kernel reaches it there", func() { r.seenAt(mac(first)) }, []string{first, second}},
		{"another machine takes its address", func() { r.seenAt(mac(other)) }, []string{first, second}},
		{"it says the same again", func() { r.takeHardware([]string{first, second}) }, []string{first, second}},
		{"it is another machine", func() { r.takeHardware([]string{second}) }, nil},
		{"which is reached", func() { r.seenAt(mac(second)) }, []string{second}},
		{"one of an earlier release says nothing", func() { r.takeHardware(nil) }, nil},
	} {
		c.do()
		if got := r.own(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %q", c.name, got, c.want)
		}
	}
}

func TestOnlyAnEtcdThatStandsStillItselfIsRestarted(t *testing.T) {
	still := func(changes ...func(*state.EtcdSnapshot)) state.EtcdSnapshot {
		s := state.EtcdSnapshot{
			Local:     state.EtcdLocal{Stalled: staleAfter, Leader: state.Known(state.MemberID(0xa))},
			Pacemaker: state.EtcdPacemaker{Ring: 7},
			Statement: state.Known(state.EtcdStatement{Ring: 7, Leaderless: true}),
		}
		for _, c := range changes {
			c(&s)
		}
		return s
	}
	if !stale(still()) {
		t.Error("it names a leader of which its peer knows nothing, and is left alone")
	}
	for sentence, c := range map[string]func(*state.EtcdSnapshot){
		"a short stall":                   func(s *state.EtcdSnapshot) { s.Local.Stalled = staleAfter - 1 },
		"a disk that hangs":               func(s *state.EtcdSnapshot) { s.Local.Sick = "its disk does not answer" },
		"an etcd that knows no leader":    func(s *state.EtcdSnapshot) { s.Local.Leader = state.Known(state.MemberID(0)) },
		"one whose leader is unknown":     func(s *state.EtcdSnapshot) { s.Local.Leader.Known = false },
		"a peer that knows a leader":      func(s *state.EtcdSnapshot) { s.Statement.Value.Leaderless = false },
		"a peer that has not spoken":      func(s *state.EtcdSnapshot) { s.Statement.Known = false },
		"what it said in another cluster": func(s *state.EtcdSnapshot) { s.Statement.Value.Ring = 6 },
	} {
		if stale(still(c)) {
			t.Errorf("%s: it is ended", sentence)
		}
	}
}

func TestAPeerThatDoesNotAnswerTakesNoTime(t *testing.T) {
	ca, key := authority(t)
	two := files(t, ca, key, "cp-2", "cp-1")
	mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // it accepts the connection and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	begin := time.Now()
	_, err = two.ask(t.Context(), mute.Addr().(*net.TCPAddr).Port, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, false)
	if took := time.Since(begin); err == nil || took > 20*peerTime {
		t.Errorf("%v after %s", err, took)
	}
	if _, err := two.ask(t.Context(), 1, nil, false); err == nil {
		t.Error("nobody was asked, and answered")
	}
	_, err = two.ask(t.Context(), 1, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, false)
	if err == nil || !strings.Contains(err.Error(), "at none of its addresses") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("each reason is told: %v", err)
	}
	two.cert = "/nowhere"
	if _, err := two.ask(t.Context(), 1, nil, false); err == nil || !strings.Contains(err.Error(), "certificate for the peer") {
		t.Errorf("%v", err)
	}
	two = files(t, ca, key, "cp-2", "cp-1")
	two.ca = two.key
	if _, err := two.config(); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("%v", err)
	}
}

func TestAHostThatCannotListenSaysSoOnceAndTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var told strings.Builder // read after serve has ended
		ended := make(chan error)
		go func() {
			ended <- pairTLS{}.serve(ctx, -1, nil, slog.New(slog.NewTextHandler(&told, nil)))
		}()
		time.Sleep(10 * retryAfter)
		synctest.Wait()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || strings.Count(told.String(), "cannot listen for the peer") != 1 {
			t.Errorf("told %q, %v", told.String(), err)
		}
	})
}

// TestAPeerIsThereOnceItStays lets the peer come back for a second and get lost
// again, and come back after a reset.
func TestAPeerIsThereOnceItStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(false, func() time.Duration { return time.Since(time.Unix(0, 0)) }, logOf(t))
		lost := func() { r.setMembership(anyRing, false) }
		back := func(boot string) func() {
			return func() {
				r.setMembership(anyRing, true)
				r.spoke(boot)
			}
		}
		wait := func(d time.Duration) func() { return func() { time.Sleep(d) } }
		unknown, there, gone := state.Fact[bool]{}, state.Known(true), state.Known(false)
		for _, c := range []struct {
			does string
			do   func()
			want state.Fact[bool]
		}{
			{"nobody knows yet", func() {}, unknown},
			{"it is there", back("a"), unknown},
			{"it is lost", lost, gone},
			{"it is back", back("a"), unknown},
			{"for a moment", wait(settled - time.Millisecond), unknown},
			{"and lost", lost, gone},
			{"back again", back("a"), unknown},
			{"and stays", wait(settled), there},
			{"it is lost once more", lost, gone},
			{"what it said before is read late", func() { r.spoke("a") }, gone},
			{"it was reset", back("b"), unknown},
			{"and stays up", wait(time.Minute), unknown},
			{"lost as it is now", lost, gone},
			{"back and silent", func() { r.setMembership(anyRing, true) }, unknown},
			{"for long", wait(time.Minute), unknown},
			{"until it speaks", func() { r.spoke("b") }, there},
		} {
			c.do()
			if got := r.decide(state.RaceRequest{Target: "cp-1"}, state.EtcdReport{}).There; got != c.want {
				t.Errorf("%s: %+v, want %+v", c.does, got, c.want)
			}
		}
	})
}
