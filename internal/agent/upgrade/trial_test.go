package upgrade

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestU45_AHostOfTheNewReleaseLeadsForAMinuteBeforeTheNextOneLeaves: what breaks only on a
// leader, or on the holder of a virtual IP, breaks while the old release can take it back.
func TestU45_AHostOfTheNewReleaseLeadsForAMinuteBeforeTheNextOneLeaves(t *testing.T) {
	for runs, waits := range map[string]bool{newOne: true, oldOne: false, "": false} {
		w := newWorld(t)
		w.peerRuns = runs
		w.turn(parachute.Go)
		w.until(parachute.Prepare)
		for w.agent.stay == nil || w.leads {
			w.tick(false)
		}
		free := w.now
		w.until(parachute.Leave)
		if took := w.now.Sub(free); waits != (took >= parachute.TrialTime) || took > parachute.TrialTime+10*time.Second {
			t.Errorf("the peer runs %q: it leaves %s after it had given all away", runs, took)
		}
		if w.leads || !w.left {
			t.Errorf("the peer runs %q: leads %v, gave its VIPs away %v", runs, w.leads, w.left)
		}
		w.rests(false)
		if w.current != newOne {
			t.Errorf("the peer runs %q: it is on %s", runs, w.current)
		}
	}
}

// TestTheMinuteOfALeaderGoesByWhilePodsMove: a drain of forty seconds costs no time beside it.
func TestTheMinuteOfALeaderGoesByWhilePodsMove(t *testing.T) {
	w := newWorld(t)
	w.peerRuns, w.noDrain = newOne, true
	w.turn(parachute.Go)
	w.until(parachute.Prepare)
	for w.agent.stay == nil || w.leads {
		w.tick(false)
	}
	free := w.now
	for w.now.Sub(free) < 40*time.Second {
		w.tick(false)
	}
	w.noDrain = false
	w.until(parachute.Leave)
	if took := w.now.Sub(free); took < parachute.TrialTime || took > parachute.TrialTime+10*time.Second {
		t.Errorf("it leaves %s after it had given leadership and VIPs away", took)
	}
}

// TestU45_ALeaderThatFailsInItsMinuteGivesAllBack: the host that was to leave serves with the
// old release, and has its virtual IPs again.
func TestU45_ALeaderThatFailsInItsMinuteGivesAllBack(t *testing.T) {
	w := newWorld(t)
	w.peerRuns = newOne
	w.turn(parachute.Go)
	w.until(parachute.Prepare)
	for w.agent.stay == nil || w.leads {
		w.tick(false)
	}
	for range 5 {
		w.tick(false)
	}
	w.peer = state.Known(false)
	w.rests(false)
	if j := w.journal(); j.Step != parachute.Returned || w.current != oldOne || w.left || len(w.daemons) != 3 {
		t.Errorf("%+v, on %s, left %v, daemons %v", j, w.current, w.left, w.daemons)
	}
}
