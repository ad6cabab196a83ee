package upgrade

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// trial returns for how long other hosts of the new release still have to lead, and to hold
// the VIPs, before this one leaves for it. The time counts from when this host had given that
// away, while its pods still move; a new process begins anew.
func (a *Agent) trial(j parachute.Journal, gave bool) time.Duration {
	if !gave || a.Kind == parachute.Worker || !a.othersRun(j.To) {
		a.freed = time.Time{}
		return 0
	}
	now := a.Now()
	if a.freed.IsZero() || now.Before(a.freed) {
		a.freed = now
	}
	return max(0, parachute.TrialTime-now.Sub(a.freed))
}

// othersRun reports whether another control plane has said that it runs a release.
func (a *Agent) othersRun(release string) bool {
	v := a.cluster.View()
	for _, n := range v.Nodes.Value {
		if n.Name == v.Host.NodeName || !n.ControlPlane() {
			continue
		}
		said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
		if err == nil && state.Is(said.Facts.Release, release) {
			return true
		}
	}
	return false
}
