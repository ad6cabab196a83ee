package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// failure is a way to lose one of two hosts, or both.
type failure struct {
	name string
	// strike makes it happen; the survivor's etcd runs when it returns.
	strike func(t *testing.T, s *site, dead, survivor *host)
}

var failures = []failure{
	{"link cut, fenced 0.4 s later", func(t *testing.T, _ *site, dead, _ *host) {
		cut(t)
		time.Sleep(400 * time.Millisecond)
		dead.kill()
	}},
	{"killed, fenced 2.5 s later", func(t *testing.T, _ *site, dead, _ *host) {
		dead.kill()
		cut(t)
		time.Sleep(2500 * time.Millisecond)
	}},
	{"killed", func(t *testing.T, _ *site, dead, _ *host) {
		dead.kill()
		cut(t)
	}},
	{"both killed", func(t *testing.T, _ *site, dead, survivor *host) {
		survivor.signal(syscall.SIGKILL)
		dead.signal(syscall.SIGKILL)
		dead.kill()
		survivor.kill()
		cut(t)
		survivor.start(t)
	}},
}

// TestNothingAcknowledgedIsLost loses a host under load, again and again, and
// uses the stand-in to give the other its quorum back.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	s := newSite(t)
	for _, f := range failures {
		for _, deadLed := range []bool{true, false} {
			for _, writers := range []int{1, 16} {
				name := fmt.Sprintf("%s/dead led %v/%d writers", f.name, deadLed, writers)
				t.Run(name, func(t *testing.T) {
					sub := &site{t: t, ca: s.ca, hosts: s.hosts}
					series(t, sub, f, deadLed, writers)
				})
			}
		}
	}
}

// figures holds the results of a series of repetitions.
type figures struct {
	runs, acked, lost, missed, back, tail, unseen int
	write, rejoin                                 []float64
	leading, committing, removed                  []float64
}

func series(t *testing.T, s *site, f failure, deadLed bool, writers int) {
	var sum figures
	defer func() { sum.tell(t) }() // even if one repetition ends the series
	for i := range *repetitions {
		dead := s.hosts[(i+rand.IntN(2))%2]
		once(s, f, dead, deadLed, writers, i, &sum)
		if t.Failed() && !*withLoss {
			break
		}
	}
}

// tell logs the results of the completed repetitions.
func (f *figures) tell(t *testing.T) {
	t.Logf("runs %d, acknowledged %d, lost %d, watch events missing %d, revision went back %d; entries decided %d (unseen in %d runs)",
		f.runs, f.acked, f.lost, f.missed, f.back, f.tail, f.unseen)
	t.Logf("ms min/median/p90/max: first write %s; leading %s; committing %s; removed %s; two voters again %s",
		spread(f.write), spread(f.leading), spread(f.committing), spread(f.removed), spread(f.rejoin))
}

// once is one repetition: two voters before, two voters after.
func once(s *site, f failure, dead *host, deadLed bool, writers, i int, sum *figures) {
	t, survivor := s.t, s.other(dead)
	t.Helper()
	leader := survivor
	if deadLed {
		leader = dead
	}
	s.lead(leader)
	sweep(t, survivor)
	req := s.request(dead, survivor)
	e := watch(t, survivor)
	l := startLoad(t, leader, writers, fmt.Sprint(i))
	time.Sleep(300*time.Millisecond + time.Duration(rand.IntN(50))*time.Millisecond)
	f.strike(t, s, dead, survivor)
	l.move(survivor)
	l.probe(t, fmt.Sprint(i))
	if *withLoss {
		forceNewCluster(t, survivor)
	} else {
		sum.add(t, standIn(t, req))
	}
	eventually(t, "a write", func(context.Context) error {
		if l.took() < 0 {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	time.Sleep(100 * time.Millisecond)
	l.stop()
	sum.runs++
	sum.write = append(sum.write, float64(l.took().Microseconds())/1000)
	v := check(t, survivor, l, e)
	sum.acked, sum.lost, sum.missed = sum.acked+v.acked, sum.lost+v.lost, sum.missed+v.missed
	if reused(l) {
		sum.back++
	}
	if v.lost+v.missed > 0 && !*withLoss {
		t.Errorf("of %d acknowledged writes %d are lost; %d watch events are missing", v.acked, v.lost, v.missed)
	}
	mend(t)
	sum.rejoin = append(sum.rejoin, float64(s.rejoin(dead).Milliseconds()))
	s.same()
}

// reused reports whether etcd used a revision twice.
func reused(l *load) bool {
	seen := map[int64]bool{}
	for _, r := range l.acked {
		if seen[r] {
			return true
		}
		seen[r] = true
	}
	return false
}

func (f *figures) add(t *testing.T, r takeover.Result) {
	t.Helper()
	if r.Outcome != takeover.Done {
		t.Fatalf("the stand-in ended with %+v", r)
	}
	f.tail += int(r.Tail)
	if r.Unseen {
		f.unseen++
	}
	f.leading = append(f.leading, r.MS.Leading)
	f.committing = append(f.committing, r.MS.Committing)
	f.removed = append(f.removed, r.MS.Removed)
}

// sweep removes the keys of earlier repetitions.
func sweep(t *testing.T, h *host) {
	t.Helper()
	within(t, "sweep", 20*time.Second, func(ctx context.Context) error {
		_, err := h.client.Delete(ctx, prefix, clientv3.WithPrefix())
		return err
	})
}

// request returns a request for the dead host's vote, as the etcd keeper would
// make it.
func (s *site) request(dead, survivor *host) takeover.Request {
	s.t.Helper()
	return takeover.Request{
		Evidence: "test", Cluster: takeover.ID(survivor.status(s.t).Header.ClusterId),
		Target: takeover.ID(dead.id(s.t)), Survivor: takeover.ID(survivor.id(s.t)),
		PeerURL: survivor.peerURL(), ClientURL: survivor.clientURL(), TLS: survivor.tls,
		DeadlineMS: 20000,
	}
}

// program prepares a run of the stand-in.
func program(t *testing.T, req takeover.Request) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	in, err := json.Marshal(req)
	must(t, err)
	cmd := exec.Command(bin.standin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := &bytes.Buffer{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, out
	return cmd, out
}

// standIn runs the stand-in to its end.
func standIn(t *testing.T, req takeover.Request) takeover.Result {
	t.Helper()
	cmd, out := program(t, req)
	_ = cmd.Run()
	var r takeover.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("the stand-in said %q: %v", out, err)
	}
	if code := cmd.ProcessState.ExitCode(); code != r.ExitCode() {
		t.Errorf("exit code %d, want %d for %+v", code, r.ExitCode(), r)
	}
	return r
}

// forceNewCluster does the action that the stand-in replaces.
func forceNewCluster(t *testing.T, h *host) {
	t.Helper()
	h.end(syscall.SIGTERM)
	h.start(t, "--force-new-cluster")
	h.ready(t)
}

// spread formats a distribution.
func spread(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	v = slices.Sorted(slices.Values(v))
	at := func(p float64) string { return fmt.Sprintf("%.0f", v[int(p*float64(len(v)-1))]) }
	return strings.Join([]string{at(0), at(.5), at(.9), at(1)}, "/")
}
