package doctor

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// bothOff plays a cut at which each host has the other one fenced after its own delay: a
// fence takes as long as the slowest one did, and ends when its host is off itself.
func bothOff(delays, slowest [2]time.Duration) bool {
	first, second := 0, 1
	if delays[1] < delays[0] {
		first, second = 1, 0
	}
	if delays[0] == delays[1] {
		return true
	}
	off := delays[first] + slowest[first] // the second one's power is cut
	return delays[second] <= off
}

// TestADelayIsEnoughWhereOneHostStaysOn plays the race of two hosts with each pair of
// delays and of fences.
func TestADelayIsEnoughWhereOneHostStaysOn(t *testing.T) {
	var delays []time.Duration
	for _, s := range []int{0, 1, 3, 4, 5, 10, 20} {
		delays = append(delays, time.Duration(s)*time.Second)
	}
	seen := make(map[finding.Severity]int)
	for _, a := range delays {
		for _, b := range delays {
			for _, slowA := range delays {
				for _, slowB := range delays {
					f := wellTwo()
					bmc(0, func(x *BMC) { x.Delay, x.Slowest = a, slowA })(&f)
					bmc(1, func(x *BMC) { x.Delay, x.Slowest = b, slowB })(&f)
					got := examine(t, f, "fence-delay").Severity
					seen[got]++
					off := bothOff([2]time.Duration{a, b}, [2]time.Duration{slowA, slowB})
					if (got == finding.Critical) != off {
						t.Fatalf("delays %s and %s, fences of %s and %s: %s, and both are switched off: %t", a, b, slowA, slowB, got, off)
					}
					quick := slowA
					if b < a {
						quick = slowB
					}
					if enough := (a-b).Abs() >= 3*time.Second && (a-b).Abs() >= 2*quick; !off && enough != (got == finding.OK) {
						t.Fatalf("delays %s and %s, fences of %s and %s: %s", a, b, slowA, slowB, got)
					}
				}
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("only %v", seen)
	}
}

// TestTheWayToABMCStandsOnItsOwnIfOneLinkOfTheRingDoes plays each pair of links that
// have something in common with it, or nothing.
func TestTheWayToABMCStandsOnItsOwnIfOneLinkOfTheRingDoes(t *testing.T) {
	way := BMC{Target: "cp-2", Address: "10.9.0.2", Delay: time.Second, Verified: true, Interface: "eth9", Switches: []string{"sw-a"}}
	type link struct {
		Ring
		shared bool
	}
	links := map[string]link{
		"of the same switch":       {Ring{Address: "1", Switches: []string{"sw-a"}}, true},
		"of another switch":        {Ring{Address: "2", Switches: []string{"sw-b"}, Interface: "eth9"}, false},
		"of both switches":         {Ring{Address: "3", Switches: []string{"sw-a", "sw-b"}, Bond: 2, Interface: "bond0"}, false},
		"of an interface":          {Ring{Address: "4", Interface: "eth9"}, true},
		"of a bond":                {Ring{Address: "5", Interface: "eth9", Bond: 2}, true},
		"of a subnet":              {Ring{Address: "6", Interface: "eth1", Subnet: "10.9.0.0/24"}, true},
		"of another subnet":        {Ring{Address: "7", Interface: "eth1", Subnet: "10.8.0.0/24"}, false},
		"of which nothing is told": {Ring{Address: "8"}, false},
	}
	for a, first := range links {
		for b, second := range links {
			s := sheet{id: "fence-network"}
			s.Hosts = []Host{{Name: "cp-1", BMCs: state.Known([]BMC{way}), Rings: state.Known([]Ring{first.Ring, second.Ring})}}
			judgeFenceNetwork(&s)
			want := finding.OK
			if first.shared && second.shared {
				want = finding.Warning
			}
			if len(s.found) != 1 || s.found[0].Severity != want {
				t.Errorf("a link %s and one %s: %+v, want %s", a, b, s.found, want)
			}
		}
	}
}

// TestACheckAloneSaysWhatItSaysAmongAll: who asks for one check, as an alert's page does,
// reads the same, the worst first.
func TestACheckAloneSaysWhatItSaysAmongAll(t *testing.T) {
	for name, facts := range map[string]func() Facts{"well": wellTwo, "ill": ill} {
		for _, r := range Examine(facts()) {
			alone := Examine(facts(), r.ID)
			if len(alone) != 1 || cmp.Diff(alone[0], r) != "" {
				t.Errorf("%s, %s: %+v", name, r.ID, alone)
			}
			if !slices.IsSortedFunc(r.Findings, func(a, b finding.Finding) int { return finding.Compare(a.Severity, b.Severity) }) {
				t.Errorf("%s, %s: %+v", name, r.ID, r.Findings)
			}
			worst := finding.OK
			for _, x := range r.Findings {
				worst = finding.Worst(worst, x.Severity)
			}
			if len(r.Unseen) == 0 && worst != r.Severity || len(r.Unseen) > 0 && r.Severity == finding.OK {
				t.Errorf("%s, %s is %s, its worst finding %s, not seen %q", name, r.ID, r.Severity, worst, r.Unseen)
			}
		}
	}
}
