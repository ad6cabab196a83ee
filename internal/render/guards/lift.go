package guards

import (
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// The annotations with which an administrator lifts a policy for a while, and
// says why: the operator would create a deleted one again.
const (
	AnnotationLifted  = Label + "-lifted-until"
	AnnotationBecause = Label + "-lifted-because"
)

// LongestLift bounds the time for which a guard may be lifted, so that nobody
// forgets one for ever.
const LongestLift = 24 * time.Hour

// Lift is the request in the annotations of a policy.
type Lift struct {
	// Until is the time at which the guard refuses again, zero if it was never
	// lifted.
	Until time.Time
	// Because is the given reason.
	Because string
	// Mistake says why the request is not followed; empty if it is.
	Mistake string
}

// Lifted reads the request.
func Lifted(annotations map[string]string, now time.Time) Lift {
	text, ok := annotations[AnnotationLifted]
	if !ok {
		return Lift{}
	}
	until, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return Lift{Mistake: fmt.Sprintf("annotation %s: %q is not a time such as %s", AnnotationLifted, text, now.Add(time.Hour).UTC().Format(time.RFC3339))}
	case until.After(now.Add(LongestLift)):
		return Lift{Mistake: fmt.Sprintf("annotation %s: %s is more than %v ahead", AnnotationLifted, text, LongestLift)}
	}
	return Lift{Until: until, Because: annotations[AnnotationBecause]}
}

// Active reports whether a guard is lifted.
func (l Lift) Active(now time.Time) bool { return now.Before(l.Until) }

// Warning returns a guard that only warns with its messages, and refuses
// nothing.
func (g Guard) Warning() Guard {
	g.Binding = g.Binding.DeepCopy()
	g.Binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}
	return g
}
