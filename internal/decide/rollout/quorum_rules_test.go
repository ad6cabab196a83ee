package rollout

import (
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhoCanBeSparedHoldsHoweverItIsWithWhomNobodyHeard plays each state of three to
// five control planes, of which each serves, does not, or is not heard. A host is spared
// only if the others are a majority whatever the unheard do, and is refused for good
// only if they are none whatever those do.
func TestWhoCanBeSparedHoldsHoweverItIsWithWhomNobodyHeard(t *testing.T) {
	facts := []state.Fact[bool]{state.Known(true), state.Known(false), {}}
	for n := 3; n <= 5; n++ {
		answers := map[string]int{}
		states := 1
		for range n {
			states *= len(facts)
		}
		for at := range states {
			serves := map[string]state.Fact[bool]{}
			for i, rest := 0, at; i < n; i++ {
				serves[fmt.Sprintf("cp-%d", i+1)] = facts[rest%len(facts)]
				rest /= len(facts)
			}
			for name, spare := range QuorumSpares(serves) {
				fewest, most := 0, 0
				for other, s := range serves {
					if other != name && (!s.Known || s.Value) {
						most++
					}
					if other != name && s.Known && s.Value {
						fewest++
					}
				}
				want := state.Fact[bool]{}
				switch {
				case 2*fewest > n:
					want = state.Known(true)
				case 2*most <= n:
					want = state.Known(false)
				}
				answers[fmt.Sprint(want)]++
				if spare.Carries != want || (spare.Why == "") != state.Is(want, true) {
					t.Fatalf("without %s of %v: %+v, want %v", name, serves, spare, want)
				}
			}
		}
		if len(answers) != 3 {
			t.Errorf("%d control planes: only %v", n, answers)
		}
	}
}
