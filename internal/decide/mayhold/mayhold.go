// Package mayhold decides whether one of two control planes that fence each
// other may hold virtual IPs, by what its etcd keeper knows. VRRP then chooses
// the holder among those that may.
package mayhold

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Facts holds the input of the decision.
type Facts struct {
	// Fencing is true in a cluster whose two control planes fence each other.
	Fencing bool
	// Recorded is true once this host's part in the pair is recorded on its disk,
	// which is from the hand-over of etcd on.
	Recorded bool
	// Report is the report of the etcd keeper, unknown if it does not answer.
	Report state.Fact[state.EtcdReport]
}

// Verdict says whether the host may hold virtual IPs, and why. While May is
// unknown the host stays as it was.
type Verdict struct {
	May    state.Fact[bool]
	Reason string
}

func yes(reason string) Verdict { return Verdict{state.Known(true), reason} }
func no(reason string) Verdict  { return Verdict{state.Known(false), reason} }

// Decide decides whether the host may hold virtual IPs. A host that has lost its
// peer goes on holding them. Either it fences the peer, or the peer fences it,
// and then it certainly holds nothing. Waiting for the outcome would add the
// time of the fence to every gap.
func Decide(f Facts) Verdict {
	s := f.Report.Value.Snapshot
	switch {
	case !f.Fencing:
		return yes("hosts of this cluster do not fence each other")
	case !f.Recorded && (!f.Report.Known || s.Peer == ""):
		return yes("the pair is not set up yet")
	case !f.Report.Known:
		return Verdict{Reason: "the etcd keeper does not answer"}
	case s.Record.Known && s.Record.Value.State == state.EtcdDeparting:
		return no("this host has left the pair")
	case s.Record.Known && s.Record.Value.State == state.EtcdMajority:
		return yes("three vote, or may: no host goes on without the others")
	case state.Is(s.Pacemaker.Inert, true):
		return no("this host has not seen its peer since boot, and the peer may have gone on without it")
	case !s.Pacemaker.Inert.Known:
		return Verdict{Reason: "Corosync does not answer"}
	}
	return yes("this host has quorum")
}

// Mark returns a text that stands for all that Decide reads from a report: two
// reports with the same mark have the same verdict.
func Mark(r state.EtcdReport) string {
	s := r.Snapshot
	is := func(e state.EtcdState) bool { return s.Record.Known && s.Record.Value.State == e }
	return fmt.Sprintf("%t %t %t %+v", s.Peer != "", is(state.EtcdDeparting), is(state.EtcdMajority), s.Pacemaker.Inert)
}

// AtBoot returns the verdict before anything is known in this boot. A host that
// was fenced comes back with it.
func AtBoot(fencing, recorded bool) Verdict {
	if fencing && recorded {
		return no("nothing has been determined in this boot yet")
	}
	return Decide(Facts{Fencing: fencing, Recorded: recorded})
}
