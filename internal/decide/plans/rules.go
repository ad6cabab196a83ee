// Package plans has what decisions about a plan share that two hosts keep (decide/widen, decide/narrow):
// the form of a rule, the choice of the first one that fits, the rules at the end of such a plan, and the
// gates that are the same. It decides nothing of what a plan does.
package plans

import (
	"fmt"
	"time"
)

// Decision is the next act of a host. A is the type of the acts, P that of the plan.
type Decision[A ~string, P any] struct {
	// Step is the step of the plan's decision record; Rule is the rule that decided.
	Step, Rule string
	Act        A
	// Words say for a person what is done or waited for. Way says what the person has to type, if only
	// a person can go on.
	Words, Way string
	// Plan is the plan to write before anything else happens; nil if it does not change.
	Plan *P
}

// Rule is one rule about facts of type F.
type Rule[F any, A ~string, P any] struct {
	Step, ID string
	Act      A
	When     func(F) bool
	Words    func(F) string
	Way      string
	Plan     func(F) *P
}

// First returns the decision of the first rule that fits. found is false if none does.
func First[F any, A ~string, P any](rules []Rule[F, A, P], f F) (d Decision[A, P], found bool) {
	for _, r := range rules {
		if !r.When(f) {
			continue
		}
		d = Decision[A, P]{Step: r.Step, Rule: r.ID, Act: r.Act, Words: r.Words(f), Way: r.Way}
		if r.Plan != nil {
			d.Plan = r.Plan(f)
		}
		return d, true
	}
	return d, false
}

// Says returns the words of a rule: a format, and what it is filled with.
func Says[F any](format string, of ...func(F) string) func(F) string {
	return func(f F) string {
		var a []any
		for _, o := range of {
			a = append(a, o(f))
		}
		return fmt.Sprintf(format, a...)
	}
}

// Always is the condition of a rule that fits whenever the ones before it do not.
func Always[F any](F) bool { return true }

// Sight is what a host sees of both ends of a plan: its own, the cluster's copy, and what the other host
// tells. Stages are in their own words.
type Sight struct {
	Here, There string // the names of the two hosts
	// Known is true if the cluster tells whether it has a copy, Mine if it has one of this plan.
	Known, Mine bool
	// Stage is that of the plan, Copied that of the cluster's copy, Told that of the other host's copy;
	// ToldKnown is false if that is not known.
	Stage, Copied, Told string
	ToldKnown           bool
	// Far is true if the other host is known to be as far, Alone if this host went on alone, or a person
	// said that the other one will not come back.
	Far, Alone bool
	// Since is the time at which the plan was written last, Now that of the look. Again is true if a
	// person asked for the end after that.
	Since, Now time.Time
	Again      bool
}

// FarOver reports whether the other host knows the end, or never said that it has a copy. One that has
// a copy all the same ends it by itself, once the cluster has none.
func (s Sight) FarOver() bool { return s.Far || s.ToldKnown && s.Told == "" }

// patience is how long the lock of a plan that is over waits for the other host, which tells within
// seconds if it runs. The end needs nothing of it, and while the lock is there a lost host cannot be
// replaced.
const patience = 10 * time.Minute

// awaits reports whether the end of a plan still waits for the other host.
func (s Sight) awaits() bool {
	age := s.Now.Sub(s.Since) // a negative one is none: the clock was set
	return s.Mine && !s.FarOver() && !s.Alone && !s.Again && age >= 0 && age < patience
}

// AwaitRule is the rule by which a plan that is over keeps the lock for a while.
const AwaitRule = "over.await"

// Acts are the acts of the rules that plans share.
type Acts[A ~string] struct{ Wait, CopyPlan, DropLock, Tell A }

// Over has the host that does not carry the plan tell that it knows the end.
func Over[F any, A ~string, P any](step string, do Acts[A], see func(F) Sight) []Rule[F, A, P] {
	here := func(f F) string { return see(f).Here }
	return []Rule[F, A, P]{{
		Step: step, ID: "over.tell", Act: do.Tell,
		When:  func(f F) bool { s := see(f); return s.Mine && s.ToldKnown && s.Told != s.Stage },
		Words: Says("%s tells that it knows the end of the plan", here),
	}}
}

// OverCarrier has the host that carries the plan wait until the other one knows the end, but not for
// ever, and then delete the lock. A host that comes back later ends its copy because the lock is gone.
func OverCarrier[F any, A ~string, P any](step string, do Acts[A], see func(F) Sight) []Rule[F, A, P] {
	there := func(f F) string { return see(f).There }
	return []Rule[F, A, P]{
		{
			Step: step, ID: "over.copy", Act: do.CopyPlan, When: func(f F) bool { s := see(f); return s.Mine && s.Copied != s.Stage },
			Words: Says("%s is told the end of the plan", there),
		},
		{
			Step: step, ID: AwaitRule, Act: do.Wait, When: func(f F) bool { return see(f).awaits() },
			Words: Says("waits until %s knows the end of the plan, for ten minutes at most", there),
		},
		{
			Step: step, ID: "over.lock", Act: do.DropLock, When: func(f F) bool { return see(f).Mine },
			Words: Says[F]("the cluster's copy of the plan is deleted, since the plan is over"),
		},
		{
			Step: step, ID: "over.unknown", Act: do.Wait, When: func(f F) bool { return !see(f).Known },
			Words: Says[F]("the API does not say whether the cluster's copy of the plan is gone"),
		},
	}
}

// Tells has the host that does not carry the plan tell how far it is, if that changed, and wait. told is
// true if the cluster has what it would tell now, or if that is not known.
func Tells[F any, A ~string, P any](step string, do Acts[A], see func(F) Sight, told func(F) bool) []Rule[F, A, P] {
	return []Rule[F, A, P]{
		{
			Step: step, ID: "tell", Act: do.Tell, When: func(f F) bool { return !told(f) },
			Words: Says("%s tells how far it is", func(f F) string { return see(f).Here }),
		},
		{
			Step: step, ID: "follow", Act: do.Wait, When: Always[F],
			Words: Says("%s carries the plan on", func(f F) string { return see(f).There }),
		},
	}
}

// LockTold is the key of the lock of plans under which the host that does not carry the plan tells how far
// it is.
const LockTold = "told"
