package doctor

import (
	"slices"
	"testing"
)

// TestALinkIsJudgedAlsoWhereNobodyKnowsTheMTUOfTheOneBeforeIt: each link of the ring
// stands for itself.
func TestALinkIsJudgedAlsoWhereNobodyKnowsTheMTUOfTheOneBeforeIt(t *testing.T) {
	f := wellTwo()
	for i := range f.Hosts {
		f.Hosts[i].Rings.Value[0].MTU = 0
	}
	f.Hosts[1].Rings.Value[1].MTU = 1500
	r := examine(t, f, "ring-mtu")
	var said []string
	for _, x := range r.Findings {
		said = append(said, string(x.Severity)+" "+x.Problem)
	}
	if want := []string{"warning link 1: cp-1 has 9000 on eth1, cp-2 has 1500 on eth1"}; !slices.Equal(said, want) || len(r.Unseen) != 2 {
		t.Errorf("%q, not seen: %q", said, r.Unseen)
	}
}
