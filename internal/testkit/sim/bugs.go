package sim

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Bug takes a rule of the protocol out, or puts a mistake in that somebody
// made before. The decision itself has no switch: a bug changes what it is
// told, or what it said, or what the hosts around it do.
type Bug struct {
	Name string
	What string
	// Origin is the part of the protocol that is taken out, or the bug of
	// another project.
	Origin string

	// Seed is a schedule that finds it.
	Seed uint64

	snapshot      func(*world, int, *state.EtcdSnapshot)
	verdict       func(*world, int, *state.EtcdSnapshot, *state.EtcdVerdict)
	anyOrder      bool // attributes are taken in whatever order they come
	trustsRequest bool // a fence counts once the BMC took the request
	liar          bool // a BMC says Off while the host runs
	forceNew      bool // quorum is regained by forcing a new cluster
}

// FindBug returns the bug of a name.
func FindBug(name string) (*Bug, bool) {
	k := slices.IndexFunc(Bugs, func(b Bug) bool { return b.Name == name })
	if k < 0 {
		return nil, false
	}
	return &Bugs[k], true
}

// BugNames lists the names.
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

// pretendFenced invents the proof of a fence wherever contact is lost.
func pretendFenced(s *state.EtcdSnapshot) {
	if state.Is(s.Pacemaker.Contact, false) && state.Is(s.Pacemaker.Inert, false) {
		s.Proofs.Fenced = state.Known(state.EtcdFenced{Target: s.Peer, State: state.PowerOff, Boot: s.Boot, At: s.Uptime})
	}
}

// claim changes the state of the record that the decision is told.
func claim(s *state.EtcdSnapshot, from, to state.EtcdState) {
	if s.Record.Value.State == from {
		s.Record.Value.State = to
	}
}
