package confirm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheTableIsToldInItsOrder(t *testing.T) {
	needs := map[string]Need{
		"replaced": Refuse, "no-agent": Refuse, "no-peer": Refuse, "leaving": Refuse, "unknown": Refuse, "peer-is-there": Nothing, "goes-on": Nothing,
		"two-histories": Refuse, "useless": Refuse, "fencing-under-way": Wait, "two-truths": Refuse, "cannot-switch-off": Refuse,
		"still-on": Refuse, "went-mute": Refuse, "off": Confirm, "on": Confirm, "unproved": Phrase,
	}
	got := Rules()
	if len(got) != len(needs) || got[0].ID != "replaced" || got[len(got)-1].ID != "unproved" {
		t.Errorf("%+v", got)
	}
	for _, r := range got {
		if r.Need != needs[r.ID] || r.When == "" || r.Why == "" {
			t.Errorf("%+v, want %s", r, needs[r.ID])
		}
	}
}

// TestWhatAWrongConfirmationCosts has the beginning of each risk.
func TestWhatAWrongConfirmationCosts(t *testing.T) {
	const (
		losesPower = "beta is running and will lose its power at once"
		hasPower   = "beta has power, so it may be the host that serves now"
		bothWrite  = "if beta is running after all, both hosts may take writes"
		later      = "if beta went on without this host, every write since then"
		promoted   = "this member became a voter just before it stopped"
		left       = "this host had left the cluster"
		notAlone   = "beta must not be started alone"
	)
	for name, c := range map[string]struct {
		in   Situation
		want []string
	}{
		"a survivor, and the peer is off":     {alone(record(state.EtcdSole)), nil},
		"a survivor, and the peer has power":  {alone(record(state.EtcdSole), bmc("On")), nil},
		"a survivor, and nothing is proved":   {alone(record(state.EtcdSole), mute), []string{bothWrite}},
		"a pair, and the peer is off":         {alone(), []string{later, notAlone}},
		"a pair, and the peer has power":      {alone(bmc("On")), []string{hasPower, later, notAlone}},
		"a pair, and nothing is proved":       {alone(mute), []string{bothWrite, later, notAlone}},
		"a host that left":                    {alone(record(state.EtcdDeparting)), []string{left, notAlone}},
		"a voter of a moment ago":             {alone(record(state.EtcdVoter)), []string{promoted, notAlone}},
		"a peer that is there and lost disks": {alone(peerLost, bmc("On")), []string{losesPower, later, notAlone}},
		"what is refused has no risks":        {alone(record(state.EtcdLearner)), nil},
	} {
		got := Decide(c.in)
		if len(got.Risks) != len(c.want) || !slices.EqualFunc(got.Risks, c.want, strings.HasPrefix) {
			t.Errorf("%s (%s): %q, want %q", name, got.Rule, got.Risks, c.want)
		}
		if asked := got.Need == Confirm || got.Need == Phrase; asked != (got.Then != "") {
			t.Errorf("%s: what follows is %q", name, got.Then)
		}
	}
}

func TestAFenceGetsItsPatience(t *testing.T) {
	for want, waited := range map[string]time.Duration{"fencing-under-way": Patience - 1, "on": Patience} {
		if got := Decide(alone(running, bmc("On"), since(waited))); got.Rule != want {
			t.Errorf("after %s: %+v", waited, got)
		}
		leaderless := alone(running, bmc("On"), since(0), snapshot(func(s *state.EtcdSnapshot) { s.Local.Leaderless = waited }))
		if got := Decide(leaderless); got.Rule != want {
			t.Errorf("without a leader for %s: %+v", waited, got)
		}
	}
}

func TestWhichStepsLeadOn(t *testing.T) {
	for name, c := range map[string]struct {
		v    state.EtcdVerdict
		want bool
	}{
		"a question":                  {state.EtcdVerdict{Action: state.EtcdAskHuman, Rule: "take-over.too-many"}, false},
		"a fence that is wanted":      {state.EtcdVerdict{Action: state.EtcdAskFence}, false},
		"a stop":                      {state.EtcdVerdict{Action: state.EtcdStop}, false},
		"no verdict":                  {state.EtcdVerdict{}, false},
		"a wait":                      {state.EtcdVerdict{Action: state.EtcdWait, Rule: "alone.wait"}, false},
		"a wait in a take-over":       {state.EtcdVerdict{Action: state.EtcdWait, Rule: "take-over.wait"}, true},
		"a record":                    {state.EtcdVerdict{Action: state.EtcdWriteRecord}, true},
		"an etcd that runs and leads": {state.EtcdVerdict{Action: state.EtcdIdle}, true},
	} {
		if got := goesOn(c.v); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAConfirmationIsOfThisBootAndOfNow(t *testing.T) {
	s := alone().Report.Snapshot
	s.Uptime, s.Pacemaker.Joined, s.Statement = time.Hour, 2*time.Hour, state.Known(state.EtcdStatement{})
	got := confirmed(s, true)
	want := state.Confirmation{Who: "somebody", Boot: "boot-2", At: 2*time.Hour + 1, Force: true}
	if diff := cmp.Diff(state.Known(want), got.Proofs.Human); diff != "" || got.Statement.Known || !state.Is(got.Pacemaker.Contact, false) {
		t.Errorf("%s %+v", diff, got.Pacemaker)
	}
	s.Boot, s.Pacemaker.Joined = "", 0
	if got := confirmed(s, false).Proofs.Human.Value; got.Boot == "" || got.At != time.Hour+1 || got.Force {
		t.Errorf("%+v", got)
	}
}

func TestAnEffectComesWithTheStepThatFollows(t *testing.T) {
	for name, c := range map[string]struct {
		in   Situation
		want Effect
	}{
		"a survivor": {alone(record(state.EtcdSole)), Plain}, "a pair": {alone(), Forced}, "a learner": {alone(record(state.EtcdLearner)), Useless},
	} {
		effect, then := Would(c.in.Report.Snapshot)
		if effect != c.want || (then.Rule != "") != (c.want != Useless) {
			t.Errorf("%s: %s, %+v", name, effect, then)
		}
	}
}

// TestWhatWaitsForNoFenceIsNotToWait: a host that asks an administrator from its first
// second is answered from its first second.
func TestWhatWaitsForNoFenceIsNotToWait(t *testing.T) {
	for name, in := range map[string]Situation{
		"a pair that may be behind": alone(since(0)), "one of which nothing is proved": alone(mute, since(0)), "a host that left": alone(record(state.EtcdDeparting), since(0)),
	} {
		if got := Decide(in); got.Need != Phrase {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTheTableNamesThePeerAsAnybodys: it is for people who have no host before them.
func TestTheTableNamesThePeerAsAnybodys(t *testing.T) {
	named := 0
	for _, r := range Rules() {
		if strings.Contains(r.Why, "PEER") {
			named++
		}
		if strings.Contains(r.Why, "  ") || strings.HasPrefix(r.Why, " ") || strings.Contains(r.Why, "of  ") {
			t.Errorf("rule %s speaks of nobody: %q", r.ID, r.Why)
		}
	}
	if named < 8 {
		t.Errorf("only %d rules name a peer", named)
	}
}

// TestEveryAnswerIsWholeInEverySituation: who has to type something is told what for,
// what may be lost and what follows, and nobody else is given a phrase.
func TestEveryAnswerIsWholeInEverySituation(t *testing.T) {
	needs := make(map[Need]int)
	for _, s := range everySituation() {
		d := Decide(s)
		needs[d.Need]++
		asks := d.Need == Confirm || d.Need == Phrase
		switch {
		case d.Rule == "nothing-fits" || d.Reason == "":
			t.Errorf("%+v", d)
		case (d.Phrase != "") != (d.Need == Phrase):
			t.Errorf("rule %s, %s, has the phrase %q", d.Rule, d.Need, d.Phrase)
		case asks != (d.Then != "") || !asks && (len(d.Risks) > 0 || d.Force || d.PowerOff):
			t.Errorf("rule %s, %s: %+v", d.Rule, d.Need, d)
		case d.Force && d.Need != Phrase:
			t.Errorf("rule %s loses writes for a mere yes", d.Rule)
		case asks && s.Report.Snapshot.Peer == "":
			t.Errorf("rule %s asks about nobody", d.Rule)
		}
	}
	for _, n := range []Need{Nothing, Confirm, Phrase, Refuse} {
		if needs[n] == 0 {
			t.Errorf("no situation needs %s: %v", n, needs)
		}
	}
}
