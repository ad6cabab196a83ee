package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/model/state"
)

// cluster simulates two hosts on a clock: a fenced host is off at once, boots,
// and is a voter again some time later.
type cluster struct {
	mu      sync.Mutex
	crashed string
	at      time.Time
	// boot is the time until a host answers again, vote the time until it votes.
	boot, vote time.Duration
	// fails names a host that Pacemaker refuses to fence.
	fails   string
	history map[string][]state.FenceEntry
	// boots counts the boots of each host. While stale is set, nobody notices a
	// crash.
	boots map[string]int
	stale bool
	log   []string
}

func newCluster() *cluster {
	return &cluster{boot: 40 * time.Second, vote: 50 * time.Second, history: map[string][]state.FenceEntry{}, boots: map[string]int{}}
}

func (c *cluster) peer(name string) string {
	if name == "cp-1" {
		return "cp-2"
	}
	return "cp-1"
}

func (c *cluster) hosts() []Host {
	return []Host{{"cp-1", c.run("cp-1")}, {"cp-2", c.run("cp-2")}}
}

func (c *cluster) run(name string) host.Runner {
	return func(_ context.Context, args ...string) ([]byte, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		since := time.Since(c.at)
		switch {
		case c.crashed == name && since < c.boot:
			return nil, errors.New("no route to host")
		case args[0] == "holdfast-agent":
			return json.Marshal(c.facts(name, since))
		case c.fails == args[2]:
			return nil, errors.New("no such device")
		}
		c.crashed, c.at = args[2], time.Now()
		if !c.stale {
			c.boots[args[2]]++
		}
		c.log = append(c.log, name+" fences "+args[2])
		c.history[name] = append(c.history[name], state.FenceEntry{
			Time: time.Now(), Target: args[2], Off: true, Requests: 1,
			Phases: state.FencePhases{Identify: time.Second, PowerOff: 2 * time.Second, Hold: 20 * time.Second},
		})
		return nil, nil
	}
}

func (c *cluster) facts(name string, since time.Duration) hostreport.Report {
	whole := c.crashed == "" || since >= c.vote
	var r state.EtcdReport
	r.Snapshot.Record = state.Known(state.EtcdRecord{State: state.EtcdPair})
	r.Snapshot.Local.Running, r.Snapshot.Local.Leader = state.Known(true), state.Known(state.MemberID(1))
	r.Snapshot.Local.Members = state.Known([]state.EtcdMember{{ID: 1}, {ID: 2}})
	r.Snapshot.Pacemaker.Contact = state.Known(whole)
	online := []string{"cp-1", "cp-2"}
	if !whole {
		r.Snapshot.Record.Value.State = state.EtcdSole
		online = []string{name}
	}
	boot := func(host string) string { return fmt.Sprint(host, " ", c.boots[host]) }
	r.Snapshot.Statement = state.Known(state.EtcdStatement{
		Boot: boot(c.peer(name)), Record: state.EtcdRecord{State: state.EtcdPair}, Running: state.Known(true),
	})
	if !whole && !c.stale {
		r.Snapshot.Statement.Known = false
	}
	return hostreport.Report{
		Host: name, Boot: seen(hostreport.Boot{ID: boot(name)}), Keeper: seen(r),
		Pacemaker: seen(hostreport.Cluster{Online: online}), Fences: seen(c.history[name]),
	}
}

func seen[T any](value T) state.Seen[T] { return state.See(value, "", time.Time{}) }

func rehearse(t *testing.T, c *cluster, hosts []Host, targets ...string) (all []Times, words string, err error) {
	t.Helper()
	var said strings.Builder
	r := Run{
		Hosts: hosts, Targets: targets, Return: 5 * time.Minute, Now: time.Now,
		Progress: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) },
	}
	all, err = r.Crash(t.Context())
	return all, said.String(), err
}

func TestEachHostIsCrashedInTurnAndHealthWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		times, said, err := rehearse(t, c, c.hosts(), "cp-1", "cp-2")
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if got := fmt.Sprint(c.log); got != "[cp-2 fences cp-1 cp-1 fences cp-2]" {
			t.Errorf("it did %s", got)
		}
		for _, x := range times {
			if x.Answers < c.boot || x.Healthy < c.vote || x.Fence == nil {
				t.Errorf("times %+v", x)
			}
		}
		measured := Measured(times)
		if len(measured["cp-1"]) != 1 || measured["cp-2"][0] != 3*time.Second {
			t.Errorf("measured %v: the delay does not count", measured)
		}
	})
}

// The alert and holdfast doctor judge the delay by the same fences: a calibration that left out
// the slow one before it would set a delay that both go on to report.
func TestASlowFenceOfBeforeCountsInTheMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		before := state.FenceEntry{Time: time.Now().Add(-time.Hour), Target: "cp-1", Off: true, Requests: 2, Phases: state.FencePhases{PowerOff: 9 * time.Second}}
		waited := state.FenceEntry{Time: before.Time, Target: "cp-1", Off: true, Phases: state.FencePhases{Identify: time.Minute}} // it was off already
		c.history["cp-2"] = []state.FenceEntry{before, waited}
		times, said, err := rehearse(t, c, c.hosts(), "cp-1", "cp-2")
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if got := Measured(times); !slices.Equal(got["cp-1"], []time.Duration{9 * time.Second, 3 * time.Second}) || !slices.Equal(got["cp-2"], []time.Duration{3 * time.Second}) {
			t.Errorf("measured %v", got)
		}
	})
}

func TestAClusterThatIsNotInFullHealthIsNotCrashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.crashed, c.at = "cp-1", time.Now()
		_, _, err := rehearse(t, c, c.hosts(), "cp-1")
		if !errors.Is(err, ErrUnhealthy) || len(c.log) != 0 || !strings.Contains(err.Error(), "cp-1 does not answer") {
			t.Errorf("%v after %v", err, c.log)
		}
	})
}

func TestTheSecondHostIsNotCrashedWhileTheFirstIsNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.vote = time.Hour
		_, _, err := rehearse(t, c, c.hosts(), "cp-1", "cp-2")
		if err == nil || len(c.log) != 1 || !strings.Contains(err.Error(), "its record is sole") {
			t.Errorf("%v after %v", err, c.log)
		}
	})
}

func TestAFenceThatFailsEndsTheRehearsal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fails = "cp-1"
		_, _, err := rehearse(t, c, c.hosts(), "cp-1", "cp-2")
		if err == nil || len(c.log) != 0 || !strings.Contains(err.Error(), "no such device") {
			t.Errorf("%v after %v", err, c.log)
		}
	})
}

func TestAHostThatIsBackBeforeAnybodyLooksIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.boot, c.vote = 0, 0
		times, said, err := rehearse(t, c, c.hosts(), "cp-1")
		if err != nil || len(times) != 1 {
			t.Errorf("%v\n%s", err, said)
		}
	})
}

func TestAReportFromBeforeTheCrashIsNoHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.vote, c.stale = 0, true // the report goes on to show full health
		hosts := []Host{{"cp-1", c.run("cp-1")}, {Name: "cp-2"}}
		if _, said, err := rehearse(t, c, hosts, "cp-2"); err == nil || len(c.log) != 1 {
			t.Errorf("%v after %v\n%s", err, c.log, said)
		}
	})
}

func TestAHostCrashesItsPeerAndHearsOfItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		hosts := []Host{{"cp-1", c.run("cp-1")}, {Name: "cp-2"}}
		times, said, err := rehearse(t, c, hosts, "cp-2")
		if err != nil || len(times) != 1 || times[0].Healthy < c.vote {
			t.Errorf("%+v, %v\n%s", times, err, said)
		}
	})
}

func TestAHostCrashesOnlyItsPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		hosts := []Host{{"cp-1", c.run("cp-1")}, {Name: "cp-2"}}
		if _, _, err := rehearse(t, c, hosts, "cp-1"); err == nil || len(c.log) != 0 {
			t.Errorf("a host without a peer that can be asked: %v after %v", err, c.log)
		}
	})
}

func TestAnOldRecordIsNoMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.history["cp-2"] = []state.FenceEntry{{Time: time.Now().Add(-time.Hour), Target: "cp-1", Off: true, Requests: 1}}
		hosts := c.hosts()
		inner := hosts[1].Run
		hosts[1].Run = func(ctx context.Context, args ...string) ([]byte, error) {
			out, err := inner(ctx, args...)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.history["cp-2"] = c.history["cp-2"][:1] // the disk did not store it
			return out, err
		}
		times, said, err := rehearse(t, c, hosts, "cp-1")
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if times[0].Fence != nil || len(Measured(times)) != 0 {
			t.Errorf("times %+v", times[0])
		}
	})
}
