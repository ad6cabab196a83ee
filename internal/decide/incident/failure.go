package incident

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// failure builds the report on a failure from its events; before holds the
// earlier events of the same incident.
func (f *failing) failure(events, before []event) Failure {
	out := Failure{Hosts: slices.Sorted(slices.Values(f.hosts)), By: f.by, At: f.at, Cause: f.became(events)}
	out.Why = f.why(out.Cause)
	t := teller{f: f, events: events, before: before, out: &out}
	for _, tell := range []func(){t.lost, t.fenced, t.person, t.decided, t.etcd, t.clients, t.api, t.vip, t.pods, t.back, t.voters} {
		tell()
	}
	// Moments with a time come first, in their order.
	slices.SortStableFunc(out.Moments, func(a, b Moment) int {
		switch {
		case a.At.IsZero() == b.At.IsZero():
			return a.At.Compare(b.At)
		case a.At.IsZero():
			return 1
		}
		return -1
	})
	return out
}

// became returns the cause, as far as both journals show it.
func (f *failing) became(events []event) Cause {
	if f.cause != Gone {
		if f.cause == Rebooted && len(f.hosts) > 1 {
			return Started
		}
		return f.cause
	}
	if departed(events, f.hosts) {
		return Planned
	}
	if f.mutual || f.ranOn(events) {
		return Cut
	}
	fenced, booted, met := false, false, false
	for _, e := range events {
		fenced = fenced || e.Kind == Fenced && e.OK
		booted = booted || e.Kind == Booted && slices.Contains(f.hosts, e.Host)
		met = met || e.Kind == Members && len(e.Members) > 1
	}
	switch {
	case booted:
		return Lost
	case met && !fenced:
		return Cut
	}
	return Gone
}

// why returns for what a host left that left in order. One that failed on its way is
// told as a failure.
func (f *failing) why(cause Cause) string {
	if cause != Planned && cause != Rebooted || len(f.hosts) != 1 {
		return ""
	}
	return f.plans[f.hosts[0]]
}

// departed reports whether the host that stayed noted that the other one left
// in order, without a fence.
func departed(events []event, hosts []string) bool {
	for _, e := range events {
		if e.Kind == Fenced && slices.Contains(hosts, e.Target) {
			return false
		}
		if e.Kind == Recorded && e.Rule == state.EtcdRulePeerDeparts {
			return true
		}
	}
	return false
}

// ranOn reports whether a lost host still noted something in the same boot,
// some time after it was lost.
func (f *failing) ranOn(events []event) bool {
	return slices.ContainsFunc(events, func(e event) bool {
		return slices.Contains(f.hosts, e.Host) && e.Boot != "" && e.Boot == f.boots[e.Host] && e.t.Sub(f.at) > alive
	})
}

// teller collects the moments of one failure.
type teller struct {
	f      *failing
	events []event
	before []event
	out    *Failure
}

func (t *teller) add(p Phase, e *event, format string, args ...any) {
	m := Moment{Phase: p, Words: fmt.Sprintf(format, args...)}
	if e != nil {
		m.At, m.Host = e.t, e.Host
		m.After = max(0, e.t.Sub(t.f.at))
	}
	t.out.Moments = append(t.out.Moments, m)
}

// first returns the first event that fits, nil if none does.
func (t *teller) first(fits func(event) bool) *event {
	i := slices.IndexFunc(t.events, fits)
	if i < 0 {
		return nil
	}
	return &t.events[i]
}

// by reports whether an event is from the host that went on, or, if no such
// host is known, from any host.
func (t *teller) by(e event) bool { return t.f.by == "" || e.Host == t.f.by }

func (t *teller) about(name string) bool { return slices.Contains(t.f.hosts, name) }

func (t *teller) lost() {
	sees := t.f.by
	if sees == "" {
		sees = t.events[0].Host
	}
	e := &event{Record: Record{Host: sees}, t: t.f.at}
	switch who := list(t.out.Hosts); t.out.Cause {
	case Planned:
		t.add(PhaseLost, e, "Pacemaker stopped etcd on %s cleanly%s", who, t.out.inOrder())
	case Started:
		t.add(PhaseLost, e, "%s had been off and started", who)
	case Rebooted:
		t.add(PhaseLost, e, "%s started%s; its stop was not recorded", who, t.out.inOrder())
	case Trouble:
		t.add(PhaseLost, e, "etcd did not continue by itself, although the hosts saw each other")
	case CopyLost:
		t.add(PhaseLost, e, "etcd could not run from its data directory on %s", who)
	case Cut:
		t.add(PhaseLost, e, "%s and %s lost contact with each other, and both kept running", sees, who)
	case Lost, Gone:
		t.add(PhaseLost, e, "%s lost contact with %s", sees, who)
	}
}

func (t *teller) fenced() {
	tries := 0
	for i, e := range t.events {
		if e.Kind != Fenced || !t.about(e.Target) {
			continue
		}
		tries++
		if e.OK {
			t.add(PhaseFenced, &t.events[i], "%s switched %s off, and read that back%s%s", e.Host, e.Target, took(e.Took), attempts(tries))
			return
		}
	}
	switch {
	case tries > 0:
		t.add(PhaseFenced, nil, "%s could not be proven off: %s", list(t.out.Hosts), times(tries, "attempt"))
	case t.out.Cause == Lost || t.out.Cause == Gone || t.out.Cause == Cut:
		t.add(PhaseFenced, nil, "no host was switched off")
	}
}

func took(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < 50*time.Millisecond: // the BMC already reported Off
		return ", at once"
	}
	return ", which took " + length(d)
}

func attempts(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", at attempt %d", n)
}

func (t *teller) person() {
	for i, e := range t.events {
		if e.Kind == Confirmed {
			what := "confirmed that " + e.Target + " is off"
			if e.OK {
				what = "forced this data directory to lead, and gave up what only " + e.Target + " held"
			}
			t.add(PhasePerson, &t.events[i], "%s %s: %s", e.Who, what, e.Why)
		}
	}
}

func leads(e event) bool { return e.Kind == Recorded && e.State.Leads() }

// decided adds the moment when the remaining host decided to go on alone. A
// host that already was alone decides nothing.
func (t *teller) decided() {
	if t.f.states[t.f.by].Leads() {
		t.add(PhaseDecided, nil, "%s already went on alone", t.f.by)
		return
	}
	if e := t.first(func(e event) bool { return leads(e) && t.by(e) }); e != nil {
		t.add(PhaseDecided, e, "%s recorded that it goes on alone: %s", e.Host, e.Why)
	}
}

// serves reports whether an event shows that etcd on a host takes writes. It is
// the host's own view and does not show whether anybody outside reaches that
// host.
func serves(e event) bool {
	switch e.Kind {
	case Recorded:
		return e.State == state.EtcdSole || e.State == state.EtcdPair
	case Decides:
		return e.Rule == state.EtcdRuleIdle || e.Rule == state.EtcdRuleSoleAlone
	default:
		return false
	}
}

func (t *teller) etcd() {
	if t.f.states[t.f.by].Leads() && t.out.Cause != Trouble {
		return
	}
	// A pair that served until the peer left says nothing of the time after.
	alone := t.first(func(e event) bool { return leads(e) && t.by(e) })
	e := t.first(func(e event) bool { return serves(e) && t.by(e) && (alone == nil || !e.t.Before(alone.t)) })
	switch {
	case e == nil:
		t.add(PhaseEtcd, nil, "no evidence that etcd took writes")
	case t.out.Cause == Planned && e.Kind == Recorded && e.State == state.EtcdSole:
		t.add(PhaseEtcd, e, "etcd on %s was the only voter; writes went on", e.Host)
	case e.Kind == Recorded && e.State == state.EtcdSole:
		t.add(PhaseEtcd, e, "etcd on %s took writes again, as the only voter", e.Host)
	default:
		t.add(PhaseEtcd, e, "etcd on %s took writes", e.Host)
	}
}

func (t *teller) api() {
	down := t.first(func(e event) bool { return e.Kind == API && !e.OK && t.by(e) })
	if down == nil {
		if slices.ContainsFunc(t.events, t.by) {
			t.add(PhaseAPI, nil, "the API server there was never seen down (checked about every second)")
		}
		return
	}
	if up := t.first(func(e event) bool { return e.Kind == API && e.OK && t.by(e) && e.t.After(down.t) }); up != nil {
		t.add(PhaseAPI, up, "the API server of %s was ready again, after %s", up.Host, length(up.t.Sub(down.t)))
		return
	}
	t.add(PhaseAPI, nil, "the API server of %s was not seen ready again", down.Host)
}

// vip adds the moment when the remaining host got VIPs that it did not have
// before.
func (t *teller) vip() {
	var had []string
	for _, e := range t.before {
		if e.Kind == Holds && t.by(e) {
			had = e.VIPs
		}
	}
	for i, e := range t.events {
		if e.Kind != Holds || !t.by(e) {
			continue
		}
		if more := without(e.VIPs, had); len(more) > 0 {
			t.add(PhaseVIP, &t.events[i], "%s took %s", e.Host, strings.Join(more, " and "))
			return
		}
		had = e.VIPs
	}
	t.add(PhaseVIP, nil, "no virtual IP was seen to move")
}

func without(list, other []string) []string {
	var out []string
	for _, v := range list {
		if !slices.Contains(other, v) {
			out = append(out, v)
		}
	}
	return out
}

func (t *teller) pods() {
	if e := t.first(func(e event) bool { return e.Kind == Pods && t.about(e.Target) }); e != nil {
		t.add(PhasePods, e, "%s of %s ran elsewhere", times(e.Count, "pod"), e.Target)
		return
	}
	if e := t.first(func(e event) bool { return e.Kind == Tainted && t.about(e.Target) }); e != nil {
		t.add(PhasePods, nil, "the API was told after %s that %s is off; no evidence yet that pods moved", length(e.t.Sub(t.f.at)), e.Target)
	}
}

func (t *teller) back() {
	met := t.first(func(e event) bool {
		return e.t.After(t.f.at) && (e.Kind == Members && len(e.Members) > 1 || e.Kind == Wished && e.Wish == state.EtcdStarted && t.about(e.Host))
	})
	switch cause := t.out.Cause; {
	case cause == CopyLost: // its peer always saw it
		t.anew()
	case cause == Trouble && len(t.out.Hosts) == 0: // neither was any host lost
	case met != nil:
		t.add(PhaseBack, met, "the two hosts were in contact again")
	case slices.Contains([]Cause{Rebooted, Started, Trouble}, cause):
		t.add(PhaseBack, nil, "the two hosts have not been in contact since")
	default:
		t.add(PhaseBack, nil, "%s has not returned", list(t.out.Hosts))
	}
}

// anew adds the moment when a host that lost its data directory began to join
// again without data.
func (t *teller) anew() {
	who := list(t.out.Hosts)
	if e := t.first(func(e event) bool { return e.Kind == Recorded && e.State == state.EtcdLearner && t.about(e.Host) }); e != nil {
		t.add(PhaseBack, e, "%s began to join again", who)
		return
	}
	t.add(PhaseBack, nil, "%s has not begun to join again", who)
}

// voters adds the moment when the last of the two hosts recorded that both hold
// everything.
func (t *teller) voters() {
	var last *event
	for i, e := range t.events {
		if e.Kind == Recorded && e.State == state.EtcdPair {
			last = &t.events[i]
		}
	}
	if last != nil {
		t.add(PhaseVoters, last, "both hosts were voters that hold everything")
	}
}
