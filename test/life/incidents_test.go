package life_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// toldAsPlanned checks what `holdfast incidents` tells of a boot of one of two control planes in its turn:
// one incident since then, in which the host left in order by its own decision, that is over and asked
// nobody for anything.
func (tr *trial) toldAsPlanned(host string, since time.Time) {
	tr.Helper()
	if len(tr.ControlPlanes()) != 2 || !slices.Contains(tr.ControlPlanes(), host) {
		return // the records of other sites have no take-overs
	}
	tr.Eventually(bootToldWithin, "holdfast incidents tells of the boot of "+host, func() error {
		out, err := tr.Holdfast(tr.Context(), "incidents", "--kubeconfig", tr.kubeconfig, "-o", "json")
		if err != nil {
			return err
		}
		var list incident.List
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		fresh := slices.DeleteFunc(list.Incidents, func(i decide.Incident) bool { return i.Start.Before(since) })
		if len(fresh) != 1 {
			return fmt.Errorf("it tells of %d incidents since: %q", len(fresh), titles(fresh))
		}
		i := fresh[0]
		if len(i.Failures) != 1 || i.State != decide.Over || len(i.People) > 0 {
			return fmt.Errorf("%q: %d failures, state %s, people %q", i.Title, len(i.Failures), i.State, i.People)
		}
		if f := i.Failures[0]; f.Cause != decide.Planned || f.Why == "" || !slices.Equal(f.Hosts, []string{host}) {
			return fmt.Errorf("%q: cause %s, why %q, hosts %q", i.Title, f.Cause, f.Why, f.Hosts)
		}
		return nil
	})
}

// bootToldWithin is the time for the last records of a host that has booted.
const bootToldWithin = 2 * time.Minute

func titles(list []decide.Incident) []string {
	var out []string
	for _, i := range list {
		out = append(out, i.Title)
	}
	return out
}
