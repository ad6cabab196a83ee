package guards

import (
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// What a person writes on a policy to go past it for a while, and why: the
// operator would bring back what he deletes.
const (
	AnnotationLifted  = Label + "-lifted-until"
	AnnotationBecause = Label + "-lifted-because"
)

// LongestLift bounds how long a guard may be lifted, so that none stays so
// because somebody forgot.
const LongestLift = 24 * time.Hour

// Lift is what the annotations of a policy ask for.
type Lift struct {
	// Until is when the guard refuses again, zero where it was never lifted.
	Until time.Time
	// Because is the reason that was given.
	Because string
	// Mistake is why the wish is not followed, empty where it is.
	Mistake string
}

// Lifted reads the wish.
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

// Active is whether a guard is lifted.
func (l Lift) Active(now time.Time) bool { return now.Before(l.Until) }

// Warning returns a guard that says what it would have said, and refuses
// nothing.
func (g Guard) Warning() Guard {
	g.Binding = g.Binding.DeepCopy()
	g.Binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Audit}
	return g
}
