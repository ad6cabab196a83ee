package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast/holdfast/payload/standin/settle"
	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// TestATakeOverMayBeKilledAtAnyPoint kills the stand-in, and in every second
// repetition the survivor's etcd with it, at a random moment of a take-over
// under load; then etcd is started plainly, if need be, and the stand-in runs
// again. Within one repetition this happens up to three times.
func TestATakeOverMayBeKilledAtAnyPoint(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	kills, runs := 0, 0
	for i := range *repetitions {
		kills += interrupted(s, i)
		runs++
		if t.Failed() {
			break
		}
	}
	t.Logf("%d take-overs, killed %d times", runs, kills)
}

// interrupted is one repetition. It returns the number of interruptions.
func interrupted(s *site, i int) int {
	t, dead := s.t, s.hosts[i%2]
	survivor := s.other(dead)
	s.lead(s.hosts[rand.IntN(2)])
	sweep(t, survivor)
	req := s.request(dead, survivor)
	e := watch(t, survivor)
	l := startLoad(t, dead, 16, fmt.Sprint("crash", i))
	time.Sleep(200 * time.Millisecond)
	cut(t)
	dead.kill()
	l.move(survivor)
	kills := 0
	for range 3 {
		if !killed(t, req, i, survivor) {
			break
		}
		kills++
	}
	if r := standIn(t, req); r.ExitCode() != takeover.ExitDone {
		t.Fatalf("after %d interruptions: %+v", kills, r)
	}
	time.Sleep(100 * time.Millisecond)
	l.stop()
	if v := check(t, survivor, l, e); v.lost+v.missed > 0 || reused(l) {
		t.Errorf("after %d interruptions %+v, a revision given out twice: %v", kills, v, reused(l))
	}
	mend(t)
	s.rejoin(dead)
	s.same()
	return kills
}

// killed starts a stand-in and kills it after up to 3 s; it reports false if the
// stand-in was done before.
func killed(t *testing.T, req takeover.Request, i int, survivor *host) bool {
	t.Helper()
	cmd, out := program(t, req)
	must(t, cmd.Start())
	// The election takes 0.1 s, the removal up to 3 s, with hardly a write on
	// the survivor's disk between it and the end.
	window := []int{200, 3000}[rand.IntN(2)]
	time.Sleep(time.Duration(rand.IntN(window)) * time.Millisecond)
	if i%2 == 1 {
		survivor.kill()
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if i%2 == 1 {
		settled(t, survivor)
		survivor.start(t)
	}
	var r takeover.Result
	return json.Unmarshal(out.Bytes(), &r) != nil
}

// TestADeadlineEndsIt expects an unfinished run while the survivor's etcd is
// down, and a finished one when it is up again.
func TestADeadlineEndsIt(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	req := s.request(dead, survivor)
	dead.kill()
	survivor.kill()
	cut(t)
	req.DeadlineMS = 300
	if r := standIn(t, req); r.Outcome != takeover.Unfinished || r.Reason != takeover.Unreachable {
		t.Errorf("got %+v", r)
	}
	survivor.start(t)
	req.DeadlineMS = 20000
	if r := standIn(t, req); r.Outcome != takeover.Done {
		t.Errorf("got %+v", r)
	}
	eventually(t, "a write", func(ctx context.Context) error {
		_, err := survivor.client.Put(ctx, "x", "y")
		return err
	})
}

// TestTheSurvivorsOwnTimeoutIsEnough works without the nudge.
func TestTheSurvivorsOwnTimeoutIsEnough(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	s.lead(dead)
	req := s.request(dead, survivor)
	req.NoNudge = true
	dead.kill()
	cut(t)
	r := standIn(t, req)
	if r.Outcome != takeover.Done || r.MS.Leading < 100 {
		t.Errorf("got %+v", r)
	}
	t.Logf("leading after %.0f ms", r.MS.Leading)
}

// TestTheRemovalIsDoneAgainIfItWasForgotten removes the fenced member and kills
// the survivor at once. What the survivor forgot of the removal must be done
// again.
func TestTheRemovalIsDoneAgainIfItWasForgotten(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	req := s.request(dead, survivor)
	dead.kill()
	cut(t)
	first := standIn(t, req)
	survivor.kill()
	survivor.start(t)
	second := standIn(t, req)
	if err := errors.Join(ended(first), ended(second)); err != nil {
		t.Error(err)
	}
	t.Logf("then: %s", second.Outcome)
	survivor.ready(t)
}

// settled runs settle, as the etcd keeper does before it starts etcd, and
// reports whether settle had something to write.
func settled(t *testing.T, h *host) bool {
	t.Helper()
	var l settle.Log
	out, err := exec.Command(bin.standin, "settle", "-data-dir", h.dir).CombinedOutput()
	if err == nil {
		err = json.Unmarshal(out, &l)
	}
	if err != nil {
		t.Fatalf("settle: %v: %s", err, out)
	}
	return l.Settled
}

// TestAForgottenRemovalIsSettled removes a member by hand and kills the
// survivor before it writes anything else. Without settle, etcd would wait
// forever for the vote of a member whose messages it refuses.
func TestAForgottenRemovalIsSettled(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	s.lead(survivor)
	gone := dead.id(t)
	eventually(t, "remove", func(ctx context.Context) error {
		_, err := survivor.client.MemberRemove(ctx, gone)
		return err
	})
	time.Sleep(300 * time.Millisecond)
	survivor.kill()
	dead.kill()
	survivor.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if _, err := survivor.client.Put(ctx, "x", "y"); err == nil {
		t.Error("etcd came back by itself: settle is not needed any more")
	}
	survivor.kill()
	if !settled(t, survivor) || settled(t, survivor) {
		t.Error("want it settled once")
	}
	survivor.start(t)
	survivor.ready(t)
}

func ended(r takeover.Result) error {
	if r.ExitCode() != takeover.ExitDone {
		return fmt.Errorf("ended with %+v", r)
	}
	return nil
}
