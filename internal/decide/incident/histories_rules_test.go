package incident

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// happenings are what either host may note of itself or of the other one; HOST and OTHER stand for
// the names of the two. Memberships have no number, so that clocks are taken as right.
var happenings = []string{
	"sees cp-1 cp-2, ring 0", "sees HOST, ring 0", "boots", "wish stopped", "wish started", "off OTHER", "not-off OTHER",
	"person ops OTHER I see it", "rule equal.idle idle: well", "rule alone.wait ask-human: waits",
	"record 5 departing leave.depart: leaves", "record 5 departing equal.lost-copy-yield: lost", "record 6 sole take-over.sole: alone",
	"record 7 learner follow.accept: joins", "record 8 pair equal.pair: whole", "api not-ready", "holds 10.0.0.5",
}

// happens returns a line of a scenario: the n-th happening of all that there are, of
// both hosts.
func happens(n int, second float64) string {
	host, other := "cp-1", "cp-2"
	if n >= len(happenings) {
		host, other = other, host
	}
	what := strings.NewReplacer("HOST", host, "OTHER", other).Replace(happenings[n%len(happenings)])
	return fmt.Sprintf("%g %s %s\n", second, host, what)
}

// histories calls a function with short histories of two whole hosts: each with two
// happenings, and some thousand longer ones, drawn by a seed.
func histories(do func(text string)) {
	all := 2 * len(happenings)
	for a := range all {
		for b := range all {
			do(paired + happens(a, 0) + happens(b, 9))
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	gaps := []float64{0.1, 1, 4, 20, 89, 91, 299, 301}
	for range 800 {
		var text strings.Builder
		text.WriteString(paired)
		second := 0.0
		for range 3 + random.IntN(14) {
			text.WriteString(happens(random.IntN(all), second))
			second += gaps[random.IntN(len(gaps))]
		}
		do(text.String())
	}
}

// after returns the part of a history that comes after its beginning.
func after(text string) string { return strings.TrimPrefix(text, paired) }

// TestAReportIsOfOnePieceWhateverHappened: its times go forward, its parts are of it,
// and what it claims of hosts is true of two.
func TestAReportIsOfOnePieceWhateverHappened(t *testing.T) {
	states := make(map[State]int)
	histories(func(text string) {
		var before *Incident
		for _, i := range Assemble(scenario(t, text)) {
			states[i.State]++
			must := func(holds bool, rule string) {
				t.Helper()
				if !holds {
					t.Fatalf("%s: after\n%s%+v", rule, after(text), i)
				}
			}
			must(before == nil || !before.End.IsZero() && before.End.Before(i.Start), "the next begins when the one before is over")
			must((i.State == Over) == !i.End.IsZero() && (i.State == Over || i.Trailing == 0), "what is over has an end, and only then comes something after it")
			must(!i.Complete || i.State == Over && len(i.Journals) == 2, "it is complete when it is over and both have told")
			must(i.Failures[0].At.Equal(i.Start), "it begins with its first failure")
			must(i.End.IsZero() || !i.End.Before(i.Failures[len(i.Failures)-1].At), "it ends after its last failure")
			must(slices.IsSortedFunc(i.Failures, func(a, b Failure) int { return a.At.Compare(b.At) }), "failures come in their order")
			must(slices.IsSortedFunc(i.Timeline, func(a, b Step) int { return a.At.Compare(b.At) }), "the timeline goes forward")
			for _, f := range i.Failures {
				must(len(f.Hosts) < 2 || f.By == "", "where both go nobody goes on")
				must(!slices.Contains(f.Hosts, f.By), "who is lost is not who goes on")
				must(!slices.Contains(f.Hosts, ""), "a host has a name")
				must(f.Moment(PhaseLost).Words != "" && f.Moment(PhaseLost).At.Equal(f.At), "each failure says how it began")
				for n, m := range f.Moments {
					must(m.After >= 0 && (m.At.IsZero() || !m.At.Before(f.At)) && m.Words != "", "each moment comes after its failure, and is told")
					must(n == 0 || m.At.IsZero() || !f.Moments[n-1].At.IsZero() && !m.At.Before(f.Moments[n-1].At), "moments that were seen come first, in their order")
				}
			}
			before = &i
		}
	})
	for _, s := range []State{Over, UnderWay, Waiting} {
		if states[s] < 20 {
			t.Errorf("%s: %d", s, states[s])
		}
	}
}

// TestACompleteReportStaysWhateverComesAfterIt: hosts keep it and read its records no
// more.
func TestACompleteReportStaysWhateverComesAfterIt(t *testing.T) {
	complete := 0
	for _, s := range scenarios {
		records := scenario(t, s.text)
		kept := map[string]string{}
		still := func(list []Incident, what string) {
			now := map[string]string{}
			for _, i := range list {
				now[i.ID] = i.Title
			}
			for id, title := range kept {
				if now[id] != title {
					t.Fatalf("%s: %s %q is %q after %s", s.name, id, title, now[id], what)
				}
			}
		}
		for n := range records {
			list := Assemble(records[:n+1])
			still(list, fmt.Sprint(n+1, " records"))
			for _, i := range list {
				if i.Complete {
					complete++
					kept[i.ID] = i.Title
				}
			}
		}
		for n := range 2 * len(happenings) {
			more := happens(n, 5000)
			still(Assemble(scenario(t, s.text+more)), more)
		}
	}
	if complete < 20 {
		t.Errorf("%d complete reports", complete)
	}
}

// TestNoRuleOfAReportPrefersAHost exchanges the two hosts.
func TestNoRuleOfAReportPrefersAHost(t *testing.T) {
	swap := strings.NewReplacer("cp-1", "cp-2", "cp-2", "cp-1")
	told := func(list []Incident) string {
		var out []string
		for _, i := range list {
			for _, f := range i.Failures {
				out = append(out, fmt.Sprint(i.State, i.Complete, i.Start, i.End, f.Cause, f.At, f.By, " ", len(f.Hosts) == 1 && f.Hosts[0] == "cp-1", len(f.Hosts)))
			}
		}
		return strings.Join(out, "\n")
	}
	exchanged := func(list []Incident) []Incident {
		for n := range list {
			for k := range list[n].Failures {
				f := &list[n].Failures[k]
				f.By = swap.Replace(f.By)
				for h := range f.Hosts {
					f.Hosts[h] = swap.Replace(f.Hosts[h])
				}
			}
		}
		return list
	}
	histories(func(text string) {
		one, other := told(Assemble(scenario(t, text))), told(exchanged(Assemble(scenario(t, swap.Replace(text)))))
		if one != other {
			t.Fatalf("%s\nexchanged %s\nafter\n%s", one, other, after(text))
		}
	})
}

// TestTheTimeOfDayIsNoneOfARulesBusiness moves all clocks by the same time.
func TestTheTimeOfDayIsNoneOfARulesBusiness(t *testing.T) {
	for _, s := range scenarios {
		records := scenario(t, s.text)
		want := Assemble(records)
		const later = 17*60*60*1e9 + 1
		for n := range records {
			records[n].At = records[n].At.Add(later)
		}
		for n, i := range Assemble(records) {
			if i.Title != want[n].Title || !i.Start.Equal(want[n].Start.Add(later)) || i.Long() != want[n].Long() || len(i.Timeline) != len(want[n].Timeline) {
				t.Errorf("%s: %q, %q a day later", s.name, want[n].Title, i.Title)
			}
		}
	}
}
