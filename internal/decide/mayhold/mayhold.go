// Package mayhold decides whether one of two control planes that fence each
// other may hold virtual IPs, by what the keeper of its etcd knows. Who does
// hold them VRRP decides among those that may.
package mayhold

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts is what the decision looks at.
type Facts struct {
	// Fencing is true on a cluster whose two control planes fence each other.
	Fencing bool
	// Recorded is true once this host's part in the pair is recorded on its
	// disk: from the hand-over of etcd on.
	Recorded bool
	// Report is what the keeper of etcd says, unknown where it does not answer.
	Report state.Fact[state.EtcdReport]
}

// Verdict is whether the host may hold virtual IPs, and why. Unknown, it stays
// as it was.
type Verdict struct {
	May    state.Fact[bool]
	Reason string
}

func yes(reason string) Verdict { return Verdict{state.Known(true), reason} }
func no(reason string) Verdict  { return Verdict{state.Known(false), reason} }

// Decide says whether the host may hold virtual IPs. A host that has lost its
// peer goes on holding: either it fences the peer, or the peer fences it, and
// then it holds nothing for sure. Waiting for that would add the fence to every
// gap.
func Decide(f Facts) Verdict {
	s := f.Report.Value.Snapshot
	switch {
	case !f.Fencing:
		return yes("hosts of this cluster do not fence each other")
	case !f.Recorded && (!f.Report.Known || s.Peer == ""):
		return yes("the pair is not set up yet")
	case !f.Report.Known:
		return Verdict{Reason: "the keeper of etcd does not answer"}
	case s.Record.Known && s.Record.Value.State == state.EtcdDeparting:
		return no("this host has left the pair")
	case state.Is(s.Pacemaker.Inert, true):
		return no("this host has not seen its peer since it booted, which may be going on without it")
	case !s.Pacemaker.Inert.Known:
		return Verdict{Reason: "Corosync does not answer"}
	}
	return yes("this host has quorum")
}

// Mark stands for all that Decide looks at in a report: two reports with the
// same mark have the same verdict.
func Mark(r state.EtcdReport) string {
	s := r.Snapshot
	return fmt.Sprintf("%t %t %+v", s.Peer != "", s.Record.Known && s.Record.Value.State == state.EtcdDeparting, s.Pacemaker.Inert)
}

// AtBoot is what holds before anything is known in a boot: a host that was
// fenced comes back so.
func AtBoot(fencing, recorded bool) Verdict {
	if fencing && recorded {
		return no("nothing is known in this boot yet")
	}
	return Decide(Facts{Fencing: fencing, Recorded: recorded})
}
