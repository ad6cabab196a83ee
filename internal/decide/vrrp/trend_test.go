package vrrp_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A change counts only once it has lasted, and how long depends on who has the VIP:
// the holder is the last to lose and the first to get back.
func TestHowLongAChangeHasToLast(t *testing.T) {
	for _, c := range []struct {
		name          string
		begin, holder bool
		lasts         time.Duration
	}{
		{"a holder that falls", true, true, vrrp.HolderFall},
		{"another host that falls", true, false, vrrp.OtherFall},
		{"a holder that rises", false, true, 0},
		{"another host that rises", false, false, vrrp.OtherRise},
	} {
		first, due := vrrp.Trend{}.Step(c.begin, c.holder, epoch)
		if first.Believed != c.begin || !first.Since.Equal(epoch) || !due.IsZero() {
			t.Errorf("%s: the first look is believed at once: %+v, %v", c.name, first, due)
		}
		if same, due := first.Step(c.begin, c.holder, epoch.Add(time.Hour)); same.Believed != c.begin || !due.IsZero() {
			t.Errorf("%s: nothing changed, and it is to be asked again at %v", c.name, due)
		}
		changed, due := first.Step(!c.begin, c.holder, epoch.Add(time.Minute))
		if c.lasts == 0 {
			if changed.Believed == c.begin || !due.IsZero() {
				t.Errorf("%s: it is not believed at once", c.name)
			}
			continue
		}
		if changed.Believed != c.begin || !due.Equal(epoch.Add(time.Minute+c.lasts)) {
			t.Errorf("%s: %+v, asked again at %v", c.name, changed, due)
		}
		if back, due := changed.Step(c.begin, c.holder, due.Add(-time.Millisecond)); back.Believed != c.begin || !due.IsZero() {
			t.Errorf("%s: it swung back: %+v, %v", c.name, back, due)
		}
		if after, again := changed.Step(!c.begin, c.holder, due); after.Believed == c.begin || !again.IsZero() {
			t.Errorf("%s: it lasted, and is not believed: %+v, %v", c.name, after, again)
		}
	}
}

// A daemon that is just started has not asked haproxy yet. Its first second counts
// from its first look, however often it looks.
func TestHardCase02_TheFirstSecondOfAnAgentCountsFromItsFirstLook(t *testing.T) {
	v := healthy(11)
	v.Redirected = false
	h, due := vrrp.Follow(vrrp.Health{}, v, true, epoch)
	if h.Balancer.Known || !due.Equal(epoch.Add(time.Second)) {
		t.Fatalf("%+v, %v", h.Balancer, due)
	}
	h, due = vrrp.Follow(h, v, true, epoch.Add(900*time.Millisecond))
	if h.Balancer.Known || !due.Equal(epoch.Add(time.Second)) {
		t.Fatalf("%+v, %v", h.Balancer, due)
	}
	if h, _ = vrrp.Follow(h, v, true, epoch.Add(time.Second)); !h.Balancer.Known || h.Balancer.Believed {
		t.Errorf("%+v", h.Balancer)
	}
}

// haproxy that answers again is one change like any other: on another host than the
// holder it has to last.
func TestAHaproxyThatComesBackIsBelievedLaterByAHostWithoutTheVIP(t *testing.T) {
	for _, holder := range []bool{true, false} {
		v := healthy(11)
		h, _ := vrrp.Follow(vrrp.Health{}, v, holder, epoch)
		v.Balancer.Known = false
		h, _ = vrrp.Follow(h, v, holder, epoch.Add(time.Minute))
		if h.Balancer.Believed || !h.Balancer.Since.Equal(epoch.Add(time.Minute)) {
			t.Errorf("%+v", h.Balancer)
		}
		v.Balancer.Known = true
		h, due := vrrp.Follow(h, v, holder, epoch.Add(2*time.Minute))
		if h.Balancer.Believed != holder || due.IsZero() != holder {
			t.Errorf("holder %t: %+v, asked again at %v", holder, h.Balancer, due)
		}
	}
}

// The earlier of two changes is asked for again first.
func TestOfTwoChangesTheEarlierIsLookedAtFirst(t *testing.T) {
	for _, c := range []struct {
		name             string
		balancer, server time.Duration // when it fails
		want             time.Duration
	}{
		{"haproxy fails first", 0, time.Second, vrrp.HolderFall},
		{"the API server fails first", time.Second, 0, vrrp.HolderFall},
		{"haproxy alone", 0, time.Hour, vrrp.HolderFall},
		{"the API server alone", time.Hour, 0, vrrp.HolderFall},
	} {
		v := healthy(11)
		h, _ := vrrp.Follow(vrrp.Health{}, v, true, epoch)
		var due time.Time
		for at := time.Duration(0); at <= time.Second; at += time.Second {
			v.LocalAPI, v.Redirected = state.Known(at < c.server), at < c.balancer
			h, due = vrrp.Follow(h, v, true, epoch.Add(at))
		}
		if !due.Equal(epoch.Add(c.want)) {
			t.Errorf("%s: asked again at %s", c.name, due.Sub(epoch))
		}
	}
}

// Before anything is known the last value of the track file stands, but nothing
// below a vote for the VIP.
func TestHardCase02_WhatTheTrackFileSaidBeforeTheAgentsStart(t *testing.T) {
	for _, c := range []struct {
		before state.Fact[int]
		want   int
	}{
		{state.Known(25), 25},
		{state.Known(0), 5},
		{state.Known(vrrp.Fault), 5},
		{state.Fact[int]{Value: 25}, 5},
	} {
		v := viewOf(11, three...)
		v.LocalAPI = state.Known(true)
		h, _ := vrrp.Follow(vrrp.Health{}, v, true, epoch)
		w := vrrp.APIWeight(v, h, c.before)
		if w.Value != c.want || (c.want == 5) != (w.Why == "own API server only") {
			t.Errorf("%+v: %+v", c.before, w)
		}
	}
}

func TestAReadingThatIsLateByMoreThanAPauseProvesNothing(t *testing.T) {
	for holder, every := range map[bool]time.Duration{true: vrrp.PulseHolder, false: vrrp.PulseOther} {
		if _, n := count(looks(holder, 2*every, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7), vrrp.Hung); n == 0 {
			t.Errorf("holder %t: readings that are late by one pause count", holder)
		}
		if _, n := count(looks(holder, 2*every+time.Millisecond, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7), vrrp.Hung); n != 0 {
			t.Errorf("holder %t: hung, and nobody looked", holder)
		}
	}
}

func TestADaemonThatIsHungStaysSo(t *testing.T) {
	if first, n := count(looks(true, vrrp.PulseHolder, 7, 7, 7, 7, 7, 7), vrrp.Hung); first != 3 || n != 3 {
		t.Errorf("hung from look %d on, %d times", first, n)
	}
}

// The excuse that it waits for a processor ends after 15 s, and a reading that was
// excused is a reading.
func TestTheExcuseOfADaemonThatWaitsHasAnEnd(t *testing.T) {
	p, _ := vrrp.Pulse{}.Look(7, true, epoch)
	p, _ = p.Want(epoch)
	if _, excused := p.Want(epoch.Add(15 * time.Second)); !excused {
		t.Error("it ends too early")
	}
	if _, excused := p.Want(epoch.Add(15*time.Second + time.Millisecond)); excused {
		t.Error("it does not end")
	}
	for i := 1; i <= 3; i++ {
		var beat vrrp.Beat
		if p, beat = p.Look(7, true, epoch.Add(time.Duration(i)*vrrp.PulseHolder)); (beat == vrrp.Hung) != (i == 3) {
			t.Errorf("look %d after it: %v", i, beat)
		}
	}
}
