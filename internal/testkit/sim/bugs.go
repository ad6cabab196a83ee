package sim

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Bug takes out a rule of the protocol, or adds a mistake that somebody has
// made before. The decision itself has no switch: a bug changes its input or
// its verdict, or the behaviour of the hosts around it.
type Bug struct {
	Name string
	What string
	// Origin is the part of the protocol that is taken out, or the bug of
	// another project.
	Origin string

	// Seed is a schedule that finds the bug.
	Seed uint64

	snapshot      func(*world, int, *state.EtcdSnapshot)
	verdict       func(*world, int, *state.EtcdSnapshot, *state.EtcdVerdict)
	anyOrder      bool // attributes are accepted in any order
	trustsRequest bool // a fence counts once the BMC took the request
	liar          bool // a BMC says Off while the host runs
	forceNew      bool // force-new-cluster regains quorum

	// sites is true if only a site that changes shows the bug.
	sites bool
	// thirds is true if only a site shows it that gets a third control plane, or gives one up.
	thirds bool
	// wide and narrow change what an agent sees that carries such a plan out, and what it decides.
	wide       func(*world, int, *widen.Facts)
	wideNext   func(*world, int, widen.Facts, *widen.Decision)
	narrow     func(*world, int, *narrow.Facts)
	narrowNext func(*world, int, narrow.Facts, *narrow.Decision)
	blind      bool // nobody asks whether the two others serve when a host's etcd is stopped
	reopens    bool // the third machine gets its file of etcd again after its vote
	// facts changes what the agent sees that carries a plan out, and decision what it decides.
	facts    func(*replace.Facts)
	decision func(*world, replace.Facts, *replace.Decision)
	stays    bool // a replaced host that wakes up does not switch itself off
}

// FindBug returns the bug of a name.
func FindBug(name string) (*Bug, bool) {
	k := slices.IndexFunc(Bugs, func(b Bug) bool { return b.Name == name })
	if k < 0 {
		return nil, false
	}
	return &Bugs[k], true
}

// BugNames lists the names of all bugs.
func BugNames() string {
	var names []string
	for _, b := range Bugs {
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

// forbid makes a host wait where it would follow one of the rules.
func forbid(rules ...string) func(*world, int, *state.EtcdSnapshot, *state.EtcdVerdict) {
	return func(_ *world, _ int, _ *state.EtcdSnapshot, v *state.EtcdVerdict) {
		if slices.Contains(rules, v.Rule) {
			*v = state.EtcdVerdict{Action: state.EtcdWait, Rule: v.Rule, Reason: "this rule is taken out"}
		}
	}
}

// pretendFenced fakes the proof of a fence whenever contact is lost.
func pretendFenced(s *state.EtcdSnapshot) {
	if state.Is(s.Pacemaker.Contact, false) && state.Is(s.Pacemaker.Inert, false) {
		s.Proofs.Fenced = state.Known(state.EtcdFenced{Target: s.Peer, State: state.PowerOff, Boot: s.Boot, At: s.Uptime})
	}
}

// claim changes the state of the record before the decision sees it.
func claim(s *state.EtcdSnapshot, from, to state.EtcdState) {
	if s.Record.Value.State == from {
		s.Record.Value.State = to
	}
}
