package widen

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

var cuts = flag.Int("cuts", 2, "power cuts in each history of the model")

// side is one of the two hosts during a plan. What its etcd keeper decides by itself is told in short:
// decide/etcdmember has the rules, and its own model.
type side struct {
	up, etcd, static, pod, boots, halted bool
	word                                 int8 // 0 none, 1 one comes, 2 it may vote
	dead                                 bool // it will never come back
	record                               state.EtcdState
	ring                                 bool // Corosync and Pacemaker are there
	paired, dressed                      bool
	stage                                Stage // of the plan, or of the copy; empty for none
	noted                                bool  // the plan names the member of the third host
	named                                bool  // and its machine
	gone                                 bool  // and says that it is lost for good
	second, renewed, former              bool  // the member is the second one, the machine was installed anew, and the plan knows its first member
	wordSecond                           bool  // the word names the second member
}

const (
	none int8 = iota
	listed
	votes
)

type wide struct {
	hosts      [2]side // the plan was begun on the first one
	member     int8    // of the third host
	started    bool    // its etcd started once
	anew       bool    // its machine was installed anew
	emptied    bool    // and has nothing of etcd since
	forgot     bool    // its etcd started from nothing as a member that ran before
	second     bool    // the member is the one of the machine that was installed anew
	third      bool    // the third host is up
	burnt      bool    // it will never come back
	ready      bool    // its API server answers, which needs its vote
	asks       bool
	lock       Stage
	lockNoted  bool
	lockSecond bool
	lockFormer bool
	lockGone   bool
	closed     bool // the lock was deleted
	told       Progress
	maintained bool
	given      bool
	abort      bool
	says       bool // the person takes the plan back, and says that the third host is lost for good
	goes       bool // the person says that, and the plan goes on
	late       bool // hours have passed since the first host wrote its plan
	cuts       int8
}

func newWide() wide {
	w := wide{third: true}
	for i := range w.hosts {
		w.hosts[i] = side{up: true, etcd: true, record: state.EtcdPair, ring: true, paired: true}
	}
	w.hosts[0].stage = Planned
	return w
}

var names = [2]string{"cp-1", "cp-2"}

// The members of the third host: the first one, and that of its machine once it was installed anew.
const (
	thirdID state.MemberID = 7
	nextID  state.MemberID = 8
)

func plan(stage Stage, noted bool) Plan {
	p := Plan{Format: Format, ID: "p1", Widens: true, Survivor: names[0], Peer: names[1], New: replace.New{Name: "cp-3", Address: "192.0.2.13"}, By: "ada", NoBackup: true, Stage: stage, Begun: noon, Written: noon}
	if noted {
		p.Third, p.Newcomer = thirdID, machine
	}
	return p
}

// known is a plan as a host or the cluster has it.
func known(stage Stage, noted, second, former bool) Plan {
	p := plan(stage, noted)
	if second {
		p.Third = nextID
	}
	if former {
		p.Former = thirdID
	}
	return p
}

var (
	machine = replace.Newcomer{Machine: state.Machine{UUID: "new"}, Address: "192.0.2.13", Installation: "first"}
	renewed = replace.Newcomer{Machine: machine.Machine, Address: machine.Address, Installation: "second"}
)

// asking returns the third machine as it asks.
func (w wide) asking() replace.Newcomer {
	if w.anew {
		return renewed
	}
	return machine
}

// plan returns the plan of a host, nil for none.
func (w wide) plan(i int) *Plan {
	h := w.hosts[i]
	if h.stage == "" {
		return nil
	}
	p := known(h.stage, h.noted, h.second, h.former)
	p.Gone = h.gone
	switch {
	case !h.named:
		p.Newcomer = replace.Newcomer{}
	case h.renewed:
		p.Newcomer = renewed
	}
	return &p
}

// thirds returns the member of the third host.
func (w wide) thirds() state.MemberID {
	if w.second {
		return nextID
	}
	return thirdID
}

func (w wide) word(i int) state.EtcdThirdWord {
	switch w.hosts[i].word {
	case 1:
		return plan(Coming, false).Word()
	case 2:
		return known(LettingIn, true, w.hosts[i].wordSecond, false).Word()
	}
	return state.EtcdThirdWord{}
}

func (w wide) runs(m int) bool {
	if m == 2 {
		return w.third && w.started && !w.emptied && w.member == votes
	}
	return w.hosts[m].up && w.hosts[m].etcd
}

// sole returns the host that went on alone, -1 for none.
func (w wide) sole() int {
	return slices.IndexFunc(w.hosts[:], func(h side) bool { return h.record == state.EtcdSole })
}

func (w wide) alone() bool { return w.sole() >= 0 }

// voters is the number of voters, serves whether more than half of them run.
func (w wide) voters() int {
	switch {
	case w.alone():
		return 1
	case w.member == votes:
		return 3
	}
	return 2
}

func (w wide) serves() bool {
	n := 0
	for m := range 3 {
		if w.runs(m) && (m == w.sole() || !w.alone()) {
			n++
		}
	}
	return n*2 > w.voters()
}

func (w wide) contact() bool {
	return w.hosts[0].up && w.hosts[1].up && w.hosts[0].ring && w.hosts[1].ring
}

func (w wide) facts(i int) Facts {
	h, o := w.hosts[i], w.hosts[1-i]
	f := Facts{
		Now: noon, Host: names[i], Peer: names[1-i], Record: state.Known(h.record), Contact: state.Known(w.contact()),
		Serves: state.Known(h.etcd && w.serves()), StandIn: state.Known(false), Word: state.Known(w.word(i)), Arch: state.Known(true), Ready: state.Known(w.ready && w.serves()),
		Pod: state.Known(h.pod || h.static), Boots: state.Known(h.boots), Runs: state.Known(h.ring), Paired: state.Known(h.paired), Kubelets: state.Known(h.static),
		Podmans: state.Known(h.etcd && !h.static), Halted: state.Known(h.halted), Dressed: state.Known(h.dressed), Target: state.Known(true), Room: state.Known(true), Ships: state.Known(true),
		Work: state.Known(""), Moves: state.Known(""), ControlPlanes: 2,
	}
	f.Plan = w.plan(i)
	if w.late {
		f.Now = noon.Add(time.Hour)
	}
	if w.contact() {
		f.PeerRecord = state.Known(o.record)
	}
	if h.ring {
		f.Maintained = state.Known(w.maintained)
	}
	if h.etcd {
		learner := state.MemberID(0)
		if w.member == listed {
			learner = w.thirds()
		}
		f.Voters, f.Learner = state.Known(w.voters()), state.Known(learner)
		if w.started {
			f.LearnerName = "cp-3"
		}
	}
	if w.third && w.started && !w.emptied {
		f.Behind = state.Known(uint64(0))
	}
	f.PeerServes, f.ThirdServes = state.Known(w.serves() && w.runs(1-i)), state.Known(w.serves() && w.runs(2))
	f.Silent = time.Hour
	if w.serves() {
		c := Copy{}
		if w.lock != "" {
			c = Copy{ID: "p1", Plan: known(w.lock, w.lockNoted, w.lockSecond, w.lockFormer)}
			c.Plan.Gone = w.lockGone
		}
		f.Lock, f.Told, f.Given, f.Node = state.Known(c), state.Known(w.told), state.Known(w.given), state.Known(w.given)
	}
	if w.asks {
		f.Asks, f.AskedAt = w.asking(), f.Now
	}
	switch {
	case i != 0:
	case w.goes:
		f.Wish = &Wish{ID: "p1", Gone: true}
	case w.abort || w.says:
		f.Wish = &Wish{ID: "p1", Abort: true, Gone: w.says}
	}
	return f
}

// acted returns the worlds after an act, one for each place at which it may be cut off.
func (w wide) acted(t *testing.T, i int, d Decision) []wide {
	n := w
	h := &n.hosts[i]
	switch d.Act {
	case WritePlan:
		h.stage, h.noted, h.named, h.gone = d.Plan.Stage, d.Plan.Third != 0, d.Plan.Newcomer != replace.Newcomer{}, d.Plan.Gone
		h.second, h.renewed, h.former = d.Plan.Third == nextID, d.Plan.Newcomer == renewed, d.Plan.Former != 0
		n.late = n.late && i != 0
	case CopyPlan:
		n.lock, n.lockNoted, n.lockGone, n.closed = h.stage, h.noted, h.gone, false
		n.lockSecond, n.lockFormer = h.second, h.former
	case DropLock:
		n.lock, n.told, n.closed = "", Progress{}, true
	case Tell:
		n.told = w.facts(i).Progress()
	case PutWord:
		h.word, h.wordSecond = 1, false
		if h.stage != Coming {
			h.word, h.wordSecond = 2, h.second
		}
	case DropWord:
		h.word, h.wordSecond = 0, false
	case GiveName:
		n.given = true
	case AddLearner:
		n.member, n.second = listed, w.anew
	case DropLearner:
		if w.serves() && w.plan(i).Drops(w.thirds(), w.facts(i).LearnerName) {
			n.member, n.started = none, false
		}
	case DropVoter:
		if w.serves() {
			n.member, n.started, n.ready = none, false, false
		}
	case DropNew:
		n.given = false
	case KubeletBoot:
		h.boots = true
	case Maintain:
		n.maintained = true
	case PutPod:
		h.pod = true
	case StopEtcd:
		h.halted = true
		half := n
		h.etcd = false
		return []wide{half, n}
	case GivePod:
		h.static, h.pod = true, false
	case EndRing:
		h.ring = false
	case EndPair:
		half := n
		half.hosts[i].word = 0
		h.word, h.paired, h.record = 0, false, state.EtcdNone
		return []wide{half, n}
	case Dress:
		h.dressed = true
	case Wait, Idle:
	default:
		t.Fatalf("unknown act %q", d.Act)
	}
	return []wide{n}
}

// starts reports whether etcd of a host starts without a person and without the plan.
func (w wide) starts(i int) bool {
	h := w.hosts[i]
	switch {
	case !h.up || h.etcd:
		return false
	case h.static:
		return h.boots
	case h.halted:
		return false
	case h.record == state.EtcdMajority:
		return h.paired // its keeper, which asks nobody
	case h.record == state.EtcdSole:
		return true
	}
	return w.contact() && h.ring && !w.maintained && w.hosts[1-i].record != state.EtcdSole // such a peer lets it join
}

func (w wide) happens() []wide {
	var out []wide
	add := func(when bool, change func(*wide)) {
		if when {
			n := w
			change(&n)
			out = append(out, n)
		}
	}
	for i := range w.hosts {
		h, o := w.hosts[i], w.hosts[1-i]
		add(h.up && w.cuts > 0, func(n *wide) {
			n.hosts[i].up, n.hosts[i].etcd, n.hosts[i].halted = false, false, false
			n.asks = n.asks && i != 0 // who asked is forgotten over a boot
			n.cuts--
		})
		add(!h.up && !h.dead, func(n *wide) { n.hosts[i].up = true })
		add(!h.up && !h.dead && o.record == state.EtcdSole, func(n *wide) { n.hosts[i].dead = true })
		add(!h.up && !h.dead && i == 1 && o.stage == Whole && !w.burnt, func(n *wide) { n.hosts[i].dead = true })
		add(w.starts(i), func(n *wide) { n.hosts[i].etcd = true })
		both := w.contact() && w.runs(0) && w.runs(1)
		// The etcd keepers do these.
		add(both && h.record == state.EtcdPair && h.word == 2 && w.member == listed && w.started && (o.record == state.EtcdPair && o.word == 2 || o.record == state.EtcdMajority),
			func(n *wide) { n.hosts[i].record = state.EtcdMajority })
		// Of two that read that the other one gave its right up nobody takes over.
		add(h.up && h.etcd && !o.up && h.record == state.EtcdPair && o.record == state.EtcdPair && !w.maintained, func(n *wide) { n.hosts[i].record = state.EtcdSole })
		add(h.record == state.EtcdSole && w.contact() && h.etcd && h.word == 0 && w.member != listed, func(n *wide) { // the peer joins again
			n.hosts[i].record, n.hosts[1-i].record, n.hosts[1-i].etcd = state.EtcdPair, state.EtcdPair, true
		})
		add(both && h.record == state.EtcdMajority && w.member != votes && (h.word != 2 || w.member == none), func(n *wide) { n.hosts[i].record = state.EtcdPair })
		add(both && h.record == state.EtcdPair && o.record == state.EtcdMajority && w.member == votes, func(n *wide) { n.hosts[i].record = state.EtcdMajority })
	}
	a, b := w.hosts[0], w.hosts[1]
	add(w.contact() && w.runs(0) && w.runs(1) && w.third && a.record == state.EtcdMajority && b.record == state.EtcdMajority && a.word == 2 && w.member == listed, func(n *wide) { n.member = votes })
	blank := !w.started || w.emptied
	add(!w.asks && w.third && a.up && a.stage == Coming && w.given && blank, func(n *wide) { n.asks = true })
	add(w.asks && w.member == listed && w.plan(0).Opens(w.asking()) && blank && w.third, func(n *wide) {
		n.forgot = w.started
		n.started, n.emptied, n.asks = true, false, false
	})
	add(w.third && w.cuts > 0 && w.started && !w.anew && w.member == listed && a.stage == Coming, func(n *wide) {
		n.anew, n.emptied, n.asks, n.cuts = true, true, false, n.cuts-1
	})
	add(w.third && w.cuts > 0 && w.started, func(n *wide) { n.third, n.ready, n.cuts = false, false, n.cuts-1 })
	add(!w.third && !w.burnt, func(n *wide) { n.third = true })
	// It votes, and its machine is lost for good, or a person believes so.
	add(!w.third && !w.says && w.member == votes && a.stage == LettingIn, func(n *wide) { n.says = true })
	add(!w.third && !w.says && w.member == votes && a.stage == LettingIn, func(n *wide) { n.says, n.burnt = true, true })
	// The same while etcd moves.
	add(!w.third && !w.goes && w.member == votes && a.stage == Handing, func(n *wide) { n.goes = true })
	add(!w.third && !w.goes && w.member == votes && a.stage == Handing, func(n *wide) { n.goes, n.burnt = true, true })
	add(w.third && w.member == votes && !w.ready && w.serves(), func(n *wide) { n.ready = true })
	add(!w.abort && !a.dead && Handing.After(a.stage), func(n *wide) { n.abort = true })
	add((w.abort || w.says) && !w.burnt && a.stage == LettingIn && w.member == votes, func(n *wide) { n.abort, n.says = false, false }) // the plan is to go on
	add(!w.late && (a.stage == Planned || a.stage.Over()), func(n *wide) { n.late = true })
	return out
}

func (w wide) mistakes() (out []string) {
	is := func(bad bool, what string, a ...any) {
		if bad {
			out = append(out, fmt.Sprintf(what, a...))
		}
	}
	for i, h := range w.hosts {
		is(h.static && h.ring && !w.maintained, "%s: kubelet has etcd, and Pacemaker may act on it", names[i])
		is(h.static && (!h.boots || h.record != state.EtcdMajority && h.paired), "%s: kubelet has etcd, and does not start at boot, or its keeper is no majority", names[i])
		is(!h.ring && !h.static, "%s: Corosync is gone, and kubelet has no etcd", names[i])
		is(h.dressed && (h.paired || h.ring), "%s is one of three in its files, and one of two", names[i])
		is(h.halted && !h.etcd && !h.static && !w.hosts[1-i].static && w.hosts[1-i].halted, "both hosts have no etcd at once")
		is(h.record == state.EtcdSole && w.member == votes, "%s went on alone among three", names[i])
		is(h.stage == Aborted && (h.word != 0 && i == 0 || w.member == votes || h.boots || h.static), "%s took the plan back, and something is left", names[i])
	}
	is(w.hosts[0].record == state.EtcdSole && w.hosts[1].record == state.EtcdSole, "two histories")
	is(w.forgot, "the third etcd starts from nothing as a member that ran before, and ends in a loop")
	is(w.maintained && w.member != votes, "Pacemaker takes over no more, and two vote")
	a, b := w.hosts[0], w.hosts[1]
	is(a.noted && !a.named, "the plan names a member, and not the machine that may start it")
	is(w.says && !w.goes && a.gone && a.stage.After(TakingBack) && a.stage != Aborted, "the person takes the plan back, and it goes forward")
	is(a.stage == Aborted && (w.member != none || w.given), "the plan is taken back, and the third host is left")
	is(a.stage == Whole && (!a.dressed || !b.dressed || !a.static || !b.static || a.ring || b.ring || a.paired || b.paired || w.member != votes), "whole, and something is missing")
	is(w.member == votes && w.hosts[0].stage == Aborted, "three vote, and the plan was taken back")
	return out
}

// mistaken says what is wrong with an act at its moment.
func (w wide) mistaken(i int, d Decision) string {
	h := w.hosts[i]
	switch {
	case d.Act == StopEtcd && !h.halted && (!w.serves() || !w.runs(1-i) || !w.runs(2) && !h.gone || w.member != votes):
		return names[i] + " stops etcd, and the other two do not serve"
	case d.Act == DropVoter && (w.member != votes || !h.gone || !w.runs(0) || !w.runs(1)):
		return names[i] + " removes a voter, and the two do not serve"
	case d.Act == Maintain && (!w.hosts[0].boots || !w.hosts[1].boots || w.member != votes):
		return "Pacemaker goes into maintenance too early"
	case d.Act == GivePod && (!h.halted || h.etcd):
		return "two starters of one etcd"
	case d.Act == CopyPlan && w.closed && h.stage != Planned: // all gates of one that is planned are looked at again
		return names[i] + " brings a plan back that was ended"
	case d.Rule == "nothing-fits" || d.Words == "" || d.Act == WritePlan && d.Plan == nil:
		return "not explained"
	}
	// A host of two waits for its peer.
	waits := (h.record == state.EtcdPair || h.record == state.EtcdNone) && h.paired
	if !h.etcd && !w.starts(i) && !waits && d.Act != GivePod && d.Act != StopEtcd {
		return "etcd of " + names[i] + " does not start"
	}
	return ""
}

// elsewhere are the rules that only facts bring about which the model does not have.
var elsewhere = []string{
	"rest.dry", "rest.begin", "rest.refuse", "planned.gate", "planned.ends", "coming.machine", "coming.other", "coming.behind", "coming.pair", "back.unknown", "back.replay", "back.silent",
}

func (w wide) next(t *testing.T, used map[string]int) (out []wide, wrong []string) {
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

// over reports whether the plan is at its end on both hosts.
func (w wide) over() bool {
	a, b := w.hosts[0], w.hosts[1]
	ended := func(h side) bool { return h.dead || (h.stage == "" || h.stage.Over()) && h.word == 0 }
	left := w.member == listed || w.given && w.member != votes
	return ended(a) && (a.dead || a.stage != "") && ended(b) && w.lock == "" && !left && (a.dead || b.dead || b.stage == "" || a.stage == b.stage)
}
