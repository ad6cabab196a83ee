package pacemakerstatus

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// fakeAPI is an API with one object.
type fakeAPI struct {
	mu      sync.Mutex
	object  *etcdv1.PacemakerCluster
	version int
	writes  []string // by whom: "cp-1 status", "cp-1 beat"
	events  map[string]int
	pods    []corev1.Pod
	nodes   []corev1.Node
	counted int
	down    error
	mute    bool // the answer to the next write is lost
}

type asHost struct {
	*fakeAPI
	host string
}

func (a asHost) PacemakerCluster(context.Context) (*etcdv1.PacemakerCluster, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down != nil || a.object == nil {
		return nil, a.down
	}
	return a.object.DeepCopy(), nil
}

func (a asHost) WritePacemakerStatus(_ context.Context, version string, status json.RawMessage) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gr := schema.GroupResource{Resource: "pacemakerclusters"}
	switch {
	case a.down != nil:
		return "", a.down
	case a.object == nil:
		return "", apierrors.NewNotFound(gr, "cluster")
	case version != a.object.ResourceVersion:
		return "", apierrors.NewConflict(gr, "cluster", errors.New("another version"))
	}
	before := a.object.Status.LastUpdated
	if err := json.Unmarshal(status, &a.object.Status); err != nil {
		return "", err
	}
	if a.object.Status.LastUpdated.Before(&before) {
		return "", apierrors.NewBadRequest("lastUpdated may not be set to an earlier timestamp")
	}
	a.version++
	a.object.ResourceVersion = string(rune('a' + a.version))
	what := " beat"
	if strings.Contains(string(status), "conditions") {
		what = " status"
	}
	a.writes = append(a.writes, a.host+what)
	if a.mute {
		a.mute = false
		return "", errors.New("no answer in time")
	}
	return a.object.ResourceVersion, nil
}

func (a asHost) CreateEvent(_ context.Context, e *corev1.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down != nil {
		return a.down
	}
	a.events[e.Reason+" "+e.Name]++
	return nil
}

func (a asHost) EachPod(_ context.Context, do func(*corev1.Pod)) ([]corev1.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down != nil {
		return nil, a.down
	}
	a.counted++
	for i := range a.pods {
		do(&a.pods[i])
	}
	return a.nodes, nil
}

func (a *fakeAPI) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.writes
	a.writes = nil
	return out
}

func newAPI() *fakeAPI {
	return &fakeAPI{object: &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster", ResourceVersion: "0"}}, events: map[string]int{}}
}

// cluster is two hosts that see one recorded state.
type cluster struct {
	t       *testing.T
	api     *fakeAPI
	mu      sync.Mutex
	name    string
	known   map[string]decide.Input
	members []string
	through access // if it is not the API above
	setBack func(host string) error
	host    map[string]*Collector
	stop    map[string]context.CancelFunc
}

// inTime runs a test on a cluster whose clock runs as fast as it can, with a
// folder for the files of its hosts.
func inTime(t *testing.T, test func(t *testing.T, c *cluster, dir string)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, newCluster(t), dir) })
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, api: newAPI(), name: "healthy", known: map[string]decide.Input{}, members: []string{"cp-1", "cp-2"}, host: map[string]*Collector{}, stop: map[string]context.CancelFunc{}}
}

func (c *cluster) see(name string, members ...string) {
	c.mu.Lock()
	c.name, c.members = name, members
	c.mu.Unlock()
	for _, h := range c.host {
		h.Wake()
	}
}

func (c *cluster) look(_ context.Context, host string) decide.Input {
	c.mu.Lock()
	defer c.mu.Unlock()
	in, known := c.known[c.name]
	if !known {
		in = c.read(filepath.Join("../../../test/corpus/pacemaker/cases", c.name, "cp-1"))
		c.known[c.name] = in
	}
	in.Host, in.Membership = host, state.Known(state.Membership{Members: c.members, Quorate: true})
	return in
}

func (c *cluster) read(dir string) decide.Input {
	text, err := os.ReadFile(filepath.Join(dir, "crm_mon.xml"))
	if err != nil {
		c.t.Error(err)
	}
	in := decide.Input{Corosync: readCorosync(filepath.Join(dir, "corosync.conf"))}
	parsed, err := crmmon.Parse(text, time.UTC)
	if err != nil {
		in.Trouble = err.Error()
		return in
	}
	in.Cluster = state.Known(parsed)
	return in
}

// start starts the collector of a host, with files in a folder.
func (c *cluster) start(host, dir string) {
	n := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	n.host = func() (string, error) { return host, nil }
	n.look = c.look
	n.watch = func(ctx context.Context, _ *loop.Loops, _ func()) { <-ctx.Done() }
	n.api = func(ctx context.Context, do func(context.Context, api) error) error {
		return do(ctx, asHost{c.api, host})
	}
	if c.through != nil {
		n.api = c.through
	}
	if c.setBack != nil {
		n.setBack = func(context.Context, bool) error { return c.setBack(host) }
	}
	n.files = files{filepath.Join(dir, host+".live"), filepath.Join(dir, host+".kept")}
	ctx, stop := context.WithCancel(c.t.Context())
	c.host[host], c.stop[host] = n, stop
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx, loop.New(time.Now, n.Log)) }()
	c.t.Cleanup(func() { stop(); <-done }) // it writes into the test's folder until then
}

func (c *cluster) online(name string) metav1.Condition {
	c.api.mu.Lock()
	defer c.api.mu.Unlock()
	if c.api.object.Status.Nodes == nil {
		return metav1.Condition{}
	}
	for _, n := range *c.api.object.Status.Nodes {
		for _, cond := range n.Conditions {
			if n.NodeName == name && cond.Type == "Online" {
				return cond
			}
		}
	}
	return metav1.Condition{}
}

func TestTwoCollectorsDoNotFightAndWriteOnlySignsOfLife(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		c.start("cp-2", dir)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		writes := c.api.take()
		if len(writes) < 18 || len(writes) > 22 || writes[0] != "cp-1 status" {
			t.Errorf("%d writes in ten minutes: %v", len(writes), writes)
		}
		for _, w := range writes[1:] {
			if w != "cp-1 beat" {
				t.Errorf("%s while nothing changed", w)
			}
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}

// TestASignOfLifeComesInTimeHoweverOftenTheClusterIsLookedAt plays a finding of
// the lab, where Pacemaker checks itself every minute: each look postponed the
// next one by 30 s. So signs of life, and the looks for them, came up to a minute
// apart, and the other host took the writer for dead.
func TestASignOfLifeComesInTimeHoweverOftenTheClusterIsLookedAt(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Second, 19 * time.Second, 29 * time.Second, 45 * time.Second, time.Minute} {
		inTime(t, func(t *testing.T, c *cluster, dir string) {
			c.start("cp-1", dir)
			time.Sleep(every / 2)
			c.start("cp-2", dir)
			for began := time.Now(); time.Since(began) < 20*time.Minute; time.Sleep(every) {
				c.see("healthy", c.members...)
			}
			synctest.Wait()
			writes := c.api.take()
			if slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "cp-2") }) || len(writes) < 40 || len(writes) > 45 {
				t.Errorf("looked at every %s: %d: %v", every, len(writes), writes)
			}
			c.stop["cp-1"]()
			c.stop["cp-2"]()
		})
	}
}

// TestAnObjectThatNobodyHasWrittenIsTheWriters lets both hosts find it empty.
func TestAnObjectThatNobodyHasWrittenIsTheWriters(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.api.object = nil
		c.start("cp-2", dir)
		time.Sleep(5 * time.Minute)
		c.api.mu.Lock()
		c.api.object = newAPI().object
		c.api.mu.Unlock()
		time.Sleep(unready + time.Second)
		c.start("cp-1", dir)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if writes := c.api.take(); len(writes) == 0 || slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "cp-2") }) {
			t.Errorf("%v", writes)
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}

func TestAChangeIsInTheAPIWithinASecond(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		time.Sleep(45 * time.Second)
		began := time.Now()
		c.see("lost-fenced", "cp-1")
		for c.online("cp-2").Status != metav1.ConditionFalse && time.Since(began) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		c.stop["cp-1"]()
	})
}

func TestTheOtherHostWritesWhenTheCoordinatorsAgentIsGone(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		c.start("cp-2", dir)
		time.Sleep(time.Minute)
		c.stop["cp-1"]() // its Pacemaker goes on
		c.api.take()
		time.Sleep(decide.Silence + 2*resync)
		if w := c.api.take(); len(w) == 0 || w[0][:4] != "cp-2" {
			t.Errorf("%v", w)
		}
		time.Sleep(5 * time.Minute)
		if w := c.api.take(); len(w) < 8 {
			t.Errorf("it does not go on: %v", w)
		}
		c.start("cp-1", dir)
		time.Sleep(time.Minute)
		c.api.take()
		time.Sleep(5 * time.Minute)
		for _, w := range c.api.take() {
			if w[:4] != "cp-1" {
				t.Errorf("both write: %s", w)
			}
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}

func TestWhatHappenedWhileTheAPIWasAwayKeepsItsTime(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		time.Sleep(time.Minute)
		c.api.mu.Lock()
		c.api.down = errors.New("connection refused")
		c.api.mu.Unlock()
		c.see("lost-fenced", "cp-1")
		lost := time.Now()
		time.Sleep(2 * time.Minute)
		if r := c.host["cp-1"].Report(); r.API == "" || decide.Holds((*r.Status.Nodes)[1].Conditions, "Online") {
			t.Errorf("what the host keeps: %q %+v", r.API, (*r.Status.Nodes)[1].Conditions)
		}
		c.stop["cp-1"]() // an agent that is restarted knows it from its file
		synctest.Wait()
		c.api.mu.Lock()
		c.api.down = nil
		c.api.mu.Unlock()
		c.start("cp-1", dir)
		time.Sleep(10 * time.Second)
		if at := c.online("cp-2").LastTransitionTime; at.Sub(lost) > 2*time.Second || at.Before(&metav1.Time{Time: lost.Add(-time.Second)}) {
			t.Errorf("lost at %s, told as %s", lost, at)
		}
		c.stop["cp-1"]()
	})
}

// TestWhatIsOverWhenTheAPIIsBackIsTold plays a loss and a return that the API has
// missed, and an API server that starts: it takes the first write, and its answer
// comes too late. A condition with the same status since another time was once
// not written.
func TestWhatIsOverWhenTheAPIIsBackIsTold(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		c.start("cp-1", dir)
		time.Sleep(2 * time.Minute)
		c.api.mu.Lock()
		c.api.down, c.api.events = errors.New("connection refused"), map[string]int{}
		c.api.mu.Unlock()
		c.see("lost-fenced", "cp-1")
		time.Sleep(time.Minute)
		c.see("healthy", "cp-1", "cp-2")
		back := time.Now()
		time.Sleep(time.Minute)
		c.api.mu.Lock()
		c.api.down, c.api.mute = nil, true
		c.api.mu.Unlock()
		time.Sleep(10 * time.Second)
		at := c.online("cp-2").LastTransitionTime
		if at.Sub(back) > 2*time.Second || at.Before(&metav1.Time{Time: back.Add(-time.Second)}) {
			t.Errorf("back at %s, in the API since %s", back, at)
		}
		c.stop["cp-1"]()
		synctest.Wait()
		told := 0
		for name, n := range c.api.events {
			if strings.HasPrefix(name, "PacemakerNodeOnline ") {
				told += n
			}
		}
		if told != 1 {
			t.Errorf("told %d times that it is back: %v", told, c.api.events)
		}
	})
}

func TestAnObjectThatIsDeletedOrNotThereYetIsWrittenOnceItIsThere(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		object := c.api.object
		c.api.object = nil
		c.start("cp-1", dir)
		time.Sleep(time.Minute)
		c.api.mu.Lock()
		c.api.object = object
		c.api.mu.Unlock()
		time.Sleep(unready + slowRetryInterval)
		if c.online("cp-1").Status != metav1.ConditionTrue {
			t.Error("it is not written")
		}
		c.stop["cp-1"]()
	})
}

// TestPacemakerThatLooksAnewChangesNothing has everything reported as stopped,
// for a moment and then for good.
func TestPacemakerThatLooksAnewChangesNothing(t *testing.T) {
	inTime(t, func(t *testing.T, c *cluster, dir string) {
		torn := c.read("../../../test/corpus/pacemaker/cases/lab-refreshed/cp-1")
		torn.Cluster.Value.Fences = nil // of which the other state has none
		c.known["lab-refreshed"] = torn
		c.start("cp-1", dir)
		time.Sleep(45 * time.Second)
		c.api.take()
		events := len(c.api.events)
		c.see("lab-refreshed", c.members...)
		time.Sleep(decide.Retakes - 2*time.Second)
		c.see("healthy", c.members...)
		time.Sleep(time.Minute)
		synctest.Wait()
		if writes := c.api.take(); slices.Contains(writes, "cp-1 status") || len(c.api.events) != events {
			t.Errorf("%v, %v", writes, c.api.events)
		}
		c.see("lab-refreshed", c.members...)
		time.Sleep(decide.Retakes + 2*time.Second)
		synctest.Wait()
		if writes := c.api.take(); !slices.Contains(writes, "cp-1 status") {
			t.Errorf("there is no record for %s, and that is not told: %v", decide.Retakes, writes)
		}
		c.stop["cp-1"]()
	})
}

func TestAFenceIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 20, 12, 0, 10, 0, time.UTC)))
		c := newCluster(t)
		c.see("lost-fenced", "cp-1")
		c.start("cp-1", dir)
		time.Sleep(5 * time.Minute)
		told := map[string]int{}
		for name, n := range c.api.events {
			reason, _, _ := strings.Cut(name, " ")
			told[reason]++
			if n != 1 {
				t.Errorf("%s is told %d times", name, n)
			}
		}
		if told["PacemakerFencingEvent"] != 1 || told["PacemakerNodeOffline"] != 1 {
			t.Errorf("events %v", told)
		}
		c.stop["cp-1"]()
		c.api.events = map[string]int{} // the API forgets
		time.Sleep(time.Hour)
		c.start("cp-1", dir)
		time.Sleep(5 * time.Minute)
		if len(c.api.events) != 0 {
			t.Errorf("told again: %v", c.api.events)
		}
		c.stop["cp-1"]()
	})
}

func TestFilesAreEventsAndFoldersMayComeLater(t *testing.T) {
	dir := t.TempDir()
	later := filepath.Join(dir, "later")
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	woken := make(chan struct{}, 10)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- watchFolders(ctx, func() { woken <- struct{}{} }, []string{later, there}) }()
	<-woken // it begins
	if err := os.WriteFile(filepath.Join(there, "pacemaker.log"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Fatal("a line of the log woke nobody")
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
