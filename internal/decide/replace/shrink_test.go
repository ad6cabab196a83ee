package replace

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// shrinking is a host that stays, and one that was switched off for good, while a site shrinks.
// It is compared as a whole, so the model test visits every one that can be reached.
type shrinking struct {
	up, etcd, podman bool // etcd serves, and podman runs it
	oldOn            bool

	// The remains of the old host.
	keyFile, keyRuns, reloaded bool // the new key
	ringOld, cibOld            bool
	lock, token, join, grave   bool
	leftover, pods, node       bool

	// The host that stays.
	retirement              bool
	record                  bool  // of one of two, with the other files of a pair
	pod, static, boots      bool  // kubelet's file of etcd, beside its folder or in it; kubelet at boot
	halted                  bool  // Pacemaker was told not to start etcd
	clusterBoots, runs      bool  // Corosync and Pacemaker
	maintained, meddled     bool  // Pacemaker is in maintenance, and a person put it there, once
	stage, copied           Stage // copied is that in the cluster's copy of the plan
	abort, dressed, toldOff bool
}

func two() shrinking {
	return shrinking{
		up: true, etcd: true, podman: true, ringOld: true, cibOld: true, leftover: true, pods: true, node: true, record: true, clusterBoots: true, runs: true, stage: Planned,
	}
}

func (w shrinking) contact() bool { return w.up && w.runs && w.oldOn && w.ringOld && !w.keyRuns }

func (w shrinking) facts() Facts {
	p := &Plan{
		Format: Format, ID: "p1", Shrinks: true, Survivor: "cp-1", Stage: w.stage, Reloaded: w.reloaded, By: "ada", Accepts: Accepts{NoBackup: true},
		Old: Old{Name: oldName, UID: "u-old", Machine: state.Machine{UUID: "2", Serial: "S2"}},
	}
	record, planes := state.EtcdNone, 2
	if w.record {
		record = state.EtcdSole
	}
	if w.dressed {
		planes = 1
	}
	f := Facts{
		Now: noon, Host: "cp-1", Plan: p, Peer: oldName, PowerAt: noon, ControlPlanes: planes, Record: state.Known(record), Contact: state.Known(w.contact()),
		Serves: state.Known(w.etcd), StandIn: state.Known(false), Answers: state.Known(w.oldOn), Alive: state.Known(false), OldMachine: p.Old.Machine,
		Key: state.Known(w.keyFile), Refused: state.Known(true), Retirement: state.Known(w.retirement), Work: state.Known(""), Moves: state.Known(""), Upgrade: state.Known(hold.Lost{}), Volumes: state.Known[[]string](nil),
		Pod: state.Known(w.pod || w.static), Boots: state.Known(w.boots), Runs: state.Known(w.clusterBoots || w.runs),
		Paired: state.Known(w.record || w.retirement), Kubelets: state.Known(w.static), Podmans: state.Known(w.podman),
		Power: state.Known(state.PowerOff), Target: state.Known(true),
	}
	if w.oldOn {
		f.Power = state.Known("On")
	}
	ring, known := []string{"cp-1"}, []string{"cp-1"}
	if w.ringOld {
		ring = append(ring, oldName)
	}
	if w.cibOld {
		known = append(known, oldName)
	}
	f.Ring = state.Known(ring)
	if w.runs {
		f.Known, f.Halted, f.Maintained = state.Known(known), state.Known(w.halted), state.Known(w.maintained)
	}
	if w.abort {
		f.Wish = &Wish{ID: "p1", Shrinks: true, Abort: true}
	}
	if w.etcd {
		w.seesCluster(&f)
	}
	return f
}

func (w shrinking) seesCluster(f *Facts) {
	lock, pods := "", 0
	if w.lock {
		lock, f.Copied = "p1", w.copied
	}
	if w.pods {
		pods = 3
	}
	f.Voters, f.Learner, f.Lock, f.Pods = state.Known(1), state.Known(state.MemberID(0)), state.Known(lock), state.Known(pods)
	f.OldNode = state.Known(Node{There: w.node, UID: "u-old"})
	f.Tombstone, f.Token, f.JoinKey, f.Leftover = state.Known(w.grave), state.Known(w.token), state.Known(w.join), state.Known(w.leftover)
}

// acted returns the worlds after an act, one for each place at which it may be cut off.
func (w shrinking) acted(t *testing.T, d Decision) []shrinking {
	n := w
	flags := map[Act]*bool{ //nolint:exhaustive // the others change more than one thing
		PutToken: &n.token, ChangeJoin: &n.join, PutGrave: &n.grave, Retire: &n.retirement, PutPod: &n.pod, KubeletBoot: &n.boots,
	}
	if to := flags[d.Act]; to != nil {
		*to = true
		return []shrinking{n}
	}
	gone := map[Act]*bool{DropNode: &n.node, DropSecret: &n.leftover, LeaveRing: &n.ringOld, Forget: &n.cibOld, SwitchOff: &n.oldOn} //nolint:exhaustive // the same
	if to := gone[d.Act]; to != nil {
		*to = false
		return []shrinking{n}
	}
	switch d.Act {
	case CopyPlan:
		n.lock, n.copied = true, copiedBy(d, w.stage)
	case DropLock:
		n.lock, n.copied = false, ""
	case WritePlan:
		n.stage = d.Plan.Stage
	case ChangeKey:
		n.keyFile = true
		half := n
		n.keyRuns, n.reloaded = true, true
		return []shrinking{half, n}
	case DropPods:
		n.pods = n.node
	case StopEtcd:
		n.halted = true
		half := n // Pacemaker was told, and etcd has not ended
		if w.maintained {
			return []shrinking{half} // and does not end
		}
		n.etcd, n.podman = false, false
		return []shrinking{half, n}
	case GivePod:
		n.static, n.pod = true, false
	case EndRing:
		boots := n // they start no more at boot, and still run
		boots.clusterBoots = false
		n.clusterBoots, n.runs, n.ringOld, n.maintained = false, false, false, false
		return []shrinking{boots, n}
	case EndPair:
		half := n
		half.record = false
		n.record, n.retirement = false, false
		return []shrinking{half, n}
	case Dress:
		n.dressed = true
	case DropAbort:
		n.abort = false
	case Wait, Idle:
	default:
		t.Fatalf("unknown act %q", d.Act)
	}
	return []shrinking{n}
}

func (w shrinking) happens() []shrinking {
	var out []shrinking
	add := func(when bool, change func(*shrinking)) {
		if when {
			n := w
			change(&n)
			out = append(out, n)
		}
	}
	add(w.up, func(n *shrinking) { n.up, n.etcd, n.podman, n.runs, n.keyRuns = false, false, false, false, false }) // power cut
	add(!w.up, func(n *shrinking) { n.up, n.runs, n.keyRuns = true, n.clusterBoots, n.keyFile })
	add(w.etcdStarts(), func(n *shrinking) { n.etcd, n.podman = true, !n.static })
	add(!w.abort && (w.stage == Planned || w.stage == Retired), func(n *shrinking) { n.abort = true })        // in time, and too late
	add(w.lock && w.stage != Planned && !w.stage.Over(), func(n *shrinking) { n.lock, n.copied = false, "" }) // somebody deletes it
	add(!w.oldOn && !w.toldOff, func(n *shrinking) { n.oldOn, n.toldOff = true, true })                       // somebody switches it on, once
	add(w.oldOn && !w.contact(), func(n *shrinking) { n.oldOn = false })
	add(w.runs && !w.meddled, func(n *shrinking) { n.maintained, n.meddled = true, true })
	add(w.runs && w.maintained, func(n *shrinking) { n.maintained = false })
	return out
}

// etcdStarts reports whether etcd of the host starts without a person and without the plan. While
// the old host is listed it is off, and its BMC says so.
func (w shrinking) etcdStarts() bool {
	switch {
	case !w.up || w.etcd:
		return false
	case w.static:
		return w.boots
	}
	return w.runs && w.record && !w.halted && !w.maintained
}

// stuck reports whether nobody starts an etcd that is down: neither Pacemaker or kubelet by
// themselves nor the next act. In a person's maintenance Pacemaker starts nothing; there the plan at
// least does not wait once it goes to kubelet.
func (w shrinking) stuck(d Decision) bool {
	switch {
	case w.etcd || w.etcdStarts() || w.runs != w.clusterBoots || w.contact():
		return false
	case w.maintained:
		return w.stage == Narrowing && d.Act == Wait
	}
	return d.Act != StopEtcd && d.Act != GivePod && d.Act != SwitchOff
}

func (w shrinking) mistakes() (out []string) {
	is := func(bad bool, what string) {
		if bad {
			out = append(out, what)
		}
	}
	is(w.podman && w.static, "podman and kubelet both run etcd")
	is(w.stage == Aborted && (w.retirement || w.grave || w.static || !w.record), "the plan was taken back after something was changed")
	is(w.static && !w.halted && (w.runs || w.clusterBoots), "kubelet has etcd, and Pacemaker may start it, too")
	is(w.static && (w.ringOld || w.cibOld && w.runs || !w.retirement && w.record), "kubelet has etcd while the old host may come back as one of two")
	is(!w.record && (!w.static || w.runs || w.clusterBoots), "the record is gone while Pacemaker may start etcd")
	is(!w.clusterBoots && !w.boots, "nobody starts kubelet at boot")
	is(w.dressed && (w.record || w.clusterBoots || !w.static), "site.json says one control plane, and the host is one of two")
	is(w.stage == Whole && (!w.dressed || !w.etcd && w.up && !w.etcdStarts()), "whole, and something is missing")
	return out
}

// TestAShrinkingSiteEndsWithOneHostOrServesAsOneOfTwo visits every state that crashes, power cuts,
// an old host that is switched on again and a maintenance of Pacemaker can bring about. In each one
// etcd starts again without a person, by itself or by the next act of the plan, which needs no API,
// unless a person keeps Pacemaker from it. Each one can end.
func TestAShrinkingSiteEndsWithOneHostOrServesAsOneOfTwo(t *testing.T) {
	used := map[string]int{}
	before := visit(t, func(w shrinking) []shrinking {
		next := w.happens()
		if w.up {
			d := Decide(w.facts())
			used[d.Rule]++
			if d.Rule == "nothing-fits" || d.Words == "" || d.Act == WritePlan && d.Plan == nil {
				t.Fatalf("not explained: %+v: %+v", d, w)
			}
			if unlocked(w.stage, w.etcd, w.lock, d) {
				t.Fatalf("%s without the lock: %+v", d.Rule, w)
			}
			if w.stuck(d) {
				t.Fatalf("etcd does not start, and the decision is %+v: %+v", d, w)
			}
			if w.maintained && w.podman && d.Act == StopEtcd {
				t.Fatalf("a Pacemaker in maintenance is to stop etcd: %+v", w)
			}
			next = append(next, w.acted(t, d)...)
		}
		return next
	}, two())
	ends := backwards(before, func(w shrinking) bool { return w.stage.Over() && !w.lock })
	for w := range before {
		if !ends[w] {
			t.Fatalf("no way leads to an end, and the decision is %+v: %+v", Decide(w.facts()), w)
		}
	}
	for _, list := range [][]rule{narrowRules, narrowingRules} {
		for _, r := range list {
			if used[r.id] == 0 && r.id != "narrowing.unknown" {
				t.Errorf("rule %s was never used", r.id)
			}
		}
	}
}

func TestEtcdIsNotGivenToKubeletWhileItIsUnknownWhoHasIt(t *testing.T) {
	w := two()
	w.stage, w.lock, w.ringOld, w.cibOld, w.retirement, w.pod, w.boots = Narrowing, true, false, false, true, true, true
	f := w.facts()
	if d := Decide(f); d.Act != StopEtcd {
		t.Fatalf("Pacemaker has it: %+v", d)
	}
	f.Kubelets = state.Fact[bool]{}
	if d := Decide(f); d.Act != Wait || d.Rule != "narrowing.unknown" {
		t.Errorf("%+v", d)
	}
}

// TestAPersonIsToldToEndTheMaintenanceInWhichEtcdIsNotStopped: it may have begun after Pacemaker was
// told to stop etcd. An etcd that is down, as after a boot, goes to kubelet in it.
func TestAPersonIsToldToEndTheMaintenanceInWhichEtcdIsNotStopped(t *testing.T) {
	const wait = "narrowing.maintained"
	for name, c := range map[string]struct {
		maintained, halted, podmans state.Fact[bool]
		want                        string
	}{
		"before":                     {state.Known(true), state.Known(false), state.Known(true), wait},
		"Pacemaker was told":         {state.Known(true), state.Known(true), state.Known(true), wait},
		"who has etcd is unknown":    {state.Known(true), state.Known(true), state.Fact[bool]{}, wait},
		"it was booted":              {state.Known(true), state.Known(false), state.Known(false), "narrowing.stop"},
		"it was booted after that":   {state.Known(true), state.Known(true), state.Known(false), "narrowing.give"},
		"it has ended":               {state.Known(false), state.Known(false), state.Known(true), "narrowing.stop"},
		"Pacemaker does not run yet": {state.Fact[bool]{}, state.Fact[bool]{}, state.Known(true), "narrowing.stop"},
	} {
		w := two()
		w.stage, w.lock, w.ringOld, w.cibOld, w.retirement, w.pod, w.boots = Narrowing, true, false, false, true, true, true
		f := w.facts()
		f.Maintained, f.Halted, f.Podmans = c.maintained, c.halted, c.podmans
		if d := Decide(f); d.Rule != c.want || (d.Way == "sudo pcs property set maintenance-mode=false") != (c.want == wait) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func readyToShrink() (Facts, Wish) {
	f := two().facts()
	w := wished(f)
	w.At, f.Plan, f.Wish = noon, nil, nil
	return f, w
}

// closingShrink has a change for each gate of a shrinking site.
var closingShrink = []closes{
	{"a site of one control plane", "two", func(f *Facts, _ *Wish) { f.ControlPlanes = 1 }},
	{"this host", "here", func(_ *Facts, w *Wish) { w.Old = "cp-1" }},
	{"the record says pair", "sole", func(f *Facts, _ *Wish) { f.Record = state.Known(state.EtcdPair) }},
	{"the other host runs", "silent", func(f *Facts, _ *Wish) { f.Contact = state.Known(true) }},
	{"a BMC that was not asked", "off", func(f *Facts, _ *Wish) { f.Power.Known = false }},
	{"etcd does not answer", "etcd", func(f *Facts, _ *Wish) { f.Serves = state.Known(false) }},
	{"two voters", "alone", func(f *Facts, _ *Wish) { f.Voters = state.Known(2) }},
	{"its Node could not be read", "node", func(f *Facts, _ *Wish) { f.OldNode.Known = false }},
	{"no backup", "backup", func(_ *Facts, w *Wish) { w.Accepts.NoBackup = false }},
	{"a move of the site is announced", "work", func(f *Facts, _ *Wish) { f.Moves = state.Known("the move m1 of ada is announced") }},
	{"whether one is announced is unknown", "work", func(f *Facts, _ *Wish) { f.Moves.Known = false }},
	{"the other host began one as well (L5)", "work", func(f *Facts, _ *Wish) { f.Lock = state.Known("p2") }},
	{"this host is on its way to another release (U17)", "upgrade", func(f *Facts, _ *Wish) { f.Upgrade = state.Known(hold.Lost{Retire: "it leaves"}) }},
	{"the account that the old host knows", "account", func(f *Facts, _ *Wish) { f.Refused = state.Known(false) }},
	{"Pacemaker is in maintenance", "maintained", func(f *Facts, _ *Wish) { f.Maintained = state.Known(true) }},
	{"whether Pacemaker is in maintenance is unknown", "maintained", func(f *Facts, _ *Wish) { f.Maintained.Known = false }},
	{"the file of the site is gone", "target", func(f *Facts, _ *Wish) { f.Target = state.Known(false) }},
	{"a volume of the old host", "volumes", func(f *Facts, _ *Wish) { f.Volumes = state.Known([]string{"pv-1"}) }},
}

func TestEachGateOfAShrinkingSiteClosesForItsOwnReasonOnly(t *testing.T) {
	closeOnly(t, readyToShrink, closingShrink)
	f, w := readyToShrink()
	f.Wish = &w
	if d := Decide(f); d.Rule != "rest.begin" || !d.Plan.Shrinks || d.Plan.New != (New{}) || d.Plan.Old.Name != oldName {
		t.Errorf("the plan is not begun: %+v", d)
	}
}

func TestTheHostThatWentIsToldSoWhenItWakesUp(t *testing.T) {
	w := two()
	for stage, out := range map[Stage]bool{Planned: false, Retired: true, Narrowing: true, Whole: true, Aborted: false} { //nolint:exhaustive // the others are no stages of a site that shrinks
		w.stage = stage
		says := w.facts().Plan.Ousts(oldName, state.Machine{UUID: "2"})
		if (says != "") != out || out && !strings.HasPrefix(says, "the site goes on without cp-2 since") {
			t.Errorf("%s: %q", stage, says)
		}
	}
}

func TestWhatPeopleReadOfAShrinkingSiteIsApproved(t *testing.T) {
	var text strings.Builder
	f := two().facts()
	for _, list := range [][]rule{narrowRules, narrowingRules} {
		for _, r := range list {
			text.WriteString(r.step + " " + r.id + " (" + string(r.act) + "): " + r.words(f) + "\n")
			if r.way != nil {
				text.WriteString("  type: " + r.way(f) + "\n")
			}
		}
	}
	text.WriteString(InForce(map[string]string{LockKey: "p1", LockCopy: `{"id":"p1","shrinks":true,"survivor":"cp-1","by":"ada","old":{"name":"cp-2"}}`}) + "\n")
	golden.Check(t, "shrink-words.txt", []byte(text.String()))
}
