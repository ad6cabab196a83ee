package leafcert

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestACertificateFromALaterDayIsRenewedOnceAnAdministratorAcceptsTheClock, and only
// while something synchronises the clock.
func TestACertificateFromALaterDayIsRenewedOnceAnAdministratorAcceptsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, leafcert.Life)
		synchronised := false
		h.Synchronised = func() (bool, error) { return synchronised, nil }
		for _, l := range h.leaves() {
			if l.Path == leafcert.APIServer || l.Restart == leafcert.Scheduler {
				h.issue(l, time.Now().Add(700*day), leafcert.Life)
			}
		}
		time.Sleep(leafcert.Life * 3 / 4) // the others are due too
		step := func(what, problem string, renewed int) {
			t.Helper()
			_, err := h.step(t.Context())
			if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
				t.Fatalf("%s: %v", what, err)
			}
			if got := len(h.renewed.all()); got != renewed {
				t.Fatalf("%s: %d are renewed, want %d", what, got, renewed)
			}
		}
		step("nobody has accepted it", "certificates clock --accept", 0)
		h.put(leafcert.AcceptedPath, `{"at":"`+time.Now().UTC().Format(time.RFC3339)+`"}`, state.SecretFileMode)
		step("nothing synchronises it", "certificates clock --accept", 0)
		synchronised = true
		step("accepted", "", len(h.leaves()))
		h.valid()
		time.Sleep(2 * leafcert.AcceptLimit)
		for _, l := range h.leaves() {
			if l.Path == leafcert.APIServer {
				h.issue(l, time.Now().Add(day), leafcert.Life)
			}
		}
		step("accepted hours ago", "certificates clock --accept", len(h.leaves()))
		h.put(leafcert.AcceptedPath, "{", state.SecretFileMode)
		step("damaged", leafcert.AcceptedPath, len(h.leaves()))
	})
}
