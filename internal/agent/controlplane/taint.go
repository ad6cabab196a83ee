package controlplane

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// taints tells the API of fenced hosts: the taint of a host that is surely off,
// and its end when the host is back. Watches tell when to look.
func (r *Agent) taints() (loop.Task, []loop.Watch) {
	wake := loop.NewKick()
	t := &taints{
		host: r.facts.NodeName, boot: observe.Boot, now: r.Now, log: r.Log, event: r.Event,
		evidence: records.Files{}.AllFenced,
		word:     confirmed,
		report:   func(ctx context.Context) (state.EtcdReport, error) { return explain.Ask(ctx, state.EtcdSocketPath) },
		open: func() (nodeAPI, error) {
			client, err := r.ownAPI()
			return services{client}, err
		},
	}
	return t.task(wake), []loop.Watch{
		{Name: "watch of fence evidence", Pause: 5 * time.Second, Run: func(ctx context.Context, works func()) error {
			return evidenceEvents(ctx, func() { works(); wake.Kick() }, state.FencedDir, state.EtcdConfirmationPath)
		}},
		{Name: "watch of taints", Pause: time.Second, NotYet: notSetUp, Run: func(ctx context.Context, works func()) error {
			client, err := r.ownAPI()
			if err != nil {
				return err
			}
			return services{client}.watch(ctx, func(nodes []outofservice.Node) {
				if works(); t.noteMarked(nodes) {
					wake.Kick()
				}
			})
		}},
	}
}

// confirmed reports whether an administrator's confirmation exists, readable or
// not.
func confirmed() bool {
	c, err := records.Files{}.Confirmation()
	return c.Known || err != nil
}

// ownAPI is access to the API server of this very host: a connection to the
// virtual IP may lead to the host that has just died, and would hang.
func (r *Agent) ownAPI() (*kube.Client, error) {
	return openBy(state.AgentKubeconfig, ownServer(r.facts.Addresses[0]))
}

func ownServer(own netip.Addr) string {
	return "https://" + site.HostPort(own.String(), site.APIPort)
}

// evidenceEvents watches a folder, and another one for a single file.
func evidenceEvents(ctx context.Context, wake func(), fenced, word string) error {
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
	wake() // what came before
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.Errors:
			return err
		case e := <-w.Events:
			if filepath.Dir(e.Name) == fenced || e.Name == word {
				wake()
			}
		}
	}
}
