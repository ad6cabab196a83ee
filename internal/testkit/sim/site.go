package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A site changes: a lone host gets a second one, a lost machine is replaced by a
// blank one, one of two goes for good. The steps of the plan are those of
// decide/replace, decided by its own function. Machines are told apart, and so
// are the keys of Corosync: a machine that was taken out lies in a cupboard with
// its disk, and somebody may switch it on again.

// seat is what a host has beside etcd. Its first part is on the machine's disk.
type seat struct {
	name, peer string // as this host's etcd keeper knows them
	listed     string // the peer's name in corosync.conf and in Pacemaker
	key        int    // Corosync's key, zero for none
	lists      bool   // corosync.conf lists the peer
	conf       bool   // there is a corosync.conf
	ringBoots  bool   // Corosync and Pacemaker start at boot
	cib        bool   // Pacemaker knows the peer
	etcd       bool   // Pacemaker's configuration has etcd
	halted     bool   // and says that etcd is not to run
	told       bool   // the etcd keeper knows who the two hosts are
	manifest   bool   // the file from which the etcd keeper runs etcd
	static     bool   // kubelet's file of etcd is in kubelet's folder
	pod        bool   // or beside it
	kubelet    bool   // kubelet starts at boot without Pacemaker
	fences     bool   // Pacemaker has the devices of both
	device     int    // the machine that this host would fence
	site       string // the peer's name in the site's configuration, if a plan has changed it
	dropped    string // the plan by which the file with the old host's device has gone
	retired    state.Fact[state.EtcdRetired]
	plan       *replace.Plan
	wish       *replace.Wish

	// Until the next boot:

	runs   bool // Corosync and Pacemaker run
	keyRan int  // the key that Corosync has loaded
	podman bool // the etcd keeper has started etcd, not kubelet
	halts  bool // Pacemaker has asked the etcd keeper to stop etcd
	outs   int  // looks in a row that said that another machine has this host's place
	// kubeletUp is true once kubelet runs: by itself, or started by Pacemaker.
	kubeletUp bool
}

// stopSeat is a power cut.
func (s *seat) stopSeat() {
	s.runs, s.keyRan, s.podman, s.halts, s.outs, s.kubeletUp = false, 0, false, false, 0, false
}

// life is what happens to the machine of the changing place.
type life uint8

const (
	stands   life = iota
	missing       // there is no machine
	shelved       // switched off, and nobody but a person switches it on
	burnt         // off for good
	burntBMC      // off for good, and its BMC is silent
)

// order is one change of a site.
type order uint8

const (
	grows order = iota
	replaces
	shrinks
)

// site is the part of the world that only a site which changes has.
type site struct {
	rng      *rand.Rand
	script   []order // those that did not begin yet
	doing    order
	busy     bool // an order is under way
	stay     int  // the host that stays
	life     life // of the machine in the other place
	old      int  // the machine that goes, or went; -1 for none
	machines int
	keys     map[string]int // Corosync's key of each plan

	// shelf is the last machine that was taken out, once another one has its place.
	shelf    *host
	shelfOff bool // for good: it found out that it is out
	wakes    int  // how often an old machine may still be switched on
	clash    bool // packets to the address of both go to the old one now

	// The newcomer.
	comes   bool // in this order; otherwise nobody brings a machine
	held    bool // switched off, since it came too early
	entered bool
	asks    replace.Newcomer
	askedAt time.Time

	// The objects of the cluster.
	lock               string
	node               int // the machine of the Node of the changing place, -1 for none
	nodeName           string
	pods               bool
	token, join        string // the plan whose secrets the cluster has
	account, leftover  bool
	graves             map[string]retired.Host
	planes             int // of site.json
	verified           bool
	pending            *replace.Decision
	rule               string
	since              time.Duration // whole since then
	otherName, earlier bool          // of this order: another name; the newcomer is brought at once
}

const nobody = -1

func (s *site) changes() bool { return s != nil && s.busy }

// going returns the place that changes.
func (s *site) going() int { return 1 - s.stay }

// newSite returns a world whose site changes.
func newSite(seed uint64, opt Options) *world {
	w := newWorld(seed, opt)
	s := &site{rng: rand.New(rand.NewPCG(seed, 0x517e)), old: nobody, node: nobody, machines: 2, graves: map[string]retired.Host{}, keys: map[string]int{}, planes: 2}
	w.site, w.humans, w.crowding = s, false, false
	s.stay, s.wakes = s.rng.IntN(2), 2
	for i := range w.hosts {
		h := &w.hosts[i]
		h.disk.record = state.EtcdRecord{State: state.EtcdPair, Seq: 1, Cluster: 0xc1, Member: state.MemberID(i + 1)}
		h.running, h.heard = true, h.bootName()
		h.seat = seat{
			name: names[i], peer: names[1-i], listed: names[1-i], key: 1, lists: true, conf: true, ringBoots: true, cib: true, etcd: true, told: true, manifest: true, fences: true,
			device: 1 - i, runs: true, keyRan: 1, podman: true,
		}
	}
	s.node, s.nodeName, s.pods = s.going(), names[s.going()], true
	switch s.rng.IntN(6) {
	case 0, 1:
		w.lone()
		s.script = []order{grows}
	case 2:
		w.lone()
		s.script = []order{grows, replaces}
	case 3:
		s.script = []order{replaces}
	case 4:
		s.script = []order{shrinks}
	case 5:
		s.script = []order{shrinks, grows}
	}
	return w
}

// lone turns the world at its beginning into a host that never had a peer.
func (w *world) lone() {
	s := w.site
	h := &w.hosts[s.stay]
	w.hosts[s.going()] = host{machine: nobody, seat: seat{name: names[s.going()]}}
	w.genesis = []member{{id: h.disk.id, named: true}}
	h.disk.record = state.EtcdRecord{State: state.EtcdNone}
	h.members, h.contact, h.inert, h.heard = w.genesis, false, false, ""
	h.seat = seat{name: names[s.stay], static: true, kubelet: true}
	s.life, s.node, s.pods, s.planes = missing, nobody, false, 1
}

func (w *world) name(i int) string {
	if w.site == nil {
		return names[i]
	}
	return w.hosts[i].seat.name
}

func (w *world) peerName(i int) string {
	if w.site == nil {
		return names[1-i]
	}
	return w.hosts[i].seat.peer
}

// clock is the time that a host shows.
func (w *world) clock(i int) time.Time {
	return time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Add(w.now + w.hosts[i].wall)
}

// boots reports whether a machine that is off may be switched on by anybody.
func (w *world) boots(i int) bool {
	if w.trio != nil {
		return !w.trio.burnt[i]
	}
	return w.site == nil || i == w.site.stay || w.site.life == stands && !w.site.held
}

// bootSeat is the boot of what a host has beside etcd. With two hosts in its list
// Corosync waits for the other one.
func (w *world) bootSeat(h *host) {
	if w.site == nil && w.trio == nil {
		return
	}
	h.seat.stopSeat()
	if h.seat.conf && h.seat.ringBoots {
		h.seat.startRing()
	}
	h.inert = h.seat.lists
}

func (s *seat) startRing() { s.runs, s.keyRan = true, s.key }

// meets reports whether Corosync of both hosts takes the other one's packets. A
// host that the other one does not list any more joins all the same, before it is
// turned away: only another key keeps it out.
func (w *world) meets() bool {
	a, b := &w.hosts[0].seat, &w.hosts[1].seat
	switch {
	case w.trio != nil:
		return a.runs && b.runs
	case w.site == nil:
		return true
	}
	return a.runs && b.runs && a.keyRan == b.keyRan && (a.lists || b.lists) && !w.site.clash
}

// powerOfPeer is what a host's device says of its peer. It may belong to another
// machine than the one that is there.
func (w *world) powerOfPeer(i int) state.Fact[string] {
	if w.site == nil {
		return w.powerState(1 - i)
	}
	return w.powerOfMachine(w.hosts[i].seat.device)
}

func (w *world) powerOfMachine(machine int) state.Fact[string] {
	s := w.site
	for i := range w.hosts {
		switch {
		case w.hosts[i].machine != machine:
		case i == s.going() && s.life == burntBMC:
			return state.Fact[string]{}
		default:
			return w.powerState(i)
		}
	}
	switch {
	case s.shelf == nil || s.shelf.machine != machine:
		return state.Fact[string]{}
	case s.shelf.power:
		return state.Known("On")
	}
	return state.Known(state.PowerOff)
}

// mayFence reports whether Pacemaker of a host knows a peer that it could fence.
func (w *world) mayFence(i int) bool {
	switch {
	case w.trio != nil:
		return w.manages(i) || w.hosts[i].seat.runs && w.hosts[i].fence.sent // maintenance ends no fence that was begun
	case w.site == nil:
		return true
	}
	h := &w.hosts[i].seat
	return h.runs && (h.lists || h.cib) && h.device != nobody
}

// aims reports whether a host's device is that of the machine on the shelf.
func (s *site) aims(h, p *host) bool {
	return s != nil && h.seat.device != p.machine
}

// strikeShelf switches the machine on the shelf off.
func (w *world) strikeShelf() {
	if s := w.site; s.shelf != nil && s.shelf.power {
		w.onShelf(func(i int) { w.powerOff(i) })
	}
}

// onShelf lets the machine on the shelf do something in the place that it had.
func (w *world) onShelf(do func(i int)) {
	s := w.site
	i := s.going()
	w.hosts[i], *s.shelf = *s.shelf, w.hosts[i]
	do(i)
	w.hosts[i], *s.shelf = *s.shelf, w.hosts[i]
}

// keeps reports whether a host has an etcd keeper that can see anything.
func (w *world) keeps(i int) bool {
	h := &w.hosts[i].seat
	if w.trio != nil {
		return h.told
	}
	return w.site == nil || h.runs && h.told
}

// asked reports whether Pacemaker has asked the etcd keeper to start etcd.
func (h *host) asked() bool {
	return h.seat.runs && h.seat.etcd && !h.seat.halted && !h.inert
}

// observeSeat completes a snapshot.
func (w *world) observeSeat(i int, s *state.EtcdSnapshot) {
	if w.site == nil {
		return
	}
	h := &w.hosts[i]
	s.Proofs.Retired = h.seat.retired
	if h.seat.halts && !h.leaving {
		s.Pacemaker.Leaving, s.Pacemaker.LeavingFor = true, time.Minute
	}
	if h.seat.static && !h.running {
		s.Local.Running = state.Fact[bool]{} // kubelet may start it at any moment
	}
	if !w.calm && w.site.rng.IntN(16) == 0 {
		s.Proofs.Retired = state.Fact[state.EtcdRetired]{}
	}
}

// permits reports whether the etcd keeper may take a step: Pacemaker has asked for
// it, and kubelet does not run etcd.
func (w *world) permits(i int, v state.EtcdVerdict) bool {
	if w.trio != nil {
		return w.trioPermits(i, v)
	}
	if w.site == nil {
		return true
	}
	h := &w.hosts[i]
	foreign := h.seat.static && (v.Action == state.EtcdStart || v.Action == state.EtcdStop || v.Action == state.EtcdEmpty)
	return !foreign && (h.inert || h.asked() || h.leaving || h.seat.halts)
}

// spares reports whether a data directory may be lost: not the only one.
func (w *world) spares(i int) bool {
	if w.trio != nil {
		return w.trioSpares(i)
	}
	if w.site == nil {
		return true
	}
	mine, theirs := w.hosts[i].disk.record.State, w.hosts[1-i].disk.record.State
	pair := mine == state.EtcdPair && theirs == state.EtcdPair
	return w.site.life == stands && (pair || w.rejoins(i)) && w.hosts[1-i].power
}

// confirm plays the administrator of a site, who confirms the truth and forces
// nothing.
func (w *world) confirm(i int) {
	h, p := &w.hosts[i], &w.hosts[1-i]
	asks := h.verdict.Action == state.EtcdAskHuman || h.verdict.Rule == "gone.unproved" || h.verdict.Rule == "gone.ask-fence"
	// Where all is mended that can be, a person does what is asked of him.
	if !h.power || h.contact || p.power || !asks || w.rng.IntN(12) != 0 && !w.calm {
		return
	}
	h.human = state.Known(state.Confirmation{Who: "operator", Why: "the peer is off", Boot: h.bootName(), At: w.uptime(i)})
	w.trace(i, "a person confirms that the peer is off")
}

// mendSite ends what only a person can end. No other change begins.
func (w *world) mendSite() {
	w.mendTrio()
	s := w.site
	if s == nil {
		return
	}
	s.script = nil
	s.clash = false
	for i := range w.hosts {
		h := &w.hosts[i]
		h.wall = 0
		h.leaving = h.power && h.seat.halts
	}
}

func (s *site) String() string {
	if s == nil {
		return ""
	}
	out := fmt.Sprintf("      [site: stays %d, life %d, node %d, lock %q, rule %s, newcomer held=%t entered=%t, planes %d", s.stay, s.life, s.node, s.lock, s.rule, s.held, s.entered, s.planes)
	if s.shelf != nil {
		out += fmt.Sprintf(", shelf machine %d on=%t", s.shelf.machine, s.shelf.power)
	}
	return out + "]\n"
}
