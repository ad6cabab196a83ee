package cli

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// earlyGates returns the gates of a growth that can be judged before anything is prepared for it. There
// are none once this host is one of two: its agent judges all of them then.
func (g *growth) earlyGates(ctx context.Context, last *replace.Plan, w widening) ([]replace.Gate, error) {
	have, err := g.effects.here()
	if err != nil || have.Topology().ControlPlanes != 1 {
		return nil, err
	}
	f := g.effects.early(ctx, g.now())
	f.Plan = last
	return replace.EarlyGates(f, g.order(planOf(last), w).Wish), nil
}

// lockedHere asks the API which plan holds the lock.
func lockedHere(ctx context.Context) (string, error) {
	api, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return "", err
	}
	lock, err := api.ConfigMap(ctx, replace.LockNamespace, replace.LockName)
	return lock[replace.LockKey], err
}

// earlyHere gathers the facts for earlyGates, as the agent does for its gates. What cannot be read is
// unknown, and closes its gate.
func earlyHere(ctx context.Context, now time.Time) replace.Facts {
	f := replace.Facts{Now: now}
	f.Host, _ = host.Name() // it is for words alone
	f.Backup = catalogue.Catalogue{Dir: backup.Dir}.Last(now)
	room, err := etcd.Room("/")
	f.Room = state.Fact[bool]{Known: err == nil, Value: room}
	_, err = release.Current("/")
	f.Ships = state.Known(err == nil)
	api, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return f
	}
	lock, err := api.ConfigMap(ctx, replace.LockNamespace, replace.LockName)
	f.Lock, f.InForce = state.Fact[string]{Known: err == nil, Value: lock[replace.LockKey]}, replace.InForce(lock)
	f.Moves = readdress.Keeps(ctx, api)
	if record, err := api.ConfigMap(ctx, annotation.RecordNamespace, annotation.RecordName); err == nil {
		nodes, err := api.Nodes(ctx)
		f.Work = state.Fact[string]{Known: err == nil, Value: plans.Busy(hold.Of(state.Known(record[annotation.RecordKey]), nil).Rewrite, nodes, "")}
	}
	return f
}
