package state

import "time"

// ProgressPath is where a host keeps how far its installation is.
const ProgressPath = "/var/lib/holdfast/install/progress.json"

// StepState is how far a step is.
type StepState string

// The states of a step.
const (
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed" // it is tried again
)

// Progress tells how far the installation of one host is.
type Progress struct {
	Host  string `json:"host"`
	Role  Role   `json:"role"`
	Steps []Step `json:"steps"`
	// Error is why the last try of the current step failed, empty while it
	// runs.
	Error string `json:"error,omitempty"`
	// Complete is true when nothing is left to do on this host.
	Complete bool `json:"complete"`
}

// Step is one step of an installation.
type Step struct {
	Name    string    `json:"name"`
	State   StepState `json:"state"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	// Message is the reason of a failure, or what the step waits for.
	Message string `json:"message,omitempty"`
}

// Current returns the step that the host is at, and false before the first.
func (p Progress) Current() (Step, bool) {
	if len(p.Steps) == 0 {
		return Step{}, false
	}
	return p.Steps[len(p.Steps)-1], true
}

// Doing says in a few words what the host is at.
func (p Progress) Doing() string {
	step, any := p.Current()
	switch {
	case p.Complete:
		return "is ready"
	case !any:
		return "boots"
	case p.Error != "":
		return "tries " + step.Name + " again: " + p.Error
	case step.Message != "":
		return step.Name + ": " + step.Message
	}
	return step.Name
}
