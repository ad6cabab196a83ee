package deleted

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Etcd has the facts about etcd that kubelet runs, on an installed host of three control planes or more. Its
// etcd has had data: it voted before the installation was complete.
type Etcd struct {
	// Pod is true if kubelet has the manifest of it. Unsealed is true if that, or a copy that may take its
	// place, would start etcd without data.
	Pod, Unsealed bool
	// Log reports whether there is a log of raft. Without one etcd starts from nothing.
	Log state.Fact[bool]
	// Runs reports whether etcd runs.
	Runs state.Fact[bool]
	// Boot is true before kubelet of this boot starts.
	Boot bool
	// Gone is the time for which the log has been missing.
	Gone time.Duration
}

// Seals reports whether the manifests are written so that etcd never starts without data again. That
// has kubelet start etcd anew, so it happens before the first start of a boot, which costs nothing, or
// once the data are gone. An etcd that runs is left alone: it may be the last one that has them.
func (e Etcd) Seals() bool {
	return e.Unsealed && state.Is(e.Runs, false) && (e.Boot || state.Is(e.Log, false))
}

// lost describes data of etcd that are gone.
func (e Etcd) lost() []state.Deleted {
	if !e.Pod || !state.Is(e.Log, false) || e.Gone < Settles {
		return nil
	}
	out := state.Deleted{What: state.EtcdDataDir, Problem: "etcd has no data in " + state.EtcdDataDir}
	if state.Is(e.Runs, true) {
		out.Meaning = "It runs on from files that somebody deleted or mounted over, and does not start again once it ends. Take a backup now: if the other control planes lack their data, too, this etcd has the last ones."
		out.Command = "sudo holdfast backup now"
		return []state.Deleted{out}
	}
	out.Meaning = "It had some, and does not start from nothing: it would vote without what it has acknowledged. The other control planes serve, and one more loss stops the site. Is the disk with the data there? Mount it, and etcd goes on by itself. If they are lost for good, install this host anew: docs/runbook/hosts.md#a-control-plane-of-three-whose-etcd-has-no-data"
	out.Command = "findmnt --target " + state.EtcdDataDir
	return []state.Deleted{out}
}
