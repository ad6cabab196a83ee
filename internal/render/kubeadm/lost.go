package kubeadm

import (
	"strconv"
	"time"
)

// How a host that is lost is noticed, and when its pods move on, where nobody
// fences it: docs/adr/0029-lost-worker.md has the reckoning. A host says four
// times in leaseDuration that it lives; unheard for nodeGrace it is not ready
// and no Service sends it anything; its pods are made anew elsewhere after
// unreachableFor more, 50 s in all, where Kubernetes' own figures come to 350.
const (
	leaseDuration = 20 * time.Second
	nodeGrace     = 30 * time.Second
	// statusEvery bounds a sign of life too: kubelet waits as long for the
	// answer, and gives a connection that hangs up after the second one that
	// did not come. Changes are reported at once, all else every five minutes.
	statusEvery    = 5 * time.Second
	statusReported = 5 * time.Minute
	unreachableFor = 20 * time.Second
	// notReadyFor is longer: the host is there and says so, its pods mostly
	// run, and a container runtime that starts anew must not move them.
	notReadyFor = 2 * time.Minute
)

// lostAfter are the tolerations of every pod that names none.
func lostAfter() []arg {
	return []arg{
		{Name: "default-not-ready-toleration-seconds", Value: seconds(notReadyFor)},
		{Name: "default-unreachable-toleration-seconds", Value: seconds(unreachableFor)},
	}
}

func monitorGrace() arg { return arg{Name: "node-monitor-grace-period", Value: nodeGrace.String()} }

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
