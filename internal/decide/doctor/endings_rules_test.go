package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatEndsInTheAPIIsJudgedByWhoRenewsIt: each kind of it at each age, before, at and
// after the time that is asked for.
func TestWhatEndsInTheAPIIsJudgedByWhoRenewsIt(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, time.Hour, 30 * day, 400 * day} {
		for _, left := range []time.Duration{-90 * day, -time.Second, 0, time.Minute, time.Hour, 47 * time.Hour, 48 * time.Hour, 30 * day, 30*day + 1, 399 * day, 400 * day, 400*day + 1, 4000 * day} {
			for bits := range 4 {
				e := Ending{What: "the certificate in Secret shop/tls", Ends: at.Add(left), Personal: bits&1 != 0}
				if bits&2 != 0 {
					e.Renewer = "holdfast-operator"
				}
				f := Facts{At: at, Topology: Topology{ControlPlanes: 1}, Hosts: []Host{{Name: "cp-1", Certificates: state.Known([]Certificate{})}}}
				f.Cluster.Ends = state.Known([]Ending{e})
				var got []finding.Finding
				r := WillExpire(f, after)
				for _, one := range r.Findings {
					if strings.HasPrefix(one.Problem, e.What) {
						got = append(got, one)
					}
				}
				bad := func(rule string) {
					t.Helper()
					t.Errorf("after %s, %s left, %+v: %+v: %s", after, left, e, got, rule)
				}
				if left > after {
					if len(got) > 0 || r.Severity != finding.OK {
						bad("what ends later is not told")
					}
					continue
				}
				if len(got) != 1 || got[0].Subject != "" || r.Severity != got[0].Severity {
					bad("what ends until then is told once")
					continue
				}
				level, who := finding.Warning, "nothing renews it"
				if e.Renewer != "" {
					level, who = finding.Note, "holdfast-operator renews it"
				}
				if e.Personal { // whoever chose its life knows of it
					level, who = finding.Note, "nothing renews it; 'holdfast kubeconfig' makes another one"
				}
				if got[0].Severity != level || !strings.HasSuffix(got[0].Problem, fmt.Sprintf(", on %s: %s", e.Ends.Format(time.DateOnly), who)) {
					bad("who renews it is told, and how bad that is")
				}
				if strings.Contains(got[0].Problem, " expired ") != (left <= 0) || strings.Contains(got[0].Problem, " hours,") != (left > 0 && left < 48*time.Hour) {
					bad("when it ends is told")
				}
			}
		}
	}
}

// TestWhatNobodyAskedTheAPIIsUnseen: also where it has a value that no source gave.
func TestWhatNobodyAskedTheAPIIsUnseen(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	f := Facts{At: at, Topology: Topology{ControlPlanes: 1}, Hosts: []Host{{Name: "cp-1", Certificates: state.Known([]Certificate{})}}}
	f.Cluster.Ends = state.Fact[[]Ending]{Value: []Ending{{What: "a certificate", Ends: at}}}
	r := WillExpire(f, 30*day)
	if len(r.Findings) != 1 || r.Findings[0].Severity != finding.OK || len(r.Unseen) != 1 || r.Unseen[0] != "certificates in the API" {
		t.Errorf("%+v", r)
	}
	f.Cluster.Ends = state.Known([]Ending(nil))
	if r := WillExpire(f, 30*day); len(r.Unseen) > 0 || len(r.Findings) != 1 {
		t.Errorf("none at all: %+v", r)
	}
}
