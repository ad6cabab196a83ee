package fence

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// confirmedReport returns the etcd keeper's report after an administrator has
// confirmed that cp-1 is off.
func confirmedReport() state.EtcdReport {
	r := state.EtcdReport{At: time.Now()}
	r.Snapshot.Peer, r.Snapshot.Boot = "cp-1", "boot-1"
	r.Snapshot.Pacemaker.Contact, r.Snapshot.Pacemaker.Joined = state.Known(false), 10*time.Second
	r.Snapshot.Proofs.Human = state.Known(state.Confirmation{Who: "operator", Boot: "boot-1", At: 40 * time.Second})
	return r
}

// TestAFenceUnderWayGivesWayToAPersonsWord plays F7: the mains come back after
// an administrator confirmed that the host is off.
func TestAFenceUnderWayGivesWayToAPersonsWord(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.bmc.SetQuirks(bmc.Quirks{Unreachable: true})
	var mu sync.Mutex
	var word *state.EtcdReport
	asked := 0
	b.etcd = func(context.Context) (state.EtcdReport, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		switch {
		case asked == 2: // the fence is in progress
			r := confirmedReport()
			word = &r
			b.bmc.SetQuirks(bmc.Quirks{}) //nolint:contextcheck // the simulator has its own
		case word == nil:
			return state.EtcdReport{At: time.Now()}, nil
		}
		return *word, nil
	}
	if code := b.call(t, "action=reboot", "plug=cp-1", "power_timeout=20"); code != exitFailed || b.resets() != "[]" {
		t.Errorf("exit %d after %s", code, b.resets())
	}
	if !strings.Contains(b.err.String(), "an administrator confirmed") || b.evidence(t) != nil {
		t.Errorf("it says %s; evidence %v", b.err.String(), b.evidence(t))
	}
	if code := b.call(t, "action=reboot", "plug=cp-1", "power_timeout=20"); code != exitFailed || b.resets() != "[]" {
		t.Errorf("tried again at once, as Pacemaker does: exit %d after %s", code, b.resets())
	}
	if code := b.run(t.Context(), options{action: "off", target: "cp-1", powerTimeout: time.Minute, byHand: true}); code != exitOK || b.resets() != "[ForceOff]" {
		t.Errorf("by hand: exit %d after %s: %s", code, b.resets(), b.err.String())
	}
	if code := b.call(t, "action=reboot", "plug=cp-1", "power_timeout=20"); code != exitOK || b.resets() != "[ForceOff On]" {
		t.Errorf("off is off all the same: exit %d after %s", code, b.resets())
	}
}

func TestAWordThatDoesNotStandKeepsNobodyFromFencing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*state.EtcdReport){
		"the peer has joined since":        func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Joined = time.Minute },
		"the peer is there":                func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact = state.Known(true) },
		"whether it is there is not known": func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact = state.Fact[bool]{} },
		"it is of another boot":            func(r *state.EtcdReport) { r.Snapshot.Boot = "boot-2" },
		"it is about another host":         func(r *state.EtcdReport) { r.Snapshot.Peer = "cp-3" },
		"the agent of etcd hangs":          func(r *state.EtcdReport) { r.At = r.At.Add(-time.Minute) },
		"nobody said anything":             func(r *state.EtcdReport) { r.Snapshot.Proofs.Human = state.Fact[state.Confirmation]{} },
	} {
		b := newBench(t, testPassword)
		r := confirmedReport()
		change(&r)
		b.etcd = func(context.Context) (state.EtcdReport, error) { return r, nil }
		if b.confirmed(t.Context(), "cp-1") {
			t.Errorf("%s: the fence gives way", name)
		}
	}
	b := newBench(t, testPassword)
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK { // the etcd keeper does not answer
		t.Errorf("exit %d: %s", code, b.err.String())
	}
}
