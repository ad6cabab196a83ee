package network

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// StatusPath is the file in which the agent leaves the status of its host's
// network, for people and for `holdfast status`.
const StatusPath = state.NetworkStatusPath

// Status describes how the network of a host is doing.
type Status struct {
	At time.Time `json:"at"`
	// Holds are the virtual IPs that this host has now.
	Holds  []netip.Addr      `json:"holds"`
	Pieces []PieceState      `json:"pieces"`
	View   state.NetworkView `json:"view"`
}

// Held returns the virtual IPs among a host's addresses, in the cluster's
// order.
func Held(v state.NetworkView) []netip.Addr {
	out := []netip.Addr{}
	for _, vip := range v.Settings.VIPs() {
		if slices.ContainsFunc(v.Addresses, func(a state.HostAddress) bool { return a.Prefix.Addr() == vip }) {
			out = append(out, vip)
		}
	}
	return out
}

// statusPause keeps many changes from causing as many writes.
const statusPause = 100 * time.Millisecond

// Reporter writes the status whenever something in it changes.
type Reporter struct {
	Agent *Agent
	Path  string
	wake  chan struct{}
}

// NewReporter returns the reporter of an agent. Call it before the agent runs.
func NewReporter(a *Agent, path string) *Reporter {
	r := &Reporter{Agent: a, Path: path, wake: make(chan struct{}, 1)}
	a.Changed = func(PieceState) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return r
}

// Run writes until the context ends.
func (r *Reporter) Run(ctx context.Context) error {
	changed := r.Agent.Board.Follow()
	resync := time.NewTicker(Resync)
	defer resync.Stop()
	for {
		if err := r.Write(); err != nil {
			r.Agent.Logf("status: %v", err)
		}
		_ = host.Sleep(ctx, statusPause)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-r.wake:
		case <-resync.C:
		}
	}
}

// Status returns the present status.
func (r *Reporter) Status() Status {
	view := r.Agent.Board.View()
	return Status{At: r.Agent.Now(), Holds: Held(view), Pieces: r.Agent.States(), View: view}
}

// Write writes the status once.
func (r *Reporter) Write() error {
	data, err := json.Marshal(r.Status())
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(r.Path, append(data, '\n'), state.DefaultFileMode)
}
