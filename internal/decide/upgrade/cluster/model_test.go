package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The model has the decisions of this package and those of the parachute, and a site of
// up to three control planes around them. Every order of their moves is played.

const (
	oldOne, newOne = "old", "new"
	soakTime       = time.Hour
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// modelHost is one control plane.
type modelHost struct {
	// on has power, daemons run, isNew leads the switch to the new release, booted
	// is a boot that the journal does not know, late a deadline that has passed.
	on, daemons, isNew, booted, late bool
	step                             parachute.Step
	boots, attempts                  int
	failed, why, closed              bool
	// raise and kubelet are what the host is told to raise. Its servers have risen, and
	// its kubelet is the new one.
	raise, kubelet, risen, newKubelet bool
	// sick is true once the new release, which was accepted, serves no more.
	sick bool
}

type world struct {
	hosts                         [3]modelHost
	started, returning, noWayBack bool
	turns                         [3]bool
	given                         [3]int // the attempts that turns are for
	// soaked is true once the soak is over, partsNew once the parts follow, proxyNew once
	// kube-proxy does, newer once data were written that the old release cannot read.
	soaked, partsNew, proxyNew, newer bool
	// awaited is true while pods of a part are awaited, overdue once that took too long,
	// failed once the parts go back for it, settled once all pods ran.
	awaited, overdue, failed, settled bool
	// undone is true once the operator of the new release did not start and was set back.
	undone bool
	wish   string
	faults int
}

// play is a scenario: how many hosts, and on which the new release is bad: it does not
// serve (1), or it serves and does something wrong (2). minor is true for another minor
// release of Kubernetes.
type play struct {
	n     int
	bad   [3]int
	minor bool
	// crash is true if the pods of kube-proxy of the new release do not run.
	crash bool
	// dead is true if the operator of the new release does not start.
	dead bool
	// sickens is true if the new release may fail on one host after it was accepted there.
	sickens bool
	table   []rule
}

// low reports whether the servers of a host behave as the old minor release.
func (p play) low(h modelHost) bool { return p.minor && (!h.isNew || !h.risen) }

func name(i int) string { return fmt.Sprintf("cp-%d", i+1) }

func pick(isNew bool) string {
	if isNew {
		return newOne
	}
	return oldOne
}

func (p play) serves(w world, i int) bool {
	h := w.hosts[i]
	return h.on && h.daemons && (!h.isNew || p.bad[i] != 1 && !h.sick)
}

// others reports whether a host beside this one serves; anybody, for -1.
func (p play) others(w world, but int) bool {
	for i := range p.n {
		if i != but && p.serves(w, i) {
			return true
		}
	}
	return false
}

func (w world) record() Record {
	if !w.started {
		return Record{}
	}
	r := Record{Upgrade: "u1", From: oldOne, To: newOne, Started: true, Returning: w.returning, NoWayBack: w.noWayBack}
	for i, turn := range w.turns {
		if turn {
			r.Turns = append(r.Turns, name(i))
			if w.given[i] > 0 {
				if r.Attempts == nil {
					r.Attempts = map[string]int{}
				}
				r.Attempts[name(i)] = w.given[i]
			}
		}
	}
	if w.soaked {
		r.Healthy = soakTime
	}
	if w.awaited {
		r.Rollout = Rollout{Part: KubeProxy, Since: noon, Seen: noon, Runs: noon.Add(-time.Hour)}
	}
	if w.overdue {
		r.Rollout.Since = noon.Add(-time.Hour)
	}
	r.Settled = w.settled
	if w.failed {
		r.Failed = "kube-proxy crashes"
	}
	return r
}

func (h modelHost) journal() parachute.Journal {
	j := parachute.Journal{Step: h.step, Attempts: h.attempts, Boots: h.boots, Boot: "b1", Failed: h.failed, Closed: h.closed, Since: noon, Switched: noon.Add(-2 * time.Minute), Deadline: noon.Add(time.Minute)}
	if h.step != parachute.None {
		j.Upgrade, j.From, j.To = "u1", oldOne, newOne
	}
	if h.late {
		j.Deadline = noon
	}
	if h.why {
		j.Why = "a reason"
	}
	return j
}

// facts are what a host knows. A blind one does not hear of the others.
func (p play) facts(w world, i int, blind bool) parachute.Facts {
	h := w.hosts[i]
	f := parachute.Facts{
		Kind: parachute.OfTwo, Boot: "b1", Up: time.Hour, Running: pick(h.isNew), Previous: oldOne, Whole: state.Known(true), Newer: state.Known(""), Serves: state.Known(p.serves(w, i)),
		Released: true, Emptied: true, Quiet: !h.daemons, Timer: true, Daemons: h.daemons, Proof: parachute.Proof{},
	}
	if p.n == 1 {
		f.Kind = parachute.Alone
	}
	f.Risen, f.Held = state.Known(!h.isNew || !p.low(h)), p.minor && h.isNew && !h.newKubelet
	if h.booted {
		f.Boot = "b2"
	}
	if w.newer {
		f.Newer = state.Known("etcd's data")
	}
	if !blind {
		f.PeerServes = state.Known(p.others(w, i))
	}
	if p.serves(w, i) || !blind && p.others(w, i) {
		turn := w.record().Turn(name(i))
		turn.Raise, turn.Kubelet = h.raise, h.kubelet
		f.Turn, f.Closed = state.Known(turn), state.Known(w.noWayBack || !w.started && w.newer)
	}
	for _, c := range parachute.Criteria() {
		if h.daemons {
			f.Proof[c.ID] = state.Known(!h.isNew || p.bad[i] == 0 || c.ID != "kubelet")
			if c.ID == "peer-view" && p.n > 1 && !p.others(w, i) {
				f.Proof[c.ID] = state.Fact[bool]{}
			}
		}
	}
	return f
}

func (p play) site(w world, closed bool) Site {
	s := Site{Now: noon, Record: w.record(), Wish: Wish{Release: w.wish, Upgrade: "u1"}, Running: pick(w.newer), Soak: soakTime, Raises: p.minor, Parts: []Part{part(KubeProxy, pick(w.proxyNew)), part("operator", pick(w.partsNew))}}
	if p.crash && w.proxyNew {
		s.Parts[0].Pending = state.Known("kube-proxy: 0 of 2 pods are available")
	}
	if w.undone {
		s.Parts[1] = Part{Name: "operator", Undone: "it did not start"}
	}
	for i := range p.n {
		h := w.hosts[i]
		well := p.serves(w, i) && (!h.isNew || p.bad[i] == 0)
		held := ""
		if a := parachute.Next(h.journal(), p.facts(w, i, false), noon); h.on && a.Act == parachute.Hold {
			held = a.Why
		}
		s.Hosts = append(s.Hosts, Host{Held: held, Name: name(i), Leader: i == 0, Present: state.Known(h.on), Well: state.Known(well), Votes: state.Known(p.serves(w, i)), Whole: state.Known(true), Old: state.Known(true), Running: state.Known(pick(h.isNew)), Journal: h.journal(), Servers: state.Known(h.isNew && !p.low(h)), Raised: state.Known(h.isNew && h.closed && !p.low(h) && (h.newKubelet || !p.minor))})
	}
	if closed {
		s.Closed = []gate.Gate{{ID: "etcd-data", Verdict: gate.Unknown, Why: "not known"}}
	}
	return s
}

// agent lets a host act once. Between the journal and the act the power may be cut.
func (p play) agent(w world, i int, blind bool) (out []world, wrong string) {
	before := w
	h := &w.hosts[i]
	a := parachute.Next(h.journal(), p.facts(w, i, blind), noon)
	j := a.Journal
	h.booted = h.booted && j.Boot != "b2" && !h.step.AtRest() && !j.Step.AtRest()
	h.late = h.late && j.Step == h.step && !j.Deadline.After(noon)
	h.step, h.boots, h.attempts, h.failed, h.why, h.closed = j.Step, min(j.Boots, 3), j.Attempts, j.Failed, j.Why != "", j.Closed
	written := w
	if a.Act == parachute.DoPrepare && before.hosts[i].failed {
		wrong = name(i) + " tries again what failed there"
	}
	switch a.Act {
	case parachute.DoLeave:
		if p.n > 1 && !p.others(before, i) {
			wrong = name(i) + " leaves, and nobody else serves"
		}
		h.daemons = false
	case parachute.Switch:
		h.isNew = true
	case parachute.Start, parachute.Undo:
		h.daemons = true
	case parachute.SwitchBack:
		if p.serves(before, i) && !p.others(before, i) && h.isNew && (p.n > 1 || !w.returning) {
			wrong = name(i) + " serves alone, and is returned"
		}
		h.isNew, h.daemons = false, true
	case parachute.RaiseServers:
		if p.n > 1 && !p.others(before, i) {
			wrong = name(i) + " restarts its API server, and nobody else serves"
		}
		h.risen, w.newer = true, true
	case parachute.RaiseKubelet:
		if p.n > 1 && !p.others(before, i) {
			wrong = name(i) + " ends its kubelet, and nobody else serves"
		}
		h.daemons = false
		stopped := w
		h.newKubelet = true
		linked := w
		h.daemons = true
		return []world{written, stopped, linked, w}, wrong
	case parachute.Accept:
		if p.bad[i] > 0 {
			wrong = name(i) + " accepts a bad release"
		}
	case parachute.Rest, parachute.DoPrepare, parachute.DoEmpty, parachute.Arm, parachute.Prove, parachute.Hold:
	}
	return []world{written, w}, wrong
}

// operator lets the cluster act once.
func (p play) operator(w world, closed bool) (world, Step, string) {
	step := decide(p.table, p.site(w, closed))
	wrong := ""
	switch step.Do {
	case Write:
		r := step.Record
		for i, h := range w.hosts[:p.n] {
			arrived := h.on && h.isNew && h.step == parachute.Accepted && p.serves(w, i)
			if r.NoWayBack && !w.noWayBack && !arrived {
				wrong = "it is committed without " + name(i)
			}
		}
		if r.NoWayBack && !w.noWayBack && (!w.soaked || !w.partsNew) {
			wrong = "it is committed before all has followed and soaked"
		}
		if r.NoWayBack && !w.noWayBack && p.crash && !p.minor {
			wrong = "it is committed while kube-proxy crashes"
		}
		w.newer = w.newer || w.noWayBack && !r.Started // whatever the new release writes by itself from now on
		if w.partsNew && (r.Returning && len(r.Turns) > 0 || !r.Started && !w.newer) {
			wrong = "hosts return before the parts"
		}
		if wrong == "" {
			wrong = p.crowded(w, r)
		}
		w.awaited = r.Rollout != Rollout{}
		w.overdue = w.overdue && w.awaited
		w.failed, w.settled = r.Failed != "", r.Settled
		w.started, w.returning, w.noWayBack = r.Started, r.Returning, r.NoWayBack
		for i := range w.turns {
			w.turns[i], w.given[i] = slices.Contains(r.Turns, name(i)), 0
			if w.turns[i] {
				w.given[i] = r.Attempts[name(i)]
			}
			if h := &w.hosts[i]; !r.Started {
				h.raise, h.kubelet = false, false
			}
		}
		if !r.Started {
			w.wish = pick(w.newer)
		}
	case Bring:
		if step.Part == KubeProxy {
			w.proxyNew = step.Release == newOne
			break
		}
		if w.undone && step.Release == newOne {
			wrong = "an operator that does not start is brought once more"
		}
		w.undone = p.dead && step.Release == newOne
		w.partsNew = step.Release == newOne && !p.dead
	case Raise:
		if !w.noWayBack {
			wrong = "data are raised while the way back is open"
		}
		for i := range w.hosts[:p.n] {
			if h := &w.hosts[i]; slices.Contains(step.Hosts, name(i)) {
				h.raise, h.kubelet = true, h.kubelet || step.Kubelet
			}
		}
	case Rest, Fetch, Await, Pause:
	}
	return w, step, wrong
}

// crowded says who is given a turn while another host is at work. On the way back that may be one
// in its proof, which may wait for this very host; empty for nobody.
func (p play) crowded(w world, r Record) string {
	for i := range p.n {
		if w.turns[i] || !slices.Contains(r.Turns, name(i)) {
			continue
		}
		for k, h := range w.hosts[:p.n] {
			if beside := r.Returning && h.step == parachute.Proving; k != i && !h.step.AtRest() && !beside {
				return name(i) + " is given its turn while " + name(k) + " is at work"
			}
		}
	}
	return ""
}

// wrong says which rule a world breaks.
func (p play) wrong(w world) string {
	work := 0
	for i, h := range w.hosts[:p.n] {
		// On the way back one that is in its proof may wait for one that returns.
		if !h.step.AtRest() && (!w.returning || h.step != parachute.Proving && !p.serves(w, i)) {
			work++
		}
		if w.newer && h.on && h.daemons && !h.isNew {
			return name(i) + " runs the old release on data that it cannot read"
		}
	}
	if wrong := p.skewed(w); wrong != "" {
		return wrong
	}
	switch {
	case work > 1:
		return fmt.Sprintf("%d hosts are at work", work)
	case w.newer && w.started && !w.noWayBack:
		return "the way back is said to be open, and the old release cannot read the data"
	}
	return ""
}

// skewed says what is newer than an API server that answers behaves; empty for nothing.
func (p play) skewed(w world) string {
	for i, low := range w.hosts[:p.n] {
		if !low.on || !p.low(low) {
			continue
		}
		if w.proxyNew {
			return "kube-proxy is newer than what the API server of " + name(i) + " emulates"
		}
		for k, h := range w.hosts[:p.n] {
			if h.isNew && h.newKubelet {
				return "kubelet of " + name(k) + " is newer than what the API server of " + name(i) + " emulates"
			}
		}
	}
	return ""
}

// maySicken reports whether the new release may fail on a host now: before the commit, while all
// others are at rest or in their proof, and on one host.
func (p play) maySicken(w world, i int) bool {
	quiet := !slices.ContainsFunc(w.hosts[:p.n], func(h modelHost) bool { return h.sick || !h.step.AtRest() && h.step != parachute.Proving })
	return p.sickens && quiet && w.faults > 0 && w.started && !w.noWayBack && w.hosts[i].isNew && w.hosts[i].step == parachute.Accepted
}

// moves returns the worlds that can follow, and what is wrong with a move.
func (p play) moves(w world) (out []world, wrong string) {
	add := func(list []world, why string) {
		out = append(out, list...)
		if why != "" {
			wrong = why
		}
	}
	for i, h := range w.hosts[:p.n] {
		next := w
		if !h.on {
			next.hosts[i].on, next.hosts[i].daemons, next.hosts[i].booted = true, true, !h.step.AtRest()
			add([]world{next}, "")
			continue
		}
		add(p.agent(w, i, false))
		add(p.agent(w, i, true))
		if h.step.Trying() && h.step != parachute.Armed && !h.late {
			next.hosts[i].late = true
			add([]world{next}, "")
		}
		if p.maySicken(w, i) {
			fails := w
			fails.faults--
			fails.hosts[i].sick = true
			add([]world{fails}, "")
		}
		if w.faults > 0 {
			cut := w
			cut.faults--
			cut.hosts[i].on, cut.hosts[i].daemons = false, false
			add([]world{cut}, "")
		}
	}
	if p.others(w, -1) {
		for _, closed := range []bool{false, true} {
			next, step, why := p.operator(w, closed)
			add([]world{next}, why)
			if step.Phase == Proving && step.Do == Write && !closed {
				w.soaked = true
				add([]world{w}, "")
				w.soaked = next.soaked
			}
		}
	}
	if p.crash && w.awaited && !w.overdue {
		late := w
		late.overdue = true
		add([]world{late}, "")
	}
	if w.wish == newOne && w.started && w.faults > 0 {
		w.wish, w.faults = oldOne, w.faults-1
		add([]world{w}, "")
	}
	return out, wrong
}

// ending is how a site ends, and what is wrong with that.
type ending struct{ end, wrong string }

// settle lets all go on without faults. It keeps what it has found out.
func (p play) settle(w world, known map[world]ending) ending {
	var way []world
	out := ending{wrong: "it does not end"}
	for range 40 {
		if e, is := known[w]; is {
			out = e
			break
		}
		way = append(way, w)
		next, step, wrong := p.round(w)
		if wrong != "" || next == w {
			out = ending{wrong: wrong}
			if wrong == "" {
				out.end, out.wrong = p.end(w, step)
			}
			break
		}
		w = next
	}
	for _, w := range way {
		known[w] = out
	}
	return out
}

// round lets every host, and then the operator, act without faults.
func (p play) round(w world) (world, Step, string) {
	for i := range p.n {
		if h := &w.hosts[i]; !h.on {
			h.on, h.daemons, h.booted = true, true, !h.step.AtRest()
		}
		for range 12 {
			list, why := p.agent(w, i, false)
			if why != "" {
				return w, Step{}, why
			}
			last := list[len(list)-1]
			if last == w {
				break
			}
			w = last
		}
		if h := &w.hosts[i]; h.step.Trying() {
			h.late = true
		}
	}
	if !p.others(w, -1) {
		return w, Step{}, ""
	}
	w.overdue = p.crash && w.awaited
	w, step, why := p.operator(w, false)
	w.soaked = w.soaked || step.Phase == Proving
	return w, step, why
}

func (p play) end(w world, step Step) (end, wrong string) {
	switch {
	case step.Why == "":
		return "", "it ends without a reason"
	case step.Phase == Idle || step.Phase == Offered:
		for i, h := range w.hosts[:p.n] {
			if h.isNew != w.newer || !p.serves(w, i) {
				return "", "it ends, and " + name(i) + " is elsewhere"
			}
			if p.minor && w.newer && (p.low(h) || !h.newKubelet || !w.proxyNew) {
				return "", "it ends, and " + name(i) + " is not at the new level"
			}
		}
		return "idle " + pick(w.newer), ""
	case step.Do == Pause && p.bad == [3]int{} && !p.crash && !p.dead && !slices.ContainsFunc(w.hosts[:], func(h modelHost) bool { return h.failed || h.sick || h.attempts == parachute.MaxAttempts }):
		return "", "it pauses without a fault: " + step.Why
	case step.Do == Pause && w.returning:
		return "", "a person goes back, and it pauses: " + step.Why
	case step.Do != Pause:
		return "", fmt.Sprintf("it ends in %s %s: %s", step.Phase, step.Do, step.Why)
	}
	return "paused", ""
}
