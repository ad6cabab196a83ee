package admission

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestTheThirdControlPlaneOfAPlanGetsTheSiteOfThree, and every other host that of two.
func TestTheThirdControlPlaneOfAPlanGetsTheSiteOfThree(t *testing.T) {
	g := newGiver(t, &cluster{}, sitetest.TwoDual)
	three, err := grow.ThreeOf(g.Site)
	if err != nil {
		t.Fatal(err)
	}
	g.Third = func() (string, *site.Site) { return "cp-3", three }
	for host, want := range map[string]int{"cp-3": 3, "cp-2": 2} {
		s := *g.Site
		s.Identity.JoinUntil = sitetest.Created.Add(time.Hour)
		token, err := s.JoinToken(state.RoleMaster, host)
		if err != nil {
			t.Fatal(err)
		}
		if got := served(t, g, token).Topology(); got.ControlPlanes != want || got.Fencing != (want == 2) {
			t.Errorf("%s is installed for a site of %d, fencing %t", host, got.ControlPlanes, got.Fencing)
		}
	}
}
