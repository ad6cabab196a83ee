package pacemakerstatus

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// happens lists the folders in which something is written when something happens:
// Pacemaker's log, which has each change of the CIB and of attributes on every
// node within 30 ms, its configuration, Corosync's, and the proofs of fences. A
// write is only a hint; look reads the facts themselves.
var happens = []string{"/var/log/pacemaker", "/var/lib/pacemaker/cib", "/etc/corosync", state.FencedDir}

// observer gathers what this host can see.
type observer struct {
	log *slog.Logger
	// settings returns what Pacemaker's files say and what they should say.
	settings func() (have, want twonode.Config, err error)
	// taken reports whether Pacemaker runs etcd of this host. Its configuration was
	// complete then.
	taken func() bool

	mu         sync.Mutex
	name       string // of this host
	membership state.Fact[state.Membership]
	quorate    time.Time // since when this host has quorum; zero while it has none
	corosync   state.Fact[corosync.Conf]
}

// observe gathers what is known now. What cannot be read is unknown.
func (e *observer) observe(ctx context.Context, name string) decide.Input {
	in := decide.Input{Host: name}
	if c, err := pacemaker.Report(ctx); err != nil {
		in.Trouble = err.Error()
	} else {
		in.Cluster = state.Known(c)
	}
	if decide.Wonders(in.Cluster.Value) {
		in.Found = found(ctx)
	}
	in.Corosync = readCorosync(corosync.Path)
	in.Drift = drift(e.settings, e.taken)
	if r, err := askEtcd(ctx); err == nil {
		in.Etcd = state.Known(r)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.name, e.corosync, in.Membership = name, in.Corosync, e.membership
	if !e.quorate.IsZero() {
		in.QuorateFor = time.Since(e.quorate)
	}
	return in
}

// found returns the problems that the fence agents of both hosts found in their
// last tests, or nothing if Pacemaker does not answer.
func found(ctx context.Context) map[string]state.BMCProblem {
	values, err := pacemaker.PrivateAttributes(ctx, fence.FoundAttribute)
	if err != nil {
		return nil
	}
	return fence.Problems(values)
}

// drift returns the settings that differ from the wanted ones. They are unknown
// if they cannot be read, and before the set-up.
func drift(settings func() (have, want twonode.Config, err error), taken func() bool) state.Fact[[]twonode.Difference] {
	have, want, err := settings()
	switch {
	case err != nil, !have.SetUp() && !taken():
		return state.Fact[[]twonode.Difference]{}
	case !have.SetUp():
		return state.Known(twonode.Emptied(have))
	}
	return state.Known(twonode.Drift(have, want))
}

// join takes the membership that Corosync reports.
func (e *observer) join(m state.Fact[state.Membership]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.membership = m
	switch {
	case !m.Value.Quorate:
		e.quorate = time.Time{}
	case e.quorate.IsZero():
		e.quorate = time.Now()
	}
}

func readCorosync(path string) state.Fact[corosync.Conf] {
	text, err := os.ReadFile(path)
	if err != nil {
		return state.Fact[corosync.Conf]{}
	}
	c, err := corosync.Parse(text)
	if err != nil {
		return state.Fact[corosync.Conf]{}
	}
	return state.Known(c)
}

// answerTime bounds one request to the etcd keeper, which has its answer ready.
const answerTime = time.Second

func askEtcd(ctx context.Context) (state.EtcdReport, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return keeperclient.Report(ctx, state.EtcdSocketPath)
}

// watch wakes whenever something happens, until the context ends.
func (e *observer) watch(ctx context.Context, loops *loop.Loops, wake func()) {
	go thisHostsMembers(e.log).watch(ctx, func(m state.Fact[state.Membership]) {
		e.join(m)
		wake()
	})
	loops.Watch(ctx, loop.Watch{Name: "watch of Pacemaker's files", Pause: slowRetryInterval, Run: func(ctx context.Context, _ func()) error {
		return watchFolders(ctx, wake, happens)
	}})
}

// watchFolders calls wake whenever something is written in one of the folders. At
// each resync it looks again for folders that do not exist yet, as before the
// cluster manager is set up.
func watchFolders(ctx context.Context, wake func(), folders []string) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	again := time.NewTicker(resync)
	defer again.Stop()
	for {
		if addFolders(w, folders) {
			wake() // for what came before it was watched
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		case err := <-w.Errors:
			return err
		case event, open := <-w.Events:
			if !open {
				return errors.New("inotify ended")
			}
			if !event.Has(fsnotify.Chmod) {
				wake()
			}
		}
	}
}

// addFolders watches the folders that are not watched yet, and reports whether
// there were any.
func addFolders(w *fsnotify.Watcher, folders []string) (added bool) {
	watched := map[string]bool{}
	for _, path := range w.WatchList() {
		watched[path] = true
	}
	for _, dir := range folders {
		if !watched[filepath.Clean(dir)] && w.Add(dir) == nil {
			added = true
		}
	}
	return added
}

// peers returns the addresses of the hosts that may be asked instead of this one.
func (e *observer) peers() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return decide.Input{Host: e.name, Corosync: e.corosync, Membership: e.membership}.Peers()
}

// accessOf asks this host's own API server first: a connection to another one may
// lead to the host that has just died.
func accessOf(s *site.Site, peers func() []string) access {
	if s == nil {
		return nil
	}
	servers := &kube.Servers{Kubeconfig: state.AgentKubeconfig, Name: s.APIHost(), Addresses: func() []string {
		out := []string{server("127.0.0.1")}
		for _, a := range peers() {
			out = append(out, server(a))
		}
		return out
	}}
	return func(ctx context.Context, do func(context.Context, api) error) error {
		return servers.Try(ctx, func(ctx context.Context, c *kube.Client) error { return do(ctx, c) })
	}
}

func server(address string) string { return "https://" + site.HostPort(address, site.APIPort) }
