package upgrade

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestATimeApartOutlivesTheProcessThatSawIt: the peer is away until just before the deadline, and the
// agent starts anew once it is back. The release has its time, and is judged by it alone.
func TestATimeApartOutlivesTheProcessThatSawIt(t *testing.T) {
	for what, bad := range map[string]string{"it is good": "", "it is bad": "etcd"} {
		w := newWorld(t)
		w.bad = "etcd"
		w.turn(parachute.Go)
		w.until(parachute.Started)
		w.apart = true
		for range 20 {
			w.tick(false)
		}
		_, before, err := w.effects().Journal.Read()
		if err != nil {
			t.Fatal(err)
		}
		for range 74 { // 282 s in all
			w.tick(false)
		}
		if _, number, err := w.effects().Journal.Read(); err != nil || number != before {
			t.Errorf("%s: the journal was written %d times while nothing changed: %v", what, number-before, err)
		}
		w.apart = false
		for range 4 {
			w.tick(false)
		}
		w.process()
		for range 20 {
			w.tick(false)
		}
		if w.current != newOne {
			t.Fatalf("%s: it has not had its time: %+v", what, w.journal())
		}
		w.bad = bad
		w.rests(false)
		if j := w.journal(); (w.current == newOne) != (bad == "") || j.Failed != (bad != "") {
			t.Errorf("%s: %+v, it has %s", what, j, w.current)
		}
	}
}

// TestTheParachuteNotesATimeApart, since an agent that starts anew, or never runs, does not see it.
func TestTheParachuteNotesATimeApart(t *testing.T) {
	w := newWorld(t)
	w.broken = "agent"
	w.turn(parachute.Go)
	w.until(parachute.Started)
	w.apart = true
	w.parachuteAlone(4*time.Minute + 30*time.Second)
	w.apart = false
	w.parachuteAlone(time.Minute)
	if j := w.journal(); w.current != newOne || j.Apart.IsZero() || j.Joined.IsZero() {
		t.Fatalf("it has %s: %+v", w.current, j)
	}
	w.parachuteAlone(2 * time.Minute)
	if j := w.journal(); w.current != oldOne || !j.Failed {
		t.Errorf("it has %s: %+v", w.current, j)
	}
}

// TestACorosyncOfWhichNothingIsKnownIsNoPeerThatIsBack.
func TestACorosyncOfWhichNothingIsKnownIsNoPeerThatIsBack(t *testing.T) {
	m, _, _ := onDisk(t, parachute.OfTwo)
	for _, c := range []struct {
		members state.Fact[state.Membership]
		want    state.Fact[bool]
	}{
		{state.Fact[state.Membership]{}, state.Fact[bool]{}},
		{state.Known(state.Membership{Members: []string{"cp-1"}}), state.Known(true)},
		{state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}}), state.Known(false)},
	} {
		m.members = func(context.Context) state.Fact[state.Membership] { return c.members }
		if got := m.host().Apart(t.Context()); got.Known != c.want.Known || got.Known && got.Value != c.want.Value {
			t.Errorf("%+v: %+v", c.members, got)
		}
	}
}
