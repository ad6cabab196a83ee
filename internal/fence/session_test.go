package fence

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestABMCWithoutBasicAuthenticationFences uses a BMC whose firmware turned
// Basic authentication off.
func TestABMCWithoutBasicAuthenticationFences(t *testing.T) {
	t.Parallel()
	b := newBench(t, "пароль") // fence_redfish opens sessions by itself
	b.bmc.SetQuirks(bmc.Quirks{Basic: bmc.BasicOff})
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK || b.bmc.Sessions() != 0 {
		t.Fatalf("exit %d, %d sessions left: %s", code, b.bmc.Sessions(), b.err.String())
	}
	if l := readLearned(b.Files, "cp-1"); !l.Session {
		t.Errorf("learned %+v", l)
	}
	if code := b.call(t, "action=reboot", "plug=cp-1"); code != exitOK || b.evidence(t) == nil || b.resets() != "[ForceOff On]" || b.bmc.Sessions() != 0 {
		t.Errorf("exit %d after %s, %d sessions left: %s", code, b.resets(), b.bmc.Sessions(), b.err.String())
	}
	if r := b.test(t.Context(), b.device(t), 1); !r.Session || r.Err() != nil || !strings.Contains(strings.Join(r.Warnings, ""), "only in a session") {
		t.Errorf("%+v", r)
	}
	b.bmc.SetQuirks(bmc.Quirks{SessionsHeld: 8}) // somebody turned it on again, and others have all sessions
	b.machine.On.Store(true)
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK {
		t.Errorf("with Basic again: exit %d: %s", code, b.err.String())
	}
	if code := b.call(t, "action=monitor", "plug=cp-1"); code != exitOK || readLearned(b.Files, "cp-1").Session {
		t.Errorf("what was learned stays: exit %d: %s", code, b.err.String())
	}
}

// docs/facts/loss.md#hard-cases-of-loss, L24: 'holdfast fencing verify' names a medium that a
// fenced host may boot. Pacemaker's own test does not look for one.
func TestL24AnInsertedMediumIsToldBeforeAHostIsFenced(t *testing.T) {
	b := newBench(t, "hush")
	told := func(reads int) string {
		r := b.test(t.Context(), b.device(t), reads)
		if r.Err() != nil {
			t.Errorf("a medium keeps nobody from fencing: %v", r.Err())
		}
		return strings.Join(r.Warnings, "\n")
	}
	if got := told(probeReads); strings.Contains(got, "medium") {
		t.Errorf("without one: %s", got)
	}
	b.bmc.SetQuirks(bmc.Quirks{Medium: true})
	if got := told(probeReads); !strings.Contains(got, "virtual medium CD: installer.iso is inserted") || !strings.Contains(got, "Eject it") {
		t.Errorf("with one: %s", got)
	}
	if got := told(1); strings.Contains(got, "medium") {
		t.Errorf("Pacemaker's test: %s", got)
	}
}

// TestAFenceTellsARefusedAccountSeldom uses a BMC that names no way to log in. The
// agent tries both at first, and one at a time from then on. iDRACs lock out an
// account that is refused three times in a minute.
func TestAFenceTellsARefusedAccountSeldom(t *testing.T) {
	lasts(t)
	t.Parallel()
	b := newBench(t, "пароль")
	var mu sync.Mutex
	var told []time.Time
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, time.Now())
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	b.at(t, s.URL+"/redfish/v1/Systems/1")
	b.write(t)
	if code := b.call(t, "action=off", "plug=cp-1", "power_timeout=33"); code != exitFailed || !strings.Contains(b.err.String(), "holdfast fencing rotate cp-1") {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	if problem := Problems(map[string]string{"cp-2": b.told})["cp-1"]; problem.Repair != state.SetAccount {
		t.Errorf("the failed fence announced %+v", problem)
	}
	if n := len(told); n != 3 || told[2].Sub(told[0]) < 25*time.Second {
		t.Errorf("told %d times: %v", n, told)
	}
}
