package infrastructure

import (
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

// A report holds what each host has done. With hundreds of hosts, each of them
// would cause a write of them all, so details are written seldomer. With few
// hosts each step is written at once.
const (
	fewHosts   = 10
	pausePer   = 20 * time.Millisecond
	pauseLimit = 5 * time.Second
)

// pace returns how long a report about so many hosts stands at least before its
// details are written again.
func pace(hosts int) time.Duration {
	if hosts <= fewHosts {
		return 0
	}
	return min(time.Duration(hosts)*pausePer, pauseLimit)
}

// urgent reports whether a report says something else than before, and not only
// more of the same. Such a report never waits.
func urgent(before, now vipobject.Report) bool {
	if !before.There || len(before.Conditions) != len(now.Conditions) {
		return true
	}
	for i, c := range now.Conditions {
		if was := before.Conditions[i]; was.Type != c.Type || was.Status != c.Status || was.Reason != c.Reason {
			return true
		}
	}
	a, b := before.Extension, now.Extension
	return a.Everywhere != b.Everywhere || a.Rollout.Applied != b.Rollout.Applied ||
		!vips.SameSet(a.API, b.API) || !vips.SameSet(a.Ingress, b.Ingress) || !vips.SameSet(a.Applied, b.Applied)
}

// wait returns how long a report has to wait, or 0 if it is to be written now.
func (r *Reconciler) wait(before, now vipobject.Report) time.Duration {
	if r.wrote.IsZero() || urgent(before, now) {
		return 0
	}
	return max(0, r.wrote.Add(pace(len(now.Extension.Hosts))).Sub(r.Now()))
}
