// Package sim runs the real decision of the two-node protocol for two simulated
// hosts under seeded faults, and checks the invariants of docs/INVARIANTS.md at
// every step.
//
// A schedule is a seed: the same seed takes the same steps on every machine, so
// its number is enough to repeat a failure. The simulator knows the truth about
// both hosts. The decision sees only what its host could observe: late,
// reordered or not at all.
package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant string
	Text      string
	Step      int
	At        time.Duration
}

// String returns the violation as one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s at step %d (%s): %s", v.Invariant, v.Step, v.At.Round(time.Millisecond), v.Text)
}

// bmc is the behaviour of a host's BMC.
type bmc uint8

const (
	bmcWell bmc = iota
	bmcSlow
	bmcMute
	bmcNothing // 202, but nothing happens
	bmcSticks  // PoweringOff for a long time
	bmcLies    // says Off while the host runs
)

// fence is a fence in progress.
type fence struct {
	active bool
	sent   bool
	ready  time.Duration
	beside bool // requested although the peer is in contact
}

// host is one machine.
type host struct {
	disk disk
	process
	machine  int  // one for each machine that there ever was
	seat     seat // only where sites change
	power    bool
	boot     int
	bootedAt time.Duration
	bmc      bmc
	silent   bool          // lost with its BMC, in schedules of a third control plane
	sticks   time.Duration // the BMC says PoweringOff until then

	contact     bool
	inert       bool
	ring        uint64
	pendingRing uint64
	joined      time.Duration // since boot
	// met is the time since boot at which the peer was last seen to join;
	// Pacemaker misses nothing. strayAt is the time at which the etcd keeper
	// notices a membership of this host alone that followed one which it did
	// not see; zero for none.
	met, strayAt time.Duration
	unseen       bool // the peer may have joined at joined
	strayed      bool // already once since the peer was last in contact
	unprovedAt   time.Duration
	inbox        state.Fact[state.EtcdStatement]
	inboxAt      time.Duration                   // time of arrival
	published    state.Fact[state.EtcdStatement] // this host's statement in the attribute daemon
	serial       uint64
	heard        string
	fenced       state.Fact[state.EtcdFenced]
	human        state.Fact[state.Confirmation]
	fence        fence
	standIn      state.MemberID
	leaving      bool
	leavingAt    time.Duration

	pending *state.EtcdVerdict // decided, not yet done
	// blockedUntil is the time until which it takes no step.
	blockedUntil time.Duration
	decidedIn    uint64 // the ring of the snapshot
	verdict      state.EtcdVerdict
	wall         time.Duration // error of its clock

	space   space
	hung    bool          // its disk hangs: etcd freezes, and nothing can be written
	lies    lie           // deviation of its own tests
	stalled time.Duration // time without a commit, as last seen while etcd ran
}

// lie is the way in which a host's own tests differ from the truth.
type lie uint8

const (
	honest    lie = iota
	plaintive     // it finds itself sick, but is not
	blind         // it never finds a fault
)

type attribute struct {
	to   int
	stmt state.EtcdStatement
}

type world struct {
	opt   Options
	rng   *rand.Rand
	stray *rand.Rand // for memberships that nobody sees
	rooms *rand.Rand // for disks that are full
	// crowding is true if disks may be full in this schedule.
	crowding  bool
	crowdedAt time.Duration // start of the time in which a full disk alone holds up the pair
	now       time.Duration
	step      int
	hosts     [2]host
	cut       paths
	// filtered marks directions in which etcd's own traffic is lost although
	// everything else gets through.
	filtered paths
	loser    int           // in a cut: the host that nobody can reach; 2 for none
	told     bool          // it told its peer that it yields
	idleAt   time.Duration // start of the time in which one fault alone keeps the pair from committing
	idleLen  int           // length of the history at that time
	rings    uint64
	nextID   state.MemberID
	genesis  []member
	msgs     []msg
	attrs    []attribute

	global    []entry // the committed history
	writes    uint64
	destroyed bool // a data directory was destroyed, so an administrator may be needed
	lost      bool // that was the newest one, or nothing shows that it was not
	forced    int  // number of times that an administrator overrode the protocol
	lying     bool // a BMC lies, which the protocol cannot survive
	humans    bool // administrators act in this schedule
	// ignored is set if a host starts alone although it must first see the host
	// that an administrator forced. The administrator was told, and nothing
	// else can prevent it.
	ignored   bool
	faults    int
	limit     int // of faults
	fences    int // since the hosts last met
	slowFence bool
	calm      bool
	failure   *Violation
	log       []string
	site      *site // nil unless the site changes
	trio      *trio // nil unless a third control plane comes, or goes
}

// Options holds the settings of a schedule.
type Options struct {
	// Bug is a rule to take out or a known mistake to add; nil for none.
	Bug *Bug
	// Faults is the greatest number of faults; zero means the default.
	Faults int
	// Thirds plays sites of two that get a third control plane, and of three that give one up.
	Thirds bool
	// Sites plays sites that grow, that replace a lost machine, and that shrink.
	Sites bool
	// Trace records a readable log of every step.
	Trace bool
}

// Result is the outcome of a schedule.
type Result struct {
	Seed      uint64
	Steps     int
	Faults    int
	Converged bool // two voters again without an administrator
	Human     bool // ended where the protocol needs an administrator
	TakeOvers uint64
	Writes    uint64
	Violation *Violation
	Trace     []string
}

func newWorld(seed uint64, opt Options) *world {
	w := &world{opt: opt, rng: rand.New(rand.NewPCG(seed, 0x401dfa57)), nextID: 3}
	w.stray = rand.New(rand.NewPCG(seed, 0x57a4))
	w.rooms = rand.New(rand.NewPCG(seed, 0xf011))
	w.crowding = w.rooms.IntN(3) == 0
	w.loser = 2
	w.genesis = []member{{id: 1, named: true}, {id: 2, at: 1, named: true}}
	w.rings = 1
	handOver := w.rng.IntN(8) == 0
	w.humans = w.rng.IntN(6) == 0
	for i := range w.hosts {
		h := &w.hosts[i]
		id := state.MemberID(i + 1)
		h.machine = i
		h.disk = disk{copy: state.CopyWhole, cluster: 0xc1, id: id}
		h.disk.record = state.EtcdRecord{State: state.EtcdNone}
		h.power, h.boot, h.contact, h.ring = true, 1, true, 1
		h.members = w.genesis
		if !handOver {
			h.disk.record = state.EtcdRecord{State: state.EtcdPair, Seq: 1, Cluster: 0xc1, Member: id}
			h.running, h.heard = true, h.bootName()
		}
	}
	return w
}

func (h *host) bootName() string { return fmt.Sprintf("boot-%d-%d", h.machine, h.boot) }

func (w *world) uptime(i int) time.Duration { return w.now - w.hosts[i].bootedAt + time.Second }

func (w *world) fail(invariant, format string, args ...any) {
	if w.failure == nil {
		w.failure = &Violation{invariant, fmt.Sprintf(format, args...), w.step, w.now}
	}
}

func (w *world) trace(i int, format string, args ...any) {
	if !w.opt.Trace {
		return
	}
	who := "env   "
	if i >= 0 {
		who = "host " + string(rune('0'+i))
	}
	w.log = append(w.log, fmt.Sprintf("%5d %9s %s %s", w.step, w.now.Round(time.Millisecond), who, fmt.Sprintf(format, args...)))
}

func (w *world) linked() bool { return !w.cut[0][1] && !w.cut[1][0] }

// committed checks an entry that a host learnt as committed against the
// committed history of the world.
func (w *world) committed(i, index int, e entry) {
	switch {
	case index <= len(w.global):
		if w.global[index-1] != e {
			w.fail("I2", "host %d commits entry %d as %+v, which was committed as %+v before: history forked, acknowledged writes are lost", i, index, e, w.global[index-1])
		}
	case index == len(w.global)+1:
		w.global = append(w.global, e)
	default:
		w.fail("I2", "host %d commits entry %d while only %d were committed", i, index, len(w.global))
	}
}

// holds reports whether a disk holds the whole committed history.
func (w *world) holds(i int) bool {
	d := &w.at(i).disk
	if d.copy != state.CopyWhole || len(d.log) < len(w.global) {
		return false
	}
	n := len(w.global)
	return n == 0 || d.log[n-1] == w.global[n-1]
}

// check checks the invariants that must hold at every step.
func (w *world) check() {
	for i := range w.hosts {
		h, p := &w.hosts[i], &w.hosts[1-i]
		if h.standIn != 0 && h.running && p.power && p.running && p.disk.id == h.standIn {
			w.fail("I1", "member %s runs on host %d while host %d votes in its name", h.standIn, 1-i, i)
		}
	}
	if w.fences > 1 && !w.slowFence && !w.site.changes() {
		w.fail("I5", "%d fences since the hosts last met", w.fences)
	}
	if w.trio != nil {
		w.checkTrio()
	}
	if w.site != nil && w.checkSite() {
		return // no pair yet, or none any more
	}
	w.checkStall()
	w.checkFull()
	for i := range w.hosts {
		w.checkUnproved(i)
	}
}

// unprovedLimit bounds the time that a survivor may wait for the proof that its
// peer is off although Pacemaker considers the peer fenced. A hanging etcd
// keeper takes part of that time. It is shorter than etcdmember.FenceAfter,
// which ends nearly every wait.
const unprovedLimit = 45 * time.Second

// checkUnproved fails if a host that may go on alone waits too long for a fence
// that nobody will make.
func (w *world) checkUnproved(i int) {
	h, p := &w.hosts[i], &w.hosts[1-i]
	held := h.held() && h.fenced.Value.Boot == h.bootName()
	able := h.power && !h.contact && h.pendingRing == 0 && !h.inert && !h.leaving && h.heard == h.bootName() &&
		(h.disk.record.State == state.EtcdPair || h.disk.record.State.Leads()) && h.disk.copy == state.CopyWhole
	well := !h.hung && h.blockedUntil <= w.now && p.bmc == bmcWell && p.sticks <= w.now
	if !held || !able || !well || h.verdict.Action != state.EtcdWait || state.EtcdSituationOf(h.verdict.Rule) != state.EtcdPeerGone {
		h.unprovedAt = w.now
		return
	}
	if w.now-h.unprovedAt > unprovedLimit {
		w.fail("I8", "host %d waits for %s although its peer is fenced (%s)", i, w.now-h.unprovedAt, h.verdict.Rule)
	}
}

// stallLimit bounds the time for which one fault may keep a pair from
// committing. The rules of a stall, a slow fence, a hanging etcd keeper and the
// take-over all take time.
const stallLimit = 150 * time.Second

// checkStall fails if both hosts are up and see each other, one fault alone
// holds up their etcds, and nothing is committed for too long.
func (w *world) checkStall() {
	if !w.oneFault() || len(w.global) != w.idleLen {
		w.idleAt, w.idleLen = w.now, len(w.global)
		return
	}
	if w.now-w.idleAt > stallLimit {
		w.fail("I8", "nothing was committed for %s although one fault alone holds up the pair (%s; %s)", w.now-w.idleAt, w.hosts[0].verdict.Rule, w.hosts[1].verdict.Rule)
	}
}

// oneFault reports whether a hanging disk, or a filtered port, is the only
// fault.
func (w *world) oneFault() bool {
	faults := 0
	if w.filtered[0][1] || w.filtered[1][0] {
		faults++
	}
	for i := range w.hosts {
		h := &w.hosts[i]
		if h.hung || h.space.full {
			faults++
		}
		if !h.power || !h.contact || h.leaving || h.bmc != bmcWell || h.sticks > w.now || h.lies != honest || h.blockedUntil > w.now || h.frozen > w.now ||
			h.disk.record.State != state.EtcdPair && !h.disk.record.State.Leads() || h.disk.copy != state.CopyWhole || h.last() >= mostEntries {
			return false
		}
	}
	return faults == 1 && w.linked() && w.hosts[0].ring == w.hosts[1].ring
}

func (w *world) powerOff(i int) {
	h := w.at(i)
	if !h.power {
		return
	}
	h.hung = false
	w.crash(i)
	d := &h.disk
	if d.synced < len(d.log) { // entries that were not synced may be lost
		d.log = d.log[:d.synced+w.rng.IntN(len(d.log)-d.synced+1)]
		d.synced = len(d.log)
	}
	h.power, h.contact, h.leaving = false, false, false
	h.ring, h.pendingRing, h.serial = 0, 0, 0
	h.inbox, h.published = state.Fact[state.EtcdStatement]{}, state.Fact[state.EtcdStatement]{}
	h.fenced, h.human = state.Fact[state.EtcdFenced]{}, state.Fact[state.Confirmation]{}
	h.fence, h.pending, h.verdict, h.heard = fence{}, nil, state.EtcdVerdict{}, ""
	h.blockedUntil, h.stalled = 0, 0
	h.space.starts = etcdhealth.Starts{}
	h.seat.stopSeat()
}

func (w *world) powerOn(i int) {
	h := w.at(i)
	h.power, h.inert, h.bootedAt, h.joined = true, true, w.now, 0
	w.bootSeat(h)
	if i < third {
		w.bootMate(i)
	}
	h.met, h.strayAt, h.unseen, h.strayed = 0, 0, false, false
	h.boot++
	w.trace(i, "boots (%s)", h.disk.record.State)
}

// crash kills etcd; it may forget a part of the commit index.
func (w *world) crash(i int) {
	h := w.at(i)
	h.standIn = 0
	if !h.running || h.hung { // a process that waits for its disk does not end
		return
	}
	if h.commit > h.disk.commit {
		h.disk.commit += w.rng.IntN(h.commit - h.disk.commit + 1)
	}
	h.process = process{}
}

// stop ends etcd cleanly; it keeps the commit index.
func (w *world) stop(i int) {
	h := w.at(i)
	h.standIn = 0
	if h.running && !h.hung {
		h.disk.commit = max(h.disk.commit, h.commit)
		h.disk.synced = h.last()
		h.process = process{}
	}
}

// start starts etcd from its data directory, or as a learner that has never
// run.
func (w *world) start(i int) {
	h := &w.hosts[i]
	d := &h.disk
	if h.running || h.hung || !h.power {
		return
	}
	w.countStart(i)
	if d.copy == state.CopyNone {
		if !w.joins(i) {
			return
		}
		d.copy, d.cluster, d.id = state.CopyWhole, 0xc1, d.record.Member
		d.log, d.synced, d.commit, d.term, d.vote = nil, 0, 0, 0, 0
	}
	if d.copy != state.CopyWhole {
		return
	}
	h.process, h.stalled = process{running: true, commit: min(d.commit, len(d.log)), since: w.now, progress: w.now}, 0
	h.members, h.seat.podman = w.confAt(d.log, h.commit), true
	w.trace(i, "etcd runs as member %s, %d entries, %d committed, term %d", d.id, len(d.log), h.commit, d.term)
}

// joins reports whether the peer's etcd answers a new member that asks for the
// members.
func (w *world) joins(i int) bool {
	p := &w.hosts[1-i]
	_, listed := p.find(w.hosts[i].disk.record.Member)
	return w.linked() && !w.filtered[0][1] && !w.filtered[1][0] && p.power && p.running && !p.hung && p.role == leader && listed
}

// String describes the truth about both hosts.
func (w *world) String() string {
	var b strings.Builder
	for i := range w.hosts {
		h := &w.hosts[i]
		fmt.Fprintf(&b, "      [%d on=%t inert=%t contact=%t/%d record=%s/%s seq%d copy=%s id=%s run=%t role=%d standin=%s log=%d commit=%d members=%v | %s: %s]\n",
			i, h.power, h.inert, h.contact, h.ring, h.disk.record.State, h.disk.record.Member, h.disk.record.Seq, h.disk.copy, h.disk.id,
			h.running, h.role, h.standIn, len(h.disk.log), h.commit, h.members, h.verdict.Rule, h.verdict.Reason)
	}
	return b.String()
}

// goal reports whether two voters are back.
func (w *world) goal() bool {
	for i := range w.hosts {
		h := &w.hosts[i]
		if !h.power || !h.running || h.disk.record.State != state.EtcdPair || h.standIn != 0 || h.leaderID == 0 || voters(h.members) != 2 || len(h.members) != 2 || !h.isVoter() {
			return false
		}
	}
	return w.holds(0) && w.holds(1)
}
