package etcdhealth

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestALimitOfADefragmentationFollowsTheSize(t *testing.T) {
	for size, want := range map[int64]time.Duration{-1: 10 * time.Second, 0: 10 * time.Second, 512 << 20: 15 * time.Second, 4 << 30: 50 * time.Second, 8 << 30: 90 * time.Second, 1 << 50: 90 * time.Second} {
		if got := DefragmentLimit(size); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
	}
}

// Hard case L65: a defragmentation of 40 s is no etcd that hangs, and one whose end never comes
// is one.
func TestL65ADefragmentationIsLeftAloneUntilItsLimit(t *testing.T) {
	begin := time.Hour
	n := state.EtcdDefragmentation{Began: begin, Until: begin + DefragmentLimit(4<<30)}
	ended := time.Duration(0)
	for mute := time.Duration(0); mute < 3*time.Minute; mute += time.Second {
		p := Process{Runs: true, Age: begin, Mute: mute, Size: 4 << 30, Defragments: Defragments(n, begin+mute)}
		if why := End(p); why != "" && ended == 0 {
			ended = mute
		}
	}
	if ended != 50*time.Second {
		t.Errorf("it is ended after %s, want at its limit", ended)
	}
	p := Process{Runs: true, Age: begin, Stopped: true, Mute: FrozenAfter + 1, Defragments: true}
	if End(p) == "" {
		t.Error("a suspended process does not defragment")
	}
}

func TestANoteOfADefragmentationAlwaysEnds(t *testing.T) {
	for what, n := range map[string]state.EtcdDefragmentation{
		"an end that is far away": {Began: time.Hour, Until: 1000 * time.Hour},
		"no begin":                {Until: 1000 * time.Hour},
		"a begin in the future":   {Began: 3 * time.Hour, Until: 4 * time.Hour},
		"an end before its begin": {Began: time.Hour, Until: time.Minute},
		"none":                    {},
	} {
		for now := time.Hour + DefragmentMost; now < 3*time.Hour; now += time.Minute {
			if Defragments(n, now) {
				t.Errorf("%s: it still runs at %s", what, now)
			}
		}
	}
	if Defragments(state.EtcdDefragmentation{}, 0) {
		t.Error("no note")
	}
}

// Hard case L66: a whole copy of 4 GiB that takes 100 s to start is not ended and not damaged.
func TestL66ALargeDatabaseGetsTimeToStart(t *testing.T) {
	if why := End(Process{Runs: true, Age: 100 * time.Second, Mute: 100 * time.Second, Size: 4 << 30}); why != "" {
		t.Error(why)
	}
	if End(Process{Runs: true, Age: Grace(4<<30) + 1, Mute: MuteAfter + 1, Size: 4 << 30}) == "" {
		t.Error("its time has no end")
	}
	if Grace(4<<30) != 2*time.Minute || Grace(-1) != StartGrace {
		t.Errorf("%s, %s", Grace(4<<30), Grace(-1))
	}
	var s Starts
	for i := range 2 * MaxStarts { // each start ends while it reads the database
		s = s.Next(time.Minute+time.Duration(i)*100*time.Second, LeastSpace)
	}
	if s.Hopeless(time.Hour, LeastSpace) || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}
