package replace

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/state"
)

// world is two hosts, a newcomer and a cluster during one replacement. It is compared as a
// whole, so the model test visits every one that can be reached.
type world struct {
	sameName, mute bool // of the case

	// The host that stays.
	up, etcd            bool
	record              state.EtcdState
	keyFile, keyRuns    bool // the new key
	ringOld, ringNew    bool
	cibOld              bool
	retirement, fences  bool
	copied              Stage // in the cluster's copy of the plan
	newPeer             bool  // the keeper has the newcomer's name as that of its peer
	retiredNew          bool  // so had it when the retirement was written
	device, oldDevice   bool
	named               bool // the site's configuration names the newcomer
	stage               Stage
	reloaded, newcomers bool // of the plan
	ringRuns, inside    bool // Corosync has loaded the list with the newcomer, and the plan says so
	abort, gone         bool // the wish

	// The old host.
	oldOn, oldCopy bool // oldCopy: it has joined etcd again
	learner        bool // that a host left in etcd's membership

	// The cluster.
	lock, grave, given, token, join, account, leftover, pods bool
	node                                                     string // none, old, new

	// The newcomer.
	asks, entered, synced, verified bool
	stranger, moved                 bool // another machine asks under its name; it asks at another address
	letInAt                         bool // that other address is the plan's by now
	burnt, said, ended              bool // it will never come back, the administrator said so, and the plan ended by that
}

func start(sameName, mute bool) world {
	return world{
		sameName: sameName, mute: mute, up: true, etcd: true, record: state.EtcdSole, ringOld: true, cibOld: true,
		stage: Planned, pods: true, node: "old", gone: mute, leftover: !sameName, oldDevice: !sameName, named: sameName,
	}
}

// misnamed is true if the retirement is of a peer that the keeper does not have.
func (w world) misnamed() bool { return w.retirement && w.retiredNew != w.newPeer && !w.sameName }

// contact is true while Corosync on both hosts hears the other one.
func (w world) oldContact() bool { return w.up && w.oldOn && w.ringOld && !w.keyRuns }
func (w world) newContact() bool { return w.up && w.entered && w.ringRuns && w.keyRuns }

// peer is the keeper's name of its peer.
func (w world) peer() string {
	if w.newPeer {
		return w.newName()
	}
	return oldName
}

const oldName = "cp-2"

func (w world) newName() string {
	if w.sameName {
		return oldName
	}
	return "cp-3"
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func (w world) plan() *Plan {
	p := &Plan{
		Format: Format, ID: "p1", Survivor: "cp-1", Stage: w.stage, Reloaded: w.reloaded, Entered: w.inside, By: "ada",
		Old: Old{Name: oldName, UID: "u-old", Machine: state.Machine{Serial: "S2"}}, New: New{Name: w.newName(), BMC: "https://bmc"},
	}
	p.Accepts.NoBackup = true
	if w.gone {
		p.Accepts.Gone = "S2"
	}
	if w.newcomers {
		p.Newcomer = machine
		if w.letInAt {
			p.Newcomer.Address = movedTo
		}
	}
	return p
}

const movedTo = "192.0.2.14"

var (
	machine = Newcomer{Machine: state.Machine{UUID: "new"}, Address: "192.0.2.13"}
	other   = Newcomer{Machine: state.Machine{UUID: "other"}, Address: "192.0.2.15"}
)

// facts is what the agent of the host that stays can see.
func (w world) facts() Facts {
	f := Facts{
		Now: noon, Host: "cp-1", Plan: w.plan(), Peer: w.peer(), PowerAt: noon, ControlPlanes: 2,
		Record: state.Known(w.record), Contact: state.Known(w.oldContact() || w.newContact()), Serves: state.Known(w.etcd), StandIn: state.Known(false),
		Answers: state.Known(w.oldOn && !w.entered), Alive: state.Known(false),
		OldMachine: state.Machine{Serial: "S2"}, Key: state.Known(w.keyFile), Refused: state.Known(true), Retirement: state.Known(w.retirement),
		Device: state.Known(w.device), Fences: state.Known(w.fences), Room: state.Known(true), Ships: state.Known(true), Work: state.Known(""), Moves: state.Known(""), Upgrade: state.Known(hold.Lost{}),
		Volumes: state.Known[[]string](nil), Reached: state.Known(true), Ours: state.Known(false), Matches: state.Known(true), Arch: state.Known(true),
		Misnamed: w.misnamed(), OldDevice: state.Known(w.oldDevice), Named: state.Known(w.named), Taken: state.Known(""),
	}
	if w.abort {
		f.Wish = &Wish{ID: "p1", Abort: true}
	}
	if w.said {
		f.Wish = &Wish{ID: "p1", Abort: true, At: noon}
	}
	w.seesOld(&f)
	w.seesHost(&f)
	w.seesCluster(&f)
	switch {
	case w.stranger:
		f.Asks, f.AskedAt = other, noon
	case w.asks:
		f.Asks, f.AskedAt = machine, noon
		if w.moved {
			f.Asks.Address = movedTo
		}
	}
	return f
}

func (w world) seesOld(f *Facts) {
	switch {
	case w.mute:
		f.Silent = true
	case w.oldOn:
		f.Power = state.Known("On")
	default:
		f.Power = state.Known(state.PowerOff)
	}
}

func (w world) seesHost(f *Facts) {
	ring, known := []string{"cp-1"}, []string{"cp-1"}
	if w.ringOld {
		ring = append(ring, oldName)
	}
	if w.cibOld {
		known = append(known, oldName)
	}
	if w.ringNew {
		ring = append(ring, w.newName())
	}
	f.Ring, f.Known = state.Known(ring), state.Known(known)
}

func (w world) seesCluster(f *Facts) {
	if !w.etcd {
		return
	}
	voters, learner := 1, state.MemberID(0)
	if w.record == state.EtcdPair {
		voters = 2
	}
	if w.learner {
		learner = 7
	}
	lock, pods := "", 0
	if w.lock {
		lock, f.Copied = "p1", w.copied
	}
	if w.pods {
		pods = 3
	}
	node := Node{There: w.node != "none", UID: "u-" + w.node}
	f.Voters, f.Learner, f.Lock, f.Pods, f.OldNode = state.Known(voters), state.Known(learner), state.Known(lock), state.Known(pods), state.Known(node)
	f.Tombstone, f.Given, f.Token, f.JoinKey = state.Known(w.grave), state.Known(w.given), state.Known(w.token), state.Known(w.join)
	f.Account, f.Leftover, f.Verified = state.Known(w.account), state.Known(w.leftover), state.Known(w.verified)
}

// byAPI are the acts that fail while etcd of the host that stays does not serve.
var byAPI = map[Act]bool{ //nolint:exhaustive // the others need no API
	CopyPlan: true, PutToken: true, ChangeJoin: true, PutGrave: true, GiveName: true, DropPods: true, DropNode: true, DropSecret: true,
	DropMember: true, NameSite: true, DropLock: true,
}

// acted returns the worlds after an act, one for each place at which it may be cut off.
func (w world) acted(t *testing.T, d Decision) []world {
	n := w
	if byAPI[d.Act] && !w.etcd {
		return []world{w}
	}
	needsAPI := map[Act]*bool{ //nolint:exhaustive // the others are no acts of this place
		CopyPlan: &n.lock, PutToken: &n.token, ChangeJoin: &n.join, PutGrave: &n.grave, GiveName: &n.given, PutDevice: &n.account,
	}
	if to := needsAPI[d.Act]; to != nil {
		*to = true
	}
	switch d.Act {
	case CopyPlan:
		n.copied = copiedBy(d, w.stage)
	case WritePlan:
		n.stage, n.newcomers, n.ended = d.Plan.Stage, d.Plan.Newcomer != (Newcomer{}), d.Plan.Lost(w.newName())
		n.letInAt = d.Plan.Newcomer.Address == movedTo
	case SwitchOff:
		n.oldOn, n.oldCopy = false, false
	case ChangeKey:
		n.keyFile = true
		half, unmarked := n, n
		unmarked.keyRuns = n.up
		n.keyRuns, n.reloaded = n.up, n.up
		return []world{half, unmarked, n}
	case DropPods:
		n.pods = n.node == "old" // DaemonSets make new ones for a Node
	case DropNode:
		n.node = "none"
	case DropSecret:
		n.leftover = false
	case LeaveRing:
		n.ringOld = false
	case Forget:
		half := n // crm_node ended halfway
		n.cibOld = false
		return []world{half, n}
	case ForgetAgain:
		n.cibOld = false
	case Retire, DropRetire:
		n.retirement, n.retiredNew = d.Act == Retire, d.Act == Retire && w.newPeer
	case NameSite:
		n.named = true
	case DropDevice:
		n.oldDevice = false
	case DropMember:
		n.learner = false
	case PutDevice:
		half := n
		half.account = w.account
		half.device, n.device = true, true
		if !w.etcd { // the BMC is told, the cluster is not
			return []world{half}
		}
		return []world{half, n}
	case SetFencing:
		n.fences = true
	case JoinRing:
		n.ringNew = true
		half, unmarked := n, n // cut off after the file, and before the plan says so
		unmarked.ringRuns = n.up
		n.ringRuns, n.inside = n.up, n.up
		return []world{half, unmarked, n}
	case DropLock:
		n.lock, n.copied = false, ""
	case DropAbort:
		n.abort, n.said = false, false
	case GiveName:
		n.grave = true
	case PutToken, ChangeJoin, PutGrave, Wait, Idle:
	default:
		t.Fatalf("unknown act %q", d.Act)
	}
	return []world{n}
}

// happens returns the worlds after each thing that happens without the agent.
func (w world) happens() map[string]world {
	out := map[string]world{}
	add := func(what string, when bool, change func(*world)) {
		if when {
			n := w
			change(&n)
			out[what] = n
		}
	}
	add("the old host wakes up", !w.oldOn && w.stage != Aborted, func(n *world) { n.oldOn = true })
	add("a person switches the old host off", w.oldOn, func(n *world) {
		n.oldOn, n.oldCopy = false, false
		if n.record == state.EtcdPair && !n.synced { // the ordinary take-over of a lost peer
			n.record = state.EtcdSole
		}
	})
	add("the old host joins etcd again as a learner", w.oldContact() && w.etcd && w.record == state.EtcdSole, func(n *world) { n.learner = true })
	add("the old host is pair again", w.oldContact() && w.learner && w.etcd, func(n *world) { n.learner, n.oldCopy, n.record = false, true, state.EtcdPair })
	add("power cut of the host that stays", w.up, func(n *world) { n.up, n.etcd, n.keyRuns, n.ringRuns = false, false, false, false })
	add("the host that stays boots", !w.up, func(n *world) { n.up, n.keyRuns, n.ringRuns = true, w.keyFile, w.ringNew })
	add("its keeper starts alone, by a proof or by the retirement", w.up && !w.etcd && w.record == state.EtcdSole && w.mayStartAlone(), func(n *world) { n.etcd = true })
	add("its keeper is told the newcomer's name", w.up && w.fences && !w.newPeer && !w.sameName, func(n *world) { n.newPeer = true })
	add("its keeper starts with its peer", w.up && !w.etcd && (w.oldContact() || w.newContact()), func(n *world) { n.etcd = true })
	add("somebody deletes the lock", w.lock && w.stage != Planned && !w.stage.Over(), func(n *world) { n.lock, n.copied = false, "" })
	add("somebody deletes the tombstone", w.grave && w.etcd && (w.stage == Retired || w.stage == Joining), func(n *world) { n.grave, n.given = false, false })
	add("the administrator takes it back", !w.abort && (w.stage == Planned || w.stage == Retired), func(n *world) { n.abort = true })
	add("the newcomer burns", w.stage == Joining && !w.burnt, func(n *world) { n.burnt, n.entered, n.asks = true, false, false })
	add("the administrator sees that", w.burnt && !w.said, func(n *world) { n.said = true })
	add("its keeper goes on without the newcomer", w.burnt && w.up && w.record == state.EtcdPair, func(n *world) { n.etcd, n.record = true, state.EtcdSole })
	add("the newcomer is installed and asks", w.up && !w.asks && !w.stage.Over() && !w.burnt, func(n *world) { n.asks = true })
	add("the newcomer stops asking", w.asks && !w.entered, func(n *world) { n.asks = false })
	add("the newcomer gets another address", w.stage == Joining && !w.moved && !w.entered, func(n *world) { n.moved = true })
	add("it gets its former address again", w.moved && !w.letInAt && !w.entered, func(n *world) { n.moved = false })
	add("another machine asks under its name", w.stage == Joining && !w.stranger, func(n *world) { n.stranger = true })
	add("that machine is switched off", w.stranger, func(n *world) { n.stranger = false })
	add("the newcomer enters", w.asks && w.ringNew && !w.entered && w.up && w.moved == w.letInAt, func(n *world) { n.entered = true })
	add("Pacemaker brings the old name back", w.stage == Joining && w.entered && !w.synced && !w.sameName && w.up && !w.cibOld, func(n *world) { n.cibOld = true })
	add("power cut of the newcomer", w.entered && !w.synced, func(n *world) { n.entered = false })
	add("the newcomer becomes pair", w.newContact() && w.etcd && !w.synced && (w.newPeer || w.sameName), func(n *world) { n.synced, n.record, n.node = true, state.EtcdPair, "new" })
	add("both test their fencing", w.synced && w.newContact() && !w.verified, func(n *world) { n.verified = true })
	return out
}

// mayStartAlone is the keeper's rule: the peer is proved off in this boot, or there is no
// peer because the plan retired it. A person confirms where the BMC is silent.
func (w world) mayStartAlone() bool {
	switch {
	case w.retirement && !w.misnamed():
		return true
	case w.ringNew:
		return !w.entered
	case w.newPeer:
		return false // it never was in the list, so nobody fences it
	}
	return !w.oldOn
}

// mistakes names every invariant that a world breaks.
func (w world) mistakes() (out []string) {
	is := func(bad bool, what string) {
		if bad {
			out = append(out, what)
		}
	}
	is(w.given && w.stage != Joining && w.stage != Whole, "the name is given away before the newcomer was verified")
	is(w.ringNew && w.sameName && w.grave && !w.given, "the newcomer entered, and may not make its Node")
	is(w.retirement && (w.ringNew || w.ringOld || !w.keyFile), "the keeper is told that there is no peer while there is one")
	is(w.ringNew && !w.keyFile, "the newcomer entered before the key was changed")
	is(w.oldContact() && w.newContact(), "the old host and the newcomer are in contact at the same time")
	is(w.oldContact() && w.reloaded, "the old host is in contact after the key was changed")
	is(w.synced && (w.ringOld && !w.sameName || w.pods || w.node == "old"), "the newcomer is whole while a part of the old host is left")
	is(w.stage == Aborted && (w.keyFile || w.grave || w.node != "old" || !w.pods || !w.ringOld || w.token || w.join), "the plan was taken back after something was changed")
	is(w.ended && (w.retirement == w.ringNew || w.misnamed() || w.ringOld && !w.sameName || w.leftover || w.oldDevice || w.cibOld && !w.sameName || !w.named || w.grave && !w.given && w.sameName), "the plan ended without the newcomer, and the host that stays is no survivor like any other")
	is(w.stage == Whole && !w.ended && (!w.synced || !w.verified || !w.ringNew || w.retirement || !w.token || !w.join || !w.grave || !w.account || w.leftover || w.oldDevice || w.cibOld && !w.sameName || !w.named), "whole, and something is missing")
	return out
}

// takesOut are the acts that need a proof of the same moment.
var takesOut = map[Act]bool{ //nolint:exhaustive // the others are no acts of this place
	LeaveRing: true, Forget: true, DropPods: true, DropNode: true,
}

// unlocked reports whether a plan that only goes forward goes on, or waits, though its lock is known to be
// gone. Rules that keep the hosts safe, or take the plan back, come before the lock.
func unlocked(stage Stage, etcd, lock bool, d Decision) bool {
	before := []string{"alarm.came-back", "alarm.half", "joining.alone"}
	return etcd && !lock && stage != Planned && !stage.Over() && d.Rule != "lock.again" && !slices.Contains(before, d.Rule)
}

func checkAct(t *testing.T, w world, d Decision) {
	t.Helper()
	if unlocked(w.stage, w.etcd, w.lock, d) {
		t.Fatalf("%s without the lock: %+v", d.Rule, w)
	}
	if (takesOut[d.Act] || d.Act == ChangeKey || d.Act == JoinRing) && w.etcd && calm(w.copied) {
		t.Fatalf("%s while the cluster's copy says that hosts may boot: %+v", d.Act, w)
	}
	if d.Rule == "newcomer.install" && w.etcd && w.copied != Waiting {
		t.Fatalf("hosts may not boot while a person installs the new machine: %+v", w)
	}
	if takesOut[d.Act] && w.oldOn {
		t.Fatalf("%s while the old host runs: %+v", d.Act, w)
	}
	if d.Act == ChangeKey && w.oldOn && !w.mute {
		t.Fatalf("the agent changes no key without a proof, and nobody switches the old host off: %+v", w)
	}
	if d.Act == WritePlan && d.Plan != nil && d.Plan.Stage == Retired && w.stage == Planned && w.oldOn {
		t.Fatalf("the old host is retired while it runs: %+v", w)
	}
	if d.Act == JoinRing && (!w.fences || (!w.asks || w.stranger || w.moved != w.letInAt) && !w.ringNew || !w.keyRuns || w.retirement) {
		t.Fatalf("the newcomer enters though it does not wait, or cannot be fenced: %+v", w)
	}
	if d.Act == DropDevice && (w.ringOld || w.cibOld && !w.sameName) {
		t.Fatalf("the device is removed of a host that may have to be switched off: %+v", w)
	}
	if d.Act == JoinRing && !w.named {
		t.Fatalf("the newcomer enters a site that does not name it: %+v", w)
	}
	if d.Rule == "nothing-fits" || d.Words == "" {
		t.Fatalf("not explained: %+v: %+v", d, w)
	}
	if d.Act == WritePlan && d.Plan == nil {
		t.Fatalf("%s writes no plan", d.Rule)
	}
}

// TestEveryReplacementEndsWholeOrUnchanged visits every state of the world that crashes,
// power cuts, an old host that wakes up, a newcomer that dies for good, another machine that asks under
// its name and a person who deletes the lock or the tombstone can bring about, and follows each to its end.
func TestEveryReplacementEndsWholeOrUnchanged(t *testing.T) {
	for _, sameName := range []bool{true, false} {
		for _, mute := range []bool{false, true} {
			t.Run(fmt.Sprintf("same name %t, BMC silent %t", sameName, mute), func(t *testing.T) {
				explore(t, start(sameName, mute))
			})
		}
	}
	t.Run("same name, BMC at another address", func(t *testing.T) {
		first := start(true, false)
		first.named = false
		explore(t, first)
	})
}

// startsByItself fails unless the agent, by itself, gets the host that stays to a state in which
// its keeper starts: after a power cut there is no API, and nobody knows when the newcomer enters.
func startsByItself(t *testing.T, w world) {
	t.Helper()
	if !w.up || w.etcd || w.record != state.EtcdSole || w.stage != Joining && !w.ended {
		return
	}
	n := w
	for range 10 {
		n.newPeer = n.newPeer || n.fences && !n.sameName // Pacemaker tells it when it starts
		if n.ringNew || n.mayStartAlone() {
			return
		}
		after := n.acted(t, Decide(n.facts()))
		n = after[len(after)-1]
	}
	t.Fatalf("the host that stays waits for somebody: %+v, %+v", Decide(n.facts()), w)
}

// visit returns every world that can be reached, with those from which each is reached. next makes
// a step of everybody in a world.
func visit[W interface {
	comparable
	mistakes() []string
}](t *testing.T, next func(W) []W, first ...W) map[W][]W {
	t.Helper()
	before, queue := map[W][]W{}, slices.Clone(first)
	for _, w := range first {
		before[w] = nil
	}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if bad := w.mistakes(); len(bad) > 0 {
			t.Fatalf("%v: %+v", bad, w)
		}
		for _, n := range next(w) {
			if _, seen := before[n]; !seen {
				queue = append(queue, n)
			}
			before[n] = append(before[n], w)
		}
	}
	t.Logf("%d states", len(before))
	return before
}

func explore(t *testing.T, first world) {
	used := map[string]int{}
	before := visit(t, func(w world) []world { return w.next(t, used) }, first)
	leads := backwards(before, func(w world) bool { return w.stage.Over() && !w.lock })
	for w := range before {
		if !leads[w] {
			t.Fatalf("no way leads to an end, and the decision is %+v: %+v", Decide(w.facts()), w)
		}
		startsByItself(t, w)
	}
	for _, rule := range []string{"retired.key", "retired.pods", "retired.ring", "retired.forget", "retired.keeper", "joining.ring", "joining.whole", "joining.lost", "planned.came-back", "alarm.came-back", "lock.again", "late", "joining.moved", "joining.other"} {
		if used[rule] == 0 {
			t.Errorf("rule %s was never used", rule)
		}
	}
	if (used["joining.forget"] > 0) == first.sameName {
		t.Errorf("rule joining.forget was used %d times", used["joining.forget"])
	}
}

// next returns the worlds that follow: the agent acts where its host is up, or something
// happens.
func (w world) next(t *testing.T, used map[string]int) []world {
	var out []world
	if w.up {
		d := Decide(w.facts())
		used[d.Rule]++
		checkAct(t, w, d)
		out = append(out, w.acted(t, d)...)
	}
	for _, n := range w.happens() {
		out = append(out, n)
	}
	return out
}
