package hostapply_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// anyJournal draws a journal as a host may find it: at rest, or anywhere on a way from
// old to new.
func anyJournal(r *rand.Rand) hostapply.Journal {
	switch r.IntN(12) {
	case 6:
		return hostapply.Journal{Good: "old", Failed: "new", Why: "it was late; back with old: it was late", Unfinished: []string{"", "0", "1"}[r.IntN(3)]}
	case 7:
		return hostapply.Journal{Good: "old", Failed: "old", Why: "it was late; back with old: it was late", Unfinished: "1"}
	case 8:
		return hostapply.Journal{Good: "old", Unfinished: "1"}
	case 5:
		return hostapply.Journal{}
	case 3:
		return hostapply.Journal{Failed: "new", Why: "it was late", First: true}
	case 4:
		j := anyWay(r)
		j.Good, j.First = "", true
		return j
	case 0:
		return hostapply.Journal{Good: "old"}
	case 1:
		return hostapply.Journal{Good: "old", Failed: "new", Why: "it was late"}
	case 2:
		return hostapply.Journal{Good: "old", Failed: "new", Refused: true, Why: "no such group"}
	}
	return anyWay(r)
}

// anyWay draws a journal anywhere on a way from old to new.
func anyWay(r *rand.Rand) hostapply.Journal {
	j := hostapply.Journal{Good: "old", Target: "new", Boot: "1", Reboots: r.IntN(2) == 0, Back: r.IntN(2) == 0, Booted: r.IntN(2) == 0}
	j.Phase = []hostapply.Phase{hostapply.Writing, hostapply.Acting, hostapply.Booting, hostapply.Checking}[r.IntN(4)]
	if j.Back {
		j.Why = "it was late"
	}
	if r.IntN(4) == 0 {
		j.Unfinished = []string{"0", "1"}[r.IntN(2)]
	}
	if j.Phase == hostapply.Checking {
		j.Boots = r.IntN(5)
		j.Since = noon.Add(-[]time.Duration{-time.Hour, 0, hostapply.Settled - 1, hostapply.Settled, hostapply.CheckLimit, hostapply.CheckLimit + 1, hostapply.JoinLimit, hostapply.JoinLimit + 1}[r.IntN(8)])
	}
	return j
}

func anyFact(r *rand.Rand) state.Fact[bool] {
	return []state.Fact[bool]{{}, {Value: true}, state.Known(false), state.Known(true)}[r.IntN(4)]
}

func anyFacts(r *rand.Rand) hostapply.Facts {
	f := hostapply.Facts{Now: noon, Boot: []string{"1", "1", "2"}[r.IntN(3)], Drains: r.IntN(2) == 0, Reboots: r.IntN(2) == 0, Drained: r.IntN(2) == 0, Quiet: r.IntN(2) == 0}
	f.Uptime = []time.Duration{0, hostapply.Settled - 1, hostapply.Settled, hostapply.CheckLimit, hostapply.CheckLimit + 1, 24 * time.Hour}[r.IntN(6)]
	f.Desired = []state.Fact[string]{{}, {Value: "new"}, state.Known(""), state.Known("old"), state.Known("new"), state.Known("newer")}[r.IntN(6)]
	f.Wish = []hostapply.Wish{hostapply.NoWish, hostapply.Turn, hostapply.Booted}[r.IntN(3)]
	f.Did = []hostapply.Do{hostapply.Nothing, hostapply.Drain, hostapply.Write, hostapply.Act}[r.IntN(4)]
	f.MayBoot, f.Ready = anyFact(r), anyFact(r)
	f.Watched = []time.Duration{0, hostapply.Settled - 1, hostapply.Settled}[r.IntN(3)]
	if r.IntN(4) == 0 {
		f.Failed = "no space"
	}
	if r.IntN(4) == 0 {
		f.Refused = "no such user"
	}
	if r.IntN(4) == 0 {
		f.ByHand = "kernel arguments"
	}
	if f.Quiet {
		f.Pressures = "MemoryPressure"
	}
	f.First = r.IntN(4) == 0
	f.Needed = r.IntN(4) == 0
	if r.IntN(4) == 0 {
		f.Locks = []hostapply.Lock{{What: "shutdown", Mode: "block"}}
	}
	if f.Wish == hostapply.Turn {
		f.Drains = true // as the caller has it
	}
	return f
}

// TestWhateverAHostFindsItKeepsItsRules draws journals and facts, also such that should
// not meet, because a host believes neither its memory nor the API.
func TestWhateverAHostFindsItKeepsItsRules(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[string]int{}
	for range 60_000 {
		j, f := anyJournal(r), anyFacts(r)
		s := hostapply.Next(j, f)
		for _, rule := range broken(j, f, s) {
			t.Fatalf("journal %+v\nfacts %+v\nstep %+v\nbroken: %s", j, f, s, rule)
		}
		seen[fmt.Sprint(s.Do, " ", s.Report.Stage)]++
	}
	for _, kind := range []string{
		" settled", " failed", " refused", " applies", " held", " waits-for-boot", " goes-back", "drain drains", "write applies", "write goes-back", "act applies", "act goes-back", "reboot applies", "reboot goes-back",
	} {
		if seen[kind] < 20 {
			t.Errorf("%q was seen %d times", kind, seen[kind])
		}
		delete(seen, kind)
	}
	if len(seen) > 0 {
		t.Errorf("nobody expects %v", seen)
	}
}

// whole reports whether no way back of a host ended before it was ready.
func whole(j hostapply.Journal) bool {
	return j.Unfinished == "" && !strings.Contains(j.Why, rollout.BackWith)
}

// begins reports whether a host at rest begins a way.
func begins(j hostapply.Journal, desired string) bool {
	return desired != "" && (desired != j.Good || !whole(j)) && (desired != j.Failed || j.First)
}

// broken returns the rules that a step breaks.
func broken(j hostapply.Journal, f hostapply.Facts, s hostapply.Step) []string {
	var out []string
	rule := func(holds bool, words string) {
		if !holds {
			out = append(out, words)
		}
	}
	n, r := s.Journal, s.Report
	ready := f.Ready.Known && f.Ready.Value
	mayBoot := f.MayBoot.Known && f.MayBoot.Value
	desired := ""
	if f.Desired.Known {
		desired = f.Desired.Value
	}
	booted := j.Booted || j.Target != "" && f.Boot != j.Boot
	if !j.Back && !whole(j) && cmp.Or(j.Unfinished, f.Boot) == f.Boot && (j.Target != "" || begins(j, desired)) {
		f.Reboots, f.Drains = true, f.Drains || f.ByHand == "" // its way boots, whatever it changes
	}

	rule(r.Current == n.Good && (n.Good != "" || j.Good == ""), "it says that it has the last good one, if it ever had one")
	same := n
	same.Unfinished = j.Unfinished
	switch {
	case same == j:
	case j.Target == "" && r.Fulfilled:
		rule(n.Target == "", "a boot that somebody wants begins no way")
	case j.Target == "":
		rule(n.First == (f.First && n.Target+n.Failed != ""), "what a host is given before it joins is known as that")
	default:
		rule(n.First == (j.First && n.Target+n.Failed != ""), "and stays that on the way, and when it failed")
	}
	rule(!n.First || n.Target == "" || !r.Drain, "nobody drains a host that has yet to join")
	rule(s.Do == hostapply.Write && s.Config == n.Config() || s.Do != hostapply.Write && s.Config == "", "what is written is what it is on its way to")
	rule(n.Target == "" || r.State == rollout.Working, "on its way it works")
	rule(n.Target == "" || n.Failed == "" && !n.Refused, "what failed is known once it is back")
	rule(s.Do == hostapply.Nothing || r.State == rollout.Working, "who does something works")
	rule((r.State == rollout.Done) == (r.Stage == rollout.Settled), "it is done when it has what it was given")
	rule((r.Reason == "") == (r.State == rollout.Done), "who is not done says why")
	rule(!strings.HasSuffix(r.Reason, ": ") && !strings.HasPrefix(r.Reason, ": "), "a reason is whole")
	if s.Do == hostapply.Reboot {
		rule(mayBoot, "nobody boots while the cluster may not carry on without the host")
		rule(len(f.Locks) == 0, "nobody boots while a program blocks shutdowns")
		rule(n.Target == "" || n.Phase == hostapply.Booting && f.ByHand == "", "it boots in its phase, and not where a person does")
		rule(f.Drained || !f.Drains || n.Back || n.First && n.Target != "", "it is empty before it boots, but on the way back")
		rule(f.Failed == "" || strings.HasSuffix(r.Reason, ": "+f.Failed), "why it has not booted is told")
	}
	rule(r.Blocked == (r.Stage == rollout.Held && mayBoot && !r.Needed), "a program alone keeps it from its boot where the cluster carries on")
	rule(!r.Blocked || len(f.Locks) > 0 && s.Do == hostapply.Nothing, "somebody has to block it")
	if r.Needed {
		rule(f.Needed && !r.Drain && s.Do == hostapply.Nothing && !n.Back && (!n.First || n.Target == ""), "a host that the cluster needs takes pods before its boot, and does nothing else")
	}
	if s.Do == hostapply.Drain {
		rule(f.Drains && !f.Drained && !n.Back && r.Drain && r.Stage == rollout.Drains, "pods are waited for where they have to move")
	}
	if s.Do == hostapply.Act {
		rule(n.Phase == hostapply.Acting, "units are told in their phase")
	}
	if r.Fulfilled {
		rule(f.Wish == hostapply.Booted && ready && n.Target == "", "a wish is fulfilled by a boot after which the host is ready")
	}
	if j.Target == "" {
		atRest(j, f, s, desired, rule)
		return out
	}
	switch {
	case n.Target == "":
		rule(s.Do == hostapply.Nothing, "at the end of a way nothing is left to do")
		rule(n.Good == "new" && !j.Back && ready && n.Failed == "" || n.Good == j.Good && j.Back && n.Failed == "new" && n.First == j.First, "it ends with the new one if the host is ready with that, or else with the old one")
		rule(!n.Refused && n.Phase == "" && n.Boot == "" && !n.Back && n.Pressures == "", "nothing of the way is left")
		rule(n.Failed == "" || strings.HasPrefix(n.Why, j.Why), "the first reason is kept")
		rule(n.Failed == "" || j.Phase == hostapply.Writing || ready || n.Why != j.Why, "what failed on the way back is told too")
		rule(n.Failed != "" || r.Fulfilled == (f.Wish == hostapply.Booted), "one boot serves both")
		rule((n.Unfinished == "") == whole(n), "a way back that ends without a host that is ready is noted, and told")
		rule(n.Failed != "" || f.Quiet && whole(j) || j.Phase == hostapply.Checking && min(f.Now.Sub(j.Since), f.Uptime) >= hostapply.Settled, "it was watched, unless nobody reads what changed")
	case j.Back:
		rule(n.Back && strings.HasPrefix(n.Why, j.Why) && (n.Why == j.Why || f.Failed != "" && n.Phase == hostapply.Booting) && n.Good == j.Good && n.Target == j.Target, "the way back has no end but its end")
	case n.Back:
		rule(n.Phase == hostapply.Writing && s.Do == hostapply.Write && s.Config == j.Good && n.Why != "", "who goes back writes the old one first, and knows why")
		rule(f.Failed != "" || j.Phase != hostapply.Acting, "it goes back for a reason")
		rule(j.Phase != hostapply.Booting || booted || desired != "", "a Node without a wish takes none back")
		rule(!ready || j.Phase != hostapply.Checking, "a host that is ready does not go back")
	}
	rule(n.Target == "" || n.Booted == booted && n.Boot == f.Boot, "each boot is noticed")
	rule(n.Target == "" || n.Reboots == j.Reboots, "what the way there needs does not change on it")
	from, to := slices.Index(order, cmp.Or(j.Phase, hostapply.Writing)), slices.Index(order, n.Phase)
	rule(n.Target == "" || n.Back != j.Back || to >= from, "the phases have an order")
	if n.Target != "" && n.Phase == hostapply.Checking {
		rule(!n.Since.After(f.Now), "a check began at some time")
		if j.Phase == hostapply.Checking {
			since := j.Since
			if since.After(f.Now) {
				since = f.Now
			}
			rule(n.Since.Equal(since), "a check begins once")
			rule(n.Boots == j.Boots || n.Boots == j.Boots+1 && f.Boot != j.Boot, "boots are counted while it is checked")
			limit := hostapply.CheckLimit
			if n.First {
				limit = hostapply.JoinLimit
			}
			rule(min(f.Now.Sub(n.Since), f.Uptime) <= limit || ready, "nobody waits for longer than the limit")
			rule(n.Boots < hostapply.MaxBoots || ready, "a host that does not stay up is not waited for")
		} else {
			rule(n.Since.Equal(f.Now) && n.Boots == 0, "a check begins anew")
		}
	}
	if n.Target != "" && n.Phase == hostapply.Booting && j.Phase == hostapply.Booting && n.Back == j.Back {
		rule(f.Boot == j.Boot, "after a boot it is checked")
		rule(n.Back || booted || desired == "" || desired == "new", "until its boot the wish may be taken back")
		rule((r.Stage == rollout.WaitsForBoot) == (f.ByHand != ""), "a person boots it where he said so")
	}
	return out
}

var order = []hostapply.Phase{hostapply.Writing, hostapply.Acting, hostapply.Booting, hostapply.Checking}

// atRest has the rules of a host that is on no way.
func atRest(j hostapply.Journal, f hostapply.Facts, s hostapply.Step, desired string, rule func(bool, string)) {
	n := s.Journal
	ready := f.Ready.Known && f.Ready.Value
	unfinished := ""
	if !whole(j) {
		unfinished = cmp.Or(j.Unfinished, f.Boot)
	}
	noted := j
	noted.Unfinished = unfinished
	shown := s.Report.Fulfilled && unfinished != f.Boot // it has booted since, and is ready
	switch {
	case !begins(j, desired):
		want := noted
		if desired == j.Good && desired != "" && whole(j) {
			want = hostapply.Journal{Good: j.Good}
		}
		if shown && unfinished != "" {
			want.Unfinished = ""
			if want.Why, _, _ = strings.Cut(want.Why, rollout.BackWith); want.Failed == want.Good {
				want.Failed, want.Why = "", ""
			}
		}
		rule(n == want, "without a new configuration it remembers what it knew, and forgets a failure once it is given what it has")
	case f.Refused != "":
		if shown {
			unfinished = ""
		}
		rule(n == hostapply.Journal{Good: j.Good, Failed: desired, Refused: true, Why: f.Refused, First: f.First, Unfinished: unfinished}, "what it refuses is known")
	case f.Drains && f.Needed && !f.First:
		rule(n == noted && s.Report.Needed, "it does not begin while the cluster needs it")
		return
	case f.Drains && !f.Drained && !f.First:
		rule(n == noted && s.Do == hostapply.Drain, "it is empty before it begins")
		return
	default:
		rule(n == hostapply.Journal{Good: j.Good, Target: desired, Phase: hostapply.Writing, Reboots: f.Reboots, Boot: f.Boot, First: f.First, Unfinished: unfinished, Pressures: f.Pressures} && s.Do == hostapply.Write, "a way begins with a write")
		return
	}
	switch f.Wish {
	case hostapply.NoWish:
		rule(s.Do == hostapply.Nothing && s.Report.State != rollout.Working, "at rest it does nothing")
	case hostapply.Booted:
		rule(s.Do == hostapply.Nothing, "who has booted for a wish does not boot for it again")
		rule(s.Report.Fulfilled == (ready && f.Watched >= hostapply.Settled), "it has been ready for a while")
		rule(s.Report.Fulfilled != (s.Report.State == rollout.Working), "until then it works")
	case hostapply.Patch: // not drawn here: TestWhatAHostAtRestDoesForUpdates
	case hostapply.Turn:
		mayBoot := f.MayBoot.Known && f.MayBoot.Value
		want := hostapply.Nothing
		switch {
		case f.Needed:
		case !f.Drained:
			want = hostapply.Drain
		case mayBoot && len(f.Locks) == 0:
			want = hostapply.Reboot
		}
		rule(s.Do == want, "in its turn it is emptied, and then boots if it may and nobody blocks it")
		rule(s.Report.State == rollout.Working && !s.Report.Fulfilled, "in its turn it works")
	}
}

// TestFromEachJournalAHostComesToRest lets the world be kind from some moment on: whatever
// was in the journal, the host ends with one of both, and boots at most twice.
func TestFromEachJournalAHostComesToRest(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 3000 {
		start := anyJournal(r)
		j, boot, boots, now, booted := start, "1", 0, noon, noon
		did := hostapply.Nothing
		for looks := 0; ; looks++ {
			f := hostapply.Facts{
				Now: now, Boot: boot, Uptime: now.Sub(booted), Desired: state.Known(cmp.Or(start.Target, start.Failed, "old")), Drains: true, Drained: true, Reboots: start.Reboots,
				MayBoot: state.Known(true), Ready: state.Known(true), Did: did,
			}
			s := hostapply.Next(j, f)
			if j == s.Journal && s.Do == hostapply.Nothing && j.Target == "" {
				break
			}
			most := 2
			if start.First && start.Back {
				most = 3 // the way back, and the second way there
			}
			if looks > 30 || boots > most {
				t.Fatalf("from %+v: %+v after %d looks and %d boots", start, j, looks, boots)
			}
			if j = s.Journal; s.Do == hostapply.Reboot {
				boots++
				boot += "+"
				booted = now
				did = hostapply.Nothing
			} else {
				did = s.Do
			}
			now = now.Add(30 * time.Second)
		}
		again := start.First // a host that has joined is given it once more
		if start.Target != "" && (j.Good == "new") != (again || !start.Back) || again && (j.First || j.Failed != "") {
			t.Fatalf("from %+v it ends with %+v", start, j)
		}
	}
}

// TestTheReportOfSomebodysChangeIsOfAHostAtRest, and names all that was changed.
func TestTheReportOfSomebodysChangeIsOfAHostAtRest(t *testing.T) {
	for _, is := range []rollout.State{rollout.Done, rollout.Working, rollout.Degraded, rollout.Unreconcilable} {
		for _, what := range [][]string{nil, {"/etc/a"}, {"/etc/a", "b.service"}} {
			before := hostapply.Report{State: is, Current: "old", Reason: "why", Drain: true, Fulfilled: true, Stage: rollout.Applies}
			got, want := before.Changed(what), before
			if is == rollout.Done && len(what) > 0 {
				want.State, want.Stage, want.Reason = rollout.Degraded, rollout.Changed, "somebody changed "+strings.Join(what, ", ")
			}
			if got != want {
				t.Errorf("%s, %q: %+v, want %+v", is, what, got, want)
			}
		}
	}
}
