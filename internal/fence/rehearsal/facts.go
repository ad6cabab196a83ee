// Package rehearsal crashes the hosts of a two-node cluster on purpose, one
// after the other, through Pacemaker, and measures how it recovers. It refuses
// to begin, or to go on, with a cluster that is not in full health.
package rehearsal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// historyKept bounds the number of fences in the facts.
const historyKept = 10

// Facts holds what one host knows; `holdfast fencing facts` prints it on that
// host.
type Facts struct {
	Host string `json:"host"`
	// UUID and Serial are the host's own, as its SMBIOS tells them.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	Boot   string `json:"boot"`
	// Targets are the hosts that this one can fence.
	Targets  []string                     `json:"targets"`
	Etcd     state.Fact[state.EtcdReport] `json:"etcd"`
	Online   state.Fact[[]string]         `json:"online"`
	Failures []string                     `json:"failures,omitempty"`
	History  []state.FenceEntry           `json:"history,omitempty"`
	// Problems lists what could not be found out.
	Problems []string `json:"problems,omitempty"`
}

// Gather collects the facts of the host that it runs on.
func Gather(ctx context.Context) Facts {
	var f Facts
	var err error
	note := func(err error) {
		if err != nil {
			f.Problems = append(f.Problems, err.Error())
		}
	}
	f.Host, err = os.Hostname()
	note(err)
	f.UUID, f.Serial, err = fence.OwnIdentity()
	note(err)
	f.Boot, _, err = observe.Boot()
	note(err)
	f.Targets, err = records.Files{}.Targets()
	note(err)
	report, err := explain.Ask(ctx, state.EtcdSocketPath)
	note(err)
	f.Etcd = state.Fact[state.EtcdReport]{Known: err == nil, Value: report}
	status, err := pacemaker.Look(ctx)
	note(err)
	f.Online, f.Failures = state.Fact[[]string]{Known: err == nil, Value: status.Online}, status.Failures
	history, err := records.Files{}.Fences()
	note(err)
	f.History = history[max(0, len(history)-historyKept):]
	return f
}

// Host is one host of the cluster. Run is nil if the host cannot be asked.
type Host struct {
	Name string
	Run  host.Runner
}

// facts asks a host for its facts.
func (h Host) facts(ctx context.Context) (Facts, error) {
	var f Facts
	out, err := h.Run(ctx, "holdfast", "fencing", "facts")
	if err != nil {
		return f, fmt.Errorf("facts of %s: %w", h.Name, err)
	}
	if err := json.Unmarshal(out, &f); err != nil {
		return f, fmt.Errorf("facts of %s: another version of holdfast, or none, is installed there: %w", h.Name, err)
	}
	return f, nil
}

// health combines the facts of the hosts.
func health(hosts []Host, facts map[string]Facts) fencing.Health {
	h := fencing.Health{Reports: map[string]state.Fact[state.EtcdReport]{}}
	for _, one := range hosts {
		h.Hosts = append(h.Hosts, one.Name)
		f, ok := facts[one.Name]
		if !ok {
			continue
		}
		h.Reports[one.Name] = f.Etcd
		h.Failures = append(h.Failures, f.Failures...)
		if f.Online.Known {
			h.Online = state.Known(named(f.Online.Value))
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
