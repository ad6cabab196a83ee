package handover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// failed marks the Job of a step as failed.
func failed(s Snapshot, step twonode.Step, node string, attempt int, ago time.Duration, why string) Snapshot {
	s = with(s, fmt.Sprintf("%s %s failed", step, node))
	j := &s.Jobs[len(s.Jobs)-1]
	j.Attempt, j.Ended, j.Failure = attempt, now.Add(-ago), why
	return s
}

func TestAFailedJobIsRepeatedAfterAPauseThatGrows(t *testing.T) {
	for _, c := range []struct {
		attempt int
		ago     time.Duration
		want    string
	}{
		{1, 0, "again in 5s"},
		{1, 4 * time.Second, "again in 1s"},
		{1, 5 * time.Second, `delete two-node-manifest-cp-1, create two-node-manifest-cp-1 (2, after "no cluster")`},
		{3, 19 * time.Second, "again in 1s"},
		{100, time.Minute, "again in 1m0s"},
		{100, 2 * time.Minute, `delete two-node-manifest-cp-1, create two-node-manifest-cp-1 (101, after "no cluster")`},
	} {
		s := failed(upTo(twonode.Manifest), twonode.Manifest, "cp-1", c.attempt, c.ago, "no cluster")
		if got := told(Decide(s)); got != c.want {
			t.Errorf("%d attempts, %s ago: got %s, want %s", c.attempt, c.ago, got, c.want)
		}
	}
}

// A corrected account in the Secret has to reach the survivor, which is the one
// that fences next.
func TestAnAccountReachesTheHostThatIsThereWhileTheOtherIsAway(t *testing.T) {
	away := change(allDone(), func(s *Snapshot) {
		s.Nodes = slices.Clone(s.Nodes)
		s.Nodes[1].Ready, s.Nodes[1].Etcd = false, MemberUnknown
		s.Digests.Fencing = "new"
	})
	if got := told(Decide(away)); got != "delete two-node-fencing-cp-1, create two-node-fencing-cp-1" {
		t.Error(got)
	}
	given := with(away, "fencing cp-1 succeeded")
	d := Decide(given)
	if got := told(d); got != "nothing" || condition(t, d, SetupProgressing).Message != "step 2 of 6 (fencing) on cp-2, waiting: node cp-2 is not ready" {
		t.Errorf("%s: %s", got, condition(t, d, SetupProgressing).Message)
	}
	given.Nodes = []Node{given.Nodes[0], {Name: "cp-2", Ready: true, Etcd: MemberHealthy}}
	if got := told(Decide(given)); got != "delete two-node-fencing-cp-2, create two-node-fencing-cp-2" {
		t.Errorf("when it is back: %s", got)
	}
	refused := failed(away, twonode.Fencing, "cp-1", 1, time.Minute, "401")
	if got := told(Decide(refused)); got != `delete two-node-fencing-cp-1, create two-node-fencing-cp-1 (2, after "401")` {
		t.Errorf("a failure is repeated: %s", got)
	}
}

func TestAHostsNewAddressIsToldAndNotTriedForEver(t *testing.T) {
	have := twonode.Corosync{Name: "pcm", TwoNode: true, Nodes: []twonode.Node{{Name: "cp-1", Address: "10.98.0.11"}, {Name: "cp-2", Address: "10.98.0.12"}}}
	want := have
	want.Nodes = []twonode.Node{{Name: "cp-1", Address: "10.98.0.11"}, {Name: "cp-2", Address: "10.98.0.99"}}
	_, err := twonode.CorosyncSteps(have, want)
	if err == nil || strings.Contains(err.Error(), "node replace") || !strings.Contains(err.Error(), "cp-2 (10.98.0.12)") {
		t.Fatal(err)
	}
	moved := change(allDone(), func(s *Snapshot) { s.Digests.Hosts = "new address" })
	s := failed(failed(moved, twonode.Auth, "cp-1", 1, time.Hour, "auth: "+err.Error()), twonode.Auth, "cp-2", 1, time.Hour, "auth: "+err.Error())
	for i := range s.Jobs[len(s.Jobs)-2:] {
		s.Jobs[len(s.Jobs)-1-i].Final = errors.Is(err, twonode.ErrFinal)
	}
	d := Decide(s)
	if got := told(d); got != "nothing" {
		t.Errorf("it is tried again: %s", got)
	}
	if c := condition(t, d, SetupDegraded); !c.Status || !strings.Contains(c.Message, "gets its old address back") {
		t.Errorf("%+v", c)
	}
	s.Digests.Hosts = "hosts"
	if got := told(Decide(s)); got != "delete two-node-auth-cp-1, delete two-node-auth-cp-2, create two-node-auth-cp-1, create two-node-auth-cp-2" {
		t.Errorf("with the address back: %s", got)
	}
}

func TestAJobIsNotFinalBecauseItsOutputSaysSo(t *testing.T) {
	s := failed(upTo(twonode.Manifest), twonode.Manifest, "cp-1", 1, time.Minute, twonode.ErrFinal.Error())
	if got := told(Decide(s)); !strings.HasPrefix(got, "delete two-node-manifest-cp-1, create") {
		t.Errorf("a failure that quotes the sentence is not repeated: %s", got)
	}
	s.Jobs[len(s.Jobs)-1].Final = true
	if got := told(Decide(s)); got != "nothing" {
		t.Errorf("a final failure is repeated: %s", got)
	}
}

func TestTheShorterPauseDecidesWhenToLookAgain(t *testing.T) {
	s := failed(two(), twonode.Auth, "cp-1", 5, 0, "a")
	s = failed(s, twonode.Auth, "cp-2", 1, 0, "b")
	if got := told(Decide(s)); got != "again in 5s" {
		t.Error(got)
	}
}

func TestAFailureStaysKnownUntilTheStepSucceeds(t *testing.T) {
	s := failed(upTo(twonode.Fencing), twonode.Fencing, "cp-2", 3, 0, "fence_redfish: Login failed")
	c := condition(t, Decide(s), SetupDegraded)
	if !c.Status || c.Reason != "FencingFailed" || c.Message != "fencing on cp-2 failed (attempt 3): fence_redfish: Login failed" {
		t.Errorf("after a failure: %+v", c)
	}
	repeated := with(upTo(twonode.Fencing), "fencing cp-2 running")
	repeated.Jobs[len(repeated.Jobs)-1].Attempt = 4
	repeated.Jobs[len(repeated.Jobs)-1].Before = "fence_redfish: Login failed"
	c = condition(t, Decide(repeated), SetupDegraded)
	if !c.Status || c.Message != "fencing on cp-2 is tried again (attempt 4) after: fence_redfish: Login failed" {
		t.Errorf("while it is repeated: %+v", c)
	}
	done := with(upTo(twonode.Fencing), "fencing cp-2 succeeded")
	done.Jobs[len(done.Jobs)-1].Before = "fence_redfish: Login failed"
	if c = condition(t, Decide(done), SetupDegraded); c.Status {
		t.Errorf("after it succeeded: %+v", c)
	}
}
