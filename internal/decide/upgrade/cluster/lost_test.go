package cluster

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostThatWasInstalledWithTheNewReleaseGoesToTheOldOneAsToAnyOther has the way back of a site
// with a host that took the place of a lost one.
func TestAHostThatWasInstalledWithTheNewReleaseGoesToTheOldOneAsToAnyOther(t *testing.T) {
	back := Record{Upgrade: "u1", From: "R1", To: "R2", Started: true, Returning: true, Turns: []string{"cp-1"}}
	forward, closed := back, back
	forward.Returning = false
	closed.NoWayBack = true
	plain := parachute.Turn{Wish: parachute.GoBack, Upgrade: "u1", From: "R1", To: "R2"}
	turned := parachute.Turn{Wish: parachute.Go, Upgrade: "u1", From: "R2", To: "R1", Back: true}
	for what, c := range map[string]struct {
		record Record
		host   Host
		want   parachute.Turn
	}{
		"it came by the upgrade":                   {back, Host{Running: state.Known("R2"), Journal: parachute.Journal{Upgrade: "u1", From: "R1", To: "R2", Step: parachute.Accepted}}, plain},
		"it was installed with it":                 {back, Host{Running: state.Known("R2")}, turned},
		"it was installed, and came by an earlier": {back, Host{Running: state.Known("R2"), Journal: parachute.Journal{Upgrade: "u0", Step: parachute.Accepted}}, turned},
		"it closed its way in another upgrade":     {back, Host{Running: state.Known("R2"), Journal: parachute.Journal{Upgrade: "u0", From: "R1", To: "R2", Step: parachute.Accepted, Closed: true}}, plain},
		"it is on its way to the old one":          {back, Host{Running: state.Known("R1"), Journal: parachute.Journal{Upgrade: "u1", From: "R2", To: "R1", Step: parachute.Proving}}, turned},
		"nobody knows what it runs":                {back, Host{}, plain},
		"it runs the old one":                      {back, Host{Running: state.Known("R1")}, plain},
		"the site does not go back":                {forward, Host{Running: state.Known("R2")}, parachute.Turn{Wish: parachute.Go, Upgrade: "u1", From: "R1", To: "R2"}},
		"the way back is closed":                   {closed, Host{Running: state.Known("R2")}, parachute.Turn{Wish: parachute.Go, Upgrade: "u1", From: "R1", To: "R2"}},
	} {
		c.host.Name = "cp-1"
		if got := (Site{Record: c.record, Hosts: []Host{c.host}}).TurnOf("cp-1"); got != c.want {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
