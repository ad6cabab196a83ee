package twonode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestGracefulReboot(t *testing.T) {
	scenario(t, "graceful reboot of the leader", 3, func(tr *trial) { tr.reboot(tr.leads) })
	scenario(t, "graceful reboot of the follower", 3, func(tr *trial) { tr.reboot(tr.other(tr.leads)) })
}

// reboot restarts a host as an administrator does.
func (tr *trial) reboot(host string) {
	tr.survivor = tr.other(host)
	tr.now()
	tr.on(host, "systemctl --no-block reboot")
	tr.eventually(3*time.Minute, host+" has booted again", func() error {
		st, err := tr.PowerOf(tr.Context(), host)
		if err == nil && (st.PID == 0 || !st.Since.After(tr.at)) {
			err = fmt.Errorf("its power is %s since %s", st.Power, st.Since)
		}
		return err
	})
	tr.healthyAgain()
	tr.handedOver(host)
}

// hitch bounds a pause of writes while a host leaves and comes back. It is not
// a target: a client gives an operation 1 s, and two hosts share CI's two
// processors while one of them stops or starts everything that it has.
const hitch = 5 * time.Second

// noticed is shorter than the time in which the membership notices that a host
// is gone (token and consensus, ADR 0012), and longer than the delay of an etcd
// keeper's answer.
const noticed = time.Second

// handedOver checks that a host yielded before it went, so that nobody had to
// notice its absence or to prove it. The table has the pause of writes, beside
// the target of 1 s.
func (tr *trial) handedOver(leaver string) {
	tr.Helper()
	alone := tr.sampler.first(tr.survivor, tr.at, func(d decision) bool { return d.record.Leads() })
	if alone.IsZero() {
		tr.Errorf("%s never went on alone", tr.survivor)
	} else if silent := tr.sampler.silence(leaver, alone); silent > noticed {
		tr.Errorf("%s went on alone only %s after %s was gone", tr.survivor, silent, leaver)
	}
	tr.noGapAbove(hitch)
	tr.sameProcess(tr.survivor)
	tr.fenced(0)
}

// maintenance is the time for which a host stays in standby: long enough for
// every alert.
const maintenance = 30 * time.Second

func TestStandby(t *testing.T) {
	scenario(t, "standby of the leader", 2, func(tr *trial) {
		host := tr.leads
		tr.survivor = tr.other(host)
		tr.now()
		tr.on(host, "pcs node standby "+host)
		stands := func() error {
			if list := tr.processes(host, "etcd"); len(list) > 0 {
				return fmt.Errorf("it runs: %v", list)
			}
			return tr.recordIs(tr.Context(), tr.survivor, state.EtcdSole)
		}
		tr.eventually(2*time.Minute, "etcd of "+host+" has ended", stands)
		tr.stays(maintenance, host+" in standby", stands)
		tr.ended = time.Now()
		tr.on(host, "pcs node unstandby "+host)
		tr.healthyAgain()
		tr.handedOver(host)
	})
	// Such a host cannot leave before it stops: its etcd is still one of two voters.
	scenario(t, "standby of a host whose etcd does not answer", 1, func(tr *trial) {
		host := tr.other(tr.leads)
		tr.survivor = tr.other(host)
		tr.fault(lab.Fault{Kind: lab.FaultProcessStop, Host: host, Process: "etcd"})
		tr.on(host, "pcs node standby "+host)
		tr.writable(tr.survivor, departsWithin)
		tr.eventually(noticedAlone, "it has gone on alone", func() error { return tr.recordIs(tr.Context(), tr.survivor, state.EtcdSole) })
		tr.on(host, "pcs node unstandby "+host)
		tr.mend(host, lab.FaultProcessStop)
		tr.healthyAgain()
		tr.fenced(0)
	})
}

// departsWithin bounds the time without a write after a host was stopped that had not left:
// etcdmember.LeaveLimit, and what etcd needs to stop.
const departsWithin = time.Minute

// noticedAlone bounds the removal of a member by the host that writes again.
const noticedAlone = 30 * time.Second

func TestGracefulShutdown(t *testing.T) {
	scenario(t, "shutdown of the leader", 2, func(tr *trial) {
		host := tr.leads
		tr.survivor = tr.other(host)
		tr.fault(lab.Fault{Kind: lab.FaultShutdown, Host: host})
		tr.off(host)
		tr.mend(host, lab.FaultShutdown)
		tr.healthyAgain()
		tr.handedOver(host)
	})
	scenario(t, "shutdown of both at once", 1, func(tr *trial) {
		tr.byName = true
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
		st, err := tr.PowerOf(tr.Context(), host)
		if err == nil && st.Power != lab.PowerOff {
			err = fmt.Errorf("its power is %s", st.Power)
		}
		return err
	})
}
