package etcdhealth

import (
	"testing"
	"time"
)

func TestOnlyAnEtcdThatCannotAnswerIsEnded(t *testing.T) {
	for sentence, c := range map[string]struct {
		p   Process
		end bool
	}{
		"a healthy one is left alone":             {Process{Runs: true, Age: time.Hour}, false},
		"a frozen one is ended soon":              {Process{Runs: true, Stopped: true, Age: time.Hour, Mute: 2 * time.Second}, true},
		"a frozen one that answered just now not": {Process{Runs: true, Stopped: true, Age: time.Hour}, false},
		"a mute one gets its time":                {Process{Runs: true, Age: time.Hour, Mute: 14 * time.Second}, false},
		"and is ended then":                       {Process{Runs: true, Age: time.Hour, Mute: 16 * time.Second}, true},
		"a young one reads its log":               {Process{Runs: true, Age: 30 * time.Second, Mute: 30 * time.Second}, false},
		"one that waits for its disk is not":      {Process{Runs: true, Blocked: true, Age: time.Hour, Mute: time.Hour}, false},
		"one that stands still on its own is":     {Process{Runs: true, Stale: true, Age: time.Hour}, true},
		"unless it waits for its disk":            {Process{Runs: true, Stale: true, Blocked: true, Age: time.Hour}, false},
		"one that may not run at all is not":      {Process{Stopped: true, Age: time.Hour, Mute: time.Hour}, false},
		"one that takes long to open its data":    {Process{Runs: true, Empty: true, Age: 59 * time.Second}, false},
		"and one that never opens them":           {Process{Runs: true, Empty: true, Age: 61 * time.Second}, true},
		"one that is to stop and runs":            {Process{Runs: true, Unwanted: true, Age: time.Hour, Mute: time.Hour}, false},
		"and one that would only run later":       {Process{Runs: true, Unwanted: true, Empty: true}, true},
	} {
		if got := End(c.p); (got != "") != c.end {
			t.Errorf("%s: %q", sentence, got)
		}
	}
}

func TestACopyIsGivenUpOnlyWhereNoStartLasts(t *testing.T) {
	const plenty = 1 << 30
	run := func(gap time.Duration, n int, free uint64) Starts {
		var s Starts
		for i := range n {
			s = s.Next(time.Minute+time.Duration(i)*gap, free)
		}
		return s
	}
	full := run(time.Second, MaxStarts+1, LeastSpace-1)
	again := func(s Starts, n int) Starts {
		for range n {
			s = s.Next(s.Last+time.Second, plenty)
		}
		return s
	}
	for sentence, c := range map[string]struct {
		s    Starts
		free uint64
		want bool
	}{
		"never started":                        {Starts{}, plenty, false},
		"a few starts in a row":                {run(time.Second, MaxStarts, plenty), plenty, false},
		"start after start":                    {run(time.Second, MaxStarts+1, plenty), plenty, true},
		"but the disk is full":                 {run(time.Second, MaxStarts+1, plenty), LeastSpace - 1, false},
		"the disk was full until a moment ago": {full, plenty, false},
		"a few starts since then":              {again(full, MaxStarts-1), plenty, false},
		"start after start since then":         {again(full, MaxStarts), plenty, true},
		"each lasted":                          {run(Lasting+time.Second, 20, plenty), plenty, false},
		"one that lasted begins anew":          {run(time.Second, MaxStarts+1, plenty).Next(time.Hour, plenty), plenty, false},
	} {
		if got := c.s.Hopeless(c.s.Last, c.free); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
		if got := c.s.Hopeless(c.s.Last+Rest, c.free); got != c.want {
			t.Errorf("%s, a minute later: %t", sentence, got)
		}
		if c.s.Hopeless(c.s.Last+Rest+1, c.free) {
			t.Errorf("%s: it is never tried once more", sentence)
		}
		if full := c.s.Crowded(c.free); full != (sentence == "but the disk is full") {
			t.Errorf("%s: the disk is full: %t", sentence, full)
		}
	}
}
