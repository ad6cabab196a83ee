package pacemakerstatus

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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
