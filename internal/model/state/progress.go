package state

import "time"

// ProgressPath is the file in which a host keeps the progress of its
// installation.
const ProgressPath = "/var/lib/holdfast/install/progress.json"

// StepState is the state of a step.
type StepState string

// The states of a step.
const (
	StepRunning StepState = "running"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed" // it is tried again
)

// Progress describes how far the installation of one host is.
type Progress struct {
	Host  string `json:"host"`
	Role  Role   `json:"role"`
	Steps []Step `json:"steps"`
	// Error is the reason for which the last try of the current step failed, empty
	// while it runs.
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

// Current returns the present step of the host, and false before the first.
func (p Progress) Current() (Step, bool) {
	if len(p.Steps) == 0 {
		return Step{}, false
	}
	return p.Steps[len(p.Steps)-1], true
}

// Doing describes in a few words what the host does now.
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
