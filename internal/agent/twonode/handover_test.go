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
	"strconv"
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
		"Pacemaker has not asked":   {func(r *state.EtcdReport) { r.Wish = state.EtcdNotAsked }, "has not asked"},
		"own record voter":          {func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdVoter }, "says voter: the reason of the agent"},
		"own record unreadable":     {func(r *state.EtcdReport) { r.Snapshot.Record.Known = false }, "says nothing readable"},
		"peer silent":               {func(r *state.EtcdReport) { r.Snapshot.Statement.Known = false }, "no statement was received from cp-2"},
		"peer a learner":            {func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdLearner }, "record of cp-2 says learner"},
		"etcd down":                 {func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Known(false) }, "is not running"},
		"nobody knows if etcd runs": {func(r *state.EtcdReport) { r.Snapshot.Local.Running.Known = false }, "is not running"},
		"no leader":                 {func(r *state.EtcdReport) { r.Snapshot.Local.Leader = state.Known(state.MemberID(0)) }, "knows no leader"},
		"the peer goes on alone":    {func(r *state.EtcdReport) { *r = superseded() }, "record of cp-2 says sole"},
		"this host goes on alone":   {func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdSole }, "says sole"},
		"one voter":                 {func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value[1].Learner = true }, "1 of two voters"},
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

func TestAHandOverGoesOnWhereTheAgentHasTakenTheManifestMeanwhile(t *testing.T) {
	var s *stand
	s = withEtcd(t, func() state.EtcdReport {
		if s.text(staticPod) != "" {
			return superseded()
		}
		return pair() // the keeper has joined
	})
	s.Sleep = func(context.Context, time.Duration) error {
		s.put(fileLocks, lock(t, s, etcdPID))
		return os.Rename(s.path(staticPod), s.path(keptPod))
	}
	s.put(keptPod, "")
	if err := s.do(twonode.HandOver); err != nil || len(s.runs) > 0 {
		t.Errorf("%v, ran %v", err, s.runs)
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
		if got, held := lockedBy(locks, 35); (held && got == strconv.Itoa(pid)) != want {
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
