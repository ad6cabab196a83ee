package carry

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestABMCIsNotAskedAtEveryLook counts the log-ins of an hour of looks, two seconds apart.
func TestABMCIsNotAskedAtEveryLook(t *testing.T) {
	for what, c := range map[string]struct {
		report fence.Report
		refuse bool
		most   int
	}{
		"it is well":             {fence.Report{}, false, int(time.Hour / countsWell)},
		"it does not answer":     {fence.Report{Problems: []string{"no answer"}}, false, int(time.Hour / countsIll)},
		"it refuses the account": {fence.Report{Problems: []string{"refused"}}, true, int(time.Hour / countsRefused)},
	} {
		now, asked := time.Unix(0, 0), 0
		m := NewTested(func(context.Context, state.FencingDevice) fence.Report { asked++; return c.report }, func() time.Time { return now })
		m.refused = func(fence.Report) bool { return c.refuse }
		for ; now.Before(time.Unix(0, 0).Add(time.Hour)); now = now.Add(2 * time.Second) {
			if r := m.Device(t.Context(), state.FencingDevice{Address: "a", Username: "u", Password: "p"}); len(r.Problems) != len(c.report.Problems) {
				t.Fatalf("%s: %+v", what, r)
			}
		}
		if asked == 0 || asked > c.most {
			t.Errorf("%s: %d tests in an hour, want %d at most", what, asked, c.most)
		}
	}
}

// TestARefusedAccountIsRefusedForEachMachine: both tests of a look log in by the same account.
func TestARefusedAccountIsRefusedForEachMachine(t *testing.T) {
	var asked []string
	m := NewTested(func(_ context.Context, d state.FencingDevice) fence.Report {
		asked = append(asked, d.Password+" "+d.UUID)
		return fence.Report{Problems: []string{"refused"}}
	}, func() time.Time { return time.Unix(0, 0) })
	m.refused = func(fence.Report) bool { return true }
	for _, d := range []state.FencingDevice{{Password: "old", UUID: "1"}, {Password: "old", UUID: "2"}, {Password: "new", UUID: "2"}} {
		m.Device(t.Context(), d)
	}
	if len(asked) != 2 || asked[1] != "new 2" {
		t.Errorf("it tested %q", asked)
	}
}

// TestWhatWasNotAskedToItsEndIsForgotten: a look that ended says nothing of the BMC.
func TestWhatWasNotAskedToItsEndIsForgotten(t *testing.T) {
	asked := 0
	m := NewTested(func(context.Context, state.FencingDevice) fence.Report {
		asked++
		return fence.Report{Problems: []string{"context canceled"}}
	}, func() time.Time { return time.Unix(0, 0) })
	ended, end := context.WithCancel(t.Context())
	end()
	m.Device(ended, state.FencingDevice{})
	m.Device(ended, state.FencingDevice{})
	if asked != 2 {
		t.Errorf("%d tests", asked)
	}
}
