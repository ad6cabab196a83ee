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
// switches them on again: a control plane and a worker at once, and then both control planes.
// Nobody helps.
//
// With a life of ten minutes it takes 30 minutes.
func TestSleepersWake(t *testing.T) {
	s := open(t)
	for _, q := range []struct {
		who   string
		hosts []string
	}{
		{"a control plane and a worker", append([]string{"cp-2"}, workersOf(s.Site)...)},
		{"both control planes", s.ControlPlanes()},
	} {
		if t.Failed() {
			return
		}
		plan := labsite.Plan{Scenario: q.who + " asleep", Times: 1, Families: "v4", Output: *output}
		labsite.Play(t, s.Site, plan, func(c *labsite.Case) { sleep(c, q.hosts) })
	}
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
