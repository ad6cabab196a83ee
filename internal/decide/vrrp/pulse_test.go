package vrrp_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
)

// looks feeds counts at their times and returns the beats.
func looks(holder bool, every time.Duration, sleeps ...uint64) []vrrp.Beat {
	var p vrrp.Pulse
	var out []vrrp.Beat
	for i, n := range sleeps {
		var b vrrp.Beat
		p, b = p.Look(n, holder, epoch.Add(time.Duration(i)*every))
		out = append(out, b)
	}
	return out
}

func count(beats []vrrp.Beat, want vrrp.Beat) (first, n int) {
	first = -1
	for i, b := range beats {
		if b == want {
			if n++; first < 0 {
				first = i
			}
		}
	}
	return first, n
}

func TestB18_AHolderThatNoLongerWakesIsHungWithinThreeAdverts(t *testing.T) {
	at, _ := count(looks(true, vrrp.PulseHolder, 10, 11, 11, 11, 11), vrrp.Hung)
	if at != 4 || 3*vrrp.PulseHolder > 600*time.Millisecond {
		t.Errorf("hung at look %d", at)
	}
	if _, n := count(looks(true, vrrp.PulseHolder, 10, 11, 11, 11, 12, 12, 12, 13, 14), vrrp.Hung); n != 0 {
		t.Error("a slow one is not hung")
	}
}

func TestADaemonThatHoldsNothingIsPokedBeforeItIsHung(t *testing.T) {
	still := looks(false, vrrp.PulseOther, 5, 5, 5, 5, 5, 5, 5, 5, 5)
	poked, n := count(still, vrrp.Poke)
	hung, _ := count(still, vrrp.Hung)
	if poked != 5 || n != 1 || hung != 8 {
		t.Errorf("poked at %d (%d times), hung at %d", poked, n, hung)
	}
	if _, n := count(looks(false, vrrp.PulseOther, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6), vrrp.Hung); n != 0 {
		t.Error("one that answers a poke is not hung")
	}
}

// The host was paused, or its clock jumped: nobody read meanwhile.
func TestHardCase20_ALateLookProvesNothing(t *testing.T) {
	if _, n := count(looks(true, 5*time.Second, 7, 7, 7, 7, 7, 7), vrrp.Hung); n != 0 {
		t.Error("hung, and nobody looked")
	}
}

// Without real-time scheduling, on a host with a load of 90: each reading finds the
// daemon runnable, and now and then it has run.
func TestADaemonThatWaitsForAProcessorIsNotHung(t *testing.T) {
	var p vrrp.Pulse
	now := epoch
	for i := range uint64(500) {
		now = now.Add(vrrp.PulseHolder)
		next, excused := p.Want(now)
		if p = next; !excused {
			t.Fatalf("hung after %s", now.Sub(epoch))
		}
		if i%40 == 0 {
			p, _ = p.Look(i+1, true, now)
		}
	}
}

func TestADaemonInALoopIsHung(t *testing.T) {
	now := epoch
	p, beat := vrrp.Pulse{}.Look(7, true, now)
	for beat != vrrp.Hung {
		if now = now.Add(vrrp.PulseHolder); now.Sub(epoch) > 20*time.Second {
			t.Fatal("it is not noticed")
		}
		next, excused := p.Want(now)
		if p = next; !excused {
			p, beat = p.Look(7, true, now)
		}
	}
}
