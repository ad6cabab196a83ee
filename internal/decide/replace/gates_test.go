package replace

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// wish is one for which every gate is open.
func wish() Wish {
	return Wish{ID: "p1", Old: oldName, New: New{Name: oldName, BMC: "https://192.0.2.112/redfish/v1/Systems/1"}, By: "ada", At: noon}
}

// ready returns facts for which every gate is open.
func ready() Facts {
	f := start(true, false).facts()
	f.Plan, f.OldNode, f.Backup, f.Lock = nil, state.Known(Node{There: true, UID: "u-old"}), state.Known(noon.Add(-time.Hour)), state.Known("")
	return f
}

// closing changes one fact or one word of the wish so that one gate closes.
var closing = []closes{
	{"a site of three", "two", func(f *Facts, _ *Wish) { f.ControlPlanes = 3 }},
	{"the command runs on the host that is to be replaced (L6)", "here", func(_ *Facts, w *Wish) { w.Old = "cp-1" }},
	{"a host that is no control plane (L26)", "here", func(_ *Facts, w *Wish) { w.Old = "worker-1" }},
	{"no peer is known", "here", func(f *Facts, _ *Wish) { f.Peer = "" }},
	{"a pair whose peer is silent (L1)", "sole", func(f *Facts, _ *Wish) { f.Record = state.Known(state.EtcdPair) }},
	{"a take-over under way", "sole", func(f *Facts, _ *Wish) { f.Record = state.Known(state.EtcdTakingOver) }},
	{"a learner", "sole", func(f *Facts, _ *Wish) { f.Record = state.Known(state.EtcdLearner) }},
	{"a record that cannot be read", "sole", func(f *Facts, _ *Wish) { f.Record.Known = false }},
	{"the host runs (L6)", "silent", func(f *Facts, _ *Wish) { f.Contact = state.Known(true) }},
	{"contact is unknown", "silent", func(f *Facts, _ *Wish) { f.Contact.Known = false }},
	{"the host answers on its network", "silent", func(f *Facts, _ *Wish) { f.Answers = state.Known(true) }},
	{"its kubelet lives though the BMC reads Off (L23)", "silent", func(f *Facts, _ *Wish) { f.Alive = state.Known(true) }},
	{"whether it answers is unknown", "silent", func(f *Facts, _ *Wish) { f.Answers.Known = false }},
	{"its BMC was not asked", "off", func(f *Facts, _ *Wish) { f.Power.Known = false }},
	{"its BMC refuses the account", "off", func(f *Facts, _ *Wish) { f.Power.Known, f.Unread = false, bmc.Credentials }},
	{"its BMC gives no answer in time and nobody looked", "off", func(f *Facts, _ *Wish) { f.Power.Known, f.Silent, f.Unread = false, true, bmc.Timeout }},
	{"its BMC has another machine's place and nobody looked", "off", func(f *Facts, _ *Wish) { f.Power.Known, f.Silent, f.Unread = false, true, bmc.WrongServer }},
	{"its BMC is silent and nobody looked", "off", func(f *Facts, _ *Wish) { f.Power.Known, f.Silent = false, true }},
	{"its BMC is silent and somebody looked at another machine", "off", func(f *Facts, w *Wish) { f.Power.Known, f.Silent, w.Accepts.Gone = false, true, "S9" }},
	{"its BMC is silent and it never told its serial number", "off", func(f *Facts, w *Wish) {
		f.Power.Known, f.Silent, w.Accepts.Gone, f.OldMachine.Serial = false, true, "S2", ""
	}},
	{"etcd has no leader", "etcd", func(f *Facts, _ *Wish) { f.Serves = state.Known(false) }},
	{"a stand-in votes", "etcd", func(f *Facts, _ *Wish) { f.StandIn = state.Known(true) }},
	{"two voters", "alone", func(f *Facts, _ *Wish) { f.Voters = state.Known(2) }},
	{"members unknown", "alone", func(f *Facts, _ *Wish) { f.Voters.Known = false }},
	{"its Node could not be read", "node", func(f *Facts, _ *Wish) { f.OldNode.Known = false }},
	{"no backup", "backup", func(f *Facts, _ *Wish) { f.Backup = state.Known(time.Time{}) }},
	{"an old backup", "backup", func(f *Facts, _ *Wish) { f.Backup = state.Known(noon.Add(-5 * time.Hour)) }},
	{"backups unknown", "backup", func(f *Facts, _ *Wish) { f.Backup.Known = false }},
	{"the other host began one as well (L5)", "work", func(f *Facts, _ *Wish) { f.Lock = state.Known("p2") }},
	{"a move of the site is announced", "work", func(f *Facts, _ *Wish) { f.Moves = state.Known("the move m1 of ada is announced") }},
	{"whether one is announced is unknown", "work", func(f *Facts, _ *Wish) { f.Moves.Known = false }},
	{"the API is away", "work", func(f *Facts, _ *Wish) { f.Lock.Known = false }},
	{"this host is on its way to another release (U17)", "upgrade", func(f *Facts, _ *Wish) { f.Upgrade = state.Known(hold.Lost{Retire: "it leaves"}) }},
	{"how far an upgrade is is unknown", "upgrade", func(f *Facts, _ *Wish) { f.Upgrade.Known = false }},
	{"a full disk", "room", func(f *Facts, _ *Wish) { f.Room = state.Known(false) }},
	{"no release", "release", func(f *Facts, _ *Wish) { f.Ships = state.Known(false) }},
	{"no BMC named", "bmc", func(_ *Facts, w *Wish) { w.New.BMC = "" }},
	{"a BMC that does not answer", "bmc", func(f *Facts, _ *Wish) { f.Reached = state.Known(false) }},
	{"the BMC of this host (L12)", "bmc", func(f *Facts, _ *Wish) { f.Ours = state.Known(true) }},
	{"a BMC that says nothing of its machine", "bmc", func(f *Facts, _ *Wish) { f.Ours.Known = false }},
	{"the old account still opens this host's BMC (L4)", "account", func(f *Facts, _ *Wish) { f.Refused = state.Known(false) }},
	{"a local volume (L21)", "volumes", func(f *Facts, _ *Wish) { f.Volumes = state.Known([]string{"pvc-1", "pvc-2"}) }},
	{"volumes unknown", "volumes", func(f *Facts, _ *Wish) { f.Volumes.Known = false }},
	{"no name", "name", func(_ *Facts, w *Wish) { w.New.Name = "" }},
	{"this host's name", "name", func(_ *Facts, w *Wish) { w.New.Name = "cp-1" }},
	{"another name that a host has", "name", func(f *Facts, w *Wish) {
		w.New.Name = "cp-3"
		f.Taken = state.Known(Taken(*w, nil, true, nil))
	}},
	{"another name of which nothing is known", "name", func(f *Facts, w *Wish) { w.New.Name, f.Taken.Known = "cp-3", false }},
}

func TestEachGateClosesForItsOwnReasonOnly(t *testing.T) {
	closeOnly(t, func() (Facts, Wish) { return ready(), wish() }, closing)
}

// closes is a change that closes one gate.
type closes struct {
	name, gate string
	change     func(*Facts, *Wish)
}

// closeOnly checks that all gates of a wish are open, that each change closes its gate alone and
// no plan is begun then, and that each gate is closed by one of them.
func closeOnly(t *testing.T, ready func() (Facts, Wish), changes []closes) {
	t.Helper()
	f, w := ready()
	if shut := Closed(GatesOf(f, w)); len(shut) > 0 {
		t.Fatalf("closed without a reason: %+v", shut)
	}
	seen := map[string]bool{}
	for _, c := range changes {
		f, w := ready()
		c.change(&f, &w)
		shut := Closed(GatesOf(f, w))
		if len(shut) != 1 || shut[0].ID != c.gate {
			t.Errorf("%s: closed are %+v, want %s", c.name, shut, c.gate)
		}
		seen[c.gate] = true
		f.Wish = &w
		if d := Decide(f); d.Act != Wait || d.Plan != nil {
			t.Errorf("%s: a plan is begun: %+v", c.name, d)
		}
	}
	for _, g := range GatesOf(f, w) {
		if !seen[g.ID] {
			t.Errorf("nothing here closes the gate %s", g.ID)
		}
	}
}

func TestAllMistakesOfAWishAreToldAtOnce(t *testing.T) {
	f, w := ready(), wish()
	for _, c := range closing {
		switch c.name {
		case "a pair whose peer is silent (L1)", "no backup", "no BMC named", "a full disk":
			c.change(&f, &w)
		}
	}
	if n := len(Closed(Gates(f, w))); n != 4 {
		t.Errorf("%d gates are closed, want 4", n)
	}
}

func TestWhatPeopleReadIsApproved(t *testing.T) {
	var text strings.Builder
	for _, c := range closing {
		f, w := ready(), wish()
		c.change(&f, &w)
		g := Closed(Gates(f, w))[0]
		text.WriteString(c.name + "\n  " + g.ID + ": " + g.Words + "\n  type: " + g.Way + "\n")
	}
	text.WriteString("\nrules\n")
	f := start(false, false).facts()
	f.Wish, f.Asks = new(wish()), machine
	for _, list := range [][]rule{plannedRules, alarmRules, retiredRules, namedRules, calmRules, newcomerRules, joiningRules} {
		for _, r := range list {
			if r.id == gateRule.id {
				continue // the words of a gate
			}
			text.WriteString(r.step + " " + r.id + " (" + string(r.act) + "): " + r.words(f) + "\n")
			if r.way != nil {
				text.WriteString("  type: " + r.way(f) + "\n")
			}
		}
	}
	golden.Check(t, "words.txt", []byte(text.String()))
}

// L1: an old reading of a BMC proves nothing, and neither does a silent host.
func TestOnlyAProofOfThisMomentTakesAHostOut(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   bool
	}{
		"Off, asked now":                 {func(*Facts) {}, true},
		"Off, asked 11 s ago":            {func(f *Facts) { f.PowerAt = noon.Add(-11 * time.Second) }, false},
		"Off, asked by a clock to come":  {func(f *Facts) { f.PowerAt = noon.Add(time.Hour) }, false},
		"never asked":                    {func(f *Facts) { f.PowerAt = time.Time{} }, false},
		"On":                             {func(f *Facts) { f.Power = state.Known("On") }, false},
		"another spelling":               {func(f *Facts) { f.Power = state.Known("off") }, false},
		"silent":                         {func(f *Facts) { f.Power.Known, f.Silent = false, true }, false},
		"silent, the right serial typed": {func(f *Facts) { f.Power.Known, f.Silent, f.Plan.Accepts.Gone = false, true, "S2" }, true},
		"silent, another serial typed":   {func(f *Facts) { f.Power.Known, f.Silent, f.Plan.Accepts.Gone = false, true, "S3" }, false},
		"Off, and in contact":            {func(f *Facts) { f.Contact = state.Known(true) }, false},
		"Off, contact unknown":           {func(f *Facts) { f.Contact.Known = false }, false},
		"Off, and it answers":            {func(f *Facts) { f.Answers = state.Known(true) }, false},
		"Off, and its kubelet lives":     {func(f *Facts) { f.Alive = state.Known(true) }, false},
	} {
		f := start(true, false).facts()
		c.change(&f)
		if got := f.gone(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// A Node or pods alone ask for a proof, too, and a person has to hear how to give one.
func TestWhateverIsLeftOfAHostThatNothingProvesOffNamesTheWayOut(t *testing.T) {
	for sentence, change := range map[string]func(*world){
		"its Node":                 func(w *world) { w.node = "old" },
		"its pods":                 func(w *world) { w.pods = true },
		"its place in Corosync":    func(w *world) { w.ringOld = true },
		"its name in Pacemaker":    func(w *world) { w.cibOld = true },
		"its Node, and a dead BMC": func(w *world) { w.node, w.mute, w.gone = "old", true, false },
	} {
		w := start(true, false)
		w.stage, w.reloaded, w.keyFile, w.keyRuns, w.ringOld, w.cibOld = Retired, true, true, true, false, false
		w.retirement, w.token, w.join, w.grave, w.pods, w.node, w.lock = true, true, true, true, false, "none", true
		change(&w)
		f := w.facts()
		if !w.mute {
			f.Power = state.Fact[string]{} // its BMC fell silent, or was not asked in time
		}
		if d := Decide(f); d.Rule != "retired.unproved" || !strings.Contains(d.Way, "--is-gone") {
			t.Errorf("%s is left: %+v", sentence, d)
		}
	}
}

func TestANewcomerIsLetInOnlyAsTheMachineThatWasMeant(t *testing.T) {
	bare := start(true, false)
	bare.stage, bare.reloaded, bare.keyFile, bare.keyRuns, bare.ringOld, bare.cibOld = Retired, true, true, true, false, false
	bare.retirement, bare.token, bare.join, bare.grave, bare.pods, bare.node, bare.lock = true, true, true, true, false, "none", true
	bare.asks, bare.device, bare.account = true, true, true
	for name, c := range map[string]struct {
		change func(*Facts)
		want   string
	}{
		"all is right":                       {func(*Facts) {}, "newcomer.admit"},
		"the UUID that was named":            {func(f *Facts) { f.Plan.New.UUID = "NEW" }, "newcomer.admit"},
		"another UUID (L25)":                 {func(f *Facts) { f.Plan.New.UUID = "other" }, "newcomer.other-machine"},
		"another architecture (L14)":         {func(f *Facts) { f.Arch = state.Known(false) }, "newcomer.arch"},
		"an unknown architecture":            {func(f *Facts) { f.Arch.Known = false }, "newcomer.arch"},
		"the BMC of another machine (L11)":   {func(f *Facts) { f.Matches = state.Known(false) }, "newcomer.bmc"},
		"the BMC of this host (L12)":         {func(f *Facts) { f.Ours = state.Known(true) }, "newcomer.bmc"},
		"a BMC that says nothing":            {func(f *Facts) { f.Matches.Known = false }, "newcomer.bmc"},
		"it stopped asking":                  {func(f *Facts) { f.AskedAt = noon.Add(-time.Minute) }, "newcomer.install"},
		"the device was not tested":          {func(f *Facts) { f.Device = state.Known(false) }, "newcomer.device"},
		"a learner is left (L15)":            {func(f *Facts) { f.Learner = state.Known(state.MemberID(9)) }, "retired.member"},
		"the Node of the old host came back": {func(f *Facts) { f.OldNode = state.Known(Node{There: true, UID: "u-old"}) }, "retired.node"},
		"the API is away":                    {func(f *Facts) { f.Pods.Known = false }, "retired.unknown"},
		"the site does not name it yet":      {func(f *Facts) { f.Named = state.Known(false) }, "named.site"},
	} {
		f := bare.facts()
		c.change(&f)
		if d := Decide(f); d.Rule != c.want {
			t.Errorf("%s: %s (%s), want %s", name, d.Rule, d.Words, c.want)
		}
	}
}

func TestPodsThatDoNotHoldThePlanAreNamedWhereAPersonReads(t *testing.T) {
	bare := start(true, false)
	bare.stage, bare.reloaded, bare.keyFile, bare.keyRuns, bare.ringOld, bare.cibOld = Retired, true, true, true, false, false
	bare.retirement, bare.token, bare.join, bare.grave, bare.pods, bare.node, bare.lock, bare.named = true, true, true, true, false, "none", true, true
	f := bare.facts()
	f.Bound = []string{"pod a/1", "pod a/2", "pod a/3", "pod a/4", "pod a/5"}
	want := ". Still bound to the name cp-2: pod a/1; pod a/2; pod a/3; and 2 more"
	if d := Decide(f); d.Rule != "newcomer.install" || !strings.HasSuffix(d.Words, want) {
		t.Errorf("%s: %s", d.Rule, d.Words)
	}
	f.Plan.Shrinks, f.Plan.New = true, New{}
	if d := Decide(f); d.Rule != "narrow.begin" || !strings.HasSuffix(d.Words, want) {
		t.Errorf("%s: %s", d.Rule, d.Words)
	}
	f.Power = state.Known("On")
	if d := Decide(f); d.Act == SwitchOff {
		t.Errorf("they need no proof: %+v", d)
	}
}

func TestAPlanOfALaterReleaseIsLeftAlone(t *testing.T) {
	f := start(true, false).facts()
	f.Plan.Format = Format + 1
	if d := Decide(f); d.Act != Wait || d.Rule != "plan.newer" {
		t.Errorf("%+v", d)
	}
}

func TestAWishThatNobodyWaitsForBeginsNothing(t *testing.T) {
	f, w := ready(), wish()
	f.Wish = &w
	if d := Decide(f); d.Rule != "rest.begin" || d.Plan == nil || d.Plan.Old.UID != "u-old" {
		t.Fatalf("%+v", d)
	}
	w.Dry = true
	if d := Decide(f); d.Rule != "rest.dry" || d.Plan != nil {
		t.Errorf("%+v", d)
	}
	w.Dry, w.At = false, noon.Add(-time.Hour)
	if d := Decide(f); d.Act != Idle {
		t.Errorf("%+v", d)
	}
}

func TestAPlanTakesInWhatTheAdministratorChanged(t *testing.T) {
	f := start(true, false).facts()
	w := wished(f)
	w.Accepts.Gone, w.New.BMC = "S2", "https://other"
	f.Wish = &w
	d := Decide(f)
	if d.Rule != "amend" || d.Plan.Accepts.Gone != "S2" || d.Plan.New.BMC != "https://other" || d.Plan.Stage != Planned {
		t.Errorf("%+v", d)
	}
	f.Plan = d.Plan
	if d := Decide(f); d.Rule == "amend" {
		t.Error("again and again")
	}
}

func TestNoTwoRulesHaveOneName(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Rules() {
		if seen[l.Rule] {
			t.Errorf("two rules are called %s", l.Rule)
		}
		seen[l.Rule] = true
	}
}

func TestEitherKindOfPlanTakesItselfBackIfAnotherOneHasTheLock(t *testing.T) {
	for kind, f := range map[string]Facts{"a replacement": start(false, false).facts(), "a growth": lone().facts()} {
		f.Lock = state.Known("")
		if d := Decide(f); d.Rule != "lock.take" || d.Act != CopyPlan {
			t.Errorf("%s without a lock: %+v", kind, d)
		}
		f.Lock = state.Known("p2")
		if d := Decide(f); d.Rule != "lock.lost" || d.Plan == nil || d.Plan.Stage != Aborted {
			t.Errorf("%s whose lock another plan has: %+v", kind, d)
		}
	}
}
