package podmanetcd

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Code is an exit code of the OCF standard.
type Code int

// The codes that the agent uses.
const (
	Success       Code = 0
	Generic       Code = 1
	BadArguments  Code = 2
	Unimplemented Code = 3
	NotInstalled  Code = 5
	Misconfigured Code = 6
	NotRunning    Code = 7
)

// Answer is what the daemon says to an action of Pacemaker.
type Answer struct {
	Code Code `json:"code"`
	// Reason is shown by Pacemaker beside the failure.
	Reason string `json:"reason,omitempty"`
}

// Patience is how long etcd may be down on a host that should run it before
// its monitor fails: a restart in place, a rejoin and a take-over end sooner,
// and a report of success for a dead process must not last.
const Patience = 2 * time.Minute

// Question is how long etcd is down on a host that asks for a person, before
// its monitor says so: the answer may be on its way, and each failure counts
// against the instance.
const Question = 30 * time.Second

// Monitor returns what a monitor says, and why where it is a failure. Waiting
// is no failure: a restart by Pacemaker would bring nothing that the daemon
// does not do already. A question to a person is one, so that it is seen.
func Monitor(r state.EtcdReport) (Code, string) {
	switch {
	case r.Wish != state.EtcdStarted: // kubeadm's etcd, before the hand-over, is not ours
		return NotRunning, ""
	case !state.Is(r.Snapshot.Local.Running, false):
		return Success, ""
	case r.Verdict.Action == state.EtcdAskHuman && r.Down > Question:
		return Generic, reason(r)
	case r.Down > Patience:
		return Generic, fmt.Sprintf("etcd is down for %s: %s", r.Down.Round(time.Second), reason(r))
	}
	return Success, ""
}

func reason(r state.EtcdReport) string {
	out := r.Verdict.Reason
	if r.Problem != "" {
		out += " (" + r.Problem + ")"
	}
	if r.Verdict.Next != "" {
		out += "; type: " + r.Verdict.Next
	}
	return out
}
