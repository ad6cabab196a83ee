package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A third control plane comes to a site of two (docs/adr/0097). Each of the two hosts carries its part
// of the plan out, decided by decide/widen; their etcd keepers let the third member vote by
// decide/etcdmember. The third machine has an etcd and no keeper. Until the plan has taken a host to
// kubelet everything of two goes on beside it: Corosync, Pacemaker, fences, take-overs.

// placeNames are the names of the machines.
var placeNames = [places]string{names[0], names[1], "gamma"}

// addressOfThird is the address of the third machine.
const addressOfThird = "192.0.2.13"

// mate is what one of the two hosts has of a plan. The first part is on its disk.
type mate struct {
	wide       *widen.Plan
	wish       *widen.Wish
	narrow     *narrow.Plan
	narrowWish *narrow.Wish
	word       state.EtcdThirdWord
	dressed    bool // its files are those of one of three
	prepared   bool // it has what one of two needs, and the accounts of both BMCs

	// cib is the configuration that Pacemaker of this host has. Both have the same while they are in contact.
	cib cib

	// Until the next boot:

	asked state.EtcdWish // what the etcd keeper was asked for
	next  *widen.Decision
	rule  string
	// The same of a plan by which one of three goes.
	narrowNext *narrow.Decision
	narrowRule string
	asks       replace.Newcomer // the machine that asked to enter, at askedAt
	at         time.Time
}

// cib is Pacemaker's configuration. A later version replaces an earlier one when the hosts meet.
type cib struct {
	version    int
	etcd       bool // it has etcd
	maintained bool // it starts, stops and fences nothing
}

// newcomer is what the third machine has beside its etcd.
type newcomer struct {
	filed   bool // kubelet has the file of etcd
	removed bool // its etcd has read that it is no member any more
	empties int  // how often its disk may still be replaced
}

// trio is the part of the world that only a site has which gets a third control plane.
type trio struct {
	rng     *rand.Rand
	machine host // in the third place
	comes   newcomer
	mates   [2]mate
	burnt   [places]bool // off for good

	away      bool           // the third machine was taken out, and is off
	installed int            // how often a machine was installed in the third place
	ran       state.MemberID // the member as which the third etcd began from nothing last

	script  []way
	doing   way
	busy    bool // a person has typed a command, and its plan is not over
	carrier int
	since   time.Duration // whole since then
	plans   int
	retake  bool // the person takes this plan back
	taken   int  // commands that may still be typed again after a plan was taken back

	// The cluster has these.
	lock            widen.Copy
	told            widen.Progress
	node            bool // the third host has a Node
	grave           bool // its name is not to be given
	objects         int  // the number of control planes that its objects are for
	narrowLock      narrow.Copy
	narrowTold      narrow.Progress
	narrowAccounts  string // the plan by which the cluster has accounts of BMCs, empty for none
	leaves, emptied bool   // the third host is to be emptied, and is

	idleAt  time.Duration // since then nothing was committed though nothing is wrong
	idleLen int
	members []member // of the committed history
	history int      // entries of it that members are of
}

// way is one change of a site.
type way uint8

const (
	widens way = iota
	narrows
)

func newTrio(seed uint64, opt Options) *world {
	w := newWorld(seed, opt)
	t := &trio{rng: rand.New(rand.NewPCG(seed, 0x7410)), objects: 2, members: w.genesis, taken: 1}
	w.trio, w.humans, w.crowding = t, false, false
	for i := range w.hosts {
		h := &w.hosts[i]
		h.disk.record = state.EtcdRecord{State: state.EtcdPair, Seq: 1, Cluster: 0xc1, Member: state.MemberID(i + 1)}
		h.running, h.heard = true, h.bootName()
		h.seat = seat{name: names[i], peer: names[1-i], listed: names[1-i], lists: true, conf: true, ringBoots: true, told: true, runs: true, podman: true}
		t.mates[i] = mate{cib: cib{version: 1, etcd: true}, asked: state.EtcdStarted}
	}
	t.newMachine(third)
	t.comes.empties = t.rng.IntN(2)
	switch n := t.rng.IntN(6); {
	case n < 2:
		t.script = []way{widens}
	case n < 3:
		t.script = []way{widens, narrows}
	case n < 5:
		w.ofThreeFirst()
		t.script = []way{narrows}
	default:
		w.ofThreeFirst()
		t.script = []way{narrows, widens}
	}
	return w
}

// ofThreeFirst turns the world at its beginning into a site of three.
func (w *world) ofThreeFirst() {
	t := w.trio
	w.genesis = append(slices.Clone(w.genesis), member{id: w.nextID, at: third, named: true})
	t.members, t.objects, t.node, t.comes.filed, t.comes.empties = w.genesis, 3, true, true, 0
	t.machine.disk.copy, t.machine.disk.cluster, t.machine.disk.id = state.CopyWhole, 0xc1, w.nextID
	t.machine.running, t.machine.members = true, w.genesis
	w.nextID++
	for i := range w.hosts {
		h := &w.hosts[i]
		h.disk.record, h.members, h.contact, h.ring, h.inert, h.heard = state.EtcdRecord{State: state.EtcdNone}, w.genesis, false, 0, false, ""
		h.seat = seat{name: names[i], peer: names[1-i], static: true, kubelet: true, kubeletUp: true}
		t.mates[i] = mate{dressed: true, asked: state.EtcdNotAsked}
	}
}

// newMachine brings a machine with an empty disk to the third place.
func (t *trio) newMachine(number int) {
	t.machine = host{machine: number, power: true, boot: 1, disk: disk{record: state.EtcdRecord{State: state.EtcdNone}, copy: state.CopyNone}}
	t.comes.filed, t.comes.removed, t.away = false, false, false
	t.installed++
}

// manages reports whether Pacemaker of a host starts and fences.
func (w *world) manages(i int) bool {
	c := w.trio.mates[i].cib
	return w.hosts[i].seat.runs && c.etcd && !c.maintained
}

// changeCIB changes Pacemaker's configuration on a host, and on the other one if they are in contact.
func (w *world) changeCIB(i int, change func(*cib)) {
	own := &w.trio.mates[i].cib
	change(own)
	own.version++
	w.shareCIB()
}

func (w *world) shareCIB() {
	a, b := &w.trio.mates[0].cib, &w.trio.mates[1].cib
	if !w.hosts[0].contact || !w.hosts[1].contact || w.hosts[0].ring != w.hosts[1].ring {
		return
	}
	if a.version < b.version {
		*a = *b
	} else {
		*b = *a
	}
}

// syncTrio is called when a host has met its peer.
func (w *world) syncTrio() {
	if w.trio != nil {
		w.shareCIB()
	}
}

// pacemakers has Pacemaker of a host ask its etcd keeper for what it wants.
func (w *world) pacemakers(i int) {
	h, m := &w.hosts[i], &w.trio.mates[i]
	switch {
	case !h.power || h.inert || !w.manages(i):
	case h.leaving:
		m.asked = state.EtcdStopped
	default:
		m.asked = state.EtcdStarted
	}
}

// observeTrio completes the snapshot of an etcd keeper.
func (w *world) observeTrio(i int, s *state.EtcdSnapshot) {
	if w.trio == nil {
		return
	}
	h, m := &w.hosts[i], &w.trio.mates[i]
	if m.asked == state.EtcdStopped && !h.leaving {
		s.Pacemaker.Leaving, s.Pacemaker.LeavingFor = true, max(s.Pacemaker.LeavingFor, etcdStopTime)
	}
	if !h.seat.runs {
		s.Pacemaker.Contact, s.Pacemaker.Inert = state.Fact[bool]{}, state.Fact[bool]{}
	}
	if h.seat.static && !h.running {
		s.Local.Running = state.Fact[bool]{} // kubelet may start it at any moment
	}
	s.Third.Word, s.Third.Coming = state.Known(m.word), m.word.Plan != ""
	if s.Third.Coming {
		s.Third.Behind = w.behind(i, m.word.Member)
	}
	if !w.calm && w.trio.rng.IntN(24) == 0 { // the file cannot be read
		s.Third = state.EtcdThird{Coming: true}
	}
}

// etcdStopTime is a time for which an etcd keeper that stops etcd was asked for that already.
const etcdStopTime = time.Minute

// entriesOf makes one entry of a schedule as many as a site writes meanwhile, so that a bound of
// 1000 entries means something.
const entriesOf = 100

// behind returns what the third member lacks of this host's log.
func (w *world) behind(i int, id state.MemberID) state.Fact[uint64] {
	h, n := &w.hosts[i], &w.trio.machine
	if id == 0 || !h.running || !w.hears(i, third) || n.disk.id != id {
		return state.Fact[uint64]{}
	}
	return state.Known(uint64(max(0, h.commit-n.commit)) * entriesOf)
}

// hears reports whether the etcd of a place answers a host.
func (w *world) hears(i, place int) bool {
	o := w.at(place)
	cut := i != place && (w.cut[i][place] || w.cut[place][i] || w.filtered[i][place] || w.filtered[place][i])
	return !cut && o.power && o.running && o.frozen <= w.now && !o.hung
}

// votes reports whether the etcd of a place answers a host as a voter that knows its leader.
func (w *world) votes(i, place int) bool {
	o := w.at(place)
	return w.hears(i, place) && o.isVoter() && o.leaderID != 0
}

// trioPermits reports whether an etcd keeper may take a step, as keeper.permitted.
func (w *world) trioPermits(i int, v state.EtcdVerdict) bool {
	h, m := &w.hosts[i], &w.trio.mates[i]
	foreign := h.seat.static
	switch {
	case foreign && (v.Action == state.EtcdStart || v.Action == state.EtcdStop || v.Action == state.EtcdEmpty):
		return false
	case m.asked != state.EtcdNotAsked:
		return true
	}
	switch v.Action { //nolint:exhaustive // no other one is permitted
	case state.EtcdAskFence, state.EtcdGrantQuorum, state.EtcdWriteRecord:
		return h.seat.runs && h.inert
	case state.EtcdStart:
		return v.Rule == state.EtcdRuleMajorityStart
	}
	return false
}

// trioSpares reports whether a host's data may be lost: one loss in a schedule, and never the last
// data.
func (w *world) trioSpares(i int) bool {
	o := &w.hosts[1-i]
	return !w.trio.anyBurnt() && o.power && o.disk.copy == state.CopyWhole
}

func (t *trio) anyBurnt() bool { return slices.Contains(t.burnt[:], true) }

// mayLeaveTrio reports whether Pacemaker may be told to stop: in maintenance it leaves everything as it
// is.
func (w *world) mayLeaveTrio() bool {
	return w.trio == nil || w.manages(0) && w.manages(1)
}

// bootMate is the boot of what a host knows of a plan.
func (w *world) bootMate(i int) {
	if w.trio != nil {
		m := &w.trio.mates[i]
		m.asked, m.next, m.narrowNext, m.asks, m.at = state.EtcdNotAsked, nil, nil, replace.Newcomer{}, time.Time{}
	}
}

// kubeletOf plays kubelet of a host: it starts an etcd whose file it has, from whole data alone.
func (w *world) kubeletOf(i int) {
	h := &w.hosts[i]
	h.seat.kubeletUp = h.power && (h.seat.kubeletUp || h.seat.kubelet || w.trio.mates[i].asked == state.EtcdStarted)
	switch {
	case !h.power || h.hung:
	case h.seat.static && h.seat.kubeletUp && !h.running && h.disk.copy == state.CopyWhole:
		w.start(i)
		h.seat.podman = false
	case !h.seat.static && h.running && !h.seat.podman: // its file is gone
		w.stop(i)
	}
}

// committedMembers returns the members by the committed history.
func (w *world) committedMembers() []member {
	t := w.trio
	for ; t.history < len(w.global); t.history++ {
		t.members = applied(t.members, w.global[t.history])
	}
	return t.members
}

// threeVote reports whether the third machine's member is a voter by the committed history.
func (w *world) threeVote() bool {
	return slices.ContainsFunc(w.committedMembers(), func(m member) bool { return m.at == third && !m.learner })
}

// answers reports whether the API answers a machine.
func (w *world) answers(i int) bool {
	for place := range places {
		h := w.at(place)
		quorum := voters(h.members) == 1 || h.standIn != 0 || w.now-h.lastHeard < electionTimeout
		near := i == place || !w.cut[i][place] && !w.cut[place][i]
		if near && h.power && h.running && h.role == leader && h.frozen <= w.now && !h.hung && quorum {
			return true
		}
	}
	return false
}

// api reports whether the API answers a host. What it writes comes after each change of the members that
// was proposed before, and a look at it takes longer than etcd of the host needs to apply what is
// committed.
func (w *world) api(i int) bool {
	if !w.answers(i) {
		return false
	}
	for place := range places {
		if h := w.at(place); h.running && h.role == leader && h.changing() {
			return false
		}
	}
	h := &w.hosts[i]
	return !h.running || slices.EqualFunc(h.members, w.committedMembers(), func(a, b member) bool { return a.id == b.id && a.learner == b.learner })
}

// mendTrio ends what only a person can end.
func (w *world) mendTrio() {
	if w.trio == nil {
		return
	}
	t := w.trio
	t.script, t.comes.empties = nil, 0
	t.machine.frozen, t.machine.hung = 0, false
	for i := range w.hosts {
		w.hosts[i].wall = 0
		if t.burnt[i] && w.hosts[i].silent {
			w.hosts[i].bmc = bmcMute
		}
	}
}

func (t *trio) String() string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	h := &t.machine
	fmt.Fprintf(&b, "      [third: busy=%t carrier=%d burnt=%v lock=%q/%s narrow=%q/%s told=%+v node=%t grave=%t objects=%d filed=%t removed=%t away=%t", t.busy, t.carrier, t.burnt,
		t.lock.ID, t.lock.Plan.Stage, t.narrowLock.ID, t.narrowLock.Plan.Stage, t.told, t.node, t.grave, t.objects, t.comes.filed, t.comes.removed, t.away)
	fmt.Fprintf(&b, " on=%t copy=%s id=%s run=%t role=%d log=%d commit=%d members=%v]\n", h.power, h.disk.copy, h.disk.id, h.running, h.role, len(h.disk.log), h.commit, h.members)
	for i := range t.mates {
		m := &t.mates[i]
		wide, goes := widen.Stage("none"), narrow.Stage("none")
		if m.wide != nil {
			wide = m.wide.Stage
		}
		if m.narrow != nil {
			goes = m.narrow.Stage
		}
		fmt.Fprintf(&b, "      [%d wide=%s/%s narrow=%s/%s word=%+v dressed=%t prepared=%t cib=%+v asked=%s]\n", i, wide, m.rule, goes, m.narrowRule, m.word, m.dressed, m.prepared, m.cib, m.asked)
	}
	return b.String()
}
