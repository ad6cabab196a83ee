package fence

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/lab/bmc/zootest"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestEachKindOfBMCIsProbedAndFences tests the BMC of each file as the monitor
// does, and fences its host.
func TestEachKindOfBMCIsProbedAndFences(t *testing.T) {
	for _, bmc := range zootest.Load(t, "../adapter/redfish/testdata/zoo") {
		t.Run(bmc.Name, func(t *testing.T) {
			b := newBench(t, "пароль") // which fence_redfish does not accept: these simulated BMCs serve only this agent
			b.at(t, bmc.Serve(t))
			b.dev.LegacyTLS = bmc.Legacy()
			b.dev.UUID, b.dev.Serial, b.dev.SystemID = bmc.Host.UUID, bmc.Host.Serial, bmc.SystemID
			b.hears = func(context.Context, string) state.Fact[bool] { return state.Known(!bmc.Off()) }
			b.write(t)
			dev, err := readDevice(b.Files, b.dev.Target)
			if err != nil {
				t.Fatal(err)
			}
			r := b.test(t.Context(), dev, 1)
			want := IdentityMatches
			if bmc.SystemID != "" {
				want = IdentityNamed
			}
			if (len(r.Problems) == 0) != bmc.Want.Fences || r.Identity != want || r.System != bmc.System {
				t.Errorf("the probe says %+v", r)
			}
			if r.Compare(bmc.Host.UUID, bmc.Host.Serial); r.Identity != want {
				t.Errorf("compared with its host: %+v", r)
			}
			timeout := map[bool]string{true: "power_timeout=20", false: "power_timeout=2"}[bmc.Want.Fences]
			code := b.call(t, "action=off", "plug=cp-1", timeout)
			if fenced := code == exitOK; fenced != bmc.Want.Fences || bmc.Off() != fenced || (b.evidence(t) != nil) != fenced {
				t.Errorf("exit %d, the host is off: %v: %s", code, bmc.Off(), b.err.String())
			}
			if resets, odd := bmc.Asked(); len(odd) != 0 || strings.ReplaceAll(strings.Join(resets, ""), "ForceOff", "") != "" {
				t.Errorf("asked %q, and %q", resets, odd)
			}
		})
	}
}
