package incident

import (
	"maps"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// How close events must be to belong together.
const (
	trail    = 90 * time.Second // later events still belong to the incident that ended
	together = 5 * time.Minute  // two hosts that stop, or start, within this time do so together
	planned  = 10 * time.Minute // a host that leaves this long after it was about to boot leaves for that
	alive    = 3 * time.Second  // a host that notes something this long after its loss was not off
)

// event is a record with its time on the common clock.
type event struct {
	Record

	t time.Time
}

// host holds what is known of a host at a moment.
type host struct {
	boot    string
	members []string
	state   state.EtcdState
	wish    state.EtcdWish
	action  state.EtcdAction
	spoke   time.Time
	// plan is its last decision to boot in order, in this boot.
	plan event
	// fresh is set by a start or a stop, and stays until etcd is as it should
	// be.
	fresh bool
}

// failing is a failure whose report is being built.
type failing struct {
	first int // index of its first event in the group
	hosts []string
	by    string
	cause Cause // as it first appeared
	// mutual is set if the lost hosts had lost the others too.
	mutual bool
	back   bool
	at     time.Time
	boots  map[string]string // the boot of each host when the failure began
	states map[string]state.EtcdState
	// plans says of hosts that were about to boot in order why.
	plans map[string]string
}

// group is an incident that is being built.
type group struct {
	events   []event
	failures []*failing
	lost     map[string]bool
	joined   time.Time // when the two hosts last saw each other again
	closed   bool
	end      time.Time
	trailing int // number of events, the last ones, that came after the end
	// before is set if the states of both hosts before the incident are known,
	// after if both are known to be whole at its end.
	before, after bool
}

func (g *group) last() *failing { return g.failures[len(g.failures)-1] }

// walker reads events in their order.
type walker struct {
	hosts  map[string]*host
	groups []*group
	open   *group
}

// take reads one event. It begins an incident, or another failure of one, or
// belongs to the incident that is open or has just ended.
func (w *walker) take(e event) {
	if e.Kind == Wrote {
		w.keep(e) // it says nothing about the host that read it
		return
	}
	h := w.host(e.Host)
	if f := w.begins(e, h); f != nil {
		w.begin(e, f)
	}
	w.keep(e)
	w.note(e, h)
	w.settle(e)
}

func (w *walker) host(name string) *host {
	h := w.hosts[name]
	if h == nil {
		h = &host{}
		w.hosts[name] = h
	}
	return h
}

func (w *walker) begin(e event, f *failing) {
	if w.open == nil {
		w.open = &group{lost: map[string]bool{}, before: len(w.hosts) > 1}
		for _, h := range w.hosts {
			w.open.before = w.open.before && h.state != ""
		}
		w.groups = append(w.groups, w.open)
	}
	f.first, f.at, f.boots, f.states, f.plans = len(w.open.events), e.t, map[string]string{}, map[string]state.EtcdState{}, map[string]string{}
	for name, h := range w.hosts {
		f.boots[name], f.states[name] = h.boot, h.state
		if !h.plan.t.IsZero() && e.t.Sub(h.plan.t) <= planned {
			f.plans[name] = h.plan.Why
		}
	}
	w.open.failures = append(w.open.failures, f)
	if e.Kind == Decides {
		w.host(e.Host).fresh = true // it ends when etcd runs, not when etcd waits for something else
	}
	for _, name := range f.hosts {
		w.open.lost[name] = true
		w.host(name).action = "" // what it waited for no longer counts
	}
}

// keep adds an event to the incident that it belongs to.
func (w *walker) keep(e event) {
	switch {
	case w.open != nil:
		w.open.events = append(w.open.events, e)
	case len(w.groups) > 0:
		if g := w.groups[len(w.groups)-1]; e.t.Sub(g.end) <= trail {
			g.events = append(g.events, e)
			g.trailing++
		}
	}
}

// note records what an event says about its host.
func (w *walker) note(e event, h *host) {
	h.spoke = e.t
	switch e.Kind {
	case Booted:
		*h = host{boot: e.Boot, state: h.state, spoke: e.t, fresh: true}
	case Members:
		if len(e.Members) > 0 {
			h.members = e.Members
		}
		if w.open != nil && len(e.Members) > 1 {
			w.meet(e)
		}
	case Decides:
		h.action = e.Action
		h.fresh = h.fresh && e.Action != state.EtcdIdle
	case Recorded:
		h.state = e.State
		w.rejoin(e)
	case Wished:
		h.wish, h.fresh = e.Wish, true
		w.resume(e, h)
	case Plans:
		h.plan = e
	case AsksFence, Fenced, Confirmed, Restarted, Holds, API, Tainted, Untainted, Pods, Wrote, Missed:
	}
	if e.Boot != "" {
		h.boot = e.Boot
	}
}

// resume handles an etcd that Pacemaker wants again, on a host that its peer
// always saw.
func (w *walker) resume(e event, h *host) {
	if e.Wish == state.EtcdStarted && w.isLost(e.Host) && len(h.members) > 1 {
		w.returns(e)
	}
}

// rejoin handles a host that its peer always saw and that has data of etcd
// again, or is about to.
func (w *walker) rejoin(e event) {
	if !w.isLost(e.Host) || w.open.last().cause != CopyLost {
		return
	}
	switch e.State {
	case state.EtcdLearner, state.EtcdVoter, state.EtcdPair, state.EtcdWidening, state.EtcdMajority:
		w.returns(e)
	case state.EtcdNone, state.EtcdTakingOver, state.EtcdSole, state.EtcdDeparting:
	}
}

// returns marks a lost host as back without a membership that shows it.
func (w *walker) returns(e event) {
	delete(w.open.lost, e.Host)
	w.open.last().back, w.open.joined = true, e.t
}

// meet handles a membership in which the two see each other again. There are two places, so a host
// that is lost when two others see each other was replaced, and never comes back.
func (w *walker) meet(e event) {
	g := w.open
	for _, name := range e.Members {
		if w.host(name).wish != state.EtcdStopped {
			delete(g.lost, name)
		}
	}
	maps.DeleteFunc(g.lost, func(name string, _ bool) bool { return !slices.Contains(e.Members, name) })
	if f := g.last(); f.cause != Planned || len(g.lost) == 0 {
		f.back = true
	}
	g.joined = e.t
}

// settle ends the open incident if all hosts that have noted something since
// the two met are whole.
func (w *walker) settle(e event) {
	g := w.open
	if g == nil || len(g.lost) > 0 {
		return
	}
	g.after = true
	for name, h := range w.hosts {
		if name != e.Host && h.spoke.Before(g.joined) {
			g.after = false
			continue
		}
		if h.state != state.EtcdPair || len(h.members) < 2 || h.fresh || h.action == state.EtcdAskHuman {
			return
		}
		g.after = g.after && !h.spoke.Before(g.last().at) // hosts that always saw each other did not meet
	}
	g.closed, g.end, w.open = true, e.t, nil
}
