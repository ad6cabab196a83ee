package widen

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func ready() (Facts, Wish) {
	w := newWide()
	f := w.facts(0)
	wish := f.Plan.wish()
	wish.At, f.Plan = noon, nil
	return f, wish
}

func TestEachGateOfAWideningSiteClosesForItsOwnReasonOnly(t *testing.T) {
	f, w := ready()
	if shut := replace.Closed(Gates(f, w)); len(shut) > 0 {
		t.Fatalf("nothing is wrong, and gates are shut: %+v", shut)
	}
	used := map[string]bool{}
	for sentence, c := range map[string]struct {
		gate   string
		change func(*Facts, *Wish)
	}{
		"a site of one":                        {"two", func(f *Facts, _ *Wish) { f.ControlPlanes = 1 }},
		"the other host is not in contact":     {"pair", func(f *Facts, _ *Wish) { f.Contact = state.Known(false) }},
		"that is unknown":                      {"pair", func(f *Facts, _ *Wish) { f.Contact.Known = false }},
		"nobody names it":                      {"pair", func(f *Facts, _ *Wish) { f.Peer = "" }},
		"a host that went on alone":            {"pair", func(f *Facts, _ *Wish) { f.Record = state.Known(state.EtcdSole) }},
		"the other host is a voter only":       {"pair", func(f *Facts, _ *Wish) { f.PeerRecord = state.Known(state.EtcdVoter) }},
		"the other host's record is unknown":   {"pair", func(f *Facts, _ *Wish) { f.PeerRecord.Known = false }},
		"etcd has no leader":                   {"etcd", func(f *Facts, _ *Wish) { f.Serves = state.Known(false) }},
		"a stand-in may vote":                  {"etcd", func(f *Facts, _ *Wish) { f.StandIn.Known = false }},
		"a third voter":                        {"members", func(f *Facts, _ *Wish) { f.Voters = state.Known(3) }},
		"a learner":                            {"members", func(f *Facts, _ *Wish) { f.Learner = state.Known(thirdID) }},
		"learners are unknown":                 {"members", func(f *Facts, _ *Wish) { f.Learner.Known = false }},
		"no backup":                            {"backup", func(_ *Facts, w *Wish) { w.NoBackup = false }},
		"an upgrade (L86)":                     {"work", func(f *Facts, _ *Wish) { f.Work = state.Known("the site is upgraded") }},
		"what else goes on is unknown":         {"work", func(f *Facts, _ *Wish) { f.Work.Known = false }},
		"a move of the site is announced":      {"work", func(f *Facts, _ *Wish) { f.Moves = state.Known("the move m1 of ada is announced") }},
		"whether one is, is unknown":           {"work", func(f *Facts, _ *Wish) { f.Moves.Known = false }},
		"another plan":                         {"work", func(f *Facts, _ *Wish) { f.Lock = state.Known(Copy{ID: "p0"}) }},
		"the API does not answer":              {"work", func(f *Facts, _ *Wish) { f.Lock.Known = false }},
		"no room":                              {"room", func(f *Facts, _ *Wish) { f.Room = state.Known(false) }},
		"no release":                           {"release", func(f *Facts, _ *Wish) { f.Ships.Known = false }},
		"no name":                              {"new", func(_ *Facts, w *Wish) { w.New.Name = "" }},
		"the name of this host":                {"new", func(_ *Facts, w *Wish) { w.New.Name = names[0] }},
		"the name of the other one":            {"new", func(_ *Facts, w *Wish) { w.New.Name = names[1] }},
		"a node of that name":                  {"new", func(f *Facts, _ *Wish) { f.Node = state.Known(true) }},
		"whether there is one is unknown":      {"new", func(f *Facts, _ *Wish) { f.Node.Known = false }},
		"no address":                           {"new", func(_ *Facts, w *Wish) { w.New.Address = "" }},
		"three do not fence each other":        {"new", func(_ *Facts, w *Wish) { w.New.BMC = "https://bmc" }},
		"the site of three is written nowhere": {"target", func(f *Facts, _ *Wish) { f.Target.Known = false }},
	} {
		f, w := ready()
		c.change(&f, &w)
		used[c.gate] = true
		closed := replace.Closed(Gates(f, w))
		if len(closed) != 1 || closed[0].ID != c.gate || closed[0].Words == "" || closed[0].Way == "" {
			t.Errorf("%s: %+v", sentence, closed)
			continue
		}
		if c.gate == "backup" && (!strings.Contains(closed[0].Way, "backup now --host "+f.Host+",") || !strings.Contains(closed[0].Words, "on "+f.Host+", which carries the plan")) {
			t.Errorf("%s: a backup of another host does not open the gate: %+v", sentence, closed)
		}
		f.Wish = &w
		if d := Decide(f); d.Rule != "rest.refuse" {
			t.Errorf("%s: the plan is begun: %+v", sentence, d)
		}
	}
	for _, g := range Gates(f, w) {
		if !used[g.ID] {
			t.Errorf("nothing closes the gate %s", g.ID)
		}
	}
}

func TestAPlanBeginsByAWishThatIsNotOld(t *testing.T) {
	for rule, change := range map[string]func(*Facts, *Wish){
		"rest.begin": func(*Facts, *Wish) {},
		"rest.dry":   func(_ *Facts, w *Wish) { w.Dry = true },
		"rest":       func(_ *Facts, w *Wish) { w.At = noon.Add(-time.Hour) },
	} {
		f, w := ready()
		change(&f, &w)
		f.Wish = &w
		d := Decide(f)
		if d.Rule != rule {
			t.Errorf("%s: %+v", rule, d)
		}
		if rule == "rest.begin" && (d.Plan == nil || d.Plan.Stage != Planned || d.Plan.Survivor != names[0] || d.Plan.Peer != names[1] || !d.Plan.Widens) {
			t.Errorf("%+v", d.Plan)
		}
	}
}

func TestAMachineThatIsNotThatOfThePlanIsNotLetIn(t *testing.T) {
	w := newWide()
	w.hosts[0].stage, w.hosts[1].stage, w.lock = Coming, Coming, Coming
	w.hosts[0].word, w.hosts[1].word, w.given, w.asks = 1, 1, true, true
	w.told = w.facts(1).Progress()
	if d := Decide(w.facts(0)); d.Rule != "coming.learner" {
		t.Fatalf("%+v", d)
	}
	for sentence, change := range map[string]func(*Facts){
		"another architecture": func(f *Facts) { f.Arch = state.Known(false) },
		"that is unknown":      func(f *Facts) { f.Arch.Known = false },
		"another address":      func(f *Facts) { f.Asks.Address = "192.0.2.14" },
		"another machine":      func(f *Facts) { f.Plan.New.UUID = "other" },
	} {
		f := w.facts(0)
		change(&f)
		if d := Decide(f); d.Rule != "coming.machine" {
			t.Errorf("%s: %+v", sentence, d)
		}
	}
}

// comes returns the facts of a plan whose third machine started its etcd once, and asks.
func comes() Facts {
	w := newWide()
	for i := range w.hosts {
		h := &w.hosts[i]
		h.stage, h.word, h.noted, h.named = Coming, 1, true, true
	}
	w.lock, w.given, w.member, w.started, w.asks = Coming, true, listed, true, true
	w.told = w.facts(1).Progress()
	return w.facts(0)
}

// TestAMachineThatWasInstalledAnewGetsAnotherMember, and nobody else does: a machine that answers, or may
// answer soon, keeps its member.
func TestAMachineThatWasInstalledAnewGetsAnotherMember(t *testing.T) {
	silent := state.Fact[uint64]{}
	for sentence, c := range map[string]struct {
		rule   string
		change func(*Facts)
	}{
		"it answers":                               {"coming.let", func(*Facts) {}},
		"it is silent":                             {"coming.behind", func(f *Facts) { f.Behind = silent }},
		"it was installed anew":                    {"coming.anew", func(f *Facts) { f.Asks, f.Behind = renewed, silent }},
		"the same before its etcd started":         {"coming.anew", func(f *Facts) { f.Asks, f.Behind, f.LearnerName = renewed, silent, "" }},
		"somebody answers as that member":          {"coming.let", func(f *Facts) { f.Asks = renewed }},
		"it asked long ago":                        {"coming.behind", func(f *Facts) { f.Asks, f.Behind, f.AskedAt = renewed, silent, noon.Add(-time.Minute) }},
		"it does not say which installation it is": {"coming.other", func(f *Facts) { f.Asks.Installation, f.Behind = "", silent }},
		"the plan does not know the first one":     {"coming.other", func(f *Facts) { f.Plan.Newcomer.Installation, f.Behind = "", silent }},
		"another machine":                          {"coming.other", func(f *Facts) { f.Asks.Machine.UUID, f.Behind = "another", silent }},
		"another machine, and the first answers":   {"coming.let", func(f *Facts) { f.Asks.Machine.UUID = "another" }},
		"another address":                          {"coming.other", func(f *Facts) { f.Asks.Address, f.Behind = "192.0.2.14", silent }},
		"the members are unknown":                  {"coming.ready", func(f *Facts) { f.Asks, f.Behind, f.Learner = renewed, silent, state.Fact[state.MemberID]{} }},
		"another learner is listed":                {"coming.noted", func(f *Facts) { f.Asks, f.Behind, f.Learner = renewed, silent, state.Known(nextID) }},
	} {
		f := comes()
		c.change(&f)
		if d := Decide(f); d.Rule != c.rule {
			t.Errorf("%s: %+v", sentence, d)
		}
	}
	f := comes()
	f.Asks, f.Behind = renewed, silent
	f.Plan = Decide(f).Plan
	if f.Plan.Third != 0 || f.Plan.Former != thirdID || f.Plan.Opens(renewed) || f.Plan.Opens(machine) {
		t.Errorf("%+v", f.Plan)
	}
	if d := Decide(f); d.Rule != "coming.former" || !f.Plan.Drops(thirdID, "cp-3") || f.Plan.Drops(nextID, "cp-3") {
		t.Errorf("%+v", d)
	}
	// It is known as the third host's in every cut of that, though it has no name and the lock is gone.
	f.Plan.Stage, f.Lock.Value, f.LearnerName = TakingBack, Copy{ID: "p9"}, ""
	if !f.thirdListed() {
		t.Error("the former member stays when the plan is taken back")
	}
}

func TestWhatPeopleReadOfASiteThatWidensIsApproved(t *testing.T) {
	w := newWide()
	w.hosts[0].stage, w.hosts[1].stage, w.lock, w.lockNoted = LettingIn, LettingIn, LettingIn, true
	w.hosts[0].record = state.EtcdSole // for the words of a plan that is taken back
	f, _ := ready()
	mine, theirs := w.facts(0), w.facts(1)
	mine.Asks = machine
	wish := Wish{ID: "p2", At: noon}
	mine.Wish = &wish
	var text strings.Builder
	seen := map[string]bool{}
	for _, r := range allRules() {
		facts := mine
		switch {
		case seen[r.ID]:
			continue
		case r.ID == "take":
			facts = theirs
			facts.Lock = mine.Lock
		case r.ID == "planned.gate":
			facts.ControlPlanes = 1
		case r.ID == "coming.other":
			p := *mine.Plan
			p.Newcomer, facts.Plan = machine, &p
			facts.Asks.Machine.UUID = "another"
		}
		seen[r.ID] = true
		text.WriteString(r.Step + " " + r.ID + " (" + string(r.Act) + "): " + r.Words(facts) + "\n")
		if r.Way != "" {
			text.WriteString("  type: " + r.Way + "\n")
		}
	}
	for _, g := range Gates(Facts{Plan: f.Plan, Host: names[0]}, Wish{}) {
		text.WriteString("gate " + g.ID + ": " + g.Words + "\n  type: " + g.Way + "\n")
	}
	text.WriteString(replace.InForce(map[string]string{replace.LockKey: "p1", replace.LockCopy: `{"id":"p1","widens":true,"survivor":"cp-1","by":"ada","new":{"name":"cp-3"}}`}) + "\n")
	for line := range strings.Lines(text.String()) {
		for _, option := range []string{"--endpoints ", "--cacert ", "--cert ", "--key "} {
			if strings.Contains(line, "etcdctl ") && !strings.Contains(line, option) {
				t.Errorf("etcd refuses %q without %s", line, option)
			}
		}
	}
	golden.Check(t, "words.txt", []byte(text.String()))
}

// TestAHostWhosePlanWasTakenBackFollowsTheNextOneOfTheOther: it carried the one before.
func TestAHostWhosePlanWasTakenBackFollowsTheNextOneOfTheOther(t *testing.T) {
	w := newWide()
	w.hosts[0].stage = Aborted
	f := w.facts(0)
	next := plan(Coming, false)
	next.ID, next.Survivor, next.Peer = "p2", names[1], names[0]
	f.Lock = state.Known(Copy{ID: "p2", Plan: next})
	if d := Decide(f); d.Rule != "take" || d.Plan.ID != "p2" {
		t.Errorf("%+v", d)
	}
	for sentence, change := range map[string]func(*Facts){
		"the lock is unknown":    func(f *Facts) { f.Lock.Known = false },
		"a plan of other hosts":  func(f *Facts) { f.Lock.Value.Plan.Peer = "cp-9" },
		"its own is not over":    func(f *Facts) { f.Plan.Stage = Coming },
		"the next one, too, is":  func(f *Facts) { f.Lock.Value.Plan.Stage = Aborted },
		"nobody carries it here": func(f *Facts) { f.Lock.Value.Plan = Plan{} },
	} {
		f := w.facts(0)
		f.Lock = state.Known(Copy{ID: "p2", Plan: next})
		change(&f)
		if d := Decide(f); d.Rule == "take" {
			t.Errorf("%s: %+v", sentence, d)
		}
	}
}

// TestOnlyWhatIsKnownTakesAPlanBack: the host that carries it was off, and the other one may have ended it.
func TestOnlyWhatIsKnownTakesAPlanBack(t *testing.T) {
	w := newWide()
	w.hosts[0].stage, w.hosts[0].word = Coming, 1
	for sentence, c := range map[string]struct {
		rule   string
		change func(*Facts)
	}{
		"the cluster has no such plan":    {"back.gone", func(*Facts) {}},
		"the lock is unknown":             {"far", func(f *Facts) { f.Lock.Known = false }},
		"the members are unknown":         {"far", func(f *Facts) { f.Voters.Known = false }},
		"an old list":                     {"far", func(f *Facts) { f.Voters = state.Known(1) }},
		"three vote: a person deleted it": {"copy", func(f *Facts) { f.Voters = state.Known(3) }},
		"the cluster has it":              {"far", func(f *Facts) { f.Lock.Value = Copy{ID: "p1", Plan: plan(Coming, false)} }},
		"the other one takes it back":     {"back.followed", func(f *Facts) { f.Lock.Value = Copy{ID: "p1", Plan: plan(TakingBack, false)} }},
		"it says so, and not the lock yet": {"back.followed", func(f *Facts) {
			f.Lock.Value, f.Told.Value.Stage = Copy{ID: "p1", Plan: plan(Coming, false)}, TakingBack
		}},
		"what it says is unknown": {"far", func(f *Facts) {
			f.Lock.Value, f.Told = Copy{ID: "p1", Plan: plan(Coming, false)}, state.Fact[Progress]{}
		}},
	} {
		f := w.facts(0)
		c.change(&f)
		if d := Decide(f); d.Rule != c.rule {
			t.Errorf("%s: %+v", sentence, d)
		}
	}
}

// TestALearnerWithoutANameIsOfAPlanThatTheClusterHas: of one that was ended nothing is left, so it is
// another plan's.
func TestALearnerWithoutANameIsOfAPlanThatTheClusterHas(t *testing.T) {
	w := newWide()
	w.hosts[0].stage, w.lock, w.member = TakingBack, TakingBack, listed
	w.told = Progress{Stage: TakingBack}
	f := w.facts(0)
	if d := Decide(f); d.Rule != "back.learner" {
		t.Errorf("%+v", d)
	}
	f.Lock.Value = Copy{ID: "p9"}
	if d := Decide(f); d.Act == DropLearner {
		t.Errorf("%+v", d)
	}
	f.LearnerName = "cp-3"
	if d := Decide(f); d.Rule != "back.learner" {
		t.Errorf("by its name: %+v", d)
	}
	f.LearnerName = names[1]
	if d := Decide(f); d.Act == DropLearner {
		t.Errorf("the other host's: %+v", d)
	}
}

// TestAnOldListOfMembersTakesNoPlanForward: an etcd that starts anew lists the voters of an earlier day
// until it has read its log (the simulator, -thirds, seeds 3995 and 4768).
func TestAnOldListOfMembersTakesNoPlanForward(t *testing.T) {
	w := newWide()
	w.hosts[0].stage, w.lock, w.told = TakingBack, TakingBack, Progress{Stage: TakingBack}
	for _, c := range []struct {
		record state.EtcdState
		rule   string
	}{{state.EtcdMajority, "back.late"}, {state.EtcdLearner, "back.replay"}, {state.EtcdVoter, "back.replay"}, {state.EtcdPair, "back.replay"}} {
		f := w.facts(0)
		f.Voters, f.Record = state.Known(3), state.Known(c.record)
		if d := Decide(f); d.Rule != c.rule {
			t.Errorf("%s: %+v, want %s", c.record, d, c.rule)
		}
	}
	f := w.facts(0)
	f.Voters, f.Record = state.Known(3), state.Fact[state.EtcdState]{}
	if d := Decide(f); d.Rule != "back.replay" {
		t.Errorf("an unknown record: %+v", d)
	}
}

// TestAPlanForThreeThatNeverBeginsEndsByItself.
func TestAPlanForThreeThatNeverBeginsEndsByItself(t *testing.T) {
	w := newWide()
	w.lock = Planned
	f := w.facts(0)
	f.Room = state.Known(false)
	if d := Decide(f); d.Rule != "planned.gate" || !strings.Contains(d.Words, "sudo holdfast topology apply --abort; then: df -h") {
		t.Errorf("%+v", d)
	}
	f.Now = noon.Add(wishLife)
	if d := Decide(f); d.Rule != "planned.ends" || d.Plan.Stage != Aborted || !strings.HasPrefix(d.Plan.Ended, "a gate is closed: ") {
		t.Errorf("%+v", d)
	}
}

// TestWhoAsksTooLateToTakeAPlanBackIsAnswered, and the plan waits for the answer.
func TestWhoAsksTooLateToTakeAPlanBackIsAnswered(t *testing.T) {
	w := newWide()
	w.member, w.started, w.ready, w.given, w.lock, w.lockNoted = votes, true, true, true, LettingIn, true
	for i := range w.hosts {
		h := &w.hosts[i]
		h.record, h.word, h.stage, h.noted, h.named = state.EtcdMajority, 2, LettingIn, true, true
	}
	w.told = w.facts(1).Progress()
	if d := Decide(w.facts(0)); d.Rule != "letting.hand" {
		t.Fatalf("%+v", d)
	}
	for _, says := range []bool{false, true} { // its etcd contradicts the word about the machine
		w.abort, w.says = true, says
		if d := Decide(w.facts(0)); d.Rule != AskedRule || d.Act != Wait || d.Way != lostWay {
			t.Errorf("%+v", d)
		}
	}
	w.third = false
	if d := Decide(w.facts(0)); d.Rule != "back.lost" {
		t.Errorf("switched off, and said: %+v", d)
	}
}

// TestAPlanWhoseCopyIsGoneNamesAHostThatWentOnAloneOnlyIfThatSaysSo: a person may have deleted the copy.
func TestAPlanWhoseCopyIsGoneNamesAHostThatWentOnAloneOnlyIfThatSaysSo(t *testing.T) {
	w := newWide()
	w.hosts[0].stage, w.hosts[0].word = Coming, 1
	for _, c := range []struct {
		peer         state.Fact[state.EtcdState]
		alone, ended string
	}{
		{state.Known(state.EtcdPair), "", "the cluster's copy of the plan was deleted"},
		{state.Fact[state.EtcdState]{}, "", "the cluster's copy of the plan was deleted"},
		{state.Known(state.EtcdSole), names[1], "cp-2 went on alone, and ended it"},
	} {
		f := w.facts(0)
		f.PeerRecord = c.peer
		if d := Decide(f); d.Rule != "back.gone" || d.Plan.Alone != c.alone || d.Plan.Ended != c.ended || !strings.HasSuffix(d.Words, c.ended) {
			t.Errorf("%+v: %+v", c.peer, d)
		}
	}
}
