package standing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// equal compares facts: an empty list is like none.
func equal(a, b Facts) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.EquateComparable(addr("10.98.0.5")))
}

// sources returns what several sources know of one cluster: the API, and its hosts.
func sources(t *testing.T) []Facts {
	api := recorded(t, "healthy", etcdReport(t, "healthy"))
	for i := range api.VIPs {
		api.VIPs[i].Holders = Seen[[]string]{}
	}
	own := func(name string, holds ...string) Facts {
		f := Facts{Now: now, Sources: []Source{{Kind: FromHost, Name: name}}}
		h := Host{Name: name, Record: Know(state.EtcdRecord{State: state.EtcdPair}, name, now)}
		for _, a := range holds {
			h.Holds.Value = append(h.Holds.Value, addr(a))
		}
		h.Holds = Know(h.Holds.Value, name, now)
		f.Hosts = []Host{h}
		f.VIPs = []VIP{{Address: addr("10.98.0.5"), Kind: "API", Left: []string{"cp-9"}}}
		return f
	}
	silent := Facts{Now: now, Hosts: []Host{{Name: "cp-3", ControlPlane: true}}, VIPs: []VIP{{Address: addr("10.98.0.6"), Kind: "ingress", Forged: []string{name(t)}}}}
	return []Facts{api, own("cp-1", "10.98.0.5"), own("cp-2"), silent}
}

func name(t *testing.T) string { return "02:00:00:00:00:01 in " + t.Name() }

// TestInWhateverStepsFactsAreMergedTheyAreTheSame: status merges what it has, asks on,
// and merges again.
func TestInWhateverStepsFactsAreMergedTheyAreTheSame(t *testing.T) {
	all := sources(t)
	assignments(3, len(all), func(pick []int) {
		a, b, c := all[pick[0]], all[pick[1]], all[pick[2]]
		at := Merge(a, b, c)
		if diff := equal(at, Merge(Merge(a, b), c)); diff != "" {
			t.Errorf("%v, the first two before: %s", pick, diff)
		}
		if diff := equal(at, Merge(a, Merge(b, c))); diff != "" {
			t.Errorf("%v, the last two before: %s", pick, diff)
		}
	})
}

// TestAMergeChangesNoSource: who asked a source may look at its facts again.
func TestAMergeChangesNoSource(t *testing.T) {
	used, kept := sources(t), sources(t)
	Merge(used...)
	slices.Reverse(used)
	Merge(used...)
	slices.Reverse(used)
	for i := range used {
		if diff := equal(kept[i], used[i]); diff != "" {
			t.Errorf("source %d: %s", i, diff)
		}
	}
}

// TestNobodyAddsNothing: a source without facts changes none.
func TestNobodyAddsNothing(t *testing.T) {
	for name, f := range situations(t) {
		alone := Merge(f)
		for _, m := range []Facts{Merge(f, Facts{}), Merge(Facts{}, f)} {
			if diff := equal(alone, m); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// claim is what is known of a host and a VIP.
type claim int

const (
	mute claim = iota
	hasNot
	has
)

// TestWhoHasAVIPInEveryStateOfThreeHosts: each of them has it, has it not or is not
// heard, and is there or lost, while the cluster takes writes or not.
func TestWhoHasAVIPInEveryStateOfThreeHosts(t *testing.T) {
	kinds := map[finding.ID]int{}
	for _, writes := range []bool{true, false} {
		assignments(3, 6, func(states []int) {
			f := many(3, "10.98.0.5", "10.98.0.6")
			f.VIPs = []VIP{{Address: addr("10.98.0.5"), Kind: "API"}}
			if !writes {
				f.Sources[0].Failed = "refused"
				f.Hosts[0].Explanation = explained(explain.Waiting, explain.ReadsOnly)
			}
			heard, there, lost := 0, 0, 0
			for i, s := range states {
				what, gone := claim(s%3), s >= 3
				if gone {
					f.Hosts[i].Kubelet = notReady("gone")
				}
				if what != mute {
					heard++
					f.Hosts[i].Holds = Know(f.Hosts[i].Holds.Value, "it", now)
				}
				if what == has {
					f.Hosts[i].Holds.Value = append(f.Hosts[i].Holds.Value, addr("10.98.0.5"))
				}
				if what == has && gone {
					lost++
				} else if what == has {
					there++
				}
			}
			var want finding.ID
			switch {
			case there > 1:
				want = VIPHeldTwice
			case there+lost > 0 || heard < 3:
			case writes:
				want = VIPWithoutHolder
			default:
				want = VIPWithoutWrites
			}
			v := Describe(Merge(f))
			var got finding.ID
			for _, x := range v.Findings {
				if strings.HasPrefix(string(x.ID), "vip-") {
					got = x.ID
				}
			}
			kinds[got]++
			if got != want {
				t.Fatalf("writes %t, states %v: %q, want %q: %+v", writes, states, got, want, v.VIPs)
			}
			cell := v.VIPs[0].Holder
			if (cell.Good == Yes) != (there == 1) || (cell.Good == No) != (there > 1 || there+lost == 0 && heard == 3) {
				t.Fatalf("writes %t, states %v: %+v", writes, states, cell)
			}
		})
	}
	if len(kinds) != 4 {
		t.Errorf("only %v", kinds)
	}
}

// TestWhoFollowsTheLogKnowsTheView: from each situation to each other one, the changes
// that are told lead from what was wrong to what is.
func TestWhoFollowsTheLogKnowsTheView(t *testing.T) {
	views := map[string]View{"nothing": {}}
	for name, f := range situations(t) {
		views[name] = Describe(f)
	}
	for from, a := range views {
		for to, b := range views {
			lines := Changes(a, b)
			if from == to && len(lines) > 0 {
				t.Errorf("%s: %q", from, lines)
			}
			begun, over := 0, 0
			for _, f := range b.Findings {
				if slices.Contains(lines, string(f.Severity)+": "+f.Problem) {
					begun++
				}
			}
			for _, f := range a.Findings {
				if slices.Contains(lines, "resolved: "+f.Problem) {
					over++
				}
			}
			if len(a.Findings)+begun-over != len(b.Findings) {
				t.Errorf("from %s to %s: %d findings, %d begin, %d are over, and then there are %d", from, to, len(a.Findings), begun, over, len(b.Findings))
			}
			if told := slices.Contains(lines, "status: "+string(b.Status)); told != (a.Status != b.Status) {
				t.Errorf("from %s to %s: the status is told: %t", from, to, told)
			}
		}
	}
}

// TestOfNoHostsNobodyKnowsWhoHoldsAVIP: that nobody has it would need one that says so.
func TestOfNoHostsNobodyKnowsWhoHoldsAVIP(t *testing.T) {
	f := Merge(Facts{Now: now, VIPs: []VIP{{Address: addr("10.98.0.5"), Kind: "API"}}})
	if f.VIPs[0].Holders.Known {
		t.Errorf("%+v", f.VIPs[0].Holders)
	}
}

// TestAMemberOfWhichNothingIsKnownFillsNothing: the value of an unknown report is
// nobody's.
func TestAMemberOfWhichNothingIsKnownFillsNothing(t *testing.T) {
	old := Member{Running: state.Known(true), Healthy: state.Known(true), Behind: state.Known(uint64(3))}
	for _, of := range []struct{ a, b Seen[Member] }{
		{Know(Member{Listed: state.Known(true)}, "cp-1", now), Seen[Member]{Value: old}},
		{Seen[Member]{Value: old}, Know(Member{Listed: state.Known(true)}, "cp-1", now)},
	} {
		m := Merge(Facts{Hosts: []Host{{Name: "cp-1", Member: of.a}}}, Facts{Hosts: []Host{{Name: "cp-1", Member: of.b}}})
		if got := m.Hosts[0].Member; got.Value != (Member{Listed: state.Known(true)}) || !got.Known {
			t.Errorf("%+v", got)
		}
	}
}

// TestTheLastProofThatAHostCanBeFencedIsTheNewest, whichever source tells it.
func TestTheLastProofThatAHostCanBeFencedIsTheNewest(t *testing.T) {
	proof := func(ago time.Duration) Facts {
		return Facts{Hosts: []Host{{Name: "cp-2", Verified: Know(Verification{At: now.Add(-ago)}, "cp-1", now)}}}
	}
	for _, m := range []Facts{Merge(proof(time.Hour), proof(time.Minute)), Merge(proof(time.Minute), proof(time.Hour)), Merge(Facts{Hosts: []Host{{Name: "cp-2"}}}, proof(time.Minute))} {
		if got := m.Hosts[0].Verified; !got.Known || !got.Value.At.Equal(now.Add(-time.Minute)) {
			t.Errorf("%+v", got)
		}
	}
	unknown := Facts{Hosts: []Host{{Name: "cp-2", Verified: Seen[Verification]{Value: Verification{At: now}}}}}
	if got := Merge(proof(time.Hour), unknown).Hosts[0].Verified; !got.Known || !got.Value.At.Equal(now.Add(-time.Hour)) {
		t.Errorf("what is not known counts: %+v", got)
	}
}
