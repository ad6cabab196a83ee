package cluster

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The new release may fail on a host long after it was accepted there. Then a person goes back, and
// what ails the host may be what it has to go back from: whoever waited until it is well would wait
// for ever. So on the way back of a site who is not well goes first, and waits for nobody who is not
// well either.

// ails reports whether a host is to go back although it is not well, and perhaps for that: it runs the
// new release, and its agent speaks. A host that is silent hears of no turn, and one that was
// installed with the new release goes to the old one as to any other, well. The agent decides itself
// whether it may stop its etcd; nobody asks it to while its vote is one of too few.
func (s Site) ails(h Host) bool {
	r := s.Record
	if !r.Returning || r.NoWayBack || h.well() || !h.Journal.Step.AtRest() || !state.Is(h.Running, r.To) || h.installed(r) {
		return false
	}
	return h.Worker || !state.Is(h.Votes, true) || s.othersVote(h.Name)
}

func (s Site) othersVote(but string) bool {
	return !slices.ContainsFunc(s.Hosts, func(h Host) bool { return !h.Worker && h.Name != but && !state.Is(h.Votes, true) })
}

func (s Site) anyAils(hosts []string) bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool { return slices.Contains(hosts, h.Name) && s.ails(h) })
}

// unwell returns who goes back first, nil for nobody: control planes before workers, and whose etcd
// does not vote before whose vote the others may need.
func (s Site) unwell() *Host {
	list := slices.DeleteFunc(back(s.Hosts), func(h Host) bool { return !s.ails(h) })
	if len(list) == 0 {
		return nil
	}
	rank := func(h Host) int {
		switch {
		case h.Worker:
			return 2
		case state.Is(h.Votes, true):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b Host) int { return cmp.Compare(rank(a), rank(b)) })
	return &list[0]
}

// goesFirst is why.
func goesFirst(host string) string {
	return host + " is not well on the new release, and goes back first"
}

// unwellBack gives a host that is not well its turn. The parts go back before, if somebody can bring
// them: where the only control plane is the one that is not well, they follow it, and so does a part
// that did not start. The host may be what keeps it from that.
func (s Site) unwellBack() (Step, bool) {
	h := s.unwell()
	if h == nil {
		return Step{}, false
	}
	if step, waits := s.partsBack(); waits && (step.Do != Bring || s.brings() && !s.stuck(step.Part)) {
		return step, true
	}
	step, _ := s.give([]Host{*h})
	if step.Do == Write {
		step.Why = goesFirst(h.Name)
	}
	return step, true
}

// stuck reports whether a part was brought to its old release and did not start.
func (s Site) stuck(part string) bool {
	return slices.ContainsFunc(s.Parts, func(p Part) bool { return p.Name == part && p.Stuck != "" })
}

// brings reports whether a control plane can bring the parts of the old release.
func (s Site) brings() bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool { return !h.Worker && state.Is(h.Present, true) && state.Is(h.Old, true) })
}

// besideProof gives a host that is not well its turn on the way back although another one is at
// work, if that one holds in its proof: it may wait for the very host that is not well, and of two
// control planes it would wait for ever. Workers keep no control plane from going back either.
func (s Site) besideProof() (Step, bool) {
	h, work := s.unwell(), s.atWork()
	if h == nil || len(work) == 0 || slices.Contains(s.Record.Turns, h.Name) || s.fewer() != "" {
		return Step{}, false
	}
	for _, w := range work {
		there := state.Is(w.Present, true)
		proves := w.Journal.Step == parachute.Proving && there && w.Held != ""
		aside := w.Worker && !h.Worker && (w.Held != "" || !there)
		if !proves && !aside {
			return Step{}, false
		}
	}
	r := s.Record
	r.Turns = []string{h.Name} // the other one keeps what it runs until this one serves again
	return s.write(r, goesFirst(h.Name)+", although "+strings.Join(names(work), " and ")+" is at work and waits")
}

// instead takes the turns of hosts that have not begun and that are well, or silent, for one that is
// not well.
func (s Site) instead(turns []string) (Step, bool) {
	h := s.unwell()
	if h == nil || len(s.atWork()) > 0 || s.anyAils(turns) {
		return Step{}, false
	}
	r := s.Record
	r.Turns = nil
	return s.write(r, goesFirst(h.Name))
}
