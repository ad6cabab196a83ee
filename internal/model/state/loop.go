package state

import "time"

// LoopsStatusPath is the file with the states of the agent's loops. Those of the
// network are in NetworkStatusPath.
const LoopsStatusPath = "/run/holdfast/loops.json"

// LoopsStatus holds the states of the loops of a host's agent.
type LoopsStatus struct {
	At    time.Time `json:"at"`
	Loops []Loop    `json:"loops"`
}

// Loop is the state of a loop: of something that the agent does again and again.
type Loop struct {
	Name string `json:"name"`
	// Changed names its last change, ChangedAt the time of that.
	Changed   string    `json:"changed,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// Error gives the reason for which its last run failed, empty if it did not.
	// Failures counts the runs that failed in a row, since FailingSince.
	Error        string    `json:"error,omitempty"`
	Failures     int       `json:"failures,omitempty"`
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Runs counts all its runs, Took is how long the last one took.
	Runs int           `json:"runs"`
	Took time.Duration `json:"tookNanoseconds"`
	// Since is the begin of the run that is under way, zero if none is.
	Since time.Time `json:"runningSince,omitzero"`
	// Hangs is true if that run lasts longer than it may.
	Hangs bool `json:"hangs,omitempty"`
}

// Ran records a run that has ended, and its change.
func (l *Loop) Ran(began, ended time.Time, changed string) {
	l.Since, l.Took, l.Runs = time.Time{}, ended.Sub(began), l.Runs+1
	if changed != "" {
		l.Changed, l.ChangedAt = changed, ended
	}
}

// Met records the error of a run, nil for none.
func (l *Loop) Met(at time.Time, err error) {
	if err == nil {
		l.Error, l.Failures, l.FailingSince = "", 0, time.Time{}
		return
	}
	if l.Failures == 0 {
		l.FailingSince = at
	}
	l.Error, l.Failures = err.Error(), l.Failures+1
}
