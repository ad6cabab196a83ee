package life_test

import (
	"errors"
	"testing"
)

// errOver is a moment that was over when the power was away.
var errOver = errors.New("it was over")

// misses are the moments at which no power cut struck.
type misses []string

// shot is a power cut at a moment.
type shot struct {
	// played is false for a scenario that nobody chose.
	played bool
	// hit is true if the moment still held when the power was away.
	hit bool
}

// aim plays a scenario that cuts the power at a moment, and once more if the cut came too
// late.
func (m *misses) aim(t *testing.T, name string, play func(*shot)) {
	t.Helper()
	for range 2 {
		var s shot
		if play(&s); s.hit || !s.played || t.Failed() {
			return
		}
		t.Logf("%s: the cut came too late", name)
	}
	*m = append(*m, name)
}

// tell fails the test for each moment that was missed twice. It comes last, so that all
// others are played.
func (m *misses) tell(t *testing.T) {
	t.Helper()
	for _, name := range *m {
		t.Errorf("%s: twice the moment was over when the power was away: nothing is shown of it", name)
	}
}

// hits tells whether a moment of a host still held when the power was away. look reads the
// disk below root, and returns errOver if it did not hold. Only what is read of the victim
// itself while it is off is as it was when it lost its power; all else is told alone.
func (tr *trial) hits(onTheWay, victim string, look func(root string) error) bool {
	tr.Helper()
	if victim != onTheWay {
		root, err := tr.Lab.Root(tr.Context(), tr.Power, onTheWay)
		if err == nil {
			err = look(root)
		}
		tr.Logf("right after %s lost its power %s is still there: %t (%v)", victim, onTheWay, err == nil, err)
		return true
	}
	err := tr.Offline(tr.Context(), victim, look)
	st, unknown := tr.PowerOf(tr.Context(), victim)
	if unknown != nil || st.PID != 0 {
		tr.Logf("NOT KNOWN whether the moment held: %s ran again before its disk was read (%v, %v)", victim, err, unknown)
		return true
	}
	tr.Logf("%s lost its power at that moment: %t (%v)", victim, err == nil, err)
	return !errors.Is(err, errOver)
}
