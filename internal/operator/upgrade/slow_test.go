package upgrade

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheLastAnswerAboutEqualDataCountsUntilThereIsAnother: large data are compared at compactions, so an
// answer may be minutes away. It does not count in another moment of an upgrade.
func TestTheLastAnswerAboutEqualDataCountsUntilThereIsAnother(t *testing.T) {
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	unknown, yes, no := state.Fact[bool]{}, state.Known(true), state.Known(false)
	var k kept
	for _, step := range []struct {
		what   string
		after  time.Duration
		other  bool
		answer state.Fact[bool]
		asked  bool
		want   state.Fact[bool]
	}{
		{"the first look has no answer", 0, true, unknown, true, unknown},
		{"it is asked at each look", time.Second, false, unknown, true, unknown},
		{"until there is one", time.Second, false, yes, true, yes},
		{"which counts", equalAtRest - time.Second, false, no, false, yes},
		{"and longer while there is no other one", time.Second, false, unknown, true, yes},
		{"but not for ever", equalGrace, false, unknown, true, unknown},
		{"the next answer", time.Second, false, yes, true, yes},
		{"another moment", time.Second, true, unknown, true, unknown},
		{"the data differ", time.Second, false, no, true, no},
	} {
		now = now.Add(step.after)
		asked := false
		k.compare(now, equalAtRest, step.other, func() state.Fact[bool] { asked = true; return step.answer })
		if asked != step.asked || k.equal != step.want {
			t.Errorf("%s: asked %t, %+v", step.what, asked, k.equal)
		}
	}
}
