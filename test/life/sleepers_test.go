package life_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
)

// wakeWithin bounds the time from the power of a host to a whole site, without a
// person. kubelet and Pacemaker try again at intervals of two minutes at most.
const wakeWithin = 8 * time.Minute

// TestSleepersWake shuts hosts down for longer than their certificates last, and
// switches them on again: a control plane and the workers at once, and then all control
// planes. Nobody helps. A single control plane sleeps alone.
//
// With a life of ten minutes it takes 30 minutes.
func TestSleepersWake(t *testing.T) {
	s := open(t)
	planes := s.ControlPlanes()
	const some, all = "a control plane and a worker asleep", "all control planes asleep"
	if len(planes) == 1 {
		leaveOut(t, some, "with one control plane that is the whole site: the other scenario has it sleep alone")
	} else {
		asleep(t, s, some, append(planes[len(planes)-1:len(planes):len(planes)], workersOf(s.Site)...))
	}
	if !t.Failed() {
		asleep(t, s, all, planes)
	}
}

func asleep(t *testing.T, s *site, scenario string, hosts []string) {
	t.Helper()
	plan := labsite.Plan{Scenario: scenario, Times: 1, Families: "v4", Output: *output}
	labsite.Play(t, s.Site, plan, func(c *labsite.Case) { sleep(c, hosts) })
}

// sleep keeps hosts off until all of their certificates have ended, and waits until
// the site is whole after they are on again.
func sleep(c *labsite.Case, hosts []string) {
	c.Helper()
	c.Now()
	for _, h := range hosts {
		c.Switch(h, lab.ActionShutdown)
	}
	for _, h := range hosts {
		isOff(c, h)
	}
	// Certificates that are renewed just before the end last longest.
	night := *life + time.Minute
	c.Logf("%v are off for %s", hosts, night)
	if err := host.Sleep(c.Context(), night); err != nil {
		c.Fatal(err)
	}
	for _, h := range hosts {
		c.Switch(h, lab.ActionOn)
	}
	woken := time.Now()
	c.Eventually(wakeWithin, "the site is whole after the night", func() error { return c.Whole(c.Context()) })
	c.Trial.Took("until the site is whole", time.Since(woken))
	c.Logf("whole %.0f s after the power", time.Since(woken).Seconds())
}
