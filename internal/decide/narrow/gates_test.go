package narrow

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func ready() (Facts, Wish) {
	f := newSite().facts(0)
	wish := f.Plan.wish()
	wish.At, f.Plan = noon, nil
	return f, wish
}

func TestEachGateOfANarrowingSiteClosesForItsOwnReasonOnly(t *testing.T) {
	f, w := ready()
	if shut := replace.Closed(Gates(f, w)); len(shut) > 0 {
		t.Fatalf("nothing is wrong, and gates are shut: %+v", shut)
	}
	used := map[string]bool{}
	for sentence, c := range map[string]struct {
		gate   string
		change func(*Facts, *Wish)
	}{
		"a site of two":                       {"three", func(f *Facts, _ *Wish) { f.ControlPlanes = 2 }},
		"no host is named":                    {"old", func(_ *Facts, w *Wish) { w.Old.Name = "" }},
		"this host goes":                      {"old", func(_ *Facts, w *Wish) { w.Old.Name = names[0] }},
		"the one that stays goes":             {"old", func(_ *Facts, w *Wish) { w.Old.Name = names[1] }},
		"who stays is unknown":                {"old", func(f *Facts, _ *Wish) { f.Peer = "" }},
		"its address is unknown":              {"old", func(_ *Facts, w *Wish) { w.Old.Address = "" }},
		"its member is unknown":               {"old", func(_ *Facts, w *Wish) { w.Third = 0 }},
		"it has no Node":                      {"old", func(f *Facts, _ *Wish) { f.Node = state.Known(false) }},
		"that is unknown":                     {"old", func(f *Facts, _ *Wish) { f.Node.Known = false }},
		"kubelet does not have etcd":          {"hands", func(f *Facts, _ *Wish) { f.Kubelets = state.Known(false) }},
		"a record of an earlier pair":         {"hands", func(f *Facts, _ *Wish) { f.Record = state.Known(state.EtcdVoter) }},
		"an unknown record":                   {"hands", func(f *Facts, _ *Wish) { f.Record.Known = false }},
		"Corosync runs":                       {"hands", func(f *Facts, _ *Wish) { f.Runs = state.Known(true) }},
		"files of one of two":                 {"hands", func(f *Facts, _ *Wish) { f.Paired.Known = false }},
		"etcd has no leader":                  {"etcd", func(f *Facts, _ *Wish) { f.Serves = state.Known(false) }},
		"two voters":                          {"members", func(f *Facts, _ *Wish) { f.Voters = state.Known(2) }},
		"a learner":                           {"members", func(f *Facts, _ *Wish) { f.Learner = state.Known(state.MemberID(9)) }},
		"the one that goes is no member":      {"members", func(f *Facts, _ *Wish) { f.Listed = state.Known(false) }},
		"the other host's etcd does not":      {"serve", func(f *Facts, _ *Wish) { f.PeerHere = state.Known(false) }},
		"the one that goes is lost":           {"serve", func(f *Facts, _ *Wish) { f.ThirdHere = state.Known(false) }},
		"whether it is lost is unknown":       {"serve", func(f *Facts, _ *Wish) { f.ThirdHere.Known = false }},
		"no backup":                           {"backup", func(_ *Facts, w *Wish) { w.Accepts.NoBackup = false }},
		"an upgrade":                          {"work", func(f *Facts, _ *Wish) { f.Work = state.Known("the site is upgraded") }},
		"what else goes on is unknown":        {"work", func(f *Facts, _ *Wish) { f.Work.Known = false }},
		"a move of the site is announced":     {"work", func(f *Facts, _ *Wish) { f.Moves = state.Known("the move m1 of ada is announced") }},
		"whether one is, is unknown":          {"work", func(f *Facts, _ *Wish) { f.Moves.Known = false }},
		"another plan":                        {"work", func(f *Facts, _ *Wish) { f.Lock = state.Known(Copy{ID: "p0"}) }},
		"the API does not answer":             {"work", func(f *Facts, _ *Wish) { f.Lock.Known = false }},
		"no room":                             {"room", func(f *Facts, _ *Wish) { f.Room = state.Known(false) }},
		"no release":                          {"release", func(f *Facts, _ *Wish) { f.Ships.Known = false }},
		"a volume lies on it":                 {"volumes", func(f *Facts, _ *Wish) { f.Volumes = state.Known([]string{"pvc-1"}) }},
		"whether one does is unknown":         {"volumes", func(f *Facts, _ *Wish) { f.Volumes.Known = false }},
		"a BMC refuses":                       {"fencing", func(f *Facts, _ *Wish) { f.Tested = state.Known(false) }},
		"no BMC was asked":                    {"fencing", func(f *Facts, _ *Wish) { f.Tested.Known = false }},
		"the site of two is written nowhere":  {"target", func(f *Facts, _ *Wish) { f.Target = state.Known(false) }},
		"whether it can be made is not known": {"target", func(f *Facts, _ *Wish) { f.Target.Known = false }},
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

func TestAPlanForTwoBeginsByAWishThatIsNotOld(t *testing.T) {
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
		if p := d.Plan; rule == "rest.begin" && (p == nil || p.Stage != Planned || p.Survivor != names[0] || p.Peer != names[1] || p.Old.Name != "cp-3" || p.Third != thirdID || !p.Narrows) {
			t.Errorf("%+v", p)
		}
	}
}

func TestAPlanOfALaterReleaseIsLeftAlone(t *testing.T) {
	f := newSite().facts(0)
	f.Plan.Format++
	if d := Decide(f); d.Act != Wait || d.Rule != "plan.newer" {
		t.Errorf("%+v", d)
	}
}

// TestWhatIsUnknownLeadsToNoStepForward makes each fact unknown in the stages that cannot be taken back,
// one at a time.
func TestWhatIsUnknownLeadsToNoStepForward(t *testing.T) {
	for rule, c := range map[string]struct {
		facts Facts
		forms map[string]func(*Facts)
	}{
		"pairing.hand": {paired(), map[string]func(*Facts){
			"own record": func(f *Facts) { f.Record.Known = false }, "own test": func(f *Facts) { f.Tested.Known = false }, "peer": func(f *Facts) { f.PeerHere.Known = false },
			"third": func(f *Facts) { f.ThirdHere.Known = false }, "voters": func(f *Facts) { f.Voters.Known = false }, "maintenance": func(f *Facts) { f.Maintained.Known = false },
			"the peer's words": func(f *Facts) { f.Told.Known = false }, "contact": func(f *Facts) { f.Contact.Known = false }, "set-up": func(f *Facts) { f.SetUp.Known = false },
		}},
		"hand.take": {handing(), map[string]func(*Facts){
			"own record": func(f *Facts) { f.Record.Known = false }, "peer": func(f *Facts) { f.PeerHere.Known = false }, "third": func(f *Facts) { f.ThirdHere.Known = false },
			"voters": func(f *Facts) { f.Voters.Known = false }, "maintenance": func(f *Facts) { f.Maintained.Known = false }, "who has etcd": func(f *Facts) { f.Kubelets.Known = false },
			"the peer's words": func(f *Facts) { f.Told.Known = false },
		}},
		"part.leave": {parting(), map[string]func(*Facts){
			"own record": func(f *Facts) { f.Record.Known = false }, "peer": func(f *Facts) { f.PeerHere.Known = false }, "contact": func(f *Facts) { f.Contact.Known = false },
			"own test": func(f *Facts) { f.Tested.Known = false }, "pods": func(f *Facts) { f.Empty.Known = false }, "a stand-in": func(f *Facts) { f.StandIn.Known = false },
			"members": func(f *Facts) { f.Listed.Known = false }, "maintenance": func(f *Facts) { f.Maintained.Known = false }, "the peer's words": func(f *Facts) { f.Told.Known = false },
			"the word": func(f *Facts) { f.Word.Known = false }, "whether the keeper was asked": func(f *Facts) { f.Asked.Known = false }, "who has etcd": func(f *Facts) { f.Podmans.Known = false },
		}},
		"forget.old": {forgetting(), map[string]func(*Facts){
			"whether it answers": func(f *Facts) { f.Answers.Known = false },
		}},
	} {
		if d := Decide(c.facts); d.Rule != rule {
			t.Fatalf("%s: all is known: %+v", rule, d)
		}
		for fact, forget := range c.forms {
			f := c.facts
			forget(&f)
			if d := Decide(f); d.Rule == rule || d.Act == WritePlan || d.Act == TakeEtcd || d.Act == Leave || d.Act == DropOld {
				t.Errorf("%s: unknown: %s: %+v", rule, fact, d)
			}
		}
	}
}

// paired are the facts of the carrier right before etcd moves.
func paired() Facts {
	w := newSite()
	w.setUp, w.maintained, w.plain, w.lock = true, true, false, Pairing
	for i := range w.hosts {
		h := &w.hosts[i]
		h.stage, h.prepared, h.dressed, h.ring, h.ringed, h.paired, h.word, h.asked, h.record = Pairing, true, true, true, true, true, true, true, state.EtcdMajority
	}
	w.told = w.facts(1).Progress()
	return w.facts(0)
}

func atStage(s Stage, change func(*site)) Facts {
	w := newSite()
	w.setUp, w.plain, w.lock = true, false, s
	for i := range w.hosts {
		h := &w.hosts[i]
		h.stage, h.prepared, h.dressed, h.ring, h.ringed, h.paired, h.asked, h.record, h.static, h.boots = s, true, true, true, true, true, true, state.EtcdMajority, false, false
	}
	change(&w)
	w.told = w.facts(1).Progress()
	return w.facts(0)
}

func handing() Facts {
	return atStage(Handing, func(w *site) {
		w.maintained, w.hosts[0].static, w.hosts[0].boots, w.hosts[1].boots = true, true, true, true
	})
}

func parting() Facts {
	return atStage(Parting, func(w *site) { w.asked, w.empty = true, true })
}

func forgetting() Facts {
	return atStage(Forgetting, func(w *site) {
		w.member, w.hosts[0].record, w.hosts[1].record = false, state.EtcdPair, state.EtcdPair
	})
}

func TestWhatPeopleReadOfASiteThatNarrowsIsApproved(t *testing.T) {
	f, _ := ready()
	mine, theirs := handing(), newSite().facts(1)
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
		}
		seen[r.ID] = true
		text.WriteString(r.Step + " " + r.ID + " (" + string(r.Act) + "): " + r.Words(facts) + "\n")
		if r.Way != "" {
			text.WriteString("  type: " + r.Way + "\n")
		}
	}
	for _, g := range Gates(Facts{Plan: f.Plan, Host: "cp-1", Peer: "cp-2"}, Wish{Old: replace.Old{Name: "cp-3"}}) {
		text.WriteString("gate " + g.ID + ": " + g.Words + "\n  type: " + g.Way + "\n")
	}
	text.WriteString(replace.InForce(map[string]string{replace.LockKey: "p1", replace.LockCopy: `{"id":"p1","narrows":true,"survivor":"cp-1","by":"ada","old":{"name":"cp-3"}}`}) + "\n")
	golden.Check(t, "words.txt", []byte(text.String()))
}

// TestAPlanForTwoThatNeverBeginsEndsByItself: its lock refuses the work for which its gates ask.
func TestAPlanForTwoThatNeverBeginsEndsByItself(t *testing.T) {
	w := newSite()
	w.lock = Planned
	f := w.facts(0)
	if d := Decide(f); d.Rule != "planned.begin" {
		t.Fatalf("%+v", d)
	}
	f.ThirdHere = state.Known(false)
	for after, want := range map[time.Duration]string{0: "planned.gate", wishLife - 1: "planned.gate", wishLife: "planned.ends"} {
		f.Now = noon.Add(after)
		d := Decide(f)
		if d.Rule != want || !strings.Contains(d.Words, "etcd of cp-3 does not serve now") {
			t.Errorf("%s: %+v", after, d)
		}
		if p := d.Plan; want == "planned.ends" && (p == nil || p.Stage != Aborted || !strings.HasPrefix(p.Ended, "a gate is closed: etcd of cp-3")) {
			t.Errorf("%+v", p)
		}
		if abort, replaces := strings.Index(d.Words, "sudo holdfast topology apply --abort"), strings.Index(d.Words, "holdfast host replace cp-3"); want == "planned.gate" && (abort < 0 || replaces < abort) {
			t.Errorf("the lock refuses what it names first: %s", d.Words)
		}
	}
	f.ThirdHere = state.Known(true)
	if d := Decide(f); d.Rule != "planned.begin" {
		t.Errorf("its gates are open: %+v", d)
	}
}

// TestTheLockOfAnEndedPlanForTwoWaitsForALostHostForAWhile, or until somebody asks again.
func TestTheLockOfAnEndedPlanForTwoWaitsForALostHostForAWhile(t *testing.T) {
	w := newSite()
	w.hosts[0].stage, w.lock, w.told = Aborted, Aborted, Progress{Stage: Planned}
	first := Wish{ID: "p1", Abort: true, At: noon.Add(-time.Second)}
	again := Wish{ID: "p1", Abort: true, At: noon.Add(time.Second)}
	another := Wish{ID: "p0", Abort: true, At: noon.Add(time.Second)}
	for sentence, c := range map[string]struct {
		after time.Duration
		wish  *Wish
		want  string
	}{
		"it ended a moment ago":     {0, nil, "over.await"},
		"the wish by which it did":  {time.Minute, &first, "over.await"},
		"nearly ten minutes later":  {10*time.Minute - 1, nil, "over.await"},
		"ten minutes later":         {10 * time.Minute, nil, "over.lock"},
		"somebody asked once more":  {time.Second, &again, "over.lock"},
		"somebody asked of another": {time.Second, &another, "over.await"},
	} {
		f := w.facts(0)
		f.Now, f.Wish = noon.Add(c.after), c.wish
		if d := Decide(f); d.Rule != c.want {
			t.Errorf("%s: %+v", sentence, d)
		}
	}
	// The host that was off comes back to its copy.
	w.hosts[1].stage, w.lock, w.told = Planned, "", Progress{}
	if d := Decide(w.facts(1)); d.Rule != "gone" || d.Plan.Stage != Aborted {
		t.Errorf("%+v", d)
	}
}

// TestWhatGoesWithTheLockGoesThoughSomebodyDeletedTheLock, on either host, also beside another plan. While it
// is unknown whether something is left, nothing counts as done.
func TestWhatGoesWithTheLockGoesThoughSomebodyDeletedTheLock(t *testing.T) {
	for _, stage := range []Stage{Whole, Aborted} {
		for i := range names {
			for lock, want := range map[string]string{"": "over.left", "p9": "over.left", "p1": ""} {
				w := newSite()
				w.hosts[i].stage = stage
				f := w.facts(i)
				f.Lock, f.Left = state.Known(Copy{ID: lock, Plan: plan(stage, false)}), state.Known(true)
				if lock != "p1" {
					f.Lock.Value.Plan = Plan{}
				}
				d := Decide(f)
				if (d.Rule == "over.left") != (want != "") || want != "" && d.Act != DropLock {
					t.Errorf("%s on %s, the lock of %q: %+v", stage, names[i], lock, d)
				}
				if f.Left = state.Known(false); want != "" && Decide(f).Rule != "rest" {
					t.Errorf("%s on %s: nothing is left: %+v", stage, names[i], Decide(f))
				}
				if f.Left = (state.Fact[bool]{}); want != "" && Decide(f).Rule != "over.left-unknown" {
					t.Errorf("%s on %s: it is unknown what is left: %+v", stage, names[i], Decide(f))
				}
			}
		}
	}
}

// TestTheLockSaysWhatAPlanForTwoDoesThoughAHostIsSaidToBeGone: who reads it knows another plan's form.
func TestTheLockSaysWhatAPlanForTwoDoesThoughAHostIsSaidToBeGone(t *testing.T) {
	p := plan(Pairing, true)
	p.Lost = "cp-2"
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if got := replace.InForce(map[string]string{replace.LockKey: "p1", replace.LockCopy: string(text)}); !strings.Contains(got, "takes cp-3 out: two control planes stay") {
		t.Error(got)
	}
}
