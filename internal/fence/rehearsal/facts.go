// Package rehearsal crashes the hosts of a two-node cluster on purpose, one
// after the other, through Pacemaker, and measures how it recovers. It refuses
// to begin, or to go on, with a cluster that is not in full health.
package rehearsal

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/observer"
)

// Host is one host of the cluster. Run is nil if the host cannot be asked.
type Host struct {
	Name string
	Run  host.Runner
}

// report asks a host for its report.
func (h Host) report(ctx context.Context) (hostreport.Report, error) {
	return observer.Ask(ctx, h.Name, h.Run, hostreport.ForFencing()...)
}

// health combines the reports of the hosts.
func health(hosts []Host, reports map[string]hostreport.Report) fencing.Health {
	h := fencing.Health{Reports: map[string]state.Fact[state.EtcdReport]{}}
	for _, one := range hosts {
		h.Hosts = append(h.Hosts, one.Name)
		r, ok := reports[one.Name]
		if !ok {
			continue
		}
		h.Reports[one.Name] = r.Keeper.Fact()
		h.Failures = append(h.Failures, r.Pacemaker.Value.Failures...)
		if r.Pacemaker.Known {
			h.Online = state.Known(named(r.Pacemaker.Value.Online))
		}
	}
	return h
}

func named(names []string) map[string]bool {
	set := map[string]bool{}
	for _, n := range names {
		set[n] = true
	}
	return set
}
