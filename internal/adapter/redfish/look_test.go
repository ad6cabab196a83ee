package redfish

import (
	"testing"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

func TestOneAnswerTellsPowerIdentityAndWhatIsOffered(t *testing.T) {
	for _, q := range []bmc.Quirks{{}, {ActionInfoOnly: true}} {
		s, _, e := controller(t, true)
		s.SetQuirks(q)
		got, err := open(t, e).ReadSystem(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Power != On || !sameUUID(got.UUID, testUUID) || got.Serial != testSerial {
			t.Errorf("%+v: got %+v", q, got)
		}
		if !got.Offers(ResetForceOff) || !got.Offers(ResetOn) || got.Offers("FullPowerCycle") {
			t.Errorf("%+v: offers %v", q, got.Resets)
		}
	}
}

func TestSystemsOfAControllerAreListed(t *testing.T) {
	s, _, e := controller(t, true)
	s.SetQuirks(bmc.Quirks{ExtraSystems: 2})
	got, err := open(t, e).Systems(t.Context())
	if err != nil || len(got) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
}
