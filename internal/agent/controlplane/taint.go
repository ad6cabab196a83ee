package controlplane

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/pace"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// keepTaints tells the API of fenced hosts until the context ends: it taints a
// host that is surely off, and removes the taint when the host is back.
func (r *Agent) keepTaints(ctx context.Context) {
	if !r.Site.Topology().Fencing || len(r.facts.Addresses) == 0 {
		return
	}
	wake := newWaker()
	t := &taints{
		host: r.facts.NodeName, boot: observe.Boot, now: r.Now, logf: r.logf, event: r.Event,
		evidence: records.Files{}.AllFenced,
		word:     confirmed,
		report:   func(ctx context.Context) (state.EtcdReport, error) { return explain.Ask(ctx, state.EtcdSocketPath) },
		trouble:  r.trouble("taints"),
	}
	go r.watchEvidence(ctx, wake)
	client := r.ownAPI(ctx, "taints")
	if client == nil {
		return
	}
	t.api = services{client}
	go t.follow(ctx, client, wake, r.trouble("taints"))
	t.loop(ctx, wake.c)
}

// confirmed reports whether an administrator's confirmation exists, readable or
// not.
func confirmed() bool {
	c, err := records.Files{}.Confirmation()
	return c.Known || err != nil
}

// ownAPI waits for access to the API server of this very host: a connection to
// the VIP may lead to the host that has just died, and would hang.
func (r *Agent) ownAPI(ctx context.Context, about string) *kube.Client {
	server, trouble := ownServer(r.facts.Addresses[0]), r.trouble(about)
	for {
		client, err := openBy(state.AgentKubeconfig, server)
		if !errors.Is(err, os.ErrNotExist) { // the host is not set up yet
			trouble.Hear(err)
		}
		if err == nil {
			return client
		}
		if host.Sleep(ctx, time.Second) != nil {
			return nil
		}
	}
}

func ownServer(own netip.Addr) string {
	return "https://" + site.HostPort(own.String(), site.APIPort)
}

// waker signals that something has changed. It may merge several changes into
// one.
type waker struct{ c chan struct{} }

func newWaker() waker { return waker{make(chan struct{}, 1)} }

func (w waker) wake() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// watchEvidence wakes the loop for each proof that a host is off.
func (r *Agent) watchEvidence(ctx context.Context, wake waker) {
	for ctx.Err() == nil {
		if err := evidenceEvents(ctx, wake, state.FencedDir, state.EtcdConfirmationPath); ctx.Err() == nil {
			r.logf("watch evidence of fences: %v", err)
		}
		_ = host.Sleep(ctx, 5*time.Second) // the loop checks the context itself
	}
}

// evidenceEvents wakes for changes in the folder fenced, and for those of the
// file word.
func evidenceEvents(ctx context.Context, wake waker, fenced, word string) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	for _, dir := range []string{fenced, filepath.Dir(word)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := w.Add(dir); err != nil {
			return err
		}
	}
	wake.wake() // for what came before
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.Errors:
			return err
		case e := <-w.Events:
			if filepath.Dir(e.Name) == fenced || e.Name == word {
				wake.wake()
			}
		}
	}
}

// follow wakes at every change of a node while a node carries our mark.
func (t *taints) follow(ctx context.Context, client *kube.Client, wake waker, trouble pace.Trouble) {
	for ctx.Err() == nil {
		err := services{client}.watch(ctx, func(nodes []outofservice.Node) {
			trouble.Hear(nil)
			if t.noteMarked(nodes) {
				wake.wake()
			}
		})
		if ctx.Err() == nil {
			trouble.Hear(err)
		}
		_ = host.Sleep(ctx, time.Second) // the loop checks the context itself
	}
}
