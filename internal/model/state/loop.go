package state

import "time"

// LoopsStatusPath is where the agent of a host leaves how its loops are doing.
// Those of the network are in NetworkStatusPath.
const LoopsStatusPath = "/run/holdfast/loops.json"

// LoopsStatus is how the loops of a host's agent are doing.
type LoopsStatus struct {
	At    time.Time `json:"at"`
	Loops []Loop    `json:"loops"`
}

// Loop is how something is doing that the agent does again and again.
type Loop struct {
	Name string `json:"name"`
	// Changed is what it last changed, and ChangedAt when.
	Changed   string    `json:"changed,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// Error is why it cannot do what it should, empty where it can; Failures
	// counts the tries that failed in a row, since FailingSince.
	Error        string    `json:"error,omitempty"`
	Failures     int       `json:"failures,omitempty"`
	FailingSince time.Time `json:"failingSince,omitzero"`
	// Runs counts all its runs, Took is how long the last one took.
	Runs int           `json:"runs"`
	Took time.Duration `json:"tookNanoseconds"`
	// Since is when the run began that is under way, zero where none is.
	Since time.Time `json:"runningSince,omitzero"`
	// Hangs is true where that run lasts longer than it may.
	Hangs bool `json:"hangs,omitempty"`
}

// Ran takes in a run that has ended, and what it changed.
func (l *Loop) Ran(began, ended time.Time, changed string) {
	l.Since, l.Took, l.Runs = time.Time{}, ended.Sub(began), l.Runs+1
	if changed != "" {
		l.Changed, l.ChangedAt = changed, ended
	}
}

// Met takes in what a run met, nil for nothing.
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
