package fencing

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

func says(power string) Reading { return Reading{Power: state.Known(power)} }

// silent is a BMC that says Off while its host answers nothing; heard is one that
// says Off while its host still answers.
var (
	silent = Reading{Power: state.Known(state.PowerOff), Heard: state.Known(false)}
	heard  = Reading{Power: state.Known(state.PowerOff), Heard: state.Known(true)}
)

func fails(reason bmc.Reason) Reading { return Reading{Reason: reason} }

const budget = 40 * time.Second

func TestWhatFollowsFromAnAnswerOfTheBMC(t *testing.T) {
	fresh := Progress{Budget: budget}
	waiting := Progress{Budget: budget, Delay: 20 * time.Second, Elapsed: 5 * time.Second}
	asked := Progress{Budget: budget, Elapsed: time.Second, Requests: 1, SinceRequest: time.Second}
	askedLong := Progress{Budget: budget, Elapsed: 9 * time.Second, Requests: 1, SinceRequest: DefaultRetryAfter}
	refused := Progress{Budget: budget, Elapsed: time.Second, Requests: 1, SinceRequest: 100 * time.Millisecond, RequestFailed: true}
	twice := Progress{Budget: budget, Elapsed: 20 * time.Second, Requests: 3, SinceRequest: 10 * time.Second}
	twiceRefused := Progress{Budget: budget, Elapsed: 20 * time.Second, Requests: 3, SinceRequest: 2 * time.Second, RequestFailed: true}
	justRefused := Progress{Budget: budget, Elapsed: 20 * time.Second, Requests: 3, SinceRequest: time.Second, RequestFailed: true}
	twiceLately := Progress{Budget: budget, Elapsed: 20 * time.Second, Requests: 2, SinceRequest: 9 * time.Second}
	over := Progress{Budget: budget, Delay: 20 * time.Second, Elapsed: 60 * time.Second, Requests: 1, SinceRequest: 39 * time.Second}
	cases := []struct {
		name string
		p    Progress
		r    Reading
		want Step
	}{
		{"exactly Off of a silent host is off, before anything was asked", fresh, silent, Proven},
		{"the delay ends when the BMC says Off of a silent host", waiting, silent, Proven},
		{"Off is off after a request", asked, silent, Proven},
		{"Off that is read when the time is over is off", over, silent, Proven},
		{"a host that is heard is not off, whatever its BMC says: cut it", fresh, heard, Ask},
		{"a host that is heard after the request is not off yet", asked, heard, Again},
		{"a host that goes on to be heard is cut once more", askedLong, heard, Ask},
		{"a host that is heard does not shorten the delay", waiting, heard, Hold},
		{"the time ends for a host that is heard", over, heard, GiveUp},
		{"an Off that nothing confirms may be one of before the BMC's restart: cut it", fresh, says("Off"), Ask},
		{"an Off that nothing confirms does not shorten the delay", waiting, says("Off"), Hold},
		{"an Off that nothing confirms has to last", asked, says("Off"), Again},
		{"it is not asked for twice", askedLong, says("Off"), Again},
		{"an Off that lasts after a request is off", Progress{Budget: budget, Elapsed: 9 * time.Second, Requests: 1, SinceRequest: 8 * time.Second, OffFor: OffLasts}, says("Off"), Proven},
		{"a host that is heard is never off", Progress{Budget: budget, Elapsed: 9 * time.Second, Requests: 2, OffFor: time.Hour}, heard, Again},
		{"an Off that lasts without a request proves nothing", Progress{Budget: budget, OffFor: time.Hour}, says("Off"), Ask},
		{"the time ends for an Off that nothing confirms", over, says("Off"), GiveUp},
		{"off in small letters is not off", asked, says("off"), Again},
		{"Off with a blank is not off", asked, says("Off "), Again},
		{"PoweringOff is not off", asked, says("PoweringOff"), Again},
		{"no power state is not off", asked, says(""), Again},
		{"a running host is to be cut", fresh, says("On"), Ask},
		{"a host that is powering on is to be cut", fresh, says("PoweringOn"), Ask},
		{"a host that powers off by itself is to be cut too", fresh, says("PoweringOff"), Ask},
		{"a BMC without a power state is asked: the request may work", fresh, says(""), Ask},
		{"a running host is given the delay", waiting, says("On"), Hold},
		{"a mute BMC does not shorten the delay", waiting, fails("timeout"), Hold},
		{"another machine's BMC is never used", fresh, fails("wrong-server"), Refuse},
		{"another machine's BMC is never waited for", waiting, fails("wrong-server"), Refuse},
		{"a BMC that turns into another machine's is not used on", asked, fails("wrong-server"), Refuse},
		{"a BMC that boots refuses the account for a while", fresh, fails("credentials"), Again},
		{"a refused account does not shorten the delay", waiting, fails("credentials"), Hold},
		{"a certificate that is not trusted does not get right", fresh, fails("certificate"), Refuse},
		{"another certificate than the pinned one does not get right", fresh, fails("pin"), Refuse},
		{"another certificate than the pinned one is not waited for", waiting, fails("pin"), Refuse},
		{"a certificate that nobody pinned is not trusted in a fence", fresh, fails(bmc.Unpinned), Refuse},
		{"a BMC that boots does not know its system for a while", fresh, fails("not-found"), Again},
		{"which of several systems is meant does not get clear", fresh, fails("no-system"), Refuse},
		{"a mute BMC may answer the next time", fresh, fails("timeout"), Again},
		{"a BMC that is not reached may be the next time", fresh, fails("unreachable"), Again},
		{"a BMC that fails may work the next time", fresh, fails("server-error"), Again},
		{"what is not known why may pass", fresh, fails("unknown"), Again},
		{"an answer is waited for once a request was sent", asked, fails("credentials"), Again},
		{"a request gets time to work", asked, says("On"), Again},
		{"a BMC may be given more time", Progress{Budget: budget, Requests: 1, SinceRequest: 5 * time.Second, RetryAfter: time.Minute}, says("On"), Again},
		{"a request without effect is repeated", askedLong, says("On"), Ask},
		{"a host that powers off slowly is left to it", askedLong, says("PoweringOff"), Again},
		{"a request that failed is repeated at once", refused, says("On"), Ask},
		{"nothing is repeated without an answer", refused, fails("timeout"), Again},
		{"a request that is dropped again and again is repeated for as long as the fence lasts", twice, says("On"), Ask},
		{"but a BMC that may tell an old state gets more time from the second on", twiceLately, says("On"), Again},
		{"a request that fails again and again is repeated", twiceRefused, says("On"), Ask},
		{"but not at once", justRefused, says("On"), Again},
		{"the time ends, the delay not counted", over, says("On"), GiveUp},
		{"the time ends for a mute BMC", over, fails("timeout"), GiveUp},
		{"a person's word goes before a fence", Progress{Budget: budget, Confirmed: true}, says("On"), Refuse},
		{"a person's word ends the wait for a BMC", Progress{Budget: budget, Elapsed: time.Second, Confirmed: true}, fails("unreachable"), Refuse},
		{"a person's word does not undo a proof", Progress{Budget: budget, Confirmed: true}, says("Off"), Proven},
		{"a target that is back is left alone", Progress{Budget: budget, Delay: 20 * time.Second, Elapsed: 5 * time.Second, Back: true}, says("On"), Refuse},
		{"also where its BMC answers nothing", Progress{Budget: budget, Elapsed: 5 * time.Second, Back: true}, fails("timeout"), Refuse},
		{"one that is back and off is off", Progress{Budget: budget, Back: true}, silent, Proven},
		{"once its power was to be cut the fence goes on", Progress{Budget: budget, Elapsed: time.Second, Requests: 1, SinceRequest: time.Second, Back: true}, says("On"), Again},
		{"a slow BMC gets the answers that it needs", Progress{Budget: budget, Answer: 30 * time.Second, Elapsed: 70 * time.Second, Requests: 1, SinceRequest: 40 * time.Second}, says("On"), Again},
		{"a slow BMC does not get for ever", Progress{Budget: budget, Answer: 30 * time.Second, Elapsed: 101 * time.Second, Requests: 1, SinceRequest: 40 * time.Second}, says("On"), GiveUp},
		{"a slow BMC's reading of before the request was answered tells nothing", Progress{Budget: budget, Answer: 5 * time.Second, Elapsed: 10 * time.Second, Requests: 1, SinceRequest: 5 * time.Second}, says("On"), Again},
		{"a slow BMC's reading of after it does", Progress{Budget: budget, Answer: 5 * time.Second, Elapsed: 15 * time.Second, Requests: 1, SinceRequest: 10 * time.Second}, says("On"), Ask},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := Next(c.p, c.r)
			if got.Step != c.want || got.Why == "" {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if moving := got.Step == Hold || got.Step == Ask || got.Step == Again; moving != (got.Wait > 0) {
				t.Errorf("%s waits %s", got.Step, got.Wait)
			}
		})
	}
}

func TestWhatFollowsOnTheWayToThePower(t *testing.T) {
	const longest = 40 * time.Second
	p := func(requests int, since time.Duration, failed bool) OnProgress {
		return OnProgress{Budget: longest, Elapsed: 10 * time.Second, Requests: requests, SinceRequest: since, RequestFailed: failed}
	}
	over := p(1, time.Second, false)
	over.Elapsed = longest
	slow := p(1, 8*time.Second, false)
	slow.Answer = 5 * time.Second
	for _, c := range []struct {
		name string
		p    OnProgress
		r    Reading
		want Step
	}{
		{"a host that is off is asked to come", p(0, 0, false), says("Off"), Ask},
		{"a host that is there is not asked", p(0, 0, false), says("On"), Done},
		{"a host that comes is not asked", p(0, 0, false), says("PoweringOn"), Done},
		{"what the BMC accepted is done once it says so", p(1, 0, false), says("On"), Done},
		{"an error says nothing either", p(1, 0, true), says("PoweringOn"), Done},
		{"a request gets time to work", p(1, time.Second, false), says("Off"), Again},
		{"one that was dropped is repeated", p(1, 2*time.Second, false), says("Off"), Ask},
		{"the next has more time", p(2, 4*time.Second, false), says("Off"), Again},
		{"and is repeated too", p(2, 5*time.Second, false), says("Off"), Ask},
		{"and so on", p(9, 5*time.Second, false), says("Off"), Ask},
		{"what was refused is repeated, not at once", p(1, 0, true), says("Off"), Again},
		{"but soon", p(7, time.Second, true), says("Off"), Ask},
		{"a slow BMC gets two answers", slow, says("Off"), Again},
		{"nothing is asked of a BMC that does not answer", p(1, time.Hour, false), fails("timeout"), Again},
		{"nor of one that was not read yet", p(0, 0, false), fails("unreachable"), Again},
		{"another machine's BMC is left alone", p(1, 0, false), fails("wrong-server"), Refuse},
		{"a certificate that is not the pinned one does not get right", p(0, 0, false), fails("pin"), Refuse},
		{"one that nobody pinned neither", p(0, 0, false), fails(bmc.Unpinned), Refuse},
		{"a refused account may pass", p(0, 0, false), fails("credentials"), Again},
		{"on is not on in small letters", p(1, time.Second, false), says("on"), Again},
		{"the time ends", over, says("Off"), GiveUp},
		{"the time ends for a mute BMC", over, fails("timeout"), GiveUp},
		{"a host that came in the last moment has come", over, says("On"), Done},
	} {
		got := NextOn(c.p, c.r)
		if got.Step != c.want || got.Why == "" || got.Step == Again && got.Wait <= 0 {
			t.Errorf("%s: got %+v, want %s", c.name, got, c.want)
		}
	}
}

func TestOnlyOneReadingOfAllProves(t *testing.T) {
	powers := []string{"On", "off", "OFF", "Off\n", " Off", "PoweringOff", "PoweringOn", "Paused", "null", "", "unknown", "true", "0"}
	reasons := []bmc.Reason{"", "timeout", "unreachable", "credentials", "wrong-server", "Off"}
	for requests := range 4 {
		for _, failed := range []bool{false, true} {
			for _, elapsed := range []time.Duration{0, time.Second, time.Minute, time.Hour} {
				p := Progress{Budget: budget, Elapsed: elapsed, Requests: requests, SinceRequest: elapsed, RequestFailed: failed}
				for _, power := range powers {
					if got := Next(p, says(power)); got.Step == Proven {
						t.Errorf("%+v, power %q: %+v", p, power, got)
					}
				}
				for _, reason := range reasons {
					if got := Next(p, fails(reason)); got.Step == Proven {
						t.Errorf("%+v, reason %q: %+v", p, reason, got)
					}
				}
			}
		}
	}
}

func TestTheLastPieceOfTheDelayIsNotWaitedTooLong(t *testing.T) {
	p := Progress{Budget: budget, Delay: 3 * time.Second, Elapsed: 2900 * time.Millisecond}
	if got := Next(p, says("On")); got.Step != Hold || got.Wait != 100*time.Millisecond {
		t.Errorf("got %+v", got)
	}
	p.Elapsed = p.Delay
	if got := Next(p, says("On")); got.Step != Ask {
		t.Errorf("got %+v", got)
	}
}

func TestB8TheSecondHostByNameWaitsForTheFirst(t *testing.T) {
	for _, nodes := range [][]string{{"cp-2", "cp-1"}, {"cp-1", "cp-2"}} { // a replaced host comes last in some lists
		if got := DelayOf("cp-1", nodes); got != DefaultDelay {
			t.Errorf("of %v the fence of the first waits %s", nodes, got)
		}
		if got := DelayOf("cp-2", nodes); got != 0 {
			t.Errorf("of %v the fence of the second waits %s", nodes, got)
		}
	}
	if got := DelayOf("cp-1", []string{"cp-1"}); got != 0 {
		t.Errorf("without a peer: %s", got)
	}
}

func TestCalibration(t *testing.T) {
	const s = time.Second
	cases := []struct {
		name     string
		measured map[string][]time.Duration
		want     time.Duration
		says     string
	}{
		{"twice the worst of both", map[string][]time.Duration{"a": {s, 4 * s}, "b": {2 * s}}, 8 * s, ""},
		{"never below the least", map[string][]time.Duration{"a": {s / 10}, "b": {s / 10}}, MinimumDelay, ""},
		{"above the default too, where a BMC is slow", map[string][]time.Duration{"a": {30 * s}, "b": {s}}, 60 * s, ""},
		{"not above what Pacemaker waits for", map[string][]time.Duration{"a": {31 * s}, "b": {s}}, 0, "at most 1m0s is allowed"},
		{"not from one host", map[string][]time.Duration{"a": {s}, "b": nil}, 0, "1 of 2 hosts"},
		{"not from nothing", nil, 0, "0 of 2 hosts"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Calibrate(c.measured)
			if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestACalibratedDelayOutlivesNewCredentialsAndNothingElse(t *testing.T) {
	const calibrated = 5 * time.Second
	if got := KeepDelay(calibrated, DefaultDelay); got != calibrated {
		t.Errorf("new credentials: %s", got)
	}
	if got := KeepDelay(calibrated, 0); got != 0 {
		t.Errorf("a host that is not the first any more: %s", got)
	}
	if got := KeepDelay(0, DefaultDelay); got != DefaultDelay {
		t.Errorf("a host that became the first: %s", got)
	}
}

// TestARaceOfBothHostsLeavesOne replays a cut in which both hosts fence each other,
// with the BMCs and the spread of the two starts as measured in
// docs/facts/measured.md#figures-that-were-measured, 3.
func TestARaceOfBothHostsLeavesOne(t *testing.T) {
	for _, off := range []time.Duration{50 * time.Millisecond, time.Second, 3 * time.Second, 9 * time.Second} {
		delay, err := Calibrate(map[string][]time.Duration{"cp-1": {off}, "cp-2": {off}})
		if err != nil {
			t.Fatal(err)
		}
		for _, spread := range []time.Duration{-1100 * time.Millisecond, 0, 1100 * time.Millisecond} {
			secondOff := off             // cp-1 begins at 0
			secondAsks := spread + delay // cp-2 begins at spread, and holds
			if secondAsks < secondOff+HoldInterval/10 {
				t.Errorf("BMCs that take %s, spread %s: cp-2 asks at %s and is off only at %s", off, spread, secondAsks, secondOff)
			}
		}
	}
}

// fenced plays a fence with a BMC that takes the time answer for each answer. It
// returns when the power is cut, when that is proven, and whether the agent asked
// directly.
func fenced(t *testing.T, answer, delay time.Duration) (cut, proven time.Duration, direct bool) {
	t.Helper()
	p := Progress{Delay: delay, Budget: time.Minute, Answer: answer}
	var now, asked time.Duration
	for now < time.Hour {
		sent := now
		now += answer
		reading := says("On")
		if p.Requests > 0 && sent >= cut {
			reading = silent
		}
		p.Elapsed, p.SinceRequest = now, now-asked
		d := Next(p, reading)
		switch d.Step {
		case Proven:
			return cut, now, direct
		case Ask:
			if p.Requests == 0 {
				cut, direct = now+answer, p.Direct(says("On"))
			}
			p.Requests, asked = p.Requests+1, now
		case Refuse, GiveUp:
			t.Fatalf("answers of %s, delay %s: %s after %s", answer, delay, d.Why, now)
		case Hold, Again, Done:
		}
		now += d.Wait
	}
	t.Fatalf("answers of %s: no end", answer)
	return 0, 0, false
}

func TestASlowBMCFencesAsFastAsItsAnswersAllow(t *testing.T) {
	for _, answer := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, LongestAnswer} {
		_, proven, direct := fenced(t, answer, 0)
		if most := 4*answer + time.Second; proven > most || !direct {
			t.Errorf("answers of %s: proven after %s, by the agent itself: %v", answer, proven, direct)
		}
	}
	if _, _, direct := fenced(t, 100*time.Millisecond, 0); direct {
		t.Error("a quick BMC is not left to the distribution's agent")
	}
}

// TestSlowBMCsLeaveOneHostToo replays a cut: the first host has the second's power
// cut before the second, which waits, sends its request.
func TestSlowBMCsLeaveOneHostToo(t *testing.T) {
	for _, answer := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, LongestAnswer} {
		second, _, _ := fenced(t, answer, 0)
		first, _, _ := fenced(t, answer, DefaultDelay)
		const spread = 1100 * time.Millisecond // of the two schedulers
		if asked := first - answer; asked < second+spread {
			t.Errorf("answers of %s: the second host is off after %s, and has the first switched off after %s", answer, second, asked)
		}
	}
}

func TestAWholeFenceHasALongestTime(t *testing.T) {
	longest := Longest(time.Minute)
	for _, answer := range []time.Duration{0, time.Second, 5 * time.Second, LongestAnswer, time.Minute} {
		for _, delay := range []time.Duration{0, DefaultDelay} {
			if got := (Progress{Delay: delay, Budget: time.Minute, Answer: answer}).Limit() + OnBudget(40*time.Second, answer); got > longest {
				t.Errorf("answers of %s, delay %s: %s, longest %s", answer, delay, got, longest)
			}
		}
	}
}
