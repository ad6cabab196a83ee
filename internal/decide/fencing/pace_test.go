package fencing

import (
	"testing"
	"time"
)

func TestARequestIsRepeatedWhateverElseTheBMCSays(t *testing.T) {
	long := Progress{Budget: budget, Elapsed: 9 * time.Second, Requests: 1, SinceRequest: DefaultRetryAfter}
	soon, twice := long, long
	soon.SinceRequest, twice.Requests = DefaultRetryAfter-time.Millisecond, 2
	for _, power := range []string{"On", "PoweringOn", "Paused", "", "off", "Starting"} {
		for name, c := range map[string]struct {
			p    Progress
			want Step
		}{"after its time": {long, Ask}, "before": {soon, Again}, "so soon after the second one": {twice, Again}} {
			if got := Next(c.p, says(power)); got.Step != c.want {
				t.Errorf("%q %s: %+v", power, name, got)
			}
		}
	}
	if got := Next(long, says("PoweringOff")); got.Step != Again {
		t.Errorf("a machine that is powering off is not left to it: %+v", got)
	}
	if got := Next(long, fails("timeout")); got.Step != Again {
		t.Errorf("a BMC that says nothing is asked to cut: %+v", got)
	}
}

// A fence makes no more attempts in a minute than an iDRAC allows.
func TestARefusedAccountIsTriedAgainButSeldom(t *testing.T) {
	p := Progress{Budget: time.Minute}
	attempts := 0
	for at := time.Duration(0); at < p.Budget; attempts++ {
		p.Elapsed, p.Refused = at, attempts+1
		d := Next(p, fails("credentials"))
		if d.Step != Again {
			t.Fatalf("after %s: %+v", at, d)
		}
		at += d.Wait
	}
	if attempts != 3 {
		t.Errorf("%d attempts in a minute", attempts)
	}
	if d := Next(Progress{Budget: budget, Refused: 1}, fails("credentials")); d.Wait != RefusedOnce {
		t.Errorf("a single refusal costs %s", d.Wait)
	}
	if d := Next(Progress{Budget: budget, Delay: 20 * time.Second, Refused: 2}, fails("credentials")); d.Step != Hold || d.Wait != RefusedAgain {
		t.Errorf("while it holds: %+v", d)
	}
}
