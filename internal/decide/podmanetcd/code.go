package podmanetcd

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Code is an exit code of the OCF standard.
type Code int

// The codes that the resource agent uses.
const (
	Success       Code = 0
	Generic       Code = 1
	BadArguments  Code = 2
	Unimplemented Code = 3
	NotInstalled  Code = 5
	Misconfigured Code = 6
	NotRunning    Code = 7
)

// Answer holds the etcd keeper's answer to an action of Pacemaker.
type Answer struct {
	Code Code `json:"code"`
	// Pacemaker shows Reason beside the failure.
	Reason string `json:"reason,omitempty"`
}

// Patience is the longest time that etcd may be down on a host that should run
// it before its monitor fails. A restart in place, a rejoin and a take-over end
// sooner, and success must not be reported for a dead process for long.
const Patience = 2 * time.Minute

// Question is the longest time that etcd may be down on a host that asks for an
// administrator before its monitor fails. The answer may be on its way, and each
// failure counts against the instance.
const Question = 30 * time.Second

// Monitor returns the result of a monitor action, and the reason of a failure.
// Waiting is no failure: a restart by Pacemaker would do nothing that the etcd
// keeper does not do already. A question to an administrator is one, so that it
// is seen.
func Monitor(r state.EtcdReport) (Code, string) {
	switch {
	case r.Wish != state.EtcdStarted: // before the hand-over kubeadm's etcd runs, which is not ours
		return NotRunning, ""
	case !state.Is(r.Snapshot.Local.Running, false):
		return Success, ""
	case r.Verdict.Action == state.EtcdAskHuman && r.Down > Question:
		return Generic, reason(r)
	case r.Down > Patience:
		return Generic, fmt.Sprintf("etcd has been down for %s: %s", r.Down.Round(time.Second), reason(r))
	}
	return Success, ""
}

func reason(r state.EtcdReport) string {
	out := r.Verdict.Reason
	if r.Problem != "" {
		out += " (" + r.Problem + ")"
	}
	if r.Verdict.Next != "" {
		out += "; run: " + r.Verdict.Next
	}
	return out
}
