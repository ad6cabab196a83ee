package life_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab"
)

// wakeWithin bounds the time from the power of a host to a whole site, without a
// person. kubelet and Pacemaker try again at intervals of two minutes at most.
const wakeWithin = 8 * time.Minute

// TestSleepersWake shuts hosts down for longer than their certificates last, and
// switches them on again: a control plane and the workers at once, and then all control
// planes. Nobody helps, and no write is lost that was acknowledged before. A single control
// plane sleeps alone.
//
// With a life of ten minutes it takes 30 minutes.
func TestSleepersWake(t *testing.T) {
	s := open(t)
	planes := s.ControlPlanes()
	asleep := func(scenario string, hosts []string) { play(t, scenario, func(tr *trial) { tr.sleep(hosts) }) }
	const some, all = "a control plane and a worker asleep", "all control planes asleep"
	if len(planes) == 1 {
		leaveOut(t, some, "with one control plane that is the whole site: the other scenario has it sleep alone")
	} else {
		asleep(some, append(planes[len(planes)-1:len(planes):len(planes)], workersOf(s.Site)...))
	}
	if !t.Failed() {
		asleep(all, planes)
	}
}

// sleep keeps hosts off until all of their certificates have ended, and waits until
// the site is whole after they are on again.
func (tr *trial) sleep(hosts []string) {
	tr.Helper()
	since := tr.Now()
	for _, h := range hosts {
		tr.Switch(h, lab.ActionShutdown)
	}
	for _, h := range hosts {
		isOff(tr.Case, h)
	}
	// Certificates that are renewed just before the end last longest.
	night := *life + time.Minute
	tr.Logf("%v are off for %s", hosts, night)
	if err := host.Sleep(tr.Context(), night); err != nil {
		tr.Fatal(err)
	}
	for _, h := range hosts {
		tr.Switch(h, lab.ActionOn)
	}
	woken := time.Now()
	tr.Eventually(wakeWithin, "the site is whole after the night", func() error { return tr.Whole(tr.Context()) })
	tr.Trial.Took("until the site is whole", time.Since(woken))
	tr.Logf("whole %.0f s after the power", time.Since(woken).Seconds())
	tr.outages(since)
}
