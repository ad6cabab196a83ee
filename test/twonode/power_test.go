package twonode_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
)

func TestPowerCutOfTheLeader(t *testing.T) {
	scenario(t, "power cut of the leader", 10, func(tr *trial) { tr.powerCut(tr.leads) })
}

func TestPowerCutOfTheFollower(t *testing.T) {
	scenario(t, "power cut of the follower", 10, func(tr *trial) { tr.powerCut(tr.other(tr.leads)) })
}

// powerCut cuts a host and follows its peer's take-over until the host is back.
func (tr *trial) powerCut(host string) {
	survivor := tr.other(host)
	tr.survivor = survivor
	tr.fault(lab.Fault{Kind: lab.FaultPowerCut, Host: host})
	tr.writable(survivor, backWithin)
	tr.takeOver(survivor)
	tr.soleOrBack(survivor)
	tr.sameProcess(survivor)
	tr.comesBack(host)
	tr.healthyAgain()
	tr.sameProcess(survivor)
	tr.fenced(1)
}

// soleOrBack checks that a survivor has recorded that it is alone, or is a pair
// again already.
func (tr *trial) soleOrBack(survivor string) {
	tr.Helper()
	tr.eventually(time.Minute, survivor+" has noted that it went on alone", func() error {
		return tr.recordIs(tr.Context(), survivor, state.EtcdSole, state.EtcdPair)
	})
}

// comesBack makes sure that a cut host boots: its fence switches it on, or else
// comesBack does.
func (tr *trial) comesBack(host string) {
	tr.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); pause(tr.Context(), 250*time.Millisecond) {
		st, err := tr.PowerOf(tr.Context(), host)
		if err != nil {
			tr.Fatal(err)
		}
		if st.Power != lab.PowerOff || st.BMC != "off" {
			tr.forgetFaults(host)
			return
		}
	}
	tr.Logf("%s was fenced and stayed off: switching it on", host)
	tr.boot(host)
}

// forgetFaults removes a host's faults from the lab's list once it runs, so
// that no later step of the lab keeps it off.
func (tr *trial) forgetFaults(host string) {
	tr.Helper()
	tr.eventually(3*time.Minute, host+" runs", func() error {
		st, err := tr.PowerOf(tr.Context(), host)
		if err == nil && st.PID == 0 {
			err = fmt.Errorf("its power is %s, its BMC says %s", st.Power, st.BMC)
		}
		return err
	})
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{Host: host, Kind: lab.FaultPowerCut}); err != nil {
		tr.Fatal(err)
	}
}

// cut cuts the power of a host, whatever the host is doing.
func (tr *trial) cut(host string) {
	tr.Helper()
	tr.now()
	if err := tr.Power.Power(tr.Context(), lab.PowerRequest{Host: host, Action: lab.ActionCut}); err != nil {
		tr.Fatal(err)
	}
}

// press switches a host on.
func (tr *trial) press(host string) {
	tr.Helper()
	if err := tr.Power.Power(tr.Context(), lab.PowerRequest{Host: host, Action: lab.ActionOn}); err != nil {
		tr.Fatal(err)
	}
}

// cutBoth cuts both hosts at the same moment.
func (tr *trial) cutBoth() {
	tr.Helper()
	done := make(chan error, 2)
	for _, h := range tr.hosts() {
		go func() {
			done <- tr.Power.Power(tr.Context(), lab.PowerRequest{Host: h, Action: lab.ActionCut})
		}()
	}
	tr.now()
	if err := errors.Join(<-done, <-done); err != nil {
		tr.Fatal(err)
	}
}

// members returns the member IDs by host. A data directory that was emptied has
// another one afterwards.
func (tr *trial) members() map[string]uint64 {
	tr.Helper()
	out := map[string]uint64{}
	for _, h := range tr.hosts() {
		st, err := tr.etcdStatus(tr.Context(), h)
		if err != nil {
			tr.Fatal(err)
		}
		out[h] = st.Header.MemberId
	}
	return out
}

// kept checks that no data directory was emptied.
func (tr *trial) kept(before map[string]uint64) {
	tr.Helper()
	if after := tr.members(); fmt.Sprint(after) != fmt.Sprint(before) {
		tr.Errorf("a copy was emptied: members are %x, were %x", after, before)
	}
}

func TestColdBootOfBothInSync(t *testing.T) {
	for name, gap := range map[string]time.Duration{"at once": 0, "the second later": 20 * time.Second} {
		scenario(t, "cold boot of both in sync, "+name, 1, func(tr *trial) { tr.coldBoot("cp-1", gap) })
	}
	scenario(t, "cold boot of both in sync, the first by name later", 1, func(tr *trial) { tr.coldBoot("cp-2", 20*time.Second) })
}

// coldBoot cuts both hosts and boots one some time before the other.
func (tr *trial) coldBoot(first string, gap time.Duration) {
	tr.byName = true
	members := tr.members()
	tr.cutBoth()
	tr.ended = time.Now()
	tr.press(first)
	if gap > 0 {
		r := tr.asksForAPerson(first, gap)
		if r.Verdict.Next == "" {
			tr.Errorf("it waits and does not say what to type: %+v", r.Verdict)
		}
		tr.ended = time.Now()
	}
	tr.press(tr.other(first))
	tr.healthyAgain()
	tr.kept(members)
	tr.fenced(0)
}

// asksForAPerson checks that a host that boots alone starts nothing, asks for
// an administrator, and starts nothing for a while after that.
func (tr *trial) asksForAPerson(host string, d time.Duration) state.EtcdReport {
	tr.Helper()
	var r state.EtcdReport
	var harm error
	tr.eventually(3*time.Minute, host+" asks for a person", func() error {
		if err := tr.inert(host); harm == nil {
			harm = err
		}
		var err error
		if r, err = tr.Etcd(tr.Context(), host); err == nil && r.Verdict.Action != state.EtcdAskHuman {
			err = fmt.Errorf("it says %s (%s): %s", r.Verdict.Action, r.Verdict.Rule, r.Verdict.Reason)
		}
		return err
	})
	if harm != nil {
		tr.Errorf("alone, and asked nobody: %v", harm)
	}
	tr.stays(d, host+" alone", func() error { return tr.inert(host) })
	return r
}

func TestColdBootAfterOneSurvived(t *testing.T) {
	scenario(t, "cold boot, the survivor first", 1, func(tr *trial) {
		survivor, lost := tr.degrade()
		tr.press(survivor)
		pause(tr.Context(), 2*time.Second)
		tr.press(lost)
		tr.afterDegraded(survivor)
	})
	scenario(t, "cold boot, the survivor later", 1, func(tr *trial) {
		survivor, lost := tr.degrade()
		tr.press(lost)
		tr.asksForAPerson(lost, 10*time.Second)
		tr.ended = time.Now()
		tr.press(survivor)
		tr.afterDegraded(survivor)
	})
}

// degrade leaves one host that has gone on alone and has taken writes, and then
// cuts that one too. Both are off, and one data directory is newer.
func (tr *trial) degrade() (survivor, lost string) {
	tr.Helper()
	lost = tr.leads
	survivor = tr.other(lost)
	tr.survivor = survivor
	tr.fault(lab.Fault{Kind: lab.FaultPowerCut, Host: lost})
	tr.writable(survivor, backWithin)
	tr.eventually(time.Minute, "the fence of "+lost+" has switched it on again", func() error {
		on, err := tr.Resets(tr.log, "On")
		if err == nil && len(on) == 0 {
			err = errors.New("its BMC was not asked to")
		}
		return err
	})
	tr.cut(lost)
	tr.eventually(time.Minute, survivor+" is sole", func() error { return tr.recordIs(tr.Context(), survivor, state.EtcdSole) })
	tr.toldOfTheLoss()
	tr.cut(survivor)
	tr.rebooted = true
	tr.ended = time.Now()
	return survivor, lost
}

// afterDegraded checks that the cluster recovered, and logs which host had the
// newer data.
func (tr *trial) afterDegraded(survivor string) {
	tr.Helper()
	tr.healthyAgain()
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{}); err != nil {
		tr.Fatal(err)
	}
	tr.Logf("the survivor was %s", survivor)
}

func TestSecondFailureWhileDegraded(t *testing.T) {
	scenario(t, "second failure, the survivor returns alone", 1, func(tr *trial) {
		survivor, lost := tr.degrade()
		tr.press(survivor)
		tr.writable(survivor, 3*time.Minute)
		st, err := tr.PowerOf(tr.Context(), lost)
		if err != nil {
			tr.Fatal(err)
		}
		tr.Logf("%s alone writes again %.1f s after it was switched on; its peer's BMC says %s", survivor, time.Since(tr.ended).Seconds(), st.BMC)
		tr.ended = time.Now()
		if st.Power == lab.PowerOff && st.BMC == "off" {
			tr.press(lost)
		}
		tr.afterDegraded(survivor)
	})
	scenario(t, "second failure, the older copy returns alone", 1, func(tr *trial) {
		survivor, lost := tr.degrade()
		tr.press(lost)
		tr.asksForAPerson(lost, 45*time.Second)
		tr.ended = time.Now()
		tr.press(survivor)
		tr.afterDegraded(survivor)
	})
}

func TestMainsOfOneHostAreLost(t *testing.T) {
	scenario(t, "AC loss of one host", 1, func(tr *trial) {
		lost := tr.leads
		survivor := tr.other(lost)
		tr.survivor = survivor
		tr.fault(lab.Fault{Kind: lab.FaultACLoss, Host: lost})
		dark := tr.rec.Since()
		tr.waits(survivor, 40*time.Second)
		if last := tr.rec.Last(""); last > dark+time.Second {
			tr.Errorf("a write was acknowledged %s after the mains were lost, without proof", last-dark)
		}
		r := tr.says(survivor, time.Minute, state.EtcdWait, state.EtcdAskHuman, state.EtcdAskFence)
		tr.Logf("it says: %s; %s", r.Verdict.Reason, r.Verdict.Next)
		tr.Logf("explain: %s", tr.on(survivor, "holdfast explain etcd; true"))
		tr.confirm(survivor)
		tr.writable(survivor, backWithin)
		tr.sameProcess(survivor)
		tr.mend(lost, lab.FaultACLoss)
		tr.healthyAgain()
		tr.spared()
	})
}

// spared checks that no BMC was asked to cut the power. A fence that Pacemaker
// began before the administrator's confirmation must yield to it, even when the
// BMC is back. It may find the host off and switch it on.
func (tr *trial) spared() {
	tr.Helper()
	if cuts, err := tr.Resets(tr.log, labsite.ForceOff); err != nil || len(cuts) > 0 {
		tr.Errorf("a host whose mains were back was switched off: %v (%v)", cuts, err)
	}
}

// confirm confirms on a host that its peer is off, with everything that the
// command asks for.
func (tr *trial) confirm(host string) {
	tr.Helper()
	command := "holdfast quorum confirm --by test --reason 'the mains are lost, seen with my own eyes' "
	var dry struct {
		Decision struct{ Need, Reason, Phrase string }
	}
	tr.eventually(3*time.Minute, "a person's word counts", func() error {
		// An exit status other than 0 tells what is needed.
		if err := json.Unmarshal([]byte(tr.on(host, command+"--dry-run -o json 2>/dev/null; true")), &dry); err != nil {
			return err
		}
		if dry.Decision.Need == "wait" {
			return errors.New(dry.Decision.Reason)
		}
		return nil
	})
	word := "--yes"
	if p := dry.Decision.Phrase; p != "" {
		word = fmt.Sprintf("--phrase %q", p)
	}
	tr.Logf("confirm: %s", tr.on(host, command+word+" 2>&1"))
}
