package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// lostRecord is a site all of whose hosts run R2 with their way back open, and whose record is gone.
func lostRecord(wish Wish) Site {
	s := aSite(5)
	for i := range s.Hosts {
		s.Hosts[i].Journal.From, s.Hosts[i].Journal.To = "R1", "R2"
	}
	s.Record, s.Running, s.Wish = Record{}, "R2", wish
	return s
}

// TestAnUpgradeWhoseRecordIsGoneIsTakenUpByOneWord: etcd was restored from before its commit. Without it
// nothing would ever close the way back of the hosts.
func TestAnUpgradeWhoseRecordIsGoneIsTakenUpByOneWord(t *testing.T) {
	start := Wish{Release: "R2", Upgrade: "u7", Start: true}
	if step := Next(lostRecord(Wish{Upgrade: "u6"})); step.Do != Rest || step.Record.Started || !strings.Contains(step.Why, "holdfast upgrade start R2") {
		t.Errorf("nobody wants anything: %+v", step)
	}
	for what, c := range map[string]struct {
		change func(*Site)
		taken  bool
		closed bool
	}{
		"in the soak":                {func(*Site) {}, true, false},
		"in the middle of a commit":  {func(s *Site) { s.Hosts[0].Journal.Closed = true }, true, true},
		"after the commit":           {func(s *Site) { shut(s) }, false, false},
		"a release is offered":       {func(s *Site) { s.Wish.Offer = "R3" }, true, false},
		"a host was installed later": {func(s *Site) { s.Hosts[4].Journal = parachute.Journal{} }, true, false},
		"one closed another upgrade": {func(s *Site) {
			s.Hosts[0].Journal = parachute.Journal{Upgrade: "u0", From: "R0", To: "R2", Step: parachute.Accepted, Closed: true}
		}, true, false},
		"closed with another id": {func(s *Site) { s.Hosts[0].Journal.Upgrade, s.Hosts[0].Journal.Closed = "u0", true }, true, true},
		"one journal was torn after the commit": {func(s *Site) { // wasAtRest wrote this one
			shut(s)
			s.Hosts[4].Journal = parachute.Journal{From: "R1", To: "R2", Step: parachute.Accepted}
		}, false, false},
		"all journals were torn": {func(s *Site) {
			for i := range s.Hosts {
				s.Hosts[i].Journal.Upgrade = ""
			}
		}, false, false},
		"a host returned in an earlier upgrade": {func(s *Site) {
			s.Hosts[4].Journal = parachute.Journal{Upgrade: "u0", From: "R2", To: "R3", Step: parachute.Returned}
		}, true, false},
		"a replaced host did not get to the old release, and the site went on": {func(s *Site) {
			s.Hosts[4].Journal = parachute.Journal{Upgrade: "u1", From: "R2", To: "R1", Step: parachute.Returned, Back: true}
		}, true, false},
		"a host is at work":          {func(s *Site) { s.Hosts[4].Journal.Step = parachute.Proving }, false, false},
		"a host runs the old one":    {func(s *Site) { s.Hosts[4].Running = state.Known("R1") }, false, false},
		"nobody knows what one runs": {func(s *Site) { s.Hosts[4].Running = state.Fact[string]{} }, false, false},
		"hosts went back to it": {func(s *Site) {
			back := parachute.Journal{From: "R2", To: "R3", Step: parachute.Returned}
			s.Hosts[0].Journal = back
			shut(s)
		}, false, false},
	} {
		s := lostRecord(start)
		c.change(&s)
		step := Next(s)
		want := Record{}
		if c.taken {
			want = Record{Upgrade: "u7", From: "R1", To: "R2", Planes: 2, Started: true, NoWayBack: c.closed}
		}
		if got := step.Record; got.Started != c.taken || got.Upgrade != want.Upgrade || got.From != want.From || got.To != want.To || got.Planes != want.Planes || got.NoWayBack != want.NoWayBack || len(got.Turns) > 0 {
			t.Errorf("%s: %+v", what, step)
		}
	}
}

func shut(s *Site) {
	for i := range s.Hosts {
		s.Hosts[i].Journal.Closed = true
	}
}

// TestAnUpgradeThatWasTakenUpEnds: no host has a turn again, the parts follow, the soak begins anew, and
// hosts close their way back. Until then the site may go back.
func TestAnUpgradeThatWasTakenUpEnds(t *testing.T) {
	s := lostRecord(Wish{Release: "R2", Upgrade: "u7", Start: true})
	var phases []Phase
	for range 3 * int(soakTime/time.Minute) {
		step := Next(s)
		if len(phases) == 0 || phases[len(phases)-1] != step.Phase {
			phases = append(phases, step.Phase)
		}
		if len(step.Record.Turns) > 0 || step.Do == Pause {
			t.Fatalf("%+v", step)
		}
		s.Record, s.Now = step.Record, s.Now.Add(time.Minute)
		switch step.Do {
		case Bring:
			for i := range s.Parts {
				if s.Parts[i].Name == step.Part {
					s.Parts[i].Release = state.Known(step.Release)
				}
			}
		case Raise:
			for i := range s.Hosts {
				if slices.Contains(step.Hosts, s.Hosts[i].Name) {
					s.Hosts[i].Servers, s.Hosts[i].Raised, s.Hosts[i].Journal.Closed = state.Known(true), state.Known(true), true
				}
			}
		case Rest, Write, Fetch, Await, Pause:
		}
		if !s.Record.Started {
			break
		}
	}
	if want := []Phase{Parts, Proving, Committing, Idle}; !slices.Equal(phases, want) || s.Record.Started || Next(s).Do != Rest {
		t.Errorf("it goes through %v and ends with %+v", phases, s.Record)
	}
	back := lostRecord(s.Wish)
	back.Record = Next(back).Record
	back.Wish = Wish{Release: "R1", Upgrade: "u8", Start: true}
	step := Next(back)
	if !step.Record.Returning || step.Refused != "" {
		t.Errorf("an administrator goes back: %+v", step)
	}
	for range 3 {
		back.Record = step.Record
		step = Next(back)
	}
	turns := step.Record.Turns
	if len(turns) != 1 || back.TurnOf("w-1").Wish != parachute.Stay {
		t.Fatalf("they go back one by one: %+v", step)
	}
	back.Record = step.Record
	if turn := back.TurnOf(turns[0]); turn.Wish != parachute.GoBack {
		t.Errorf("a host goes back by its own journal: %+v", turn)
	}
}

// TestARollbackWithAReplacedHostIsNoUpgradeTheOtherWayRound: the host that was installed with the new
// release went to the old one as to any other, and the wish for that one still stands.
func TestARollbackWithAReplacedHostIsNoUpgradeTheOtherWayRound(t *testing.T) {
	s := aSite(5)
	s.Record, s.Wish = Record{}, Wish{Release: "R1", Upgrade: "u7", Start: true}
	for i := range s.Hosts {
		s.Hosts[i].Running, s.Hosts[i].Journal = state.Known("R1"), parachute.Journal{}
	}
	s.Hosts[1].Journal = parachute.Journal{Upgrade: "u1", From: "R2", To: "R1", Step: parachute.Accepted}
	if !s.Open().Started {
		t.Error("nobody went back, and the upgrade is not taken up")
	}
	s.Hosts[0].Journal = parachute.Journal{Upgrade: "u1", From: "R1", To: "R2", Step: parachute.Returned}
	if step := Next(s); step.Do != Rest || s.Open().Started {
		t.Errorf("cp-1 returned, cp-2 accepted exchanged: %+v", step)
	}
}

// TestARollbackIsRememberedThoughNobodyReturned: both control planes were replaced in the soak, so they
// went to the old release as to any other. Their journals looked like those of an upgrade whose record is
// gone, and the wish of the rollback, which still stands, began it.
func TestARollbackIsRememberedThoughNobodyReturned(t *testing.T) {
	s := aSite(2)
	s.Hosts = s.Hosts[:2]
	for i := range s.Hosts {
		s.Hosts[i].Journal = parachute.Journal{} // another machine, installed with R2
	}
	s.Wish = Wish{Release: "R1", Upgrade: "u2", Start: true}
	for range 20 {
		if s.Record = Next(s).Record; !s.Record.Started {
			break
		}
		for i := range s.Hosts {
			goes(s, &s.Hosts[i])
		}
	}
	s.Running = "R1"
	for what, change := range map[string]func(*Site){
		"both say that the site went back":                     func(*Site) {},
		"a release of before has left that out on one of them": func(s *Site) { s.Hosts[0].Journal.Back = false },
		"one was replaced since":                               func(s *Site) { s.Hosts[0].Journal = parachute.Journal{} },
		"both were replaced since":                             func(s *Site) { s.Hosts[0].Journal, s.Hosts[1].Journal = parachute.Journal{}, parachute.Journal{} },
		"etcd was restored from before, without the wish":      func(s *Site) { s.Wish = Wish{Upgrade: "u9"} },
	} {
		c := s
		c.Hosts = slices.Clone(s.Hosts)
		change(&c)
		if step := Next(c); c.Record.Started || c.Open().Started || step.Do != Rest || step.Why != "the site runs its release" {
			t.Errorf("%s: %+v", what, step)
		}
	}
	s.Wish = Wish{Release: "R2", Upgrade: "u3", Start: true}
	if r := Next(s).Record; !r.Started || r.Upgrade != "u3" || r.From != "R1" || r.To != "R2" {
		t.Errorf("a person wants the newer release again: %+v", r)
	}
	s.Wish.Release, s.Hosts[0].Journal.Back, s.Hosts[1].Journal.Back = "R1", false, false
	if !s.Open().Started {
		t.Error("without what the journals say nothing tells it from an upgrade: this test shows nothing")
	}
}

// goes has a host that has its turn go all the way by its own decisions.
func goes(s Site, h *Host) {
	turn := s.TurnOf(h.Name)
	if turn.Wish != parachute.Go || state.Is(h.Running, turn.To) {
		return
	}
	f := parachute.Facts{Kind: parachute.OfTwo, Turn: state.Known(turn), Boot: "b1", Running: h.Running.Value, PeerServes: state.Known(true), Daemons: true}
	h.Journal = parachute.Next(h.Journal, f, s.Now).Journal
	h.Journal.Step, h.Running = parachute.Accepted, state.Known(turn.To)
}
