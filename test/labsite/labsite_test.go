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
