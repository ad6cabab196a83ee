package cluster

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestASiteOfThreeThatHasTwoGivesNoTurn has a control plane taken out in the middle of an upgrade.
func TestASiteOfThreeThatHasTwoGivesNoTurn(t *testing.T) {
	site := func(change func(*Site)) Site {
		s := aSite(1) // the first control plane has arrived, the second one and three workers have not
		s.Record.Planes = 3
		change(&s)
		return s
	}
	newcomer := func(s *Site) {
		h := s.Hosts[1]
		h.Name, h.Leader = "cp-3", false
		s.Hosts = append(s.Hosts, h)
	}
	for what, c := range map[string]struct {
		site  Site
		do    Do
		turns int
		why   string
	}{
		"the third one was taken out":              {site(func(*Site) {}), Pause, 0, "2 of 3 control planes are there"},
		"its turn was given before":                {site(func(s *Site) { s.Record.Turns = []string{"cp-1"} }), Write, 0, "no host begins: 2 of 3"},
		"another one is there, and votes":          {site(newcomer), Write, 1, "is next"},
		"it does not vote yet":                     {site(func(s *Site) { newcomer(s); s.Hosts[len(s.Hosts)-1].Well = state.Known(false) }), Pause, 0, "cp-3 is not known to be well: it goes on once all hosts are; if it is lost for good: `holdfast host replace cp-3`"},
		"nobody has counted":                       {site(func(s *Site) { s.Record.Planes = 0 }), Write, 1, "is next"},
		"it began with two":                        {site(func(s *Site) { s.Record.Planes = 2 }), Write, 1, "is next"},
		"it goes back, of one minor release":       {site(func(s *Site) { goesBack(s); s.Hosts[0].Servers = state.Known(true) }), Pause, 0, "2 of 3"},
		"it goes back, and nobody knows the level": {site(func(s *Site) { goesBack(s); s.Hosts[0].Servers = state.Fact[bool]{} }), Pause, 0, "2 of 3"},
		"it goes back, and a host keeps the level": {site(goesBack), Write, 1, "is next"},
	} {
		step := Next(c.site)
		if step.Do != c.do || len(step.Record.Turns) != c.turns || !strings.Contains(step.Why, c.why) {
			t.Errorf("%s: %s, turns %v: %s", what, step.Do, step.Record.Turns, step.Why)
		}
	}
}

func goesBack(s *Site) {
	s.Record.Returning, s.Wish.Release = true, "R1"
	s.Hosts[0].Journal = parachute.Journal{Upgrade: "u1", From: "R1", To: "R2", Step: parachute.Accepted}
}

// TestTheSoakOfTwoOfThreeDoesNotEndByItself, and a person ends it: a commit stops no etcd.
func TestTheSoakOfTwoOfThreeDoesNotEndByItself(t *testing.T) {
	s := proved(aSite(5))
	s.Record.Planes, s.Record.Healthy, s.Record.Seen = 3, soakTime, noon
	if step := Next(s); step.Record.NoWayBack || step.Record.Healthy != soakTime || !strings.Contains(step.Why, "the way back stays open: 2 of 3") {
		t.Errorf("%+v", step)
	}
	s.Wish.Commit = true
	if step := Next(s); !step.Record.NoWayBack || step.Record.Planes != 3 {
		t.Errorf("a person commits: %+v", step)
	}
}

// TestTheRecordCountsTheControlPlanesWhenTheUpgradeBegins.
func TestTheRecordCountsTheControlPlanesWhenTheUpgradeBegins(t *testing.T) {
	s := aSite(0)
	s.Record, s.Wish.Start = Record{}, true
	if step := Next(s); step.Do != Write || step.Record.Planes != 2 {
		t.Errorf("%+v", step)
	}
	s.ControlPlanes = 3
	if step := Next(s); step.Do != Write || step.Record.Planes != 3 {
		t.Errorf("one of three has no node: %+v", step)
	}
	s.ControlPlanes = 5
	if step := Next(s); step.Do != Write || step.Record.Planes != 2 {
		t.Errorf("five are not counted so: %+v", step)
	}
}
