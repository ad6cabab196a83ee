package upgrade

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// TestAHostIsSwitchedByTheJournalOfThatMoment: podman may take minutes to load etcd, and the host
// may have begun to return by then.
func TestAHostIsSwitchedByTheJournalOfThatMoment(t *testing.T) {
	asked := errors.New("the level is asked for")
	for what, c := range map[string]struct {
		before, then parachute.Step
		want         bool
	}{
		"it is to be switched":          {parachute.Switched, parachute.Switched, true},
		"it returns by then":            {parachute.Switched, parachute.Returning, false},
		"it was given up by then":       {parachute.Switched, parachute.Returned, false},
		"it was not to be switched yet": {parachute.Armed, parachute.Switched, false},
	} {
		m, _, _ := onDisk(t, parachute.OfTwo)
		note := func(s parachute.Step, number int) {
			if err := m.store.Write(parachute.Journal{From: oldOne, To: newOne, Step: s}, number); err != nil {
				t.Fatal(err)
			}
		}
		note(c.before, 1)
		m.pods.Level = func(string, string) (string, error) { // the switch itself is next
			if _, err := m.store.Lock(); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: somebody else may decide meanwhile: %v", what, err)
			}
			return "", asked
		}
		err := m.switchForward(t.Context(), func(context.Context, string) error { note(c.then, 2); return nil })
		if errors.Is(err, asked) != c.want || err == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAHostIsNotSwitchedWhileSomebodyDecides(t *testing.T) {
	m, _, _ := onDisk(t, parachute.Worker)
	if err := m.store.Write(parachute.Journal{From: oldOne, To: newOne, Step: parachute.Switched}, 1); err != nil {
		t.Fatal(err)
	}
	unlock, err := m.store.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := m.switchForward(t.Context(), nil); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
}
