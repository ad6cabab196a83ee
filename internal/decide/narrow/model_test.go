package narrow

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/explore"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

var cuts = flag.Int("cuts", 2, "power cuts in each history of the model")

// side is one of the two hosts that stay. What its etcd keeper decides by itself is told in short:
// decide/etcdmember has the rules, and its own model.
type side struct {
	up, etcd, static, boots bool // static: kubelet has its file of etcd
	prepared, dressed       bool
	ring, paired, ringed    bool // ringed: it entered Corosync's cluster; paired: files of one of two
	word, gone              bool // gone: the plan says that the host that goes is gone
	dead                    bool // it will never come back
	given                   bool // the plan says that the one that does not carry it will not come back
	taken                   bool // the plan says that the second host took it over
	knows                   bool // it has the site of two, with which the cluster's objects can be undone
	traced                  bool // it wrote down that it changes the cluster's objects
	asked                   bool // its keeper was asked to run etcd in this boot
	record                  state.EtcdState
	stage                   Stage // of the plan, or of the copy; empty for none
}

type site struct {
	hosts       [2]side // the first one carries the plan
	third       bool    // the host that goes is up
	lost        bool    // it will never come back
	member      bool    // it is a voter
	lingers     bool    // its etcd and API server have not ended since it left
	setUp       bool    // Pacemaker has its configuration
	maintained  bool
	meddles     bool // a person will end the maintenance by hand, or did
	meddled     bool
	bmc         bool // the BMCs answer
	asked       bool // it is to be emptied
	empty       bool
	node        bool // the cluster has its Node
	plain       bool // the cluster's objects are those of three
	lock        Stage
	lockGone    bool
	lockLost    bool
	lockTaken   bool
	accounts    bool // the cluster has the accounts of both BMCs
	deletes     bool // a person will delete the lock by hand
	replaces    bool // a person will replace a carrier that is lost, under its own name
	renewed     bool // that was done
	told        Progress
	abort, said bool // the person took the plan back, or said that the host is gone
	saidLost    bool // with abort: the person said that the second host is lost, which may be wrong
	abortThere  bool // the person took the plan back on the second host
	saidThere   bool // or said there that the first host is lost, which may be wrong
	saidRenewed bool // with saidThere: and that another machine has its name
	late        bool // hours have passed since the carrier wrote its plan
	cuts        int8
}

func newSite() site {
	w := site{third: true, member: true, bmc: true, node: true, plain: true}
	for i := range w.hosts {
		w.hosts[i] = side{up: true, etcd: true, static: true, boots: true, record: state.EtcdNone}
	}
	w.hosts[0].stage = Planned
	return w
}

var names = [2]string{"cp-1", "cp-2"}

const thirdID state.MemberID = 7

func plan(stage Stage, gone bool) Plan {
	return Plan{
		Format: Format, ID: "p1", Narrows: true, Survivor: names[0], Peer: names[1], Old: replace.Old{Name: "cp-3", Address: "192.0.2.13"}, Third: thirdID, By: "ada", Stage: stage,
		Accepts: Accepts{NoBackup: true, Gone: gone}, Begun: noon, Written: noon,
	}
}

// copied is the plan as a host or the cluster has it.
func copied(stage Stage, gone, lost, taken bool) Plan {
	p := plan(stage, gone)
	if taken {
		p.Taken = names[1]
	}
	if lost {
		p.Lost = p.Other()
	}
	return p
}

func (w site) word(i int) state.EtcdThirdWord {
	if w.hosts[i].word {
		return plan(Pairing, false).Word()
	}
	return state.EtcdThirdWord{}
}

func (w site) runs(m int) bool {
	if m == 2 {
		return w.third && w.member
	}
	return w.hosts[m].up && w.hosts[m].etcd
}

// sole returns the host that went on alone, -1 for none.
func (w site) sole() int {
	return slices.IndexFunc(w.hosts[:], func(h side) bool { return h.record == state.EtcdSole })
}

func (w site) voters() int {
	switch {
	case w.sole() >= 0:
		return 1
	case w.member:
		return 3
	}
	return 2
}

// serves reports whether more than half of the voters run.
func (w site) serves() bool {
	n := 0
	for m := range 3 {
		if w.runs(m) && (w.sole() < 0 || w.sole() == m) {
			n++
		}
	}
	return n*2 > w.voters()
}

func (w site) contact() bool {
	return w.hosts[0].up && w.hosts[1].up && w.hosts[0].ringed && w.hosts[1].ringed
}

func (w site) facts(i int) Facts {
	h := w.hosts[i]
	f := Facts{
		Now: noon, Host: names[i], Peer: names[1-i], Record: state.Known(h.record), Contact: state.Known(w.contact()), Serves: state.Known(h.etcd && w.serves()),
		StandIn: state.Known(false), Asked: state.Known(h.asked), Word: state.Known(w.word(i)), PeerHere: state.Known(w.serves() && w.runs(1-i)), ThirdHere: state.Known(w.serves() && w.runs(2)),
		Kubelets: state.Known(h.static), Podmans: state.Known(h.etcd && !h.static), Boots: state.Known(h.boots), Runs: state.Known(h.ring), Paired: state.Known(h.paired),
		Room: state.Known(true), Ships: state.Known(true), Prepared: state.Known(h.prepared), Tested: state.Known(h.prepared && w.bmc), Target: state.Known(true),
		Ring: state.Known(h.ringed), Answers: state.Known(w.third && (w.member || w.lingers)), Work: state.Known(""), Moves: state.Known(""), Volumes: state.Known[[]string](nil), ControlPlanes: 3,
		Dressed: state.Known(h.dressed && (i == 1 || !w.plain)), Plain: state.Known(!h.dressed && !h.traced),
	}
	if h.stage == "" || h.stage == Planned {
		f.Tested = state.Known(w.bmc) // the accounts are those of the command
	}
	if h.stage != "" {
		p := copied(h.stage, h.gone, h.given, h.taken)
		f.Plan = &p
	}
	if w.late {
		f.Now = noon.Add(time.Hour)
	}
	if h.ringed {
		f.SetUp, f.Maintained = state.Known(w.setUp), state.Known(w.maintained)
	}
	if h.etcd {
		f.Voters, f.Listed, f.Learner = state.Known(w.voters()), state.Known(w.member), state.Known(state.MemberID(0))
	}
	if w.serves() {
		c := Copy{}
		if w.lock != "" {
			c = Copy{ID: "p1", Plan: copied(w.lock, w.lockGone, w.lockLost, w.lockTaken)}
		}
		f.Lock, f.Told, f.Node, f.Leaves, f.Empty = state.Known(c), state.Known(w.told), state.Known(w.node), state.Known(w.asked), state.Known(w.empty)
		f.Left = state.Known(w.accounts)
	}
	switch {
	case i == 0 && (w.abort || w.said):
		f.Wish = &Wish{ID: "p1", Abort: w.abort, Lost: w.saidLost, Accepts: Accepts{Gone: w.said}, At: f.Now}
	case i == 1 && (w.abortThere || w.saidThere):
		f.Wish = &Wish{ID: "p1", Abort: true, Lost: w.saidThere, Replaced: w.saidRenewed, At: f.Now}
	}
	return f
}

// acted returns the sites after an act, one for each place at which it may be cut off.
func (w site) acted(t *testing.T, i int, d Decision) []site {
	n := w
	h := &n.hosts[i]
	half := func(change func(*site)) []site { // change is what is done at the cut
		cut := w
		change(&cut)
		return []site{cut, n}
	}
	switch d.Act {
	case WritePlan, TakeOver:
		h.stage, h.gone, h.given, h.taken = d.Plan.Stage, d.Plan.Accepts.Gone, d.Plan.Lost != "", d.Plan.Taken != ""
		n.late = n.late && d.Plan.Carrier() != names[i]
		past := i == 1 && h.stage.After(TakingBack) && !h.stage.Over() // nobody takes the plan over any more
		n.saidThere = n.saidThere && d.Act != TakeOver && !past
		n.saidRenewed = n.saidRenewed && n.saidThere
		if d.Act == TakeOver && h.knows && !h.stage.Over() {
			h.traced = true
			return half(func(n *site) { n.hosts[i].traced = true })
		}
	case CopyPlan:
		n.lock, n.lockGone, n.lockLost, n.lockTaken = h.stage, h.gone, h.given, h.taken
		if h.stage == Preparing {
			n.accounts = true
			return half(func(n *site) { n.accounts = true })
		}
	case DropLock:
		n.lock, n.lockGone, n.lockLost, n.lockTaken, n.accounts, n.told = "", false, false, false, false, Progress{}
		return half(func(n *site) { n.accounts = false })
	case Tell:
		if w.lock != "" {
			n.told = w.facts(i).Progress()
		}
	case Prepare:
		h.prepared, h.paired, h.knows = true, true, true // the devices
		return half(func(n *site) { n.hosts[i].paired, n.hosts[i].knows = true, true })
	case Dress:
		h.dressed, h.traced, n.plain = true, i == 0, n.plain && i == 1
		return half(func(n *site) { n.hosts[i].traced, n.plain = i == 0, n.plain && i == 1 })
	case Undress:
		h.dressed, h.traced, n.plain = false, false, n.plain || i == 0 || h.taken
		return half(func(n *site) { n.plain = n.plain || i == 0 || n.hosts[i].taken })
	case PutWord:
		h.word, h.paired = true, true
	case DropWord:
		h.word = false
	case EnterRing:
		h.ring, h.ringed, h.paired = true, true, true
		return half(func(n *site) { n.hosts[i].ring = true })
	case SetUp:
		n.setUp, n.maintained = true, true
	case AskStart:
		h.asked = true
	case Maintain:
		n.maintained = true
	case EndRing:
		h.ring, h.ringed = false, false
		n.setUp, n.maintained = n.setUp && n.hosts[1-i].ringed, n.maintained && n.hosts[1-i].ringed
		return half(func(n *site) { n.hosts[i].ringed = false })
	case EndPair:
		h.word, h.paired, h.record, h.prepared, h.asked = false, false, state.EtcdNone, false, false
		return half(func(n *site) { n.hosts[i].word = false })
	case TakeEtcd:
		h.static, h.etcd = false, false
		return half(func(n *site) { n.hosts[i].static = false }) // kubelet has not ended it yet
	case Manage:
		n.maintained = false
	case Order:
		h.boots = false
	case AskEmpty:
		n.asked = true
	case Leave:
		if w.serves() {
			n.member, n.lingers = false, w.third
		}
	case DropOld:
		n.node = false
	case DropWish:
		n.saidThere, n.saidRenewed = false, false
	case Wait, Idle:
	default:
		t.Fatalf("unknown act %q", d.Act)
	}
	return []site{n}
}

// manages reports whether Pacemaker starts and fences what it knows.
func (w site) manages() bool { return w.setUp && !w.maintained }

// starts reports whether etcd of a host starts without a person and without the plan.
func (w site) starts(i int) bool {
	h := w.hosts[i]
	switch {
	case !h.up || h.etcd:
		return false
	case h.static:
		return h.boots
	case h.record == state.EtcdMajority, h.record == state.EtcdSole:
		return h.paired // its keeper, which asks nobody
	}
	return w.contact() && w.manages() && w.hosts[1-i].record != state.EtcdSole // such a peer lets it join
}

func (w site) happens() []site {
	var out []site
	add := func(when bool, change func(*site)) {
		if when {
			n := w
			change(&n)
			out = append(out, n)
		}
	}
	both := w.contact() && w.runs(0) && w.runs(1)
	for i := range w.hosts {
		h, o := w.hosts[i], w.hosts[1-i]
		add(h.up && w.cuts > 0, func(n *site) {
			n.hosts[i].up, n.hosts[i].etcd, n.hosts[i].asked, n.cuts = false, false, false, n.cuts-1
		})
		add(!h.up && !h.dead, func(n *site) { n.hosts[i].up = true })
		add(!h.up && !h.dead && o.record == state.EtcdSole, func(n *site) { n.hosts[i].dead = true })
		// A host that took the plan over has to come back itself. What the cluster knows counts for the carrier.
		early := !h.up && o.stage != "" && (Handing.After(o.stage) || o.stage == Aborted) && (i == 0 && (Handing.After(w.lock) || w.lock == Aborted) || i == 1 && !h.taken)
		add(early && !h.dead && !o.dead && !w.lost, func(n *site) { n.hosts[i].dead = true })
		add(i == 1 && early && !w.saidLost && o.stage != Aborted, func(n *site) { n.said, n.abort, n.saidLost = false, true, true })
		add(i == 0 && early && !w.saidThere, func(n *site) { n.abortThere, n.saidThere = false, true })
		add(w.starts(i), func(n *site) { n.hosts[i].etcd = true })
		add(h.up && h.ringed && w.manages() && !h.asked, func(n *site) { n.hosts[i].asked = true })
		// The etcd keepers do these.
		add(h.up && h.etcd && h.ringed && w.setUp && h.asked && h.word && w.member && h.record == state.EtcdNone, func(n *site) { n.hosts[i].record = state.EtcdMajority })
		add(both && h.asked && h.record == state.EtcdMajority && !w.member, func(n *site) { n.hosts[i].record = state.EtcdVoter })
		add(both && h.asked && h.record == state.EtcdVoter && !w.member && (o.record == state.EtcdVoter || o.record == state.EtcdPair), func(n *site) { n.hosts[i].record = state.EtcdPair })
		add(h.up && h.etcd && h.asked && !o.up && h.record == state.EtcdPair && w.manages(), func(n *site) { n.hosts[i].record = state.EtcdSole })
		add(h.record == state.EtcdSole && w.contact() && h.etcd && w.manages(), func(n *site) { // the peer joins again
			n.hosts[i].record, n.hosts[1-i].record, n.hosts[1-i].etcd = state.EtcdPair, state.EtcdPair, true
		})
	}
	add(w.third && w.cuts > 0, func(n *site) { n.third, n.cuts = false, n.cuts-1 })
	add(!w.third && !w.lost, func(n *site) { n.third = true })
	add(w.lingers, func(n *site) { n.lingers = false })
	add(!w.third && !w.lost && !w.hosts[0].dead && !w.hosts[1].dead, func(n *site) { n.lost = true })
	add(w.lost && !w.said && !w.renewed, func(n *site) { n.said, n.abort, n.saidLost = true, false, false })
	add(w.asked && w.third && w.serves(), func(n *site) { n.empty = true })
	add(w.meddles && !w.meddled && w.setUp && w.maintained, func(n *site) { n.maintained, n.meddled = false, true })
	add(w.saidThere && w.hosts[0].up, func(n *site) { n.saidThere, n.saidRenewed = false, false }) // it was refused, or is old
	add(w.bmc && w.cuts > 0, func(n *site) { n.bmc, n.cuts = false, n.cuts-1 })
	add(!w.bmc, func(n *site) { n.bmc = true })
	add(!w.abort && !w.renewed && Handing.After(w.hosts[0].stage), func(n *site) { n.said, n.abort = false, true })
	mate := w.hosts[1].stage
	unlocked := w.lock == "" && mate != "" && Handing.After(mate) // then the command does not send a person to the carrier
	add((w.hosts[0].given && !w.hosts[0].taken || unlocked) && !w.abortThere && w.hosts[1].up, func(n *site) { n.abortThere, n.saidThere, n.saidRenewed = true, false, false })
	add(w.deletes && w.lock != "" && w.serves(), func(n *site) {
		n.deletes, n.lock, n.lockGone, n.lockLost, n.lockTaken, n.told = false, "", false, false, false, Progress{}
	})
	// It takes the lock meanwhile. The new machine has no plan, and no wish.
	add(w.replaces && !w.renewed && w.member && w.hosts[0].dead && w.lock == "" && w.serves(), func(n *site) {
		n.renewed, n.abort, n.said, n.saidLost, n.hosts[0] = true, false, false, false, newSite().hosts[0]
		n.hosts[0].stage = ""
	})
	add(w.renewed && !w.saidRenewed && mate != "" && Handing.After(mate) && !w.hosts[1].taken, func(n *site) { n.abortThere, n.saidThere, n.saidRenewed = false, true, true })
	add(!w.late && (w.hosts[0].stage == Planned || w.hosts[0].stage.Over() || w.hosts[1].taken && w.hosts[1].stage.Over()), func(n *site) { n.late = true })
	return out
}

func (w site) mistakes() (out []string) {
	is := func(bad bool, what string, a ...any) {
		if bad {
			out = append(out, fmt.Sprintf(what, a...))
		}
	}
	a, b := w.hosts[0], w.hosts[1]
	for i, h := range w.hosts {
		is(h.static && h.ringed && w.manages() && !w.meddled, "%s: kubelet has etcd, and Pacemaker may act on it", names[i])
		is(!h.static && !h.paired, "%s: nobody starts etcd", names[i])
		is(!h.static && h.record == state.EtcdNone, "%s: its keeper has etcd, and no record", names[i])
		is(!h.boots && (h.static || w.maintained && !w.meddled), "%s: nobody starts kubelet at boot", names[i])
		is((h.record == state.EtcdPair || h.record == state.EtcdSole || h.record == state.EtcdVoter) && w.member, "%s: the rules of two among three voters", names[i])
		is(h.ring && (!h.dressed || !h.prepared), "%s: Corosync runs on a host that is not one of two", names[i])
		is(h.stage == Aborted && (h.ring || h.paired || h.dressed || h.traced || !h.static || h.word || h.record != state.EtcdNone), "%s took the plan back, and something is left", names[i])
	}
	is(a.record == state.EtcdSole && b.record == state.EtcdSole, "two histories")
	is(!w.member && (a.static || b.static || w.maintained || a.boots || b.boots), "the third member left before the two were set up")
	is(!w.member && (a.record == state.EtcdNone || b.record == state.EtcdNone), "two vote, and a host has no record")
	is(w.member && (a.stage == Forgetting || a.stage == Whole), "three vote, and the plan is past that")
	is(a.stage == Aborted && (!w.plain || !w.member), "the plan was taken back, and the cluster is that of two")
	is(b.stage == Aborted && (a.dead || w.renewed || b.taken && a.stage.Over()) && (!w.plain || !w.member), "the second host took the plan back, and the cluster is that of two")
	is(b.stage == Whole && (w.member || w.node), "the second host takes the plan for whole, and the cluster has the third one")
	is(a.stage == Whole && (w.member || w.node || w.plain || a.word || b.word || !a.dressed || !b.dressed || !a.ringed || !b.ringed), "whole, and something is missing")
	is(!w.node && w.third && w.member, "a voter that runs is forgotten")
	return out
}

// mistaken says what is wrong with an act at its moment.
func (w site) mistaken(i int, d Decision) string {
	h, o := w.hosts[i], w.hosts[1-i]
	switch {
	case d.Act == TakeEtcd && (!w.runs(1-i) || !w.runs(2) && !w.hosts[0].gone):
		return names[i] + " takes etcd from kubelet, and the other two do not serve"
	case d.Act == TakeEtcd && (h.record != state.EtcdMajority || o.record != state.EtcdMajority):
		return names[i] + " takes etcd from kubelet, and a record does not say majority"
	case d.Act == Manage && (!w.runs(0) || !w.runs(1)):
		return "Pacemaker's first look finds an etcd that does not run"
	case d.Act == Leave && (!h.asked || !o.asked && !w.manages()):
		return "the third member leaves, and a keeper that nobody asked takes no step"
	case d.Act == Leave && (!w.bmc || !w.contact() || !w.runs(0) || !w.runs(1) || h.word || o.word || !w.empty && !h.gone):
		return "the third member is removed too early"
	case d.Act == WritePlan && d.Plan != nil && d.Plan.Stage == Dressing && i == 0 && (!w.bmc || !h.prepared || !o.prepared):
		return "what serves changes before both can fence each other"
	case d.Act == WritePlan && d.Plan != nil && d.Plan.Stage == Handing && i == 0 && h.stage == Pairing && !w.bmc:
		return "the plan goes forward for good, and nobody can fence"
	case d.Act == TakeOver && w.serves() && w.runs(1-i) && !w.renewed:
		return "the plan is taken over from a host whose etcd serves"
	case d.Act == DropOld && w.third && (w.member || w.lingers):
		return "a host that serves is forgotten"
	case d.Rule == "nothing-fits" || d.Words == "" || (d.Act == WritePlan || d.Act == TakeOver) && d.Plan == nil:
		return "not explained"
	}
	// A host of two waits for its peer.
	waits := (h.record == state.EtcdPair || h.record == state.EtcdVoter) && h.paired
	if !h.etcd && !w.starts(i) && !waits {
		return "etcd of " + names[i] + " does not start"
	}
	return ""
}

// meddles has a person end the maintenance at any moment, deletes has one delete the lock, replaces has one
// replace a carrier that is lost.
func meddles(w *site)  { w.meddles = true }
func deletes(w *site)  { w.deletes = true }
func replaces(w *site) { w.replaces = true }

// visit visits every state. It returns what is wrong with one of them.
func visit(t *testing.T, cuts int8, people ...func(*site)) (used map[string]int, states int, bad string) {
	first := newSite()
	first.cuts = cuts
	for _, does := range people {
		does(&first)
	}
	used = map[string]int{}
	before, wrong, found := explore.Visit(first, func(w site) ([]site, []string) {
		next, wrong := w.next(t, used)
		return next, append(w.mistakes(), wrong...)
	}, nil)
	if len(found) > 0 {
		return used, len(before), fmt.Sprintf("%v: %+v", found, wrong)
	}
	if used["forget.whole"] == 0 {
		return used, len(before), "the site never has two control planes"
	}
	stuck := explore.Stuck(before, site.over)
	if len(stuck) == 0 {
		return used, len(before), ""
	}
	// The last one in the order of the stages shows best what is missing.
	w := slices.MaxFunc(stuck, func(x, y site) int {
		return order[x.hosts[0].stage] + order[x.hosts[1].stage] - order[y.hosts[0].stage] - order[y.hosts[1].stage]
	})
	return used, len(before), fmt.Sprintf("no way leads to an end: %+v\n%+v\n%+v", Decide(w.facts(0)), Decide(w.facts(1)), w)
}

func (w site) next(t *testing.T, used map[string]int) (out []site, wrong []string) {
	out = w.happens()
	for i, h := range w.hosts {
		if !h.up {
			continue
		}
		d := Decide(w.facts(i))
		used[d.Rule]++
		if bad := w.mistaken(i, d); bad != "" {
			wrong = append(wrong, fmt.Sprintf("%s, and the decision is %+v", bad, d))
		}
		out = append(out, w.acted(t, i, d)...)
	}
	return out, wrong
}

// over reports whether the plan is at its end on both hosts, and in the cluster.
func (w site) over() bool {
	a, b := w.hosts[0], w.hosts[1]
	return w.lock == "" && !w.accounts && (a.dead || a.stage.Over() || w.renewed && a.stage == "") && (b.dead || (b.stage == "" || b.stage.Over()) && !b.word)
}

func allRules() (out []rule) {
	for _, table := range []map[Stage][]rule{carrierTable, peerTable} {
		for _, s := range []Stage{Planned, Preparing, Dressing, Pairing, TakingBack, Handing, Parting, Forgetting, Whole, Aborted} {
			out = append(out, table[s]...)
		}
	}
	return slices.Concat(out, takeRules, takeOverRules, oustedRules, goneRules, overRules, restRules)
}

// elsewhere are the rules that only facts bring about which the model does not have.
var elsewhere = []string{"rest.dry", "rest.begin", "rest.refuse", "back.unknown", "pairing.maintained", "maintain", "hand.maintained", "over.left", "over.left-unknown", "gone.lock", "gone.carrier", "gone.later", "lost.unknown", "lost.drop"}

// changed decides by tables in which one rule is changed.
func changed(t *testing.T, id string, change func(*rule)) {
	t.Helper()
	n := 0
	for _, list := range append(slices.Concat(slices.Collect(maps.Values(carrierTable)), slices.Collect(maps.Values(peerTable))), takeRules, takeOverRules, oustedRules, goneRules, overRules, restRules) {
		for k := range list {
			if r := &list[k]; r.ID == id {
				was := *r
				t.Cleanup(func() { *r = was })
				change(r)
				n++
			}
		}
	}
	if n == 0 {
		t.Fatalf("no rule %s", id)
	}
}
