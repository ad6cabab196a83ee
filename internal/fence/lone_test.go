package fence

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

func TestAHostThatIsHeardIsNotConfirmedToBeOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	b.bmc.SetQuirks(bmc.Quirks{Says: "Off"}) // the host runs
	if err := b.confirmOff(t.Context(), "cp-1"); err == nil || !strings.Contains(err.Error(), "still answers") || b.evidence(t) != nil {
		t.Errorf("%v, evidence %v", err, b.evidence(t))
	}
	b.machine.On.Store(false)
	if err := b.confirmOff(t.Context(), "cp-1"); err != nil || b.evidence(t) == nil {
		t.Errorf("%v, evidence %v", err, b.evidence(t))
	}
}

func TestOneReadingIsDatedAndSwitchesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, testPassword)
	proof, err := b.read(t.Context(), "cp-1")
	if err != nil || proof.State != "On" || proof.Boot != "boot-1" || proof.At == 0 {
		t.Errorf("%+v, %v", proof, err)
	}
	b.bmc.SetQuirks(bmc.Quirks{OtherIdentity: true, Says: "Off"})
	if proof, err := b.read(t.Context(), "cp-1"); err == nil {
		t.Errorf("another machine's BMC is read: %+v", proof)
	}
	if b.resets() != "[]" || b.evidence(t) != nil {
		t.Errorf("resets %s, evidence %v", b.resets(), b.evidence(t))
	}
}
