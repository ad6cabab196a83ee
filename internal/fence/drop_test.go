package fence

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// TestARequestThatABMCDropsIsSentAgain uses BMCs that answer success and do
// nothing, some while they are busy with a power-off, some at random. The agent
// sends the requests itself, because the behaviour of fence_redfish is not ours.
func TestARequestThatABMCDropsIsSentAgain(t *testing.T) {
	t.Parallel()
	seconds := func(n float64) bmc.Duration { return bmc.Duration(n * float64(time.Second)) }
	for name, c := range map[string]struct {
		quirks bmc.Quirks
		action string
		on     bool   // the host runs before
		resets string // the prefix of the resets that the BMC got
		ends   bool   // the host has power afterwards
	}{
		"one power-off":                   {bmc.Quirks{DropResets: 1}, "off", true, "[ForceOff ForceOff]", false},
		"three power-offs":                {bmc.Quirks{DropResets: 3}, "off", true, "[ForceOff ForceOff ForceOff ForceOff]", false},
		"power-ons while it is busy":      {bmc.Quirks{DropOnAfterOff: seconds(1.5)}, "reboot", true, "[ForceOff On On", true},
		"power-ons are refused meanwhile": {bmc.Quirks{RefuseOnAfterOff: seconds(1.5)}, "reboot", true, "[ForceOff On On", true},
		"one power-on by hand":            {bmc.Quirks{DropResets: 1}, "on", false, "[On On]", true},
		"two power-ons by hand":           {bmc.Quirks{DropResets: 2}, "on", false, "[On On On]", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "пароль")
			b.retryAfter, b.onBudget = 200*time.Millisecond, 30*time.Second
			b.machine.On.Store(c.on)
			b.bmc.SetQuirks(c.quirks)
			if code := b.call(t, "action="+c.action, "plug=cp-1", "power_timeout=30"); code != exitOK || b.runs(c.ends) != c.ends {
				t.Errorf("exit %d, the host runs: %v: %s", code, b.machine.On.Load(), b.err.String())
			}
			if fenced := c.action != "on"; (b.evidence(t) != nil) != fenced {
				t.Errorf("evidence %v", b.evidence(t))
			}
			if got := b.resets(); !strings.HasPrefix(got, c.resets) {
				t.Errorf("asked %s, want %s", got, c.resets)
			}
		})
	}
}

// TestAPowerOnThatABMCDropsForeverIsTold: the fence succeeds nevertheless.
func TestAPowerOnThatABMCDropsForeverIsTold(t *testing.T) {
	lasts(t)
	t.Parallel()
	b := newBench(t, "пароль")
	b.onBudget = 2 * time.Second
	b.bmc.SetQuirks(bmc.Quirks{DropOnAfterOff: bmc.Duration(time.Hour)})
	if code := b.call(t, "action=reboot", "plug=cp-1"); code != exitOK || b.evidence(t) == nil {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	// The time may end during the last reading, before the BMC has answered.
	for _, want := range []string{"could not be switched on again: the BMC ", "and the time is over"} {
		if !strings.Contains(b.err.String(), want) {
			t.Errorf("it does not say %q: %s", want, b.err.String())
		}
	}
}
