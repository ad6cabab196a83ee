package twonode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestNetworkCut(t *testing.T) {
	for _, kind := range []lab.FaultKind{lab.FaultPartition, lab.FaultLinkDown} {
		scenario(t, "network cut ("+string(kind)+")", 2, func(tr *trial) { tr.networkCut(lab.Fault{Kind: kind, Host: "cp-2"}, 0) })
	}
}

func TestPersistentNetworkCut(t *testing.T) {
	scenario(t, "network cut that stays", 1, func(tr *trial) {
		tr.networkCut(lab.Fault{Kind: lab.FaultPartition, Host: "cp-2"}, time.Minute)
	})
}

// networkCut cuts off the second host and expects that the first one by name
// survives. The other boots and stays inert as long as the cut lasts, then it
// joins.
func (tr *trial) networkCut(f lab.Fault, hold time.Duration) {
	survivor, lost := "cp-1", "cp-2"
	tr.survivor = survivor
	tr.fault(f)
	tr.writable(survivor, backWithin)
	tr.takeOver(survivor)
	tr.sameProcess(survivor)
	tr.eventually(2*time.Minute, lost+" has booted", func() error {
		st, err := tr.PowerOf(tr.Context(), lost)
		if err == nil && (st.PID == 0 || !st.Since.After(tr.at)) {
			err = fmt.Errorf("its power is %s since %s", st.Power, st.Since)
		}
		return err
	})
	pause(tr.Context(), 8*time.Second) // the time in which its services start
	tr.stays(hold+5*time.Second, "the fenced host without its peer", func() error { return tr.inert(lost) })
	tr.fenced(1)
	tr.mend(lost, f.Kind)
	tr.healthyAgain()
	tr.sameProcess(survivor)
	tr.fenced(1)
}

// TestFencingNetworkCut takes the path to the BMCs from one host for longer
// than the time between two checks: nothing may happen, but people must be
// told.
func TestFencingNetworkCut(t *testing.T) {
	scenario(t, "fencing network cut, nothing else", 1, func(tr *trial) {
		tr.byName = true
		tr.fault(lab.Fault{Kind: lab.FaultLinkDown, Host: "cp-1", NIC: lab.OnFencing})
		tr.stays(checkInterval+checkTakes, "the cluster without its fencing network", func() error { return tr.twoVoters(tr.Context()) })
		tr.noGapAbove(busyGap)
		tr.mend("cp-1", lab.FaultLinkDown)
		tr.healthyAgain()
		tr.fenced(0)
	})
}

func TestSlowAndLossyNetwork(t *testing.T) {
	scenario(t, "late packets, 50 ms each way", 1, func(tr *trial) {
		tr.fault(lab.Fault{Kind: lab.FaultDelay, Host: "cp-2", Delay: 50 * time.Millisecond})
		pause(tr.Context(), 20*time.Second)
		tr.mend("cp-2", lab.FaultDelay)
		tr.healthyAgain()
		tr.fenced(0)
	})
	scenario(t, "a tenth of the packets lost", 1, func(tr *trial) {
		tr.fault(lab.Fault{Kind: lab.FaultLoss, Host: "cp-2", Percent: 10})
		pause(tr.Context(), 20*time.Second)
		tr.mend("cp-2", lab.FaultLoss)
		tr.healthyAgain()
		tr.fenced(0)
	})
}

// noGapAbove checks that since the fault clients could always write to etcd.
func (tr *trial) noGapAbove(limit time.Duration) {
	tr.Helper()
	h := tr.rec.Copy()
	if gap := h.Gap("", tr.rec.At(tr.at), h.End()); gap.Length > limit {
		tr.Errorf("nobody could write for %s (from %s to %s, the fault was at %s), want at most %s",
			gap.Length, gap.From, gap.Until, tr.rec.At(tr.at), limit)
	}
}

// waits checks that a host reports that it can do nothing about its peer by
// itself, and that it takes nothing over.
func (tr *trial) waits(host string, d time.Duration) {
	tr.Helper()
	tr.stays(d, "a take-over without proof", func() error {
		r, err := tr.Etcd(tr.Context(), host)
		if err != nil {
			return nil //nolint:nilerr // a busy host is late with its answer; the sampler asks on
		}
		if got := r.Snapshot.Record; !got.Known || got.Value.State != state.EtcdPair {
			return fmt.Errorf("%s is %s, not pair: %s: %s %s", host, got.Value.State, r.Verdict.Rule, r.Verdict.Reason, r.Problem)
		}
		return nil
	})
	if at := tr.sampler.first(host, tr.at, func(d decision) bool { return d.record.Leads() }); !at.IsZero() {
		tr.Errorf("%s took over %s after the fault without a proof", host, at.Sub(tr.at))
	}
}
