package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast/holdfast/payload/standin/takeover"
	"github.com/holdfast/holdfast/payload/standin/vote"
)

// refuses runs the stand-in and expects a refusal.
func refuses(t *testing.T, req takeover.Request, reason string) {
	t.Helper()
	r := standIn(t, req)
	if r.Outcome != takeover.Refused || r.Reason != reason {
		t.Errorf("got %+v, want refused: %s", r, reason)
	}
	t.Logf("%.0f ms: %s: %s", r.MS.Ended, r.Reason, r.Detail)
}

// TestRefusals asks a running survivor that has just lost its peer for votes
// that must not be cast.
func TestRefusals(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	s.lead(dead)
	req := s.request(dead, survivor)
	foreign := newAuthority(t)
	cases := map[string]struct {
		change func(*takeover.Request)
		reason string
	}{
		"the fenced one is the survivor":       {func(r *takeover.Request) { r.Target = r.Survivor }, takeover.TargetIsSurvivor},
		"another cluster":                      {func(r *takeover.Request) { r.Cluster++ }, takeover.ClusterMismatch},
		"a survivor that is no member":         {func(r *takeover.Request) { r.Survivor++ }, takeover.SurvivorNotVoter},
		"a fenced one that is no member":       {func(r *takeover.Request) { r.Target++ }, takeover.NotTwoVoters},
		"a log that is shorter than it was":    {func(r *takeover.Request) { r.LeastIndex = 1 << 40 }, vote.LogShort},
		"a certificate of another authority":   {func(r *takeover.Request) { r.TLS = foreign.identity(t, "x", survivor.address) }, takeover.TLSIdentity},
		"a certificate for another address":    {func(r *takeover.Request) { r.TLS = s.ca.identity(t, "y", "192.0.2.9"); r.DeadlineMS = 1000 }, takeover.TLSIdentity},
		"a certificate file that is not there": {func(r *takeover.Request) { r.TLS.Cert = "/nowhere" }, takeover.TLSIdentity},
	}
	t.Run("the fenced one lives", func(t *testing.T) { refuses(t, req, takeover.TargetAlive) })
	dead.signal(syscall.SIGSTOP)
	t.Run("the fenced one is frozen", func(t *testing.T) { refuses(t, req, takeover.TargetAlive) })
	dead.kill()
	cut(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			changed := req
			c.change(&changed)
			refuses(t, changed, c.reason)
		})
	}
	t.Run("the two are mixed up", func(t *testing.T) {
		changed := req
		changed.Target, changed.Survivor = req.Survivor, req.Target
		refuses(t, changed, takeover.TargetAlive)
	})
	t.Run("none of this did harm, and again there is nothing to do", func(t *testing.T) {
		if r := standIn(t, req); r.Outcome != takeover.Done {
			t.Errorf("got %+v", r)
		}
		if r := standIn(t, req); r.Outcome != takeover.NothingToDo {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("a third voter", func(t *testing.T) {
		eventually(t, "add", func(ctx context.Context) error {
			_, err := survivor.client.MemberAdd(ctx, []string{"https://192.0.2.7:2380"})
			return err
		})
		refuses(t, req, takeover.NotTwoVoters)
	})
}

// TestALearnerGetsNoVote asks for the only voter's vote for a learner.
func TestALearnerGetsNoVote(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	voter, learner := s.hosts[0], s.hosts[1]
	gone := takeover.ID(learner.id(t))
	eventually(t, "remove", func(ctx context.Context) error {
		_, err := voter.client.MemberRemove(ctx, uint64(gone))
		return err
	})
	learner.kill()
	must(t, os.RemoveAll(learner.dir))
	var added *clientv3.MemberAddResponse
	eventually(t, "add a learner", func(ctx context.Context) (err error) {
		added, err = voter.client.MemberAddAsLearner(ctx, []string{learner.peerURL()})
		return err
	})
	learner.start(t, "--initial-cluster-state", "existing",
		"--initial-cluster", voter.name()+"="+voter.peerURL()+","+learner.name()+"="+learner.peerURL())
	eventually(t, "the learner serves", func(ctx context.Context) error {
		st, err := learner.client.Status(ctx, learner.clientURL())
		if err == nil && st.RaftAppliedIndex == 0 {
			err = fmt.Errorf("it has nothing yet")
		}
		return err
	})
	req := s.request(voter, learner)
	if uint64(req.Survivor) != added.Member.ID {
		t.Fatalf("the learner is %s, not %x", req.Survivor, added.Member.ID)
	}
	voter.kill()
	refuses(t, req, takeover.SurvivorNotVoter)
}

// TestACorruptCopyGetsNoVote makes etcd raise the alarm that it raises when the
// hashes of two members differ.
func TestACorruptCopyGetsNoVote(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	req := s.request(dead, survivor)
	eventually(t, "raise the alarm", func(ctx context.Context) error {
		_, err := pb.NewMaintenanceClient(survivor.client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
			Action: pb.AlarmRequest_ACTIVATE, MemberID: uint64(req.Survivor), Alarm: pb.AlarmType_CORRUPT,
		})
		return err
	})
	dead.kill()
	cut(t)
	refuses(t, req, takeover.Corrupt)
}

// TestASurvivorThatWasLeavingIsNotKept freezes the peer and asks for the
// survivor's own removal, which therefore cannot be committed. Then it loses
// the peer.
func TestASurvivorThatWasLeavingIsNotKept(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	s.lead(survivor)
	req := s.request(dead, survivor)
	eventually(t, "remove the survivor", func(ctx context.Context) error {
		// etcd must have seen its peer for five seconds before this.
		dead.signal(syscall.SIGSTOP)
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := survivor.client.MemberRemove(ctx, uint64(req.Survivor))
		if ctx.Err() != nil {
			return nil
		}
		dead.signal(syscall.SIGCONT)
		time.Sleep(200 * time.Millisecond)
		return fmt.Errorf("it was answered: %w", err)
	})
	dead.kill()
	cut(t)
	refuses(t, req, vote.Membership)
	refuses(t, req, vote.Membership)
}

// TestALogThatLostItsEnd cuts off the end of the survivor's write-ahead log.
func TestALogThatLostItsEnd(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	dead, survivor := s.hosts[0], s.hosts[1]
	s.lead(dead)
	req := s.request(dead, survivor)
	for i := range 200 {
		eventually(t, "write", func(ctx context.Context) error {
			_, err := dead.client.Put(ctx, "some", fmt.Sprint(i))
			return err
		})
	}
	// etcd writes its database ten times a second.
	time.Sleep(300 * time.Millisecond)
	req.LeastIndex = survivor.status(t).RaftIndex
	survivor.kill()
	dead.kill()
	cut(t)
	shorten(t, survivor)
	out, err := exec.Command(bin.standin, "settle", "-data-dir", survivor.dir).CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != takeover.ExitLogShort {
		t.Errorf("settle: %v: %s", err, out)
	}
	survivor.start(t)
	req.DeadlineMS = 6000
	r := standIn(t, req)
	t.Logf("%+v", r)
	switch {
	case r.Outcome == takeover.Refused && r.Reason == vote.LogShort:
	case r.Outcome == takeover.Unfinished && r.Reason == takeover.Unreachable:
		t.Log("etcd itself does not start")
	default:
		t.Errorf("a log without its end got a vote: %+v", r)
	}
}

// shorten zeroes the last entries of a write-ahead log, as a disk does that
// loses data it had to keep.
func shorten(t *testing.T, h *host) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "member/wal/*.wal"))
	must(t, err)
	path := files[len(files)-1]
	data, err := os.ReadFile(path)
	must(t, err)
	end := len(data)
	for end > 0 && data[end-1] == 0 {
		end--
	}
	clear(data[(end*9/10)&^511 : end])
	must(t, os.WriteFile(path, data, 0o600))
}
