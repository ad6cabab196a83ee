package hostapply_test

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

func TestWhatSomebodyChangedIsToldOfAHostAtRestAlone(t *testing.T) {
	what := []string{"/etc/motd", "a.service"}
	for _, c := range []struct {
		state, want rollout.State
		reason      string
	}{
		{rollout.Done, rollout.Degraded, "somebody changed /etc/motd, a.service"},
		{rollout.Working, rollout.Working, "writes new"},
		{rollout.Degraded, rollout.Degraded, "writes new"},
	} {
		r := hostapply.Report{State: c.state, Reason: "writes new"}.Changed(what)
		if r.State != c.want || r.Reason != c.reason || (r.Stage == rollout.Changed) != (c.state == rollout.Done) {
			t.Errorf("%s: got %+v", c.state, r)
		}
	}
	if r := (hostapply.Report{State: rollout.Done}).Changed(nil); r.State != rollout.Done {
		t.Errorf("nothing changed: %+v", r)
	}
}

func TestTheConfigurationOfAHostIsTheOneThatItIsOnItsWayTo(t *testing.T) {
	for want, j := range map[string]hostapply.Journal{
		"old": {Good: "old", Failed: "bad"}, "new": {Good: "old", Target: "new"}, "good": {Good: "good", Target: "new", Back: true},
	} {
		if got := j.Config(); got != want {
			t.Errorf("%+v: %q", j, got)
		}
	}
}
