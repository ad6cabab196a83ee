package incident

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// How close things have to be to belong together.
const (
	trail    = 90 * time.Second // what still belongs to an incident that is over
	together = 5 * time.Minute  // two hosts that stop, or start, as one
	alive    = 3 * time.Second  // a host that notes something so long after it was lost was not off
)

// event is a record with its time on the common clock.
type event struct {
	Record

	t time.Time
}

// host is what is known of a host at a moment.
type host struct {
	boot    string
	members []string
	state   state.EtcdState
	wish    state.EtcdWish
	action  state.EtcdAction
	spoke   time.Time
	// fresh is set from a start, or a stop, until etcd is as it should be.
	fresh bool
}

// failing is a failure that is being put together.
type failing struct {
	first int // of the events of its group
	hosts []string
	by    string
	cause Cause // as it looked at first
	// mutual is set where those who were lost had lost the others too.
	mutual bool
	back   bool
	at     time.Time
	boots  map[string]string // of each host, when it began
	states map[string]state.EtcdState
}

// group is an incident that is being put together.
type group struct {
	events   []event
	failures []*failing
	lost     map[string]bool
	joined   time.Time // when the two last met again
	closed   bool
	end      time.Time
	trailing int // of the events, the last ones, came after the end
	// before and after are set where it is known of both hosts how they were
	// before it began, and that they were whole in the end.
	before, after bool
}

func (g *group) last() *failing { return g.failures[len(g.failures)-1] }

// walker reads events in their order.
type walker struct {
	hosts  map[string]*host
	groups []*group
	open   *group
}

// take reads one event: it begins an incident or another failure of one, or
// belongs to the one that is open or has just ended.
func (w *walker) take(e event) {
	if e.Kind == Wrote {
		w.keep(e) // it says nothing of the host that read it
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
	f.first, f.at, f.boots, f.states = len(w.open.events), e.t, map[string]string{}, map[string]state.EtcdState{}
	for name, h := range w.hosts {
		f.boots[name], f.states[name] = h.boot, h.state
	}
	w.open.failures = append(w.open.failures, f)
	if e.Kind == Decides {
		w.host(e.Host).fresh = true // it waits until etcd runs, not until it waits for something else
	}
	for _, name := range f.hosts {
		w.open.lost[name] = true
		w.host(name).action = "" // what it waited for does not count any more
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

// note remembers what an event says about its host.
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
	case AsksFence, Fenced, Confirmed, Restarted, Holds, API, Tainted, Untainted, Pods, Wrote, Missed:
	}
	if e.Boot != "" {
		h.boot = e.Boot
	}
}

// resume is that etcd of a host is wanted again that never was out of sight.
func (w *walker) resume(e event, h *host) {
	if e.Wish == state.EtcdStarted && w.isLost(e.Host) && len(h.members) > 1 {
		w.returns(e)
	}
}

// rejoin is that a host that was never out of sight has a copy of etcd's data
// again, or is about to.
func (w *walker) rejoin(e event) {
	if !w.isLost(e.Host) || w.open.last().cause != CopyLost {
		return
	}
	switch e.State {
	case state.EtcdLearner, state.EtcdVoter, state.EtcdPair:
		w.returns(e)
	case state.EtcdNone, state.EtcdTakingOver, state.EtcdSole, state.EtcdDeparting:
	}
}

// returns is that a lost host is back without a membership that says so.
func (w *walker) returns(e event) {
	delete(w.open.lost, e.Host)
	w.open.last().back, w.open.joined = true, e.t
}

// meet is that the two see each other again.
func (w *walker) meet(e event) {
	g := w.open
	for _, name := range e.Members {
		if w.host(name).wish != state.EtcdStopped {
			delete(g.lost, name)
		}
	}
	if f := g.last(); f.cause != Planned || len(g.lost) == 0 {
		f.back = true
	}
	g.joined = e.t
}

// settle ends the open incident where all who have spoken since they met are
// whole.
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
	}
	g.closed, g.end, w.open = true, e.t, nil
}
