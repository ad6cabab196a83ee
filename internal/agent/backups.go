package agent

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/adapter/clock"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/agent/backup"
	decide "github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// etcdAnswers bounds one look at etcd.
const etcdAnswers = 2 * time.Second

// newBackups returns the loop that takes the backups of a control plane.
func newBackups(s *site.Site, view func() state.NetworkView) *backup.Agent {
	return backup.New(backup.Options{
		Unit: backup.ThisUnit(), Store: backup.ThisStore(), Site: s.Domain(),
		Open: func() (backup.API, error) { return kube.Open(state.AgentKubeconfig) },
		Etcd: withSpace(etcdForBackups(s, view)),
		Catalogue: func() ([]model.Entry, error) {
			// A backup whose entry cannot be read is left out: it never counts as good, and stays.
			entries, _, err := catalogue.Catalogue{Dir: model.Dir}.List()
			return entries, err
		},
		Remains: catalogue.Catalogue{Dir: model.Dir}.Remains,
		Free:    backup.Free, Line: backup.Line, Synchronised: clock.Synchronised,
		Up:    func() (time.Duration, error) { _, up, err := observe.Boot(); return up, err },
		Node:  func() string { return view().Host.NodeName },
		Zones: time.LoadLocation, Now: time.Now,
	})
}

// withSpace adds whether etcd of this host is defragmented, which the agent notes
// beside it before it begins, and whether etcd is full, as the agent saw it last.
func withSpace(look func(context.Context) state.Fact[decide.Etcd]) func(context.Context) state.Fact[decide.Etcd] {
	var files records.Files
	return func(ctx context.Context) state.Fact[decide.Etcd] {
		e := look(ctx)
		if _, up, err := observe.Boot(); err == nil && e.Known {
			e.Value.Defragments = etcdhealth.Defragments(files.Defragmentation(), up)
		}
		if r, err := host.ReadState[etcdspace.Report](state.EtcdSpacePath); err == nil && e.Known {
			e.Value.Full = r.Full(time.Now())
		}
		return e
	}
}

// etcdForBackups returns a look at etcd of this host: of two hosts it asks the etcd keeper,
// elsewhere the member itself.
func etcdForBackups(s *site.Site, view func() state.NetworkView) func(context.Context) state.Fact[decide.Etcd] {
	if s.Topology().Fencing {
		return func(ctx context.Context) state.Fact[decide.Etcd] {
			ctx, stop := context.WithTimeout(ctx, etcdAnswers)
			defer stop()
			r, err := keeperclient.Report(ctx, state.EtcdSocketPath)
			if err != nil {
				return state.Fact[decide.Etcd]{}
			}
			return decide.EtcdOfPair(r)
		}
	}
	members := etcdMembers()
	return func(ctx context.Context) state.Fact[decide.Etcd] {
		ctx, stop := context.WithTimeout(ctx, etcdAnswers)
		defer stop()
		h := view().Host
		if len(h.Addresses) == 0 {
			return state.Fact[decide.Etcd]{}
		}
		own, answers := members.Statuses(ctx, map[string]string{h.NodeName: h.Addresses[0].String()})[h.NodeName]
		if !answers {
			return state.Fact[decide.Etcd]{}
		}
		return state.Known(decide.EtcdOfMember(own.Votes(), own.Members))
	}
}
