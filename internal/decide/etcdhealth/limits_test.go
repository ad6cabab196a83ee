package etcdhealth

import (
	"testing"
	"time"
)

func TestALimitIsPassedAndNotOnlyReached(t *testing.T) {
	for sentence, c := range map[string]struct {
		at   func(limit time.Duration) Process
		last time.Duration
	}{
		"a suspended process": {func(d time.Duration) Process { return Process{Runs: true, Stopped: true, Mute: d} }, FrozenAfter},
		"a mute one":          {func(d time.Duration) Process { return Process{Runs: true, Age: time.Hour, Mute: d} }, MuteAfter},
		"a young mute one":    {func(d time.Duration) Process { return Process{Runs: true, Age: d, Mute: time.Hour} }, StartGrace},
		"a young stale one":   {func(d time.Duration) Process { return Process{Runs: true, Age: d, Stale: true} }, StartGrace},
		"a young empty one":   {func(d time.Duration) Process { return Process{Runs: true, Age: d, Empty: true} }, StartGrace},
	} {
		if why := End(c.at(c.last)); why != "" {
			t.Errorf("%s at its limit: %q", sentence, why)
		}
		if End(c.at(c.last+1)) == "" {
			t.Errorf("%s beyond its limit is left alone", sentence)
		}
	}
}

func TestAStartThatLastedIsNoFailure(t *testing.T) {
	if got := (Starts{}).Next(time.Second, LeastSpace); got != (Starts{Last: time.Second}) {
		t.Errorf("the first start after a boot: %+v", got)
	}
	before := Starts{Failed: 3, Last: time.Minute}
	if got := before.Next(time.Minute+Lasting, LeastSpace); got != (Starts{Failed: 4, Last: time.Minute + Lasting}) {
		t.Errorf("it ended within its time: %+v", got)
	}
	if got := before.Next(time.Minute+Lasting+1, LeastSpace); got.Failed != 0 {
		t.Errorf("it lasted: %+v", got)
	}
}

func TestAnAttemptThatMadeNoProcessSaysNothingOfTheData(t *testing.T) {
	var s Starts
	for i := range MaxStarts {
		if s.Barred() {
			t.Errorf("barred after %d attempts", i)
		}
		s = s.Miss(time.Duration(i+1)*time.Second, LeastSpace)
	}
	if want := (Starts{Missed: MaxStarts}); s != want || !s.Barred() || s.Hopeless(time.Minute, LeastSpace) || s.Crowded(LeastSpace-1) {
		t.Errorf("%+v", s)
	}
	if got := (Starts{Failed: 3, Missed: MaxStarts, Last: 1}).Next(2, LeastSpace); got != (Starts{Failed: 4, Last: 2}) {
		t.Errorf("a start that made a process: %+v", got)
	}
	if got := (Starts{Failed: 3, Last: 1}).Miss(2, LeastSpace-1); got != (Starts{Failed: 4, Full: 4, Last: 2}) {
		t.Errorf("nothing can be made on a full disk: %+v", got)
	}
}

func TestADiskWithJustEnoughRoomIsNotFull(t *testing.T) {
	if s := (Starts{Failed: MaxStarts}); !s.Hopeless(0, LeastSpace) || s.Hopeless(0, LeastSpace-1) {
		t.Error("the limit is not where it is said to be")
	}
	if s := (Starts{Failed: MaxStarts}); s.Crowded(LeastSpace) || !s.Crowded(LeastSpace-1) || (Starts{Failed: MaxStarts - 1}).Crowded(0) {
		t.Error("a disk is called full too early or too late")
	}
	if s := (Starts{Failed: 3, Last: 1}).Next(2, LeastSpace-1); s.Full != 4 {
		t.Errorf("a start that found its disk full: %+v", s)
	}
}
