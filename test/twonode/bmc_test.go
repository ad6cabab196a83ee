package twonode_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

// TestBMCThatCannotProve cuts a host's power while its BMC gives no proof. No
// host may go on without one; with it, the waiting host must go on by itself.
func TestBMCThatCannotProve(t *testing.T) {
	for _, q := range []struct{ name, quirk, value string }{
		{"wrong password", "auth-status", "401"},
		{"mute", "mute", ""},
		{"says PoweringOff for ever", "says", "PoweringOff"},
		{"says nothing of the power", "says", "null"},
	} {
		scenario(t, "BMC: "+q.name, 1, func(tr *trial) {
			lost := "cp-2"
			tr.survivor = tr.other(lost)
			tr.quirk(lost, q.quirk, q.value)
			tr.fault(lab.Fault{Kind: lab.FaultPowerCut, Host: lost})
			tr.waits(tr.survivor, 45*time.Second)
			tr.blames(tr.survivor, "BMC")
			tr.mend(lost, lab.FaultBMC)
			tr.writable(tr.survivor, 4*time.Minute)
			tr.sameProcess(tr.survivor)
			tr.comesBack(lost)
			tr.healthyAgain()
			tr.proven(1)
		})
	}
}

// TestBMCThatDoesNotAct freezes a host, so that it lives but is silent, while
// its BMC does not switch it off.
func TestBMCThatDoesNotAct(t *testing.T) {
	for _, q := range []struct{ name, quirk, value string }{
		{"202 and nothing happens", "accept-and-ignore", ""},
		{"PoweringOff that sticks", "powering-off-sticks", ""},
	} {
		scenario(t, "BMC: "+q.name, 1, func(tr *trial) {
			lost := "cp-2"
			tr.survivor = tr.other(lost)
			tr.quirk(lost, q.quirk, q.value)
			tr.hang(lost)
			tr.waits(tr.survivor, 60*time.Second)
			tr.blames(tr.survivor, "BMC")
			tr.mend(lost, lab.FaultBMC)
			tr.writable(tr.survivor, 4*time.Minute)
			tr.sameProcess(tr.survivor)
			tr.comesBack(lost)
			tr.healthyAgain()
			tr.proven(1)
			if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{}); err != nil {
				tr.Error(err)
			}
		})
	}
}

// lossNoticed bounds a take-over without its fence, on a busy machine.
const lossNoticed = 30 * time.Second

// TestBMCThatIsSlow expects that the cluster goes on once there is a proof,
// however late.
func TestBMCThatIsSlow(t *testing.T) {
	for _, q := range []struct {
		name, quirk, value string
		cut                bool          // otherwise the host hangs, and lives
		within             time.Duration // time of the fence, three times over for a busy machine
	}{
		{"30 s to cut the power", "slow-off", "30s", false, 90 * time.Second},
		{"5 s for each answer", "delay", "5s", true, 15 * time.Second},
		{"5 s for each answer, the host hangs", "delay", "5s", false, 30 * time.Second},
		{"30 s for each answer", "delay", "30s", true, 90 * time.Second},
		{"409 where the host is off already", "conflict-when-off", "", true, 30 * time.Second},
		{"409 where the host is on already", "conflict-when-on", "", true, 30 * time.Second},
		{"500, and acts", "error-yet-acts", "", false, 30 * time.Second},
	} {
		scenario(t, "BMC: "+q.name, 1, func(tr *trial) {
			lost := "cp-2"
			tr.survivor = tr.other(lost)
			tr.quirk(lost, q.quirk, q.value)
			if q.cut {
				tr.fault(lab.Fault{Kind: lab.FaultPowerCut, Host: lost})
			} else {
				tr.hang(lost)
			}
			tr.writable(tr.survivor, lossNoticed+q.within)
			tr.takeOver(tr.survivor)
			tr.sameProcess(tr.survivor)
			if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{Host: lost, Kind: lab.FaultBMC}); err != nil {
				tr.Fatal(err)
			}
			tr.comesBack(lost)
			tr.healthyAgain()
			tr.proven(1)
			if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{}); err != nil {
				tr.Error(err)
			}
		})
	}
}

// hang stops the processes that a hung host would not run, so that it lives but
// is silent to its peer and to clients.
func (tr *trial) hang(host string) {
	tr.Helper()
	for _, process := range []string{"podman-etcd", "corosync", "etcd", "kube-apiserver"} {
		tr.fault(lab.Fault{Kind: lab.FaultProcessStop, Host: host, Process: process})
	}
}

// blames checks that the explanation on a host names the obstacle.
func (tr *trial) blames(host, what string) {
	tr.Helper()
	out := tr.on(host, "holdfast explain etcd; true")
	tr.Logf("explain: %s", out)
	if !strings.Contains(out, what) {
		tr.Errorf("the explanation on %s does not speak of the %s", host, what)
	}
}

func (tr *trial) quirk(host, name, value string) {
	tr.Helper()
	if err := tr.Power.Inject(tr.Context(), lab.Fault{Kind: lab.FaultBMC, Host: host, Quirk: name, Value: value}); err != nil {
		tr.Fatal(err)
	}
}
