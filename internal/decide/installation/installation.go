// Package installation decides how far the installation of a site is, from the
// reports of its hosts and the marks in its cluster.
package installation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The ConfigMap in which the first host marks for the cluster how far it is.
// Other programs read the key status and its value after OpenShift's bootstrap.
const (
	MarksNamespace = "kube-system"
	MarksName      = "bootstrap"
	BootstrapMark  = "status"
	InstallMark    = "install"
	Complete       = "complete"
)

// Goal names a state of the installation that somebody waits for.
type Goal string

// The goals: all control planes are ready; every host of the configuration is
// ready.
const (
	BootstrapComplete Goal = "bootstrap-complete"
	InstallComplete   Goal = "install-complete"
)

// Expected holds the numbers of hosts in the install-config.
type Expected struct{ ControlPlanes, Workers int }

// Reached reports whether a site is at the goal: its cluster says so, or all
// hosts that belong to the goal are complete. marks is the data of the
// ConfigMap, nil if the cluster does not answer or has none.
func Reached(goal Goal, want Expected, hosts []state.Progress, marks map[string]string) bool {
	if marks[InstallMark] == Complete {
		return true
	}
	controlPlanes, workers := count(hosts, func(p state.Progress) bool { return p.Complete })
	if goal == BootstrapComplete {
		return marks[BootstrapMark] == Complete || controlPlanes >= want.ControlPlanes
	}
	return controlPlanes >= want.ControlPlanes && workers >= want.Workers
}

// Merge joins older reports with newer ones, by host, in the order of names. The
// server of the newer ones may have started a moment ago, so a host that it does
// not know keeps its older report.
func Merge(older, newer []state.Progress) []state.Progress {
	out := slices.Clone(newer)
	for _, p := range older {
		if !slices.ContainsFunc(newer, func(n state.Progress) bool { return n.Host == p.Host }) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b state.Progress) int { return strings.Compare(a.Host, b.Host) })
	return out
}

// Open lists what is missing from the goal: what each host that belongs to it
// does, and how many hosts have not reported.
func Open(goal Goal, want Expected, hosts []state.Progress) []string {
	var out []string
	for _, p := range hosts {
		if !p.Complete && (goal == InstallComplete || p.Role.ControlPlane()) {
			out = append(out, p.Host+" "+p.Doing())
		}
	}
	if goal == BootstrapComplete {
		want.Workers = 0
	}
	controlPlanes, workers := count(hosts, func(state.Progress) bool { return true })
	out = appendSilent(out, want.ControlPlanes-controlPlanes, "control plane")
	return appendSilent(out, want.Workers-workers, "worker")
}

func appendSilent(out []string, n int, what string) []string {
	switch {
	case n <= 0:
		return out
	case n == 1:
		return append(out, fmt.Sprintf("1 %s has not reported yet", what))
	}
	return append(out, fmt.Sprintf("%d %ss have not reported yet", n, what))
}

func count(hosts []state.Progress, chosen func(state.Progress) bool) (controlPlanes, workers int) {
	for _, p := range hosts {
		switch {
		case !chosen(p):
		case p.Role.ControlPlane():
			controlPlanes++
		default:
			workers++
		}
	}
	return controlPlanes, workers
}
