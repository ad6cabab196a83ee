package install

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// docs/facts/loss.md#hard-cases-of-loss, L56: a machine whose clock is years behind says so
// before it fetches or writes anything, and goes on once the clock is right.
func TestL56AMachineWhoseClockIsBehindWaitsForTheTime(t *testing.T) {
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		r, _ := newRun(t, role)
		r.Site = sitetest.New(t, sitetest.TwoDual).For(role)
		made := r.Site.Identity.Created
		at := func(now time.Time) error {
			r.Now = func() time.Time { return now }
			return r.ownClock()
		}
		if err := at(made.AddDate(-7, 0, 0)); err == nil || !strings.Contains(err.Error(), "of this site began on") {
			t.Errorf("%s, seven years behind: %v", role, err)
		}
		if err := at(made.Add(time.Minute)); err != nil {
			t.Errorf("%s, a minute later: %v", role, err)
		}
	}
	r, _ := newRun(t, state.RoleBootstrap)
	r.Site = sitetest.New(t, sitetest.TwoDual)
	taken := r.Site.Identity.Created.AddDate(2, 0, 0)
	r.Site.Restore = &site.Restore{Taken: taken}
	r.Now = func() time.Time { return taken.AddDate(-1, 0, 0) }
	if err := r.ownClock(); err == nil || !strings.Contains(err.Error(), "the backup of this site was taken on") {
		t.Errorf("a year before the backup: %v", err)
	}
	r.Site.Restore.Taken = time.Time{} // the clock of the backup's host was ahead
	if err := r.ownClock(); err != nil {
		t.Errorf("it compares its clock with a time that nobody knows: %v", err)
	}
	r.Site.Restore.Taken = taken
	r.Site.Identity.EtcdCA.Cert = "-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n"
	r.Now = func() time.Time { return taken }
	if err := r.ownClock(); err != nil {
		t.Errorf("a certificate that cannot be read is another step's fault: %v", err)
	}
	if first := r.steps()[0]; first.name != "look at this machine" || !first.always {
		t.Errorf("the first step is %s, and the clock belongs to the look at the machine", first.name)
	}
}
