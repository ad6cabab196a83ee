package host

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// docs/facts/loss.md#hard-cases-of-loss, L76: the time server cannot be reached from the new
// network. No unit of a host waits for it, so the site serves by the clock of its hosts; doctor
// says that nothing keeps it right.
func TestL76NoUnitWaitsForATimeServer(t *testing.T) {
	for _, config := range []string{sitetest.OneNone, sitetest.TwoDual, sitetest.ThreeV6} {
		s := fixed(t, config)
		for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
			for _, u := range units(s, role) {
				text := u.Contents
				for _, d := range u.Dropins {
					text += d.Contents
				}
				for _, word := range []string{"time-sync", "time-set", "timesync", "chrony", "ntp"} {
					if strings.Contains(text, word) {
						t.Errorf("%s of a %s: %s", u.Name, role, word)
					}
				}
			}
		}
	}
}
