package twonode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/state"
)

// gracefulGap is how long nobody may be able to write when a host leaves.
const gracefulGap = time.Second

func TestGracefulReboot(t *testing.T) {
	scenario(t, "graceful reboot of the leader", 3, func(tr *trial) { tr.reboot(tr.leads) })
	scenario(t, "graceful reboot of the follower", 3, func(tr *trial) { tr.reboot(tr.other(tr.leads)) })
}

// reboot restarts a host as a person does.
func (tr *trial) reboot(host string) {
	tr.survivor = tr.other(host)
	tr.now()
	tr.on(host, "systemctl --no-block reboot")
	tr.eventually(3*time.Minute, host+" has booted again", func() error {
		st, err := tr.powerOf(tr.Context(), host)
		if err == nil && (st.PID == 0 || !st.Since.After(tr.at)) {
			err = fmt.Errorf("its power is %s since %s", st.Power, st.Since)
		}
		return err
	})
	tr.healthyAgain()
	tr.noGapAbove(gracefulGap)
	tr.sameProcess(tr.survivor)
	tr.fenced(0)
}

func TestStandby(t *testing.T) {
	scenario(t, "standby of the leader", 2, func(tr *trial) {
		host := tr.leads
		tr.survivor = tr.other(host)
		tr.now()
		tr.on(host, "pcs node standby "+host)
		tr.eventually(2*time.Minute, "etcd of "+host+" has ended", func() error {
			if list := tr.processes(host, "etcd"); len(list) > 0 {
				return fmt.Errorf("it runs: %v", list)
			}
			return tr.recordIs(tr.Context(), tr.survivor, state.EtcdSole)
		})
		tr.noGapAbove(gracefulGap)
		tr.ended = time.Now()
		tr.on(host, "pcs node unstandby "+host)
		tr.healthyAgain()
		tr.sameProcess(tr.survivor)
		tr.fenced(0)
	})
}

func TestGracefulShutdown(t *testing.T) {
	scenario(t, "shutdown of the leader", 2, func(tr *trial) {
		host := tr.leads
		tr.survivor = tr.other(host)
		tr.fault(lab.Fault{Kind: lab.FaultShutdown, Host: host})
		tr.off(host)
		tr.noGapAbove(gracefulGap)
		tr.mend(host, lab.FaultShutdown)
		tr.healthyAgain()
		tr.sameProcess(tr.survivor)
		tr.fenced(0)
	})
	scenario(t, "shutdown of both at once", 1, func(tr *trial) {
		members := tr.members()
		tr.fault(lab.Fault{Kind: lab.FaultShutdown, Host: "cp-1"})
		tr.fault(lab.Fault{Kind: lab.FaultShutdown, Host: "cp-2"})
		tr.off("cp-1")
		tr.off("cp-2")
		tr.mend("", lab.FaultShutdown)
		tr.healthyAgain()
		tr.kept(members)
		tr.fenced(0)
	})
}

// off waits until a host has switched itself off.
func (tr *trial) off(host string) {
	tr.Helper()
	tr.eventually(4*time.Minute, host+" has switched itself off", func() error {
		st, err := tr.powerOf(tr.Context(), host)
		if err == nil && st.Power != lab.PowerOff {
			err = fmt.Errorf("its power is %s", st.Power)
		}
		return err
	})
}
