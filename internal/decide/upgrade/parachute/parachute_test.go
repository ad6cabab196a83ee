package parachute

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// proven returns a complete proof.
func proven() Proof {
	p := Proof{}
	for _, c := range Criteria() {
		p[c.ID] = state.Known(true)
	}
	return p
}

// at returns a host of two in a step, 100 s after its switch, that everybody is well
// with.
func at(s Step) (Journal, Facts) {
	j := Journal{Upgrade: "u1", From: "old", To: "new", Step: s, Since: noon.Add(-50 * time.Second), Switched: noon.Add(-150 * time.Second), Deadline: noon.Add(150 * time.Second), Attempts: 1, Boot: "b1"}
	f := Facts{
		Kind: OfTwo, Turn: state.Known(Turn{Wish: Go, Upgrade: "u1", From: "old", To: "new"}), Boot: "b1", Up: time.Hour, Running: "new", Previous: "old", Whole: state.Known(true), Newer: state.Known(""), Closed: state.Known(false),
		Serves: state.Known(true), PeerServes: state.Known(true), Spare: state.Known(true), Daemons: true, Released: true, Emptied: true, Quiet: true, Timer: true, Proof: proven(),
	}
	if s == None || s == Prepare || s == Leave || s == Armed || s == Returned {
		j.Switched, j.Deadline, f.Running = time.Time{}, time.Time{}, "old"
	}
	if s == None {
		j = Journal{}
	}
	return j, f
}

// raised is a host at an older functional level, whose servers the cluster raises.
func raised(change func(*Journal, *Facts)) func(*Journal, *Facts) {
	return func(j *Journal, f *Facts) {
		j.Closed, f.Closed, f.Held, f.Risen = true, state.Known(true), true, state.Known(false)
		f.Turn.Value.Wish, f.Turn.Value.Raise = Stay, true
		if change != nil {
			change(j, f)
		}
	}
}

// back is a host with pods that an administrator takes back.
func back(change func(*Journal, *Facts)) func(*Journal, *Facts) {
	return func(j *Journal, f *Facts) {
		f.Emptied, f.Turn.Value.Wish = false, GoBack
		if change != nil {
			change(j, f)
		}
	}
}

// alone is a host whose Corosync has had no other host for a minute, and whose etcd does not answer.
func alone(change func(*Journal, *Facts)) func(*Journal, *Facts) {
	return func(j *Journal, f *Facts) {
		j.Apart, f.Apart, f.Proof["etcd"] = noon.Add(-time.Minute), state.Known(true), state.Known(false)
		if change != nil {
			change(j, f)
		}
	}
}

// gone is a host whose peer was taken out for good.
func gone(change func(*Journal, *Facts)) func(*Journal, *Facts) {
	return func(j *Journal, f *Facts) {
		f.PeerServes, f.PeerAway, f.PeerGone = state.Fact[bool]{}, time.Hour, true
		if change != nil {
			change(j, f)
		}
	}
}

// ofThree is one of three control planes, with what is known of the other two.
func ofThree(spare state.Fact[bool], few bool, change func(*Journal, *Facts)) func(*Journal, *Facts) {
	return func(j *Journal, f *Facts) {
		f.Kind, f.Spare, f.Few = OfMore, spare, few
		if change != nil {
			change(j, f)
		}
	}
}

func TestWhatAHostDoesNext(t *testing.T) {
	var out strings.Builder
	needed := map[string]bool{}
	for _, c := range []struct {
		step   Step
		what   string
		change func(*Journal, *Facts)
	}{
		{None, "has no turn", func(_ *Journal, f *Facts) { f.Turn.Value.Wish = Stay }},
		{None, "does not know whether it has a turn", func(_ *Journal, f *Facts) { f.Turn = state.Fact[Turn]{} }},
		{None, "has its turn", nil},
		{None, "has its turn, and its peer is not known to serve", func(_ *Journal, f *Facts) { f.PeerServes = state.Fact[bool]{} }},
		{None, "has its turn, and its peer is not known to serve for long", func(_ *Journal, f *Facts) { f.PeerServes, f.PeerAway = state.Fact[bool]{}, stillHere }},
		{None, "has its turn, and is alone on its site", func(_ *Journal, f *Facts) { f.Kind, f.PeerServes = Alone, state.Fact[bool]{} }},
		{Prepare, "leads etcd", func(_ *Journal, f *Facts) { f.Released = false }},
		{Prepare, "leads nothing", nil},
		{Prepare, "leads nothing, and a host of the new release has led for 59 s", func(_ *Journal, f *Facts) { f.Trial = time.Second }},
		{Prepare, "a host of the new release leads, and has not served for 30 s", func(_ *Journal, f *Facts) {
			f.Trial, f.PeerServes, f.PeerAway = time.Second, state.Known(false), 30*time.Second
		}},
		{Prepare, "its peer gives no answer in time", func(_ *Journal, f *Facts) { f.PeerServes = state.Fact[bool]{} }},
		{Prepare, "its peer gives no answer in time, and Corosync has it", func(_ *Journal, f *Facts) {
			f.PeerServes, f.PeerAway, f.Apart = state.Fact[bool]{}, 9*time.Second, state.Known(false)
		}},
		{Prepare, "its peer gives no answer in time, and Corosync has no other host", func(_ *Journal, f *Facts) {
			f.PeerServes, f.Apart = state.Fact[bool]{}, state.Known(true)
		}},
		{Prepare, "its peer has been away for 29 s", func(_ *Journal, f *Facts) { f.PeerServes, f.PeerAway = state.Known(false), 29*time.Second }},
		{Prepare, "its peer has been away for 30 s", func(_ *Journal, f *Facts) { f.PeerServes, f.PeerAway = state.Known(false), 30*time.Second }},
		{Prepare, "a drain does not end", func(j *Journal, f *Facts) { f.Released, j.Since = false, noon.Add(-31*time.Minute) }},
		{Leave, "its etcd has not left", func(_ *Journal, f *Facts) { f.Quiet = false }},
		{Leave, "is quiet", nil},
		{Leave, "is quiet, and its peer gives no answer in time", func(_ *Journal, f *Facts) { f.PeerServes, f.PeerAway = state.Fact[bool]{}, 9*time.Second }},
		{Leave, "its daemons have been ending for 10 min", func(j *Journal, f *Facts) { f.Quiet, j.Since = false, noon.Add(-10*time.Minute) }},
		{Leave, "its daemons have been ending for longer", func(j *Journal, f *Facts) { f.Quiet, j.Since = false, noon.Add(-10*time.Minute-1) }},
		{Leave, "its peer has been away for 10 s", func(_ *Journal, f *Facts) { f.PeerServes, f.PeerAway = state.Known(false), 10*time.Second }},
		{Leave, "it boots", func(_ *Journal, f *Facts) { f.Boot = "b2" }},
		{Armed, "the timer does not run yet", func(_ *Journal, f *Facts) { f.Timer = false }},
		{Armed, "the timer has not run for 5 min", func(j *Journal, f *Facts) { f.Timer, j.Since = false, noon.Add(-5*time.Minute) }},
		{Armed, "the timer has not run for longer", func(j *Journal, f *Facts) { f.Timer, j.Since = false, noon.Add(-5*time.Minute-1) }},
		{Armed, "the timer runs", nil},
		{Armed, "the timer runs, and its peer gives no answer in time", func(_ *Journal, f *Facts) { f.PeerServes = state.Fact[bool]{} }},
		{Armed, "its peer has been away for 10 s", func(_ *Journal, f *Facts) { f.PeerServes, f.PeerAway = state.Fact[bool]{}, 10*time.Second }},
		{Armed, "the turn is taken back", func(_ *Journal, f *Facts) { f.Turn.Value.Wish = Stay }},
		{Armed, "the power was cut right after the switch", func(_ *Journal, f *Facts) { f.Running, f.Boot = "new", "b2" }},
		{Switched, "the switch has not followed the journal", func(_ *Journal, f *Facts) { f.Running = "old" }},
		{Switched, "the switch has not followed the journal, and the host booted", func(_ *Journal, f *Facts) { f.Running, f.Boot = "old", "b2" }},
		{Switched, "the switch leads there", nil},
		{Started, "somebody has led the link back, and the host booted", func(_ *Journal, f *Facts) { f.Running, f.Boot = "old", "b2" }},
		{Started, "daemons start", func(_ *Journal, f *Facts) { f.Daemons = false }},
		{Started, "daemons do not start, and the deadline has passed", func(j *Journal, f *Facts) {
			f.Daemons, f.Proof, f.Serves, j.Deadline = false, nil, state.Known(false), noon
		}},
		{Started, "daemons do not start, late, and the old images are gone", func(j *Journal, f *Facts) {
			f.Daemons, f.Proof, f.Serves, j.Deadline, f.Whole = false, nil, state.Known(false), noon, state.Known(false)
		}},
		{Switched, "the switch does not lead there, late, and the old images are gone", func(j *Journal, f *Facts) {
			f.Running, f.Proof, j.Deadline, f.Whole = "old", nil, noon, state.Known(false)
		}},
		{Started, "they run", nil},
		{Proving, "nothing is known yet", func(j *Journal, f *Facts) { f.Proof, j.Switched = nil, noon }},
		{Proving, "all is shown", nil},
		{Proving, "all is shown, late", func(j *Journal, _ *Facts) { j.Deadline = noon }},
		{Proving, "etcd does not answer after 89 s", func(j *Journal, f *Facts) {
			f.Proof["etcd"], j.Switched = state.Known(false), noon.Add(-89*time.Second)
		}},
		{Proving, "etcd does not answer after 90 s", func(j *Journal, f *Facts) {
			f.Proof["etcd"], j.Switched = state.Known(false), noon.Add(-90*time.Second)
		}},
		{Proving, "Corosync has no other host any more, and the deadline has passed", alone(func(j *Journal, _ *Facts) { j.Apart, j.Deadline = time.Time{}, noon })},
		{Proving, "etcd does not answer after 90 s, and Corosync has no other host", alone(nil)},
		{Proving, "Corosync has another host again, and the deadline has passed", alone(func(j *Journal, f *Facts) { f.Apart, j.Deadline = state.Known(false), noon })},
		{Started, "Corosync has another host again", alone(func(_ *Journal, f *Facts) { f.Apart, f.Daemons = state.Known(false), false })},
		{Proving, "nobody knows whether Corosync has another host again", alone(func(_ *Journal, f *Facts) { f.Apart = state.Fact[bool]{} })},
		{Proving, "etcd does not answer, and Corosync has had another host for 89 s", alone(func(j *Journal, f *Facts) { f.Apart, j.Joined = state.Known(false), noon.Add(-89*time.Second) })},
		{Proving, "etcd does not answer, and Corosync has had another host for 90 s", alone(func(j *Journal, f *Facts) { f.Apart, j.Joined = state.Known(false), noon.Add(-90*time.Second) })},
		{Proving, "the deadline has passed, and Corosync has no other host", alone(func(j *Journal, f *Facts) {
			f.Serves, f.PeerServes, j.Deadline = state.Known(false), state.Known(false), noon
		})},
		{Proving, "nobody knows whether etcd answers after 90 s", func(_ *Journal, f *Facts) { delete(f.Proof, "etcd") }},
		{Proving, "the peer sees something else", func(_ *Journal, f *Facts) { f.Proof["peer-view"] = state.Known(false) }},
		{Proving, "the deadline has passed", func(j *Journal, f *Facts) { f.Proof, j.Deadline = nil, noon }},
		{Proving, "the clock went back a day", func(j *Journal, f *Facts) { f.Proof, j.Switched = nil, noon.AddDate(0, 0, 1) }},
		{Proving, "it boots once", func(_ *Journal, f *Facts) { f.Boot = "b2" }},
		{Proving, "it has booted twice", func(j *Journal, f *Facts) { f.Proof, j.Boots = nil, 2 }},
		{Proving, "its agent hung three times", func(_ *Journal, f *Facts) { f.Proof, f.Watchdog = nil, 3 }},
		{Proving, "an administrator goes back", func(_ *Journal, f *Facts) { f.Turn.Value.Wish = GoBack }},
		{Proving, "late, and it serves alone", func(j *Journal, f *Facts) {
			f.Proof, j.Deadline, f.PeerServes = nil, noon, state.Fact[bool]{}
		}},
		{None, "has its turn, and the other host was taken out", gone(nil)},
		{Prepare, "leads nothing, and the other host was taken out", gone(nil)},
		{Proving, "the other host was taken out, and nobody else can see it", gone(func(_ *Journal, f *Facts) {
			delete(f.Proof, "peer-view")
			f.Proof["pacemaker"] = state.Known(false)
		})},
		{Proving, "the other host was taken out, and its API server is not ready", gone(func(_ *Journal, f *Facts) { f.Proof["api-server"] = state.Known(false) })},
		{Proving, "the other host was taken out, and an administrator goes back", gone(func(_ *Journal, f *Facts) { f.Turn.Value.Wish = GoBack })},
		{Accepted, "the other host was taken out, and an administrator goes back", gone(func(_ *Journal, f *Facts) { f.Turn.Value.Wish = GoBack })},
		{Accepted, "the other host was taken out, and its servers are raised", raised(gone(nil))},
		{Accepted, "the other host was taken out, and its API server is not ready yet", raised(gone(func(_ *Journal, f *Facts) { f.Risen, f.Serves = state.Known(true), state.Known(false) }))},
		{Proving, "late, alone, and it does not serve", func(j *Journal, f *Facts) {
			f.Proof, j.Deadline, f.PeerServes, f.Serves = nil, noon, state.Fact[bool]{}, state.Known(false)
		}},
		{Proving, "late, and etcd's data are newer", func(j *Journal, f *Facts) { f.Proof, j.Deadline, f.Newer = nil, noon, state.Known("etcd's data") }},
		{Proving, "late, and the old images are gone", func(j *Journal, f *Facts) { f.Proof, j.Deadline, f.Whole = nil, noon, state.Known(false) }},
		{Proving, "the journal was torn", func(_ *Journal, f *Facts) { f.Unreadable, f.Kept = true, true }},
		{Accepted, "the journal was torn, and nothing leads back", func(_ *Journal, f *Facts) { f.Unreadable = true }},
		{Returned, "the journal was torn, and nothing leads back", func(_ *Journal, f *Facts) { f.Unreadable, f.Previous = true, "new" }},
		{Proving, "the journal was torn, and there is no old release", func(_ *Journal, f *Facts) { f.Unreadable, f.Previous = true, "" }},
		{Accepted, "it rests", nil},
		{Accepted, "the way back is closed", func(_ *Journal, f *Facts) { f.Closed = state.Known(true) }},
		{Accepted, "an administrator goes back", func(_ *Journal, f *Facts) { f.Turn.Value.Wish = GoBack }},
		{Accepted, "an administrator goes back, and pods are there", back(nil)},
		{Accepted, "its pods have been moving for 599 s", back(func(j *Journal, _ *Facts) { j.Empties = noon.Add(-599 * time.Second) })},
		{Accepted, "its pods have been moving for 600 s", back(func(j *Journal, _ *Facts) { j.Empties = noon.Add(-600 * time.Second) })},
		{Accepted, "its pods have moved", back(func(j *Journal, f *Facts) { j.Empties, f.Emptied = noon.Add(-time.Minute), true })},
		{Accepted, "its pods move, and the clock went back a day", back(func(j *Journal, _ *Facts) { j.Empties = noon.AddDate(0, 0, 1) })},
		{Accepted, "its pods move, and its peer goes", back(func(j *Journal, f *Facts) { j.Empties, f.PeerServes = noon.Add(-time.Minute), state.Known(false) })},
		{Accepted, "its pods move, and an administrator goes on after all", back(func(j *Journal, f *Facts) { j.Empties, f.Turn.Value.Wish = noon.Add(-time.Minute), Stay })},
		{Accepted, "its pods move, and nobody knows what the cluster wants", back(func(j *Journal, f *Facts) { j.Empties, f.Turn = noon.Add(-time.Minute), state.Fact[Turn]{} })},
		{Accepted, "an administrator takes a worker back, and pods are there", back(func(_ *Journal, f *Facts) {
			f.Kind, f.Serves, f.PeerServes = Worker, state.Fact[bool]{}, state.Fact[bool]{}
		})},
		{Proving, "an administrator goes back, and pods are there", func(_ *Journal, f *Facts) { f.Emptied, f.Turn.Value.Wish = false, GoBack }},
		{Proving, "the deadline has passed, and pods are there", func(j *Journal, f *Facts) { f.Proof, j.Deadline, f.Emptied = nil, noon, false }},
		{Accepted, "an administrator goes back, and the way back is closed", func(_ *Journal, f *Facts) { f.Turn.Value.Wish, f.Closed = GoBack, state.Known(true) }},
		{Accepted, "its servers are raised", raised(nil)},
		{Accepted, "its servers are raised, and the journal does not know yet that the way back is closed", raised(func(j *Journal, _ *Facts) { j.Closed = false })},
		{Accepted, "its servers are raised, and the cluster does not say that the way back is closed", raised(func(j *Journal, f *Facts) { j.Closed, f.Closed = false, state.Known(false) })},
		{Accepted, "its API server restarts", raised(func(_ *Journal, f *Facts) { f.Risen, f.Serves = state.Fact[bool]{}, state.Known(false) })},
		{Accepted, "its servers are raised, and its peer is not known to serve", raised(func(_ *Journal, f *Facts) { f.PeerServes = state.Fact[bool]{} })},
		{Accepted, "its servers are raised, and it is alone on its site", raised(func(_ *Journal, f *Facts) { f.Kind, f.PeerServes = Alone, state.Known(false) })},
		{Accepted, "its servers have risen, and its API server is not ready", raised(func(_ *Journal, f *Facts) { f.Risen, f.Serves = state.Known(true), state.Known(false) })},
		{Accepted, "its servers have risen, and other ones have not", raised(func(_ *Journal, f *Facts) { f.Risen = state.Known(true) })},
		{Accepted, "its kubelet is raised", raised(func(_ *Journal, f *Facts) { f.Risen, f.Turn.Value.Kubelet = state.Known(true), true })},
		{Accepted, "its kubelet is raised, and its peer is not known to serve", raised(func(_ *Journal, f *Facts) {
			f.Risen, f.Turn.Value.Kubelet, f.PeerServes = state.Known(true), true, state.Fact[bool]{}
		})},
		{Accepted, "kubelet of a worker is raised", raised(func(_ *Journal, f *Facts) {
			f.Kind, f.Risen, f.Turn.Value.Kubelet, f.PeerServes, f.Serves = Worker, state.Fact[bool]{}, true, state.Fact[bool]{}, state.Fact[bool]{}
		})},
		{Accepted, "its kubelet was ended for the raise", raised(func(_ *Journal, f *Facts) {
			f.Risen, f.Serves, f.Daemons, f.Held, f.Turn.Value.Kubelet = state.Fact[bool]{}, state.Known(false), false, false, true
		})},
		{Accepted, "it is raised", raised(func(_ *Journal, f *Facts) { f.Risen, f.Held, f.Turn.Value.Kubelet = state.Known(true), false, true })},
		{Accepted, "it is raised, and of two releases of one minor release", raised(func(_ *Journal, f *Facts) { f.Risen, f.Held = state.Known(true), false })},
		{None, "it never left, and is raised", func(_ *Journal, f *Facts) {
			f.Running, f.Closed, f.Turn.Value = "new", state.Known(true), Turn{Wish: Stay, Upgrade: "u1", From: "old", To: "new", Raise: true}
		}},
		{Returning, "the switch leads to the new release", nil},
		{Returning, "the switch leads to the new release, and its peer has gone since", func(_ *Journal, f *Facts) { f.PeerServes = state.Known(false) }},
		{Returning, "the switch leads to the new release, and Corosync has no other host", func(_ *Journal, f *Facts) {
			f.PeerServes, f.Apart = state.Fact[bool]{}, state.Known(true)
		}},
		{Returning, "the switch leads to the new release, and its peer has been away for 10 s", func(_ *Journal, f *Facts) {
			f.PeerServes, f.PeerAway = state.Known(false), 10*time.Second
		}},
		{Returning, "the old release starts", func(_ *Journal, f *Facts) { f.Running, f.Proof, f.Serves = "old", nil, state.Known(false) }},
		{Returning, "the old release does not start", func(j *Journal, f *Facts) {
			f.Running, f.Proof, f.Serves, j.Since, j.Why = "old", nil, state.Known(false), noon.Add(-4*time.Minute), "not shown: its etcd answers"
		}},
		{Returning, "not all daemons of the old release start", func(j *Journal, f *Facts) {
			f.Running, f.Daemons, f.Proof, f.Serves, j.Since, j.Why = "old", false, nil, state.Known(false), noon.Add(-4*time.Minute), "not shown: its etcd answers"
		}},
		{Returning, "it booted", func(_ *Journal, f *Facts) { f.Boot = "b2" }},
		{Returning, "the old release serves", func(_ *Journal, f *Facts) { f.Running = "old" }},
		{None, "has its turn, and is one of three", ofThree(state.Known(true), false, nil)},
		{None, "has its turn, and one of the other two does not serve", ofThree(state.Known(false), false, nil)},
		{Prepare, "of three, and one of the other two does not serve", ofThree(state.Known(false), false, nil)},
		{Prepare, "of three, and nobody knows whether both others serve", ofThree(state.Fact[bool]{}, false, nil)},
		{Prepare, "of three, and nobody has known it for long", ofThree(state.Fact[bool]{}, false, func(j *Journal, _ *Facts) { j.Since = noon.Add(-3 * time.Minute) })},
		{Leave, "of three, and another one serves without it", ofThree(state.Known(false), false, nil)},
		{Proving, "of three, late, and one of the other two does not serve", ofThree(state.Known(false), false, func(j *Journal, f *Facts) { j.Deadline, f.Proof["kubelet"] = noon, state.Fact[bool]{} })},
		{Proving, "of three, one of the other two does not serve, and an administrator goes back", ofThree(state.Known(false), false, func(_ *Journal, f *Facts) { f.Turn.Value.Wish = GoBack })},
		{Accepted, "of three, one of the other two does not serve, and an administrator goes back", ofThree(state.Known(false), false, func(_ *Journal, f *Facts) { f.Turn.Value.Wish = GoBack })},
		{Accepted, "of three, the third one was taken out, and an administrator goes back", ofThree(state.Known(false), true, func(_ *Journal, f *Facts) { f.Turn.Value.Wish = GoBack })},
		{Returned, "it tries again", nil},
		{Returned, "it has its turn for the second attempt", func(_ *Journal, f *Facts) { f.Turn.Value.Attempt = 2 }},
		{Returned, "its turn was for the attempt that it has made", func(_ *Journal, f *Facts) { f.Turn.Value.Attempt = 1 }},
		{Returned, "it would try again, and its peer serves again only now", func(_ *Journal, f *Facts) { f.PeerBack = true }},
		{Returned, "its daemons were not started again", func(_ *Journal, f *Facts) { f.Daemons = false }},
		{Returned, "it has tried twice", func(j *Journal, _ *Facts) { j.Attempts, j.Why = 2, "boot 2 without having been accepted" }},
		{Returned, "the new release failed there", func(j *Journal, _ *Facts) { j.Failed, j.Why = true, "not accepted" }},
		{Returned, "another upgrade begins", func(j *Journal, f *Facts) { j.Attempts, f.Turn.Value.Upgrade = 2, "u2" }},
	} {
		j, f := at(c.step)
		if c.change != nil {
			c.change(&j, &f)
		}
		a := Next(j, f, noon)
		for i, r := range rules {
			if !reflect.DeepEqual(decide(slices.Delete(slices.Clone(rules), i, i+1), j, f, noon), a) {
				needed[r.name] = true
			}
		}
		fmt.Fprintf(&out, "%s: %s\n  %s -> %q, attempt %d: %s\n", c.step, c.what, a.Act, a.Journal.Step, a.Journal.Attempts, a.Why)
		if a.Held != "" {
			fmt.Fprintf(&out, "  held: %s\n", a.Held)
		}
		if a.Remain {
			out.WriteString("  it may have its virtual IPs again\n")
		}
	}
	for _, r := range rules {
		if !needed[r.name] {
			t.Errorf("without the rule %q nothing changes", r.name)
		}
	}
	golden.Check(t, "host.txt", []byte(out.String()))
}

// trouble is a host with a reason to return, and everything that may keep it from it.
type trouble struct {
	cause               string
	step                Step
	kind                Kind
	serves, peer, spare state.Fact[bool]
	whole, closed       state.Fact[bool]
	newer               state.Fact[string]
	closedHere          bool
	mayGo, isAlone      bool
}

func troubles() []trouble {
	var out []trouble
	facts := []state.Fact[bool]{{}, state.Known(true), state.Known(false)}
	for _, cause := range []string{"", "late", "boots", "watchdog", "missed", "person"} {
		for _, step := range []Step{Switched, Proving} {
			for _, kind := range []Kind{Worker, Alone, OfTwo, OfMore} {
				for i := range 3 * 3 * 3 * 3 * 3 * 2 * 3 {
					b := func(n int) state.Fact[bool] { return facts[i/n%3] }
					tr := trouble{cause: cause, step: step, kind: kind, serves: b(1), peer: b(3), whole: b(9), closed: b(27), closedHere: i/243%2 == 1, spare: b(486), newer: []state.Fact[string]{{}, state.Known("x"), state.Known("")}[i/81%3]}
					tr.isAlone = (kind != Alone || cause != "person") && kind != Worker && !state.Is(tr.serves, false) && !state.Is(tr.peer, true)
					stops := kind == OfMore && cause != "person" && !state.Is(tr.serves, false) && !state.Is(tr.spare, true)
					tr.mayGo = !tr.isAlone && !stops && state.Is(tr.whole, true) && !state.Is(tr.closed, true) && !tr.closedHere && state.Is(tr.newer, "")
					out = append(out, tr)
				}
			}
		}
	}
	return out
}

// wrong says what is wrong with what a host does; empty for nothing.
func (tr trouble) wrong() string {
	j, f := at(tr.step)
	f.Proof, j.Closed = Proof{}, tr.closedHere
	f.Kind, f.Serves, f.PeerServes, f.Spare, f.Whole, f.Closed, f.Newer = tr.kind, tr.serves, tr.peer, tr.spare, tr.whole, tr.closed, tr.newer
	switch tr.cause {
	case "late":
		j.Deadline = noon
	case "boots":
		j.Boots = 2
	case "watchdog":
		f.Watchdog = 3
	case "missed":
		f.Proof["kubelet"] = state.Known(false)
	case "person":
		f.Turn.Value.Wish = GoBack
	}
	a := Next(j, f, noon)
	goes := a.Act == SwitchBack
	switch {
	case goes != (a.Journal.Step == Returning):
		return "the journal says where the switch leads"
	case tr.cause == "" && goes:
		return "nothing is returned without a reason, and what is unknown is none"
	case tr.cause != "" && tr.mayGo != goes:
		return fmt.Sprintf("it goes back: %v", goes)
	case tr.cause != "" && !goes && tr.step == Proving && (a.Act != Hold || a.Why == "" || !a.Journal.Deadline.After(noon)):
		return "who stays says why, and has time to prove itself"
	}
	return ""
}

// TestAHostReturnsForAReasonAndUnlessAVetoSpeaks has each reason with each state of what
// keeps a host from a return: a lone host that serves is never returned, and each veto
// is needed.
func TestAHostReturnsForAReasonAndUnlessAVetoSpeaks(t *testing.T) {
	for _, tr := range troubles() {
		if why := tr.wrong(); why != "" {
			t.Fatalf("%s: %+v", why, tr)
		}
	}
	whole := vetoes
	t.Cleanup(func() { vetoes = whole })
	for i, v := range whole {
		vetoes = slices.Delete(slices.Clone(whole), i, i+1)
		if !slices.ContainsFunc(troubles(), func(tr trouble) bool { return tr.wrong() != "" }) {
			t.Errorf("without the veto %q nothing is wrong", v.name)
		}
	}
}

// TestEachCriterionIsJudgedAtItsLimit for each kind of host.
func TestEachCriterionIsJudgedAtItsLimit(t *testing.T) {
	for _, c := range Criteria() {
		for _, kind := range []Kind{Worker, Alone, OfTwo, OfMore} {
			for what, fact := range map[string]state.Fact[bool]{"unknown": {}, "false": state.Known(false), "true": state.Known(true)} {
				for _, age := range []time.Duration{0, c.Limit - 1, c.Limit, whole} {
					p := proven()
					p[c.ID] = fact
					failed, open := missed(p, kind, age)
					judged := c.Of&kind != 0 && age >= c.Limit && what != "true"
					if len(failed)+len(open) != map[bool]int{true: 1}[judged] || (len(failed) > 0) != (judged && what == "false" && c.Miss == Return) || complete(p, kind) != (what == "true" || c.Of&kind == 0) {
						t.Errorf("%s of kind %d is %s after %s: failed %v, open %v", c.ID, kind, what, age, failed, open)
					}
				}
			}
		}
	}
}

// TestTheTimeOfAProofBeginsAnewAtABoot: whatever the clock says at the boot and afterwards, a host is
// judged no sooner than a minute and a half after it, and no later than five minutes.
func TestTheTimeOfAProofBeginsAnewAtABoot(t *testing.T) {
	const day = 24 * time.Hour
	for what, clock := range map[string][2]time.Duration{
		"it is right": {}, "it is behind, and then right": {-day, 0}, "it is ahead, and then right": {day, 0}, "it stays behind": {-day, -day},
		"it stays ahead": {day, day}, "it goes back later": {0, -day}, "it goes ahead later": {0, day},
	} {
		for _, missing := range []state.Fact[bool]{state.Known(false), {}} {
			j, f := at(Proving)
			f.Boot, f.Up, f.Proof["etcd"] = "b2", 20*time.Second, missing
			booted := noon.Add(10 * time.Minute) // long after its deadline
			a := Next(j, f, booted.Add(clock[0]))
			if a.Act != Prove || a.Journal.Boots != 1 {
				t.Fatalf("%s: %+v", what, a)
			}
			left := time.Duration(0)
			for after := 2 * time.Second; left == 0 && after < 10*time.Minute; after += 2 * time.Second {
				f.Up = 20*time.Second + after
				if a = Next(a.Journal, f, booted.Add(clock[1]+after)); a.Act == SwitchBack {
					left = after
				}
			}
			least, most := 70*time.Second, 90*time.Second
			if !missing.Known {
				least, most = 280*time.Second, 300*time.Second
			}
			if left < least || left > most {
				t.Errorf("%s, etcd %v: it returns after %s: %s", what, missing, left, a.Why)
			}
		}
	}
}

// TestAJournalOutlivesATornWrite has each of two files cut off anywhere, flipped, and of
// another format.
func TestAJournalOutlivesATornWrite(t *testing.T) {
	j, _ := at(Proving)
	older, newer := Encode(Journal{From: "old", To: "new", Step: Leave}, 6), Encode(j, 7)
	read := func(a, b []byte) (Step, int, error) { got, n, err := Read([2][]byte{a, b}); return got.Step, n, err }
	got, n, err := Read([2][]byte{older, newer})
	if err != nil || n != 7 || !reflect.DeepEqual(got, j) {
		t.Fatalf("%+v, %d, %v", got, n, err)
	}
	if s, n, err := read(nil, nil); s != None || n != 0 || err != nil {
		t.Errorf("no file: %s %d %v", s, n, err)
	}
	for i := 1; i < len(newer); i++ {
		flipped := slices.Clone(newer)
		flipped[i] ^= 1
		for _, bad := range [][]byte{newer[:i], flipped} {
			if s, n, err := read(older, bad); s != Leave || n != 6 || err != nil {
				t.Fatalf("%s: %s %d %v", bad, s, n, err)
			}
			if _, _, err := read(nil, bad); !errors.Is(err, ErrUnreadable) {
				t.Fatalf("%s alone: %v", bad, err)
			}
		}
	}
	for what, text := range map[string]string{"a later format": strings.Replace(string(newer), `"format":1`, `"format":2`, 1), "a step of later": string(Encode(Journal{Step: "flying"}, 8))} {
		if s, _, err := read(older, []byte(text)); s != Leave || err != nil {
			t.Errorf("%s: %s %v", what, s, err)
		}
	}
}

// TestWhatWasNotShownOnceIsUnknown: two looks have to miss the same.
func TestWhatWasNotShownOnceIsUnknown(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for _, c := range []struct{ before, now, want state.Fact[bool] }{
		{no, no, no}, {yes, no, unknown}, {unknown, no, unknown}, {no, yes, yes}, {yes, yes, yes}, {no, unknown, unknown},
	} {
		now := Proof{"etcd": c.now}
		if got := now.Twice(Proof{"etcd": c.before}); got["etcd"] != c.want || now["etcd"] != c.now {
			t.Errorf("%+v, and before %+v: %+v, and not %+v", c.now, c.before, got["etcd"], c.want)
		}
	}
	if got := (Proof{"etcd": no}).Twice(nil); got["etcd"] != unknown {
		t.Errorf("at the first look: %+v", got)
	}
}
