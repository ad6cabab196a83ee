package standing

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

func TestAnOperatorThatDoesNotRunIsAWarningAfterThreeMinutes(t *testing.T) {
	const pods, scale = "kubectl -n openshift-etcd get pods -l app.kubernetes.io/name=holdfast-operator -o wide", "kubectl -n openshift-etcd scale deployment holdfast-operator --replicas=1"
	for what, c := range map[string]struct {
		own              Seen[OwnOperator]
		problem, command string
	}{
		"it runs":             {Know(OwnOperator{Available: true, Since: now.Add(-time.Hour)}, saidTest, now), "", ""},
		"its pod is made new": {Know(OwnOperator{Since: now.Add(-silent + time.Second)}, saidTest, now), "", ""},
		"it does not run":     {Know(OwnOperator{Since: now.Add(-silent)}, saidTest, now), "holdfast-operator does not run for 3m00s", pods},
		"nobody says when":    {Know(OwnOperator{}, saidTest, now), "holdfast-operator does not run", pods},
		"it is switched off":  {Know(OwnOperator{Off: true}, saidTest, now), "holdfast-operator does not run: its Deployment wants no pod", scale},
		"it may not be read":  {Seen[OwnOperator]{}, "", ""},
		"it was read once":    {Seen[OwnOperator]{Value: OwnOperator{Off: true}}, "", ""},
	} {
		f := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
		f.OwnOperator = c.own
		var found []finding.Finding
		for _, x := range Describe(Merge(f)).Findings {
			if x.ID == OperatorSilent {
				found = append(found, x)
			}
		}
		if c.problem == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", what, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Severity != finding.Warning || found[0].Problem != c.problem || found[0].Commands[0].Line != c.command || found[0].Page != pageOperator {
			t.Errorf("%s: %+v", what, found)
		}
	}
}
