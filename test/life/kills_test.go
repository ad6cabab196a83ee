package life_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// TestAnUpgradeSurvivesKillsAtEachStep kills the agent of the host at work, that of the other one, or
// the operator, at each step of each host's way, there and back, in one upgrade. Faults that are
// over at once need no upgrade of their own for each moment, as those of TestAnUpgradeSurvivesFaults
// do. The upgrade arrives all the same, nobody is fenced, and writes go on.
func TestAnUpgradeSurvivesKillsAtEachStep(t *testing.T) {
	for _, f := range faults() {
		for _, other := range []bool{false, true} {
			switch {
			case t.Failed():
				return
			case !f.kills || other && !f.both:
			case other && len(open(t).ControlPlanes()) == 1:
				leaveOut(t, f.everywhere(other), "there is one control plane")
			default:
				playUpgrade(t, f.everywhere(other), func(tr *trial, w ways) { tr.killedEverywhere(f, other, w) })
			}
		}
	}
}

func (f strikes) everywhere(other bool) string {
	if other {
		return f.name + " at each step, on the other host"
	}
	return f.name + " at each step"
}

func (tr *trial) killedEverywhere(f strikes, other bool, w ways) {
	tr.Helper()
	began := tr.Now()
	struck := make(map[parachute.Step]int)
	tr.says(0, append([]string{"upgrade"}, append(tr.start(w), "--no-wait")...)...)
	tr.strikeUntil(f, other, struck, "all hosts run the later release", func() error { return tr.allRun(w.to) })
	tr.Trial.Took("there", time.Since(began))
	there := time.Now()
	tr.says(0, "upgrade", "rollback", "--yes", "--no-wait")
	tr.strikeUntil(f, other, struck, "all hosts run the earlier release", func() error { return tr.completed(w.from) })
	tr.Trial.Took("back", time.Since(there))
	tr.Logf("there %.0f s, back %.0f s; struck %v", there.Sub(began).Seconds(), time.Since(there).Seconds(), struck)
	for _, step := range upgradeSteps {
		if struck[step] == 0 {
			tr.Errorf("nobody was killed at step %s", step)
		}
	}
	tr.Noticed("", began)
	tr.outages(began)
	tr.nobodyFenced()
	if len(tr.ControlPlanes()) > 1 {
		tr.noGapSince(began, f.gap)
	}
}

// strikeUntil has a fault strike once for each step that a host begins, until an upgrade has ended.
func (tr *trial) strikeUntil(f strikes, other bool, struck map[parachute.Step]int, what string, ended func() error) {
	tr.Helper()
	stores, at := tr.journals()
	const look, askAgain = 5 * time.Millisecond, 5 * time.Second
	var err error
	asked := time.Now()
	for end := time.Now().Add(upgradedWithin); time.Now().Before(end); time.Sleep(look) {
		for h, s := range stores {
			j, _, failed := s.Read()
			if failed != nil || j.Step == at[h].Step && j.Upgrade == at[h].Upgrade {
				continue
			}
			at[h] = j
			if j.Step.AtRest() && j.Step != parachute.Accepted {
				continue
			}
			victim := h
			if other {
				victim = tr.peer(h)
			}
			f.hits(tr, victim)
			struck[j.Step]++
			tr.Logf("%s: %s, %s is at %s", f.name, victim, h, j.Step)
		}
		if time.Since(asked) < askAgain {
			continue
		}
		if err = ended(); err == nil {
			return
		}
		if s, failed := tr.upgradeStatus(); failed == nil && heldByReturn(s) {
			err = errors.Join(err, fmt.Errorf("held: %s", s.Held))
		}
		asked = time.Now()
	}
	tr.Fatalf("not in %s: %s: %v", upgradedWithin, what, err)
}
