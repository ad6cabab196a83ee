package upgrade

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// goes has the peer lose its power. Corosync notices it a moment later.
func (w *world) goes() { w.peer = state.Known(false) }

// TestAHostThatReturnsHasItsVIPsAgainIfItsPeerGoes: it has given them up, its peer loses its power
// just then, and the return is held back until the peer is there again.
func TestAHostThatReturnsHasItsVIPsAgainIfItsPeerGoes(t *testing.T) {
	w := newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	w.returns = w.goes
	w.turn(parachute.GoBack)
	w.until(parachute.Returning)
	if !w.madeWay {
		t.Fatal("it was told to return before it had given anything up")
	}
	for range 100 { // five minutes
		w.tick(false)
	}
	if j := w.journal(); w.left || w.current != newOne || j.Step != parachute.Returning {
		t.Fatalf("left %v, it has %s: %+v", w.left, w.current, j)
	}
	w.returns, w.peer = nil, state.Known(true)
	w.rests(false)
	if j := w.journal(); w.current != oldOne || j.Failed || !w.madeWay {
		t.Errorf("it has %s: %+v", w.current, j)
	}
}

// TestAHostThatPreparesHasItsVIPsAgainIfItsPeerGoes: at once if Corosync has no other host, and else
// once that is no late answer any more. It gives them up again if the peer is back before the way is
// undone.
func TestAHostThatPreparesHasItsVIPsAgainIfItsPeerGoes(t *testing.T) {
	for what, c := range map[string]struct {
		apart bool
		looks int
	}{"Corosync has no other host": {true, 2}, "nobody knows why the peer does not answer": {false, 6}} {
		w := newWorld(t)
		w.noDrain = true // it stays in this step
		w.turn(parachute.Go)
		w.until(parachute.Prepare)
		w.tick(false)
		if !w.left {
			t.Fatalf("%s: it has not given its virtual IPs up", what)
		}
		w.goes()
		w.apart = c.apart
		for range c.looks {
			w.tick(false)
		}
		if w.left || w.journal().Step != parachute.Prepare {
			t.Errorf("%s: left %v: %+v", what, w.left, w.journal())
		}
		w.peer, w.apart = state.Known(true), false
		w.tick(false)
		w.tick(false)
		if !w.left {
			t.Errorf("%s: the peer is back, and it does not prepare", what)
		}
	}
}

// TestOneLateAnswerMovesNoVIP, since single answers are late on busy cores. In a return the parachute may
// be at work by then.
func TestOneLateAnswerMovesNoVIP(t *testing.T) {
	w := newWorld(t)
	w.noDrain = true
	w.turn(parachute.Go)
	w.until(parachute.Prepare)
	w.tick(false)
	w.peer = state.Fact[bool]{}
	w.tick(false)
	w.tick(false)
	if !w.left || w.journal().Step != parachute.Prepare {
		t.Errorf("left %v: %+v", w.left, w.journal())
	}
	w = newWorld(t)
	w.turn(parachute.Go)
	w.rests(false)
	w.returns = func() { w.peer = state.Fact[bool]{} }
	w.turn(parachute.GoBack)
	w.until(parachute.Returning)
	w.tick(false)
	if !w.left || w.journal().Step != parachute.Returning {
		t.Errorf("left %v: %+v", w.left, w.journal())
	}
}

// TestAPeerThatLosesItsPowerInALookBlamesNoRelease: the release has had its time, and etcd's quorum is
// lost while the host looks at what the release shows. Corosync notices that only after the look, or the
// look before had missed something too, and Corosync notices it at once.
func TestAPeerThatLosesItsPowerInALookBlamesNoRelease(t *testing.T) {
	for what, missed := range map[string]int{"it is the first look that misses anything": 0, "the look before missed something, too": 1} {
		w := newWorld(t)
		w.bad = "peer-view" // nothing else is missing, and it waits
		w.turn(parachute.Go)
		w.until(parachute.Proving)
		for range 50 { // 150 s: each criterion has had its time
			w.tick(false)
		}
		looks := 0
		w.proves = func() {
			if looks++; looks <= missed {
				w.bad = "etcd"
				return
			}
			w.goes()
			w.lost, w.apart = true, missed > 0
		}
		for range 2 * (missed + 1) {
			w.tick(false)
		}
		if !w.lost {
			t.Fatalf("%s: it has not looked", what)
		}
		w.proves, w.apart = nil, true
		for range 40 { // the fence, and the peer's boot
			w.tick(false)
		}
		w.peer, w.apart, w.lost, w.bad = state.Known(true), false, false, ""
		w.rests(false)
		if j := w.journal(); w.current != newOne || j.Failed {
			t.Errorf("%s: it has %s: %+v", what, w.current, j)
		}
	}
}
