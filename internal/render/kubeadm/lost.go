package kubeadm

import (
	"strconv"
	"time"
)

// The times after which a lost host is noticed and its pods move, if nobody
// fences it; docs/adr/0029-lost-worker.md has the calculation. A host renews
// its lease four times in leaseDuration. After nodeGrace without a renewal it
// is not ready and no Service sends it anything. After another unreachableFor
// its pods are replaced elsewhere: 50 s in all, compared to 350 with
// Kubernetes' own values.
const (
	leaseDuration = 20 * time.Second
	nodeGrace     = 30 * time.Second
	// statusEvery bounds a sign of life too: kubelet waits that long for the
	// answer, and gives up a hanging connection after the second missing answer.
	// It reports changes at once, everything else every five minutes.
	statusEvery    = 5 * time.Second
	statusReported = 5 * time.Minute
	unreachableFor = 20 * time.Second
	// notReadyFor is longer. The host is there and reports, most of its pods run,
	// and a restart of the container runtime must not move them.
	notReadyFor = 2 * time.Minute
)

// lostAfter returns the tolerations of every pod that names none.
func lostAfter() []arg {
	return []arg{
		{Name: "default-not-ready-toleration-seconds", Value: seconds(notReadyFor)},
		{Name: "default-unreachable-toleration-seconds", Value: seconds(unreachableFor)},
	}
}

func monitorGrace() arg { return arg{Name: "node-monitor-grace-period", Value: nodeGrace.String()} }

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
