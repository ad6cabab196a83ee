// Package plan draws random faults. It is pure: a seed and the number of a
// round determine what is broken, on which host, and how long after the
// beginning of the round, so that a failed round can be played again.
package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

// Shape names the hosts that can be broken.
type Shape struct {
	ControlPlanes, Workers []string
}

// Step is one action on one host: a fault of the lab, or an action of a person
// or a program there.
type Step struct {
	// After is the time since the beginning of the round.
	After time.Duration
	Host  string
	Fault *lab.Fault
	// Script runs on the host instead of a fault, Undo undoes it.
	Script, Undo string
	// Kind names the choice, for the figures.
	Kind string
	// Unproven is set if no host can be proven to be off: the other one goes on
	// after the mend or after an administrator's confirmation.
	Unproven bool

	traits trait
}

// Round holds the steps that are done before all is mended again.
type Round struct {
	Seed   uint64
	Number int
	Steps  []Step
	// Hold is the time from the last step to the mend.
	Hold time.Duration
}

// Single reports whether a single fault hits one host, and the other host can
// go on without it.
func (r Round) Single() bool { return len(r.Steps) == 1 && !r.Steps[0].Unproven }

// String describes the round. Steps that are faults read as command lines.
func (r Round) String() string {
	var words []string
	for _, s := range r.Steps {
		words = append(words, s.String())
	}
	return fmt.Sprintf("seed %d round %d: %s; held for %s", r.Seed, r.Number, strings.Join(words, "; "), r.Hold)
}

// String describes the step and its time.
func (s Step) String() string {
	if s.Fault != nil {
		return fmt.Sprintf("after %s %s", s.After, s.Fault)
	}
	return fmt.Sprintf("after %s on %s: %s", s.After, s.Host, s.Script)
}

// Bounds of the draw.
const (
	maxApart           = 12 * time.Second // between two steps of a round
	minHold, maxHold   = 3 * time.Second, 30 * time.Second
	maxHoldAlone       = 60 * time.Second
	pairs, of          = 2, 5 // share of rounds with two steps
	tries              = 50   // to find a second step that fits the first
	granularity        = 100 * time.Millisecond
	workersTurn, turns = 1, 6 // share of rounds that begin at a worker, if there is one
)

// Draw returns a round of a seed. The same arguments always give the same
// round.
func Draw(seed uint64, number int, shape Shape) Round {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	first := draw(r, shape)
	round := Round{Seed: seed, Number: number, Steps: []Step{first}}
	if r.IntN(of) >= pairs {
		round.Hold = between(r, minHold, maxHoldAlone)
		return round
	}
	for range tries {
		second := draw(r, shape)
		if !beside(first, second) {
			continue
		}
		second.After = between(r, 0, maxApart)
		round.Steps = append(round.Steps, second)
		break
	}
	round.Hold = between(r, minHold, maxHold)
	return round
}

// beside reports whether two steps may be in one round.
func beside(a, b Step) bool {
	switch {
	case a.same(b):
		return false
	case a.traits&b.traits&ofDisk != 0 && a.Host == b.Host:
		return false // the lab cannot fill a hanging disk
	case (a.traits|b.traits)&destroys != 0 && a.Host != b.Host:
		return false // one data directory is lost, so the other host must be left alone
	}
	return true
}

func (s Step) same(t Step) bool {
	if s.Host != t.Host || s.Script != t.Script || (s.Fault == nil) != (t.Fault == nil) {
		return false
	}
	return s.Fault == nil || s.Fault.String() == t.Fault.String()
}

func draw(r *rand.Rand, shape Shape) Step {
	list, hosts := ofControlPlanes, shape.ControlPlanes
	if len(shape.Workers) > 0 && r.IntN(turns) < workersTurn {
		list, hosts = ofWorkers, shape.Workers
	}
	choice := pick(r, list)
	step := choice.make(r)
	step.Kind, step.Host, step.traits = choice.kind, pick(r, hosts), choice.traits
	step.Unproven = choice.traits&unproven != 0
	if step.Fault != nil {
		step.Fault.Kind, step.Fault.Host = lab.FaultKind(choice.kind), step.Host
		if err := step.Fault.Check(); err != nil { // fills in the defaults
			panic(fmt.Sprintf("a fault was drawn that is none: %v", err))
		}
	}
	return step
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64((most-least)/granularity)+1))*granularity
}

// Kinds returns all kinds that may be drawn, sorted.
func Kinds() []string {
	var out []string
	for _, c := range slices.Concat(ofControlPlanes, ofWorkers) {
		out = append(out, c.kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
