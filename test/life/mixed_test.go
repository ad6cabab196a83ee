package life_test

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/test/chaos"
)

var (
	mixedFor  = flag.Int("minutes", 60, "for how many minutes random faults are begun on a site with mixed releases")
	mixedSeed = flag.Uint64("seed", 1, "the seed of these faults")
)

// TestAnUpgradeThatPausesSurvivesRandomFaults pauses an upgrade between two control planes, so that
// each runs another release, and breaks the site at random for an hour, as test/chaos does. No
// acknowledged write is lost, the site is whole after each round, and each host keeps its
// release. Then the upgrade goes on to its end.
func TestAnUpgradeThatPausesSurvivesRandomFaults(t *testing.T) {
	if len(open(t).ControlPlanes()) != 2 {
		leaveOut(t, "mixed releases", "random faults are drawn for two control planes")
		return
	}
	playUpgrade(t, "mixed releases", func(tr *trial, w ways) {
		c, err := chaos.New(tr.Site, chaos.Options{
			Seed: *mixedSeed, Outage: takenOverWithin, WholeIn: 3 * time.Minute, Output: tr.Dir,
			Again: "hack/test upgrade SCENARIOS=PausesSurvivesRandomFaults SEED=%d, round %d",
		})
		if err != nil {
			tr.Fatal(err)
		}
		first := tr.onItsWay(parachute.Proving, w)
		tr.says(0, "upgrade", "pause", "mixed releases")
		mixed := func() error { return tr.mixed(first, w) }
		tr.Eventually(upgradedWithin, "each host runs another release", mixed)
		tr.Logf("%s runs the later release, %s the earlier", first, tr.peer(first))
		defer func() { tr.Log(c.Summary()) }()
		for n, began := 0, time.Now(); time.Since(began) < time.Duration(*mixedFor)*time.Minute; n++ {
			c.Round(tr.T, n)
			tr.Eventually(5*time.Minute, "each host keeps its release", mixed)
		}
		tr.says(0, "upgrade", "resume")
		tr.arrive(w.to)
		tr.homeAgain(isThere, w)
	})
}

// mixed returns nil if one control plane runs the later release, the other the earlier, and none
// is on its way.
func (tr *trial) mixed(later string, w ways) error {
	var errs []error
	for _, h := range tr.ControlPlanes() {
		want := w.from
		if h == later {
			want = w.to
		}
		n, err := tr.node(h)
		if err != nil {
			return err
		}
		said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", h, err))
		case said.Facts.Release.Value != want || !said.Journal.Step.AtRest():
			errs = append(errs, fmt.Errorf("%s runs %s, and is at %s", h, said.Facts.Release.Value, said.Journal.Step))
		}
	}
	return errors.Join(errs...)
}
