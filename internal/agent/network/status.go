package network

import (
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/model/state"
)

// StatusPath is the file in which the agent leaves the status of its host's
// network, for people and for `holdfast status`.
const StatusPath = state.NetworkStatusPath

// Status describes how the network of a host is doing.
type Status struct {
	state.NetworkStatus

	Reconcilers []ReconcilerState `json:"pieces"`
}

// HeldVIPs returns the virtual IPs among a host's addresses, in the cluster's
// order.
func HeldVIPs(v state.NetworkView) []netip.Addr {
	out := []netip.Addr{}
	for _, vip := range v.Settings.VIPs() {
		if slices.ContainsFunc(v.Addresses, func(a state.HostAddress) bool { return a.Prefix.Addr() == vip }) {
			out = append(out, vip)
		}
	}
	return out
}

// File is the task that writes the status whenever something in it changes.
func (a *Agent) File(path string) loop.Task {
	wake := a.Loops.Follow(part)
	a.Views.Wake(wake)
	return loop.File("status of the network", wake, func() error { return a.Write(path) })
}

// Status returns how things are now.
func (a *Agent) Status() Status {
	view := a.Views.View()
	return Status{state.NetworkStatus{At: a.Loops.Now(), Holds: HeldVIPs(view), View: view}, a.States()}
}

// Write writes the status once.
func (a *Agent) Write(path string) error {
	data, err := json.Marshal(a.Status())
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(path, append(data, '\n'), state.DefaultFileMode)
}
