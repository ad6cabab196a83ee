package labsite

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

func TestAWaitThatEndsInVainSaysTheLastReason(t *testing.T) {
	looks := 0
	err := Until(t.Context(), 30*time.Millisecond, time.Millisecond, func() error {
		looks++
		return errors.New("look " + strings.Repeat("I", min(looks, 2)))
	})
	if err == nil || err.Error() != "look II" {
		t.Errorf("%v after %d looks", err, looks)
	}
	if err := Until(t.Context(), time.Minute, time.Millisecond, func() error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestAHostsAddressIsOfTheFamilyThatIsAsked(t *testing.T) {
	list := []netip.Addr{netip.MustParseAddr("fd98::11"), netip.MustParseAddr("10.98.0.11")}
	if a := OfFamily(list, lab.V4); a != list[1] {
		t.Errorf("v4 is %s", a)
	}
	if a := OfFamily(list, lab.V6); a != list[0] {
		t.Errorf("v6 is %s", a)
	}
	if a := OfFamily(list[:1], lab.V4); a.IsValid() {
		t.Errorf("v4 of none is %s", a)
	}
}

func TestThePressureOfAMachineIsRead(t *testing.T) {
	got, err := parseWaited("some avg10=57.46 avg60=56.91 avg300=78.64 total=16339850758\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	if err != nil || got != 16339850758*time.Microsecond {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := parseWaited("full avg10=0.00 total=1\n"); err == nil {
		t.Error("a text without the line is no error")
	}
}

func TestTheRequestsOfATypeAreReadOfTheLabsLog(t *testing.T) {
	log := "time=2026-11-30T10:00:00Z level=INFO msg=reset bmc=cp-1 type=ForceOff from=10.99.0.12:4711 status=204\n" +
		"time=2026-11-30T10:00:01Z level=INFO msg=reset bmc=cp-1 type=On from=10.99.0.12:4712 status=204\n" +
		"time=2026-11-30T10:00:02Z level=INFO msg=power host=cp-2 action=cut\n" +
		"time=2026-11-30T10:00:03Z level=INFO msg=reset bmc=cp-2 type=ForceOff from=10.99.0.11:4713 status=500\n"
	got := resetsIn([]byte(log), ForceOff)
	if len(got) != 2 || got[0].Host != "cp-1" || got[1].Host != "cp-2" || !strings.HasSuffix(got[1].Line, "status=500") {
		t.Errorf("%+v", got)
	}
	if got := resetsIn([]byte(log), "On"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
