package twonode_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLoneHostConfirmed boots one of two hosts that were both off, while the
// other's BMC does not answer: only an administrator can know that the other is
// off.
func TestLoneHostConfirmed(t *testing.T) {
	for _, lone := range []string{"cp-1", "cp-2"} {
		unseen(t, "lone booted host confirmed, "+lone, func(tr *trial) {
			lost := tr.other(lone)
			tr.byName, tr.survivor, tr.rebooted = true, lone, true
			tr.cutBoth()
			tr.quirk(lost, "mute", "")
			tr.ended = time.Now()
			tr.press(lone)
			r := tr.asksForAPerson(lone, 20*time.Second)
			if r.Verdict.Next == "" {
				tr.Errorf("it waits and does not say what to type: %+v", r.Verdict)
			}
			tr.confirm(lone)
			confirmed := time.Now()
			tr.writable(lone, 3*time.Minute)
			tr.Logf("writes were possible %.1f s after a person's word", time.Since(confirmed).Seconds())
			tr.clearHost(lost)
			tr.ended = time.Now()
			tr.pressIfOff(lost)
			tr.healthyAgain()
			tr.spared()
		})
	}
}

// pressIfOff switches a host on if it is still off.
func (tr *trial) pressIfOff(host string) {
	tr.Helper()
	st, err := tr.PowerOf(tr.Context(), host)
	if err != nil {
		tr.Fatal(err)
	}
	if st.PID == 0 && st.BMC == "off" {
		tr.press(host)
	}
}

// TestFencingVerifyDisruptive runs `holdfast fencing verify --disruptive`,
// which crashes and recovers both hosts through Pacemaker while clients write.
func TestFencingVerifyDisruptive(t *testing.T) {
	unseen(t, "fencing verify --disruptive", func(tr *trial) {
		program, err := filepath.Abs(*program)
		if err != nil {
			tr.Fatal(err)
		}
		tr.now()
		verify := exec.CommandContext(tr.Context(), program, "fencing", "verify", "--hosts", strings.Join(tr.hosts(), ","), "--disruptive", "--yes",
			"--exec", program+" lab exec --name "+*labName+" {} --", "-o", "json")
		verify.Stderr = tr.Output()
		out, err := verify.Output()
		tr.ended = time.Now()
		if err != nil {
			tr.Fatalf("%v\n%s", err, out)
		}
		var said struct {
			Problems []string
			Crashes  []struct{ Target string }
		}
		if err := json.Unmarshal(out, &said); err != nil {
			tr.Errorf("%v: %s", err, out)
		}
		tr.Logf("it says: %s", out)
		if len(said.Problems) > 0 || len(said.Crashes) != len(tr.hosts()) {
			tr.Errorf("it tells of problems %v and of %d crashes", said.Problems, len(said.Crashes))
		}
		tr.healthyAgain()
		tr.fencedOnly(held{least: 2, most: 2})
		slices.Sort(tr.result.Fenced)
		if !slices.Equal(tr.result.Fenced, tr.hosts()) {
			tr.Errorf("fenced were %v, want each host once", tr.result.Fenced)
		}
		tr.couldWrite(*greyGate)
	})
}
