package twonode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

const etcdPID = 4711

// pair returns the keeper's report when all is well before the hand-over.
func pair() state.EtcdReport {
	record := state.EtcdRecord{State: state.EtcdPair, Cluster: 1, Member: 2}
	return state.EtcdReport{
		Wish: state.EtcdStarted,
		Snapshot: state.EtcdSnapshot{
			Host: "cp-1", Peer: "cp-2", Record: state.Known(record),
			Statement: state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdPair, Cluster: 1, Member: 3}}),
			Local: state.EtcdLocal{
				Running: state.Known(true), Leader: state.Known(state.MemberID(3)),
				Members: state.Known([]state.EtcdMember{{ID: 2}, {ID: 3}}),
			},
		},
		Verdict: state.EtcdVerdict{Reason: "the reason of the agent"},
	}
}

// agent answers at a unix socket as the etcd keeper does.
func agent(t *testing.T, report func() state.EtcdReport) func(context.Context) (state.EtcdReport, error) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(report()) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return func(ctx context.Context) (state.EtcdReport, error) { return explain.Ask(ctx, socket) }
}

// withEtcd returns a host whose kubelet stops etcd when its manifest goes, and
// whose keeper then starts it in podman.
func withEtcd(t *testing.T, report func() state.EtcdReport) *stand {
	s := newStand(t)
	s.put(staticPod, "kind: Pod\n")
	s.put(state.EtcdPodManifest, "kind: Pod\n")
	s.put(etcdDB, "db")
	s.put(fileLocks, lock(t, s, 99))
	s.Report = agent(t, report)
	s.Container = func(context.Context) (podman.Process, error) {
		if s.text(staticPod) != "" {
			return podman.Process{}, nil
		}
		return podman.Process{Running: true, PID: etcdPID}, nil
	}
	return s
}

func lock(t *testing.T, s *stand, pid int) string {
	t.Helper()
	info, err := os.Stat(filepath.Join(s.Root, etcdDB))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("1: POSIX  ADVISORY  WRITE %d 00:2f:%d 0 EOF\n2: FLOCK  ADVISORY  WRITE %d 00:2f:%d 0 EOF\n",
		etcdPID, info.Sys().(*syscall.Stat_t).Ino, pid, info.Sys().(*syscall.Stat_t).Ino)
}

func TestHandOverTakesTheManifestFromKubeletAndWaitsForPodman(t *testing.T) {
	s := withEtcd(t, pair)
	looks := 0
	s.Sleep = func(context.Context, time.Duration) error {
		if looks++; looks == 2 {
			s.put(fileLocks, lock(t, s, etcdPID)) // kubelet's etcd has ended
		}
		return nil
	}
	if err := s.do(twonode.HandOver); err != nil {
		t.Fatal(err)
	}
	if s.text(staticPod) != "" || s.text(keptPod) != "kind: Pod\n" || looks != 2 {
		t.Errorf("%d looks\n%s", looks, tree(t, s.Root))
	}
	if err := s.do(twonode.HandOver); err != nil || looks != 2 {
		t.Errorf("the second run: %v, %d looks", err, looks)
	}
}

func TestNothingIsHandedOverBeforeBothHostsCanGoOnAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*state.EtcdReport)
		says   string
	}{
		"Pacemaker has not asked":           {func(r *state.EtcdReport) { r.Wish = state.EtcdNotAsked }, "has not asked"},
		"own record voter":                  {func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdVoter }, "says voter: the reason of the agent"},
		"own record unreadable":             {func(r *state.EtcdReport) { r.Snapshot.Record.Known = false }, "says nothing readable"},
		"peer silent":                       {func(r *state.EtcdReport) { r.Snapshot.Statement.Known = false }, "no statement was received from cp-2"},
		"peer a learner":                    {func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdLearner }, "record of cp-2 says learner"},
		"etcd down":                         {func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Known(false) }, "is not running"},
		"nobody knows if etcd runs":         {func(r *state.EtcdReport) { r.Snapshot.Local.Running.Known = false }, "is not running"},
		"no leader":                         {func(r *state.EtcdReport) { r.Snapshot.Local.Leader = state.Known(state.MemberID(0)) }, "knows no leader"},
		"the peer is sole, of another ring": {func(r *state.EtcdReport) { *r = givenUp(); r.Snapshot.Pacemaker.Ring = 8 }, "record of this host says learner"},
		"the peer still takes over": {func(r *state.EtcdReport) {
			*r = givenUp()
			r.Snapshot.Statement.Value.Record.State = state.EtcdTakingOver
		}, "says learner"},
		"the peer does not lead":   {func(r *state.EtcdReport) { *r = givenUp(); r.Snapshot.Statement.Value.Leads = false }, "says learner"},
		"the copy is not given up": {func(r *state.EtcdReport) { *r = givenUp(); r.Snapshot.Record.Value.Member = 2 }, "says learner"},
		"this host goes on alone":  {func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdSole }, "says sole"},
		"one voter":                {func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value[1].Learner = true }, "1 of two voters"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withEtcd(t, func() state.EtcdReport { r := pair(); c.change(&r); return r })
			s.Sleep = func(context.Context, time.Duration) error { return errors.New("not within 1m0s") }
			err := s.do(twonode.HandOver)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "not within 1m0s") {
				t.Errorf("%v, want %q", err, c.says)
			}
			if s.text(staticPod) == "" {
				t.Error("the manifest was moved")
			}
		})
	}
}

// givenUp returns the keeper's report on a host that was fenced before its
// hand-over: the peer goes on alone, and the data directory here is of no cluster
// any more.
func givenUp() state.EtcdReport {
	r := pair()
	s := &r.Snapshot
	s.Pacemaker.Contact, s.Pacemaker.Ring = state.Known(true), 7
	s.Record = state.Known(state.EtcdRecord{State: state.EtcdLearner, Yields: 2})
	s.Statement = state.Known(state.EtcdStatement{
		Ring: 7, Record: state.EtcdRecord{State: state.EtcdSole, Member: 3}, Running: state.Known(true), Leads: true,
	})
	s.Local = state.EtcdLocal{Running: state.Known(false)}
	return r
}

func TestAHostThatWasFencedBeforeItsHandOverJoinsAnew(t *testing.T) {
	var s *stand
	s = withEtcd(t, func() state.EtcdReport {
		if s.text(staticPod) != "" {
			return givenUp()
		}
		return pair() // the keeper has joined
	})
	looks := 0
	s.Sleep = func(context.Context, time.Duration) error {
		if s.text(staticPod) == "" {
			s.put(fileLocks, lock(t, s, etcdPID))
			return nil
		}
		if looks++; looks == 3 {
			s.put(fileLocks, "") // the last start that kubelet asked for has ended
		}
		return nil
	}
	s.programs["systemctl start kubelet.service"] = func([]string) (string, error) {
		if s.text(staticPod) != "" {
			t.Error("kubelet was started with the manifest still there")
		}
		return "", nil
	}
	if err := s.do(twonode.HandOver); err != nil {
		t.Fatal(err)
	}
	if s.text(keptPod) != "kind: Pod\n" || looks < 4 || strings.Join(s.runs, ", ") != "systemctl stop kubelet.service, systemctl start kubelet.service" {
		t.Errorf("%d looks, ran %v\n%s", looks, s.runs, tree(t, s.Root))
	}
}

func TestKubeletIsStartedAgainWhereItsEtcdDoesNotEnd(t *testing.T) {
	s := withEtcd(t, givenUp)
	s.Sleep = func(context.Context, time.Duration) error { return errors.New("not within 1m0s") }
	if err := s.do(twonode.HandOver); err == nil || !strings.Contains(err.Error(), "kubelet's etcd has ended") {
		t.Error(err)
	}
	if s.text(staticPod) == "" || !s.ran("systemctl start kubelet.service") {
		t.Errorf("ran %v", s.runs)
	}
}

func TestHandOverNeedsTheManifestThatPodmanRuns(t *testing.T) {
	s := withEtcd(t, pair)
	if err := os.Remove(filepath.Join(s.Root, state.EtcdPodManifest)); err != nil {
		t.Fatal(err)
	}
	if err := s.do(twonode.HandOver); err == nil || !strings.Contains(err.Error(), "run the step manifest first") || s.text(staticPod) == "" {
		t.Error(err)
	}
}

func TestALockIsThatOfOneProcessAndOneFile(t *testing.T) {
	const locks = "1: FLOCK  ADVISORY  WRITE 471 00:2f:35 0 EOF\n2: POSIX  ADVISORY  WRITE 12 00:2f:35 0 EOF\n3: FLOCK  ADVISORY  WRITE 12 00:2f:135 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 13 00:2f:35 0 EOF\n"
	for pid, want := range map[int]bool{471: true, 47: false, 12: false, 13: false} {
		if got := lockedBy(locks, pid, 35); got != want {
			t.Errorf("%d: %v", pid, got)
		}
	}
}

func TestAChangedManifestIsDoneWhenEtcdRunsByIt(t *testing.T) {
	looks := 0
	report := func() state.EtcdReport {
		r := pair()
		looks++
		r.At = time.Unix(int64(looks), 0) // the step writes at second 1
		r.Outdated = state.Known(looks < 4)
		if looks == 4 {
			r.Snapshot.Local.Leader = state.Known(state.MemberID(0)) // it has just been restarted
		}
		return r
	}
	s := withEtcd(t, report)
	if err := os.Remove(filepath.Join(s.Root, staticPod)); err != nil {
		t.Fatal(err)
	}
	s.Now = func() time.Time { return time.Unix(1, 0) }
	s.Sleep = func(context.Context, time.Duration) error { return nil }
	if err := s.do(twonode.Manifest); err != nil || looks != 5 {
		t.Errorf("%v after %d looks, want the fifth: the first is of before, then it is outdated, then without a leader", err, looks)
	}
}
