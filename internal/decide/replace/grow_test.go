package replace

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// growing is a lone host and a newcomer while a site grows. It is compared as a whole, so the
// model test visits every one that can be reached.
type growing struct {
	// The host that is there.
	up, etcd                    bool // etcd serves
	static, moved               bool // kubelet's manifest of etcd, and whether podman's etcd has the data
	record                      state.EtcdState
	manifest, retirement        bool
	ringOwn, runs, alone        bool // corosync.conf, Corosync and Pacemaker now, Pacemaker's configuration
	ringNew, fences, device     bool
	clusterBoots                bool // Corosync and Pacemaker start at boot
	stage                       Stage
	newcomers, abort            bool
	lock, token, account, grave bool  // in the cluster; grave: a host of the newcomer's name was taken out
	copied                      Stage // in the cluster's copy of the plan
	named, exchanged            bool  // the site's configuration names the newcomer's BMC; a person named another one
	asks, entered, synced, good bool  // the newcomer
	burnt, said, ended          bool  // it will never come back, the administrator said so, and the plan ended by that
}

func lone() growing {
	return growing{up: true, etcd: true, static: true, record: state.EtcdNone, stage: Planned, named: true}
}

func (w growing) contact() bool { return w.up && w.runs && w.ringNew && w.entered }

func (w growing) plan() *Plan {
	p := &Plan{
		Format: Format, ID: "p1", Grows: true, Survivor: "cp-1", Stage: w.stage, By: "ada", Accepts: Accepts{NoBackup: true},
		New: New{Name: "cp-2", BMC: "https://bmc", Address: machine.Address},
	}
	if w.newcomers {
		p.Newcomer = machine
	}
	p.Entered = w.ringNew
	return p
}

func (w growing) facts() Facts {
	f := Facts{
		Now: noon, Host: "cp-1", Plan: w.plan(), Peer: "cp-2", ControlPlanes: 2, Record: state.Known(w.record), Contact: state.Known(w.contact()),
		Serves: state.Known(w.etcd), StandIn: state.Known(false), Retirement: state.Known(w.retirement), Manifest: state.Known(w.manifest),
		Asked: state.Known(w.alone && w.runs), Kubelets: state.Known(w.static), Podmans: state.Known(w.moved && w.etcd),
		Device: state.Known(w.device), Fences: state.Known(w.alone && (w.fences || w.stage != Joining)), Room: state.Known(true), Ships: state.Known(true),
		Work: state.Known(""), Moves: state.Known(""), Reached: state.Known(true), Ours: state.Known(false), Matches: state.Known(true), Arch: state.Known(true), Verified: state.Known(w.good), Named: state.Known(w.named),
	}
	ring := []string{}
	if w.ringOwn {
		ring = append(ring, "cp-1")
	}
	if w.ringNew {
		ring = append(ring, "cp-2")
	}
	f.Ring = state.Known(ring)
	if w.runs {
		f.Known = state.Known(ring)
	}
	if w.abort {
		f.Wish = &Wish{ID: "p1", Grows: true, Abort: true}
	}
	if w.said {
		f.Wish = &Wish{ID: "p1", Grows: true, Abort: true, At: noon}
	}
	if w.asks {
		f.Asks, f.AskedAt = machine, noon
	}
	if !w.etcd {
		return f
	}
	lock, voters := "", 1
	if w.lock {
		lock, f.Copied = "p1", w.copied
	}
	if w.record == state.EtcdPair {
		voters = 2
	}
	f.Voters, f.Learner, f.Lock = state.Known(voters), state.Known(state.MemberID(0)), state.Known(lock)
	f.Token, f.Account, f.Given = state.Known(w.token), state.Known(w.account), state.Known(!w.grave)
	return f
}

func (w growing) acted(t *testing.T, d Decision) []growing {
	n := w
	flags := map[Act]*bool{ //nolint:exhaustive // the others change more than one thing
		PutToken: &n.token, PutManifest: &n.manifest, Retire: &n.retirement, SetAlone: &n.alone, SetFencing: &n.fences, JoinRing: &n.ringNew,
	}
	if to := flags[d.Act]; to != nil {
		*to = true
		return []growing{n}
	}
	switch d.Act {
	case CopyPlan:
		n.lock, n.copied = true, copiedBy(d, w.stage)
	case WritePlan, Finish:
		n.stage, n.newcomers, n.ended = d.Plan.Stage, d.Plan.Newcomer != (Newcomer{}), d.Plan.Lost("cp-2")
	case FirstRing:
		n.ringOwn = true
		conf, boots := n, n // cut off after the file, and before the services run
		boots.clusterBoots = true
		n.clusterBoots, n.runs = true, true
		return []growing{conf, boots, n}
	case TakeEtcd:
		n.static, n.etcd = false, false // the keeper starts it
	case DropRetire:
		n.retirement = false
	case DropLock:
		n.lock, n.copied = false, ""
	case GiveName:
		n.grave = false
	case DropAbort:
		n.abort = false
	case NameSite:
		n.named = w.etcd // it needs the API
	case PutDevice:
		half := n
		half.device = true
		n.device, n.account = true, true
		return []growing{half, n}
	case Wait, Idle:
	default:
		t.Fatalf("unknown act %q", d.Act)
	}
	return []growing{n}
}

func (w growing) happens() []growing {
	var out []growing
	add := func(when bool, change func(*growing)) {
		if when {
			n := w
			change(&n)
			out = append(out, n)
		}
	}
	add(w.up, func(n *growing) { n.up, n.etcd, n.runs = false, false, false }) // power cut
	add(!w.up, func(n *growing) { n.up, n.runs = true, n.ringOwn && n.clusterBoots })
	add(w.etcdStarts(), func(n *growing) { n.etcd, n.moved = true, !n.static })
	add(w.up && w.runs && w.alone && w.etcd && w.retirement && w.record == state.EtcdNone && !w.ringNew, func(n *growing) { n.record = state.EtcdSole })
	add(!w.abort && (w.stage == Planned || w.stage == Widening), func(n *growing) { n.abort = true })       // in time, and too late
	add(w.lock && w.stage != Planned && !w.stage.Over(), func(n *growing) { n.lock, n.copied = false, "" }) // somebody deletes it
	add(!w.exchanged && (w.stage == Widening || w.stage == Waiting), func(n *growing) { n.named, n.exchanged, n.device, n.account = false, true, false, false })
	add(w.stage == Joining && !w.burnt, func(n *growing) { n.burnt, n.entered, n.asks = true, false, false })
	add(w.burnt && !w.said, func(n *growing) { n.said = true })
	add(w.burnt && w.up && w.record == state.EtcdPair, func(n *growing) { n.etcd, n.record = true, state.EtcdSole }) // the take-over
	add(w.up && !w.asks && !w.stage.Over() && !w.burnt, func(n *growing) { n.asks = true })
	add(w.asks && !w.entered, func(n *growing) { n.asks = false })
	add(w.asks && w.ringNew && !w.entered && w.up, func(n *growing) { n.entered = true })
	add(w.entered && !w.synced, func(n *growing) { n.entered = false })
	add(w.contact() && w.etcd && !w.synced, func(n *growing) { n.synced, n.record = true, state.EtcdPair })
	add(w.synced && w.contact(), func(n *growing) { n.good = true })
	return out
}

// etcdStarts reports whether etcd of the host starts without a person: kubelet has it, or the
// keeper may. Where the newcomer is listed, it was met or is fenced, as in any pair.
func (w growing) etcdStarts() bool {
	switch {
	case !w.up || w.etcd:
		return false
	case w.static:
		return true
	case w.ringNew:
		return w.runs
	}
	return w.runs && w.alone && w.record == state.EtcdSole && w.retirement
}

func (w growing) mistakes() (out []string) {
	is := func(bad bool, what string) {
		if bad {
			out = append(out, what)
		}
	}
	is(w.retirement && w.ringNew, "the keeper is told that there is no peer while one is listed")
	is(w.stage == Aborted && (w.token || w.manifest || w.retirement || w.ringOwn || !w.static), "the plan was taken back after something was changed")
	is(!w.static && (w.record == state.EtcdNone || !w.manifest || !w.alone || !w.clusterBoots), "etcd is taken from kubelet, and nobody can start it after a power cut")
	is(w.ringNew && (w.static || !w.fences || !w.device || w.stage != Joining && w.stage != Whole), "the newcomer is listed and cannot be fenced, or kubelet runs etcd")
	is(!w.named && w.ringNew, "the newcomer is listed in a site that does not name its BMC")
	is(w.grave && w.ringNew, "the newcomer is listed, and a guard keeps its kubelet out")
	is(w.ended && (w.retirement == w.ringNew || !w.named || w.static || !w.token), "the plan ended without the newcomer, and the host that stays is no survivor like any other")
	is(w.stage == Whole && !w.ended && (!w.synced || !w.good || w.retirement || !w.token || !w.account), "whole, and something is missing")
	return out
}

// TestAGrowingSiteEndsWithTwoHostsOrServesAsOne visits every state that crashes, power cuts, a
// newcomer that comes and goes and one that dies for good can bring about. In each one etcd starts again without a
// person, and each one can end.
func TestAGrowingSiteEndsWithTwoHostsOrServesAsOne(t *testing.T) {
	again := lone()
	again.grave = true // the site shrank before
	used := map[string]int{}
	before := visit(t, func(w growing) []growing {
		next := w.happens()
		if w.up {
			d := Decide(w.facts())
			used[d.Rule]++
			if d.Rule == "nothing-fits" || d.Words == "" || (d.Act == WritePlan || d.Act == Finish) && d.Plan == nil {
				t.Fatalf("not explained: %+v: %+v", d, w)
			}
			if unlocked(w.stage, w.etcd, w.lock, d) {
				t.Fatalf("%s without the lock: %+v", d.Rule, w)
			}
			next = append(next, w.acted(t, d)...)
		}
		return next
	}, lone(), again)
	ends := backwards(before, func(w growing) bool { return w.stage.Over() && !w.lock })
	// No act of the plan may be needed for etcd to serve, because a plan may wait for days. The one
	// exception lasts for one look, and the act that ends it needs no API: the newcomer is about to be
	// listed, or went away right before.
	for w := range before {
		between := w.stage == Joining && !w.retirement && !w.ringNew
		if w.up && !w.etcd && !w.etcdStarts() && !between {
			t.Fatalf("etcd does not start: %+v", w)
		}
		if d := Decide(w.facts()); between && w.up && !w.etcd && d.Act != JoinRing && d.Act != Retire {
			t.Fatalf("etcd does not start, and the plan does %s: %+v", d.Rule, w)
		}
		if !ends[w] {
			t.Fatalf("no way leads to an end, and the decision is %+v: %+v", Decide(w.facts()), w)
		}
	}
	for _, list := range [][]rule{growRules, wideningRules, namedRules} {
		for _, r := range list {
			if used[r.id] == 0 && r.id != "lock.lost" && r.id != gateRule.id {
				t.Errorf("rule %s was never used", r.id)
			}
		}
	}
}

// backwards returns the states from which one that is wanted can be reached.
func backwards[W comparable](before map[W][]W, wanted func(W) bool) map[W]bool {
	leads := map[W]bool{}
	var queue []W
	for w := range before {
		if wanted(w) {
			leads[w] = true
			queue = append(queue, w)
		}
	}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		for _, b := range before[w] {
			if !leads[b] {
				leads[b] = true
				queue = append(queue, b)
			}
		}
	}
	return leads
}

// closingGrowth has a change for each gate of a growing site.
var closingGrowth = []closes{
	{"a site of one control plane", "dressed", func(f *Facts, _ *Wish) { f.ControlPlanes = 1 }},
	{"a host of two", "lone", func(f *Facts, _ *Wish) { f.Ring = state.Known([]string{"cp-1", "cp-2"}) }},
	{"a host that was one of two", "lone", func(f *Facts, _ *Wish) { f.Record = state.Known(state.EtcdSole) }},
	{"an unknown record", "lone", func(f *Facts, _ *Wish) { f.Record.Known = false }},
	{"kubelet without etcd", "lone", func(f *Facts, _ *Wish) { f.Kubelets = state.Known(false) }},
	{"etcd does not answer", "etcd", func(f *Facts, _ *Wish) { f.Serves = state.Known(false) }},
	{"two voters", "alone", func(f *Facts, _ *Wish) { f.Voters = state.Known(2) }},
	{"a learner", "learner", func(f *Facts, _ *Wish) { f.Learner = state.Known(state.MemberID(7)) }},
	{"no backup", "backup", func(_ *Facts, w *Wish) { w.Accepts.NoBackup = false }},
	{"a move of the site is announced", "work", func(f *Facts, _ *Wish) { f.Moves = state.Known("the move m1 of ada is announced") }},
	{"whether one is announced is unknown", "work", func(f *Facts, _ *Wish) { f.Moves.Known = false }},
	{"an upgrade (L86)", "work", func(f *Facts, _ *Wish) { f.Work = state.Known("the site is upgraded") }},
	{"a full disk", "room", func(f *Facts, _ *Wish) { f.Room = state.Known(false) }},
	{"no release", "release", func(f *Facts, _ *Wish) { f.Ships = state.Known(false) }},
	{"the BMC of this host", "bmc", func(f *Facts, _ *Wish) { f.Ours = state.Known(true) }},
	{"a BMC that does not answer", "bmc", func(f *Facts, _ *Wish) { f.Reached = state.Known(false) }},
	{"no BMC named", "bmc", func(_ *Facts, w *Wish) { w.New.BMC = "" }},
	{"a BMC that says nothing of its machine", "bmc", func(f *Facts, _ *Wish) { f.Ours.Known = false }},
	{"no name", "name", func(_ *Facts, w *Wish) { w.New.Name = "" }},
	{"this host's name", "name", func(_ *Facts, w *Wish) { w.New.Name = "cp-1" }},
}

func readyToGrow() (Facts, Wish) {
	f := lone().facts()
	w := wished(f)
	w.At, f.Plan, f.Wish = noon, nil, nil
	return f, w
}

func TestEachGateOfAGrowingSiteClosesForItsOwnReasonOnly(t *testing.T) {
	closeOnly(t, readyToGrow, closingGrowth)
	f, w := readyToGrow()
	f.Wish = &w
	if d := Decide(f); d.Rule != "rest.begin" || !d.Plan.Grows || d.Plan.Old != (Old{}) {
		t.Errorf("the plan is not begun: %+v", d)
	}
}

// A lone host has no record, no ring and no BMC of a peer, and its site has one control plane.
func TestTheGatesThatAreJudgedEarlyNeedNothingThatIsPrepared(t *testing.T) {
	early := func() (Facts, Wish) {
		f, w := readyToGrow()
		return Facts{Now: f.Now, Backup: f.Backup, Lock: f.Lock, Work: f.Work, Moves: f.Moves, Room: f.Room, Ships: f.Ships}, w
	}
	if f, w := early(); len(Closed(EarlyGates(f, w))) > 0 {
		t.Errorf("closed without a reason: %+v", Closed(EarlyGates(f, w)))
	}
	seen := map[string]bool{}
	for _, c := range closingGrowth {
		f, w := early()
		c.change(&f, &w)
		for _, g := range Closed(EarlyGates(f, w)) {
			if seen[g.ID] = true; g.ID != c.gate {
				t.Errorf("%s: closed is %+v", c.name, g)
			}
		}
	}
	if f, w := early(); len(seen) != len(EarlyGates(f, w)) {
		t.Errorf("nothing here closes some of them: %v", seen)
	}
}

func TestANewcomerAtAnotherAddressIsNotLetIn(t *testing.T) {
	w := lone()
	w.stage, w.lock, w.static, w.record, w.retirement, w.asks = Waiting, true, false, state.EtcdSole, true, true
	f := w.facts()
	f.Plan.New.Address = "192.0.2.99"
	if d := Decide(f); d.Rule != "newcomer.other-address" {
		t.Errorf("the decision is %+v", d)
	}
	f.Wish = &Wish{ID: "p1", Grows: true, New: New{Name: "cp-2", BMC: "https://bmc", Address: machine.Address}, Accepts: Accepts{NoBackup: true}}
	if d := Decide(f); d.Rule == "amend" {
		t.Errorf("the plan takes another address in although etcd's configuration has the first one")
	}
}

func TestWhatPeopleReadOfAGrowingSiteIsApproved(t *testing.T) {
	var text strings.Builder
	for _, c := range closingGrowth {
		f, w := readyToGrow()
		c.change(&f, &w)
		g := Closed(GrowGates(f, w))[0]
		text.WriteString(c.name + "\n  " + g.ID + ": " + g.Words + "\n  type: " + g.Way + "\n")
	}
	text.WriteString("\nrules\n")
	f := lone().facts()
	f.Asks = machine
	for _, list := range [][]rule{growRules, wideningRules, newcomerRules} {
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
	golden.Check(t, "grow-words.txt", []byte(text.String()))
}
