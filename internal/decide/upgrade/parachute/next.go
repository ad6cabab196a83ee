package parachute

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Limits.
const (
	// prepareLimit is how long a host that still serves may take until it leaves. After that it
	// serves nobody: leaveLimit is for the end of its daemons, of which Pacemaker may take four
	// minutes and may be asked twice, and armLimit for the parachute, which takes seconds.
	prepareLimit = 30 * time.Minute
	leaveLimit   = 10 * time.Minute
	armLimit     = 5 * time.Minute
	// returnLimit is how long a return may take.
	returnLimit = 3 * time.Minute
	// TrialTime is how long hosts of the new release lead before the next control plane
	// leaves for it.
	TrialTime = time.Minute
	// stillHere is for how long a host that still serves waits until another control plane is known to
	// serve, before it ends its way. On two busy cores an API server that is well gave no answer in
	// time for up to twenty seconds, and two attempts were undone for that (lab, 2026-11-27).
	// hasLeft is the same for one that serves no more: perhaps nobody does.
	stillHere = 30 * time.Second
	hasLeft   = 10 * time.Second
	// again is the time for the proof once a lone host is no longer alone.
	again = time.Minute
	// maxBoots is the boot at which a host returns that is not accepted, maxWatchdog
	// how often its agent may hang, MaxAttempts how often a host begins a way.
	maxBoots    = 2
	maxWatchdog = 3
	MaxAttempts = 2
)

// decision is a host's state while it decides.
type decision struct {
	j   Journal
	f   Facts
	now time.Time
}

// rule is a row of a table: the first one that has an answer decides.
type rule struct {
	name   string
	answer func(decision) (Action, bool)
}

// rules is the table of a host.
var rules = []rule{
	{"unreadable", decision.unreadable},
	{"switched by now", decision.crashedAtSwitch},
	{"boot", decision.countBoot},
	{"apart", decision.apart},
	{"closed", decision.closed},
	{"returning", decision.returning},
	{"accept", decision.accept},
	{"empty", decision.empty},
	{"go back", decision.goBack},
	{"undo", decision.undo},
	{"await", decision.await},
	{"raise", decision.raise},
	{"forward", decision.forward},
}

// vetoes keep a host from a return. The first one that has a reason counts.
var vetoes = []veto{
	{"closed", decision.vetoClosed},
	{"newer data", decision.vetoNewer},
	{"old release", decision.vetoOld},
	{"alone", decision.vetoAlone},
	{"majority", decision.vetoMajority},
}

type veto struct {
	name string
	why  func(decision) string
}

// Next decides what a host does next. It changes nothing that it is given.
func Next(j Journal, f Facts, now time.Time) Action { return decide(rules, j, f, now) }

func decide(table []rule, j Journal, f Facts, now time.Time) Action {
	d := decision{j, f, now}
	for _, r := range table {
		if a, ok := r.answer(d); ok {
			return a
		}
	}
	return Action{Act: Rest, Journal: j}
}

// to returns an action that begins a step, unless the host is in it already.
func (d decision) to(s Step, act Act, why string) (Action, bool) {
	j := d.j
	if j.Step != s {
		j.Step, j.Since = s, d.now
	}
	return Action{Act: act, Journal: j, Why: why}, true
}

// unreadable sends a host with a torn journal to its old release, unless that was
// removed, a veto speaks, or the host was at rest: then nothing leads it back.
func (d decision) unreadable() (Action, bool) {
	if !d.f.Unreadable {
		return Action{}, false
	}
	const why = "the journal of the upgrade cannot be read"
	d.j = Journal{Upgrade: d.f.Turn.Value.Upgrade, From: d.f.Previous, To: d.f.Running, Step: Proving, Since: d.now, Switched: d.now, Deadline: d.now, Boot: d.f.Boot, Attempts: MaxAttempts}
	d.j.Back = d.f.Turn.Value.Back && d.f.Turn.Value.To == d.f.Running // it has switched on that way
	if d.f.Previous == "" || d.f.Previous == d.f.Running {
		d.j.From = d.f.Running
		return d.to(Returned, Hold, why+"; the host stays on its release")
	}
	if !d.f.Kept {
		return d.wasAtRest(why)
	}
	return d.giveUp(why, false)
}

// crashedAtSwitch reads from the switch itself what a crash at it left.
func (d decision) crashedAtSwitch() (Action, bool) {
	switch switched := d.f.Running == d.j.To && d.j.To != ""; {
	case d.j.Step == Armed && switched:
		d.j.Switched = d.j.Since
		return d.to(Switched, Start, "the host was cut off right after its switch")
	case (d.j.Step == Switched || d.j.Step == Started || d.j.Step == Proving) && !switched && d.f.Boot != d.j.Boot:
		d.j.Boot, d.j.Why = d.f.Boot, "the power was cut before the switch"
		if d.j.Step != Switched { // it ran the new release, so a person has led the link back
			d.j.Failed, d.j.Why = true, "somebody has led the host back by hand"
		}
		return d.to(Returned, Undo, d.j.Why)
	}
	return Action{}, false
}

// countBoot notes a boot once.
func (d decision) countBoot() (Action, bool) {
	if d.j.Step.AtRest() || d.f.Boot == d.j.Boot {
		return Action{}, false
	}
	d.j.Boot = d.f.Boot
	if d.j.Step == Switched || d.j.Step == Started || d.j.Step == Proving {
		// It can show nothing while it has no power: its time begins anew. Boots end that.
		d.j.Boots++
		d.j.Switched, d.j.Deadline = d.now, d.now.Add(whole)
		return Action{Act: Prove, Journal: d.j, Why: fmt.Sprintf("boot %d with the new release, which is not accepted", d.j.Boots)}, true
	}
	if d.j.Step == Returning {
		return d.returning()
	}
	d.j.Why = "the host booted before its switch"
	return d.to(Returned, Undo, d.j.Why)
}

// closed keeps in the journal that the way back is closed, so that a host knows it
// without the API.
func (d decision) closed() (Action, bool) {
	if !state.Is(d.f.Closed, true) || d.j.Closed || d.j.Step != Accepted {
		return Action{}, false
	}
	d.j.Closed = true
	return Action{Act: Rest, Journal: d.j, Why: "the way back is closed"}, true
}

// returning ends a return, or tells a person that it does not end.
func (d decision) returning() (Action, bool) {
	if d.j.Step != Returning {
		return Action{}, false
	}
	switch {
	case d.f.Running != d.j.From: // a crash came between, and a veto may speak by now
		return d.giveUp(d.j.Why, d.j.Failed)
	case !d.f.Daemons:
		return Action{Act: SwitchBack, Journal: d.j, Why: d.j.Why, Held: d.endless()}, true
	case complete(d.f.Proof, d.kind()) || d.f.Kind != Worker && state.Is(d.f.Serves, true):
		return d.to(Returned, Undo, d.j.Why)
	case d.endless() != "":
		return Action{Act: Hold, Journal: d.j, Why: d.endless()}, true
	}
	return Action{Act: Prove, Journal: d.j, Why: d.j.Why}, true
}

// endless says that a return takes too long; empty if it does not.
func (d decision) endless() string {
	switch {
	case !d.now.After(d.j.Since.Add(returnLimit)):
		return ""
	case !d.f.Daemons:
		return fmt.Sprintf("not all daemons of the old release run %s after the return began: a person has to look (systemctl --failed). It was for: %s", returnLimit, d.j.Why)
	}
	return fmt.Sprintf("the return has not ended within %s: a person has to look. It was for: %s", returnLimit, d.j.Why)
}

// accept comes before all reasons to return: what has proved itself stays.
func (d decision) accept() (Action, bool) {
	if d.j.Step != Proving || d.f.Running != d.j.To || !d.f.Daemons || d.wants(GoBack) || !complete(d.f.Proof, d.kind()) {
		return Action{}, false
	}
	d.j.Boots, d.j.Deadline = 0, time.Time{}
	return d.to(Accepted, Accept, "the new release has shown all that it has to")
}

// goBack finds a reason to return.
func (d decision) goBack() (Action, bool) {
	if d.j.Step == Accepted && d.wants(GoBack) {
		return d.giveUp("an administrator goes back", false)
	}
	if d.j.Step != Switched && d.j.Step != Started && d.j.Step != Proving {
		return Action{}, false
	}
	why, failed, open := d.reason()
	switch {
	case why != "":
		a, ok := d.giveUp(why, failed)
		// A host that may not return goes on and says why. Perhaps it has something to show.
		return a, ok && (a.Act == SwitchBack || d.j.Step == Proving)
	case len(open) > 0 && d.j.Step == Proving:
		return Action{Act: Hold, Journal: d.j, Why: "waiting for what is not known or lies elsewhere: " + words(open)}, true
	}
	return Action{}, false
}

// reason says why a host that runs the new release unproven returns, empty for no
// reason, and whether the new release is to blame. It returns the criteria that are
// open, too.
func (d decision) reason() (why string, failed bool, open []Criterion) {
	bad, open := missed(d.f.Proof, d.kind(), d.age())
	switch {
	case d.wants(GoBack):
		return "an administrator goes back", false, open
	case d.j.Boots >= maxBoots:
		return fmt.Sprintf("boot %d without having been accepted", d.j.Boots), false, open
	case d.f.Watchdog >= maxWatchdog:
		return fmt.Sprintf("the agent of the new release hung %d times", d.f.Watchdog), true, open
	case len(bad) > 0:
		return "not accepted" + notShown(bad), true, open
	case d.late() && d.cutOff(): // the next attempt may show more
		return "not accepted in time: Corosync had no other host", false, open
	case d.late():
		return "not accepted in time" + notShown(open), true, open
	}
	return "", false, open
}

// held says why a host that starts what it switched to does not return, although it would; empty
// if it would not. Perhaps nothing ever starts there, and somebody has to know.
func (d decision) held() string {
	why, failed, _ := d.reason()
	if why == "" {
		return ""
	}
	a, _ := d.giveUp(why, failed)
	return a.Why
}

// starting adds that to what a host does that has switched.
func (d decision) starting(a Action, ok bool) (Action, bool) {
	a.Held = d.held()
	return a, ok
}

// giveUp returns, unless a veto speaks. A lone host that serves gets new time, so that
// it can prove itself once its peer is back.
func (d decision) giveUp(why string, failed bool) (Action, bool) {
	for _, v := range vetoes {
		veto := v.why(d)
		if veto == "" {
			continue
		}
		if !d.j.Step.AtRest() && d.j.Deadline.Before(d.now.Add(again)) {
			d.j.Deadline = d.now.Add(again)
		}
		return Action{Act: Hold, Journal: d.j, Why: fmt.Sprintf("would return (%s), and does not: %s", why, veto), Remain: d.unpeered()}, true
	}
	d.j.Why, d.j.Failed, d.j.Person, d.j.Empties = why, failed, d.person(), time.Time{}
	return d.to(Returning, SwitchBack, why)
}

func (d decision) vetoClosed() string {
	if d.j.Closed || state.Is(d.f.Closed, true) {
		return "the upgrade is committed, and the way back is closed"
	}
	return ""
}

func (d decision) vetoNewer() string {
	switch {
	case !d.f.Newer.Known:
		return "it is not known whether the old release can read the data of this host"
	case d.f.Newer.Value != "":
		return "the old release cannot read " + d.f.Newer.Value
	}
	return ""
}

func (d decision) vetoOld() string {
	if !state.Is(d.f.Whole, true) {
		return "the old release does not lie on this host whole"
	}
	return ""
}

// vetoAlone keeps a host that serves, and perhaps serves alone, where it is.
func (d decision) vetoAlone() string {
	wanted := d.kind() == Alone && d.person() // who knows that it serves alone
	if wanted || d.f.Kind == Worker || state.Is(d.f.Serves, false) || state.Is(d.f.PeerServes, true) {
		return ""
	}
	return "this host serves, and no other one is known to serve"
}

// limits are those of the steps before the switch.
var limits = map[Step]time.Duration{Prepare: prepareLimit, Leave: leaveLimit, Armed: armLimit} //nolint:exhaustive // the others have none

// undo ends a way that has not come to its switch.
func (d decision) undo() (Action, bool) {
	if d.j.Step != Prepare && d.j.Step != Leave && d.j.Step != Armed {
		return Action{}, false
	}
	why := ""
	switch {
	case d.wants(GoBack) || d.wants(Stay):
		why = "the cluster has taken the turn back"
	case d.now.After(d.j.Since.Add(limits[d.j.Step])):
		why = fmt.Sprintf("the host was not ready to switch within %s", limits[d.j.Step])
	case !d.spared() && d.f.PeerAway >= d.patience():
		why = "no other control plane is known to serve"
	case d.unspared():
		why = "etcd would lose its majority without this host"
	default:
		return Action{}, false
	}
	d.j.Why = why
	return d.to(Returned, Undo, why)
}

// spared reports whether the site goes on without this host. A site of one host has
// nobody else.
func (d decision) spared() bool {
	return d.f.Kind == Worker || d.f.Kind == Alone || state.Is(d.f.PeerServes, true)
}

// patience is for how long a host that is on its way bears that no other control plane is known
// to serve.
func (d decision) patience() time.Duration {
	if d.j.Step == Prepare {
		return stillHere
	}
	return hasLeft
}

// await keeps a host that has not switched where it is while no other control plane is known to
// serve.
func (d decision) await() (Action, bool) {
	if d.j.Step != Prepare && d.j.Step != Leave && d.j.Step != Armed || d.spared() {
		return Action{}, false
	}
	return Action{Act: Hold, Journal: d.j, Why: fmt.Sprintf("no other control plane is known to serve: the host waits for one, for up to %s", d.patience()), Remain: d.unpeered()}, true
}

// unpeered reports whether a host that has given its virtual IPs up, and still serves, is the one that
// clients need now: Corosync has no other host, or nobody else has been known to serve for as long as a
// host waits that has left. A single late answer moves no virtual IP.
func (d decision) unpeered() bool {
	return (d.j.Step == Prepare || d.j.Step == Returning) && (state.Is(d.f.Apart, true) || d.f.PeerAway >= hasLeft)
}

// forward takes the next step towards the new release.
func (d decision) forward() (Action, bool) {
	switch d.j.Step {
	case None, Returned, Accepted:
		return d.begin()
	case Prepare:
		if !d.f.Released {
			return d.to(Prepare, DoPrepare, "leadership and VIPs go to other hosts")
		}
		if d.f.Trial > 0 { // what breaks only on a leader breaks while this host can take it all back
			return d.to(Prepare, DoPrepare, "hosts of the new release lead and hold the VIPs, before this one leaves")
		}
		if !d.kept() {
			return d.to(Prepare, DoPrepare, "two other control planes are not known to serve, and etcd would lose its majority")
		}
		return d.to(Leave, DoLeave, "its etcd leaves, and its daemons end")
	case Leave:
		if !d.f.Quiet {
			return d.to(Leave, DoLeave, "its etcd leaves, and its daemons end")
		}
		d.j.Deadline = d.now.Add(whole)
		return d.to(Armed, Arm, "the parachute is ready")
	case Armed:
		if !d.f.Timer {
			return d.to(Armed, Arm, "the parachute is ready")
		}
		d.j.Switched, d.j.Deadline = d.now, d.now.Add(whole)
		return d.to(Switched, Switch, "the switch leads to the new release")
	case Switched:
		if d.f.Running != d.j.To {
			return d.starting(d.to(Switched, Switch, "the switch leads to the new release"))
		}
		return d.starting(d.to(Started, Start, "the new release starts"))
	case Started:
		if !d.f.Daemons {
			return d.starting(d.to(Started, Start, "the new release starts"))
		}
		return d.to(Proving, Prove, "the new release shows what it has to")
	case Proving:
		return d.to(Proving, Prove, "the new release shows what it has to")
	case Returning:
	}
	return Action{}, false
}

// begin begins a way, if the host has its turn for one that it may still try.
func (d decision) begin() (Action, bool) {
	turn := d.f.Turn
	if !d.f.Daemons { // a crash came between the journal and the act
		return Action{Act: Undo, Journal: d.j, Why: "the daemons of the release start again"}, true
	}
	if !turn.Known || turn.Value.Wish != Go || turn.Value.To == d.f.Running {
		return Action{}, false
	}
	switch {
	case !d.spared() && d.f.PeerAway < stillHere: // perhaps one answer was late
		return Action{}, false
	case !d.spared():
		return d.stays("no other control plane is known to serve")
	case !d.kept():
		return d.stays("two other control planes are not known to serve, and etcd would lose its majority")
	}
	attempts := 1
	if d.j.Upgrade == turn.Value.Upgrade {
		if d.j.Failed || d.j.Attempts >= MaxAttempts {
			return Action{Act: Hold, Journal: d.j, Why: fmt.Sprintf("the host went back in attempt %d and does not try again: %s", d.j.Attempts, d.j.Why)}, true
		}
		if d.f.PeerBack { // a site that has just come together is busy, and the last attempt would be undone
			return d.stays("another control plane has not been known to serve for a whole minute, and this is the last attempt")
		}
		if attempts += d.j.Attempts; turn.Value.Attempt > 0 && attempts > turn.Value.Attempt {
			return Action{}, false
		}
	}
	return Action{Act: DoPrepare, Journal: Journal{Upgrade: turn.Value.Upgrade, From: turn.Value.From, To: turn.Value.To, Step: Prepare, Since: d.now, Attempts: attempts, Boot: d.f.Boot, Back: turn.Value.Back}, Why: "leadership and VIPs go to other hosts"}, true
}

// stays says why a host with its turn does not begin. It looks again and again.
func (d decision) stays(why string) (Action, bool) {
	return Action{Act: Hold, Journal: d.j, Why: "has its turn and does not begin: " + why}, true
}

// wants reports whether the cluster is known to want something of this way.
func (d decision) wants(w Wish) bool {
	return d.f.Turn.Known && d.f.Turn.Value.Wish == w
}

// person reports whether an administrator takes the host back.
func (d decision) person() bool { return d.wants(GoBack) || d.j.Step == Returning && d.j.Person }

// age is for how long the new release could show itself. The clock may go either way after a boot: it
// never counts for longer than the boot lasts, and one that went back counts from the boot. Nor does
// the time count in which one of two hosts is apart.
func (d decision) age() time.Duration {
	age := min(d.now.Sub(d.j.Switched), d.f.Up)
	if d.now.Before(d.j.Switched) {
		age = d.f.Up
	}
	if d.wasApart() {
		age = min(age, d.together())
	}
	return age
}

// late reports whether the deadline has passed.
func (d decision) late() bool {
	return d.f.Up >= whole && (d.now.Before(d.j.Switched) || !d.now.Before(d.j.Deadline))
}
