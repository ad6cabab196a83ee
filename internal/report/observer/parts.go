package observer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// agent reads what the host's agent last wrote: of Pacemaker its present report
// or, if there is none, the last stored one.
func (r *report) agent(context.Context) {
	r.Network = file(r, state.NetworkStatusPath, func(s state.NetworkStatus) time.Time { return s.At })
	r.Loops = file(r, state.LoopsStatusPath, func(s state.LoopsStatus) time.Time { return s.At })
	r.Space = file(r, state.EtcdSpacePath, func(s etcdspace.Report) time.Time { return s.At })
	for _, path := range []string{pacemakerstatus.LivePath, pacemakerstatus.KeptPath} {
		one := file(r, path, func(p pacemakerstatus.Report) time.Time { return p.At })
		if one.Known && one.At.IsZero() {
			continue // the agent has not looked at Pacemaker yet
		}
		if one.Known || r.Watched.Why == "" || r.Watched.Lack == state.LackAbsent {
			r.Watched = one
		}
		if one.Known {
			return
		}
	}
}

// etcd asks the etcd keeper, and reads the record.
func (r *report) etcd(ctx context.Context) {
	socket := r.host.Files.Path(state.EtcdSocketPath)
	answer, err := r.host.Ask(ctx, socket)
	r.Keeper = seen(r, answer, err)
	if _, missing := os.Stat(socket); err != nil && r.Keeper.Lack == state.LackOther && errors.Is(missing, fs.ErrNotExist) {
		r.Keeper.Lack = state.LackAbsent
	}
	r.Deleted = file(r, state.DeletedStatusPath, func(s state.DeletedStatus) time.Time { return s.At })
	why, err := replacement.Store{Root: r.host.Files.Root}.Ousted()
	r.Ousted = maybe(r, state.Fact[string]{Known: why != "", Value: why}, err)
	record, err := r.host.Files.Record()
	there := state.Fact[state.EtcdRecord]{Known: r.host.Files.HasRecord(), Value: record}
	r.Record = maybe(r, there, err)
	if r.Record.Known && !record.Written.IsZero() {
		r.Record.At = record.Written
	}
}

// devices reads whom this host can fence, and where the BMC of its peer is.
func (r *report) devices(context.Context) {
	targets, err := r.host.Files.Targets()
	r.Targets = seen(r, targets, err)
	if peer := r.Peer(); peer != "" {
		dev, err := r.host.Files.Device(peer)
		r.BMC = seen(r, dev.Address, err)
	}
}

// inspectTime bounds the examination of a data directory.
const inspectTime = 20 * time.Second

// evidence reads the proofs and finds out whether etcd runs, and examines its
// data if it does not. The keeper knows all that itself.
func (r *report) evidence(ctx context.Context) {
	if r.Keeper.Known {
		return
	}
	confirmed, err := r.host.Files.Confirmation()
	r.Confirmation = maybe(r, confirmed, err)
	if peer := r.Peer(); peer != "" {
		fenced, err := r.host.Files.Fenced(peer)
		r.Fenced = maybe(r, fenced, err)
	}
	if r.host.Held == nil || r.Record.Lack == state.LackAbsent && r.Peer() == "" {
		return // not one of two hosts
	}
	held, err := r.host.Held(r.dataDir())
	r.Running = seen(r, held, err)
	if err != nil || held {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	data, err := r.host.Inspect(ctx, r.dataDir())
	r.Data = seen(r, data, err)
}

// history reads the fences by this host, and the confirmations given on it.
func (r *report) history(context.Context) {
	fences, err := r.host.Files.Fences()
	r.Fences = seen(r, fences, err)
	confirmations, err := r.host.Files.Confirmations()
	r.Confirmations = seen(r, confirmations, err)
}

// incidents reads the reports of incidents.
func (r *report) incidents(context.Context) {
	l, err := incident.OnHost(r.host.Files.Path(incident.Dir))
	r.Incidents = seen(r, standing.IncidentsOf(l.Incidents), err)
}
