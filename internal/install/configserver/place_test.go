package configserver

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostIsToldWithoutATokenThatAnotherMachineHasItsPlace(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Place = func(host string, m state.Machine) (string, error) {
			if host == "cp-2" && m == (state.Machine{UUID: "aa-1", Serial: "S 1"}) {
				return "another machine takes the place of cp-2", nil
			}
			return "", nil
		}
	})
	for path, want := range map[string]string{
		"/hosts/cp-2/place?uuid=aa-1&serial=S+1": "another machine", "/hosts/cp-2/place?uuid=bb-2&serial=S+1": "", "/hosts/cp-2/place": "",
	} {
		status, body, _ := s.ask(t, "GET", path, "", "")
		var said standing
		if err := json.Unmarshal([]byte(body), &said); status != 200 || err != nil || !strings.HasPrefix(said.Out, want) || want == "" && said.Out != "" {
			t.Errorf("%s: %d %q %v", path, status, body, err)
		}
	}
	if status, _, _ := s.ask(t, "POST", "/hosts/cp-2/place?uuid=aa-1", "", "x"); status != 405 {
		t.Errorf("a place is written: %d", status)
	}
}

func TestAServerThatKnowsNoPlacesSaysNothingOfThem(t *testing.T) {
	s := newSite(t, nil)
	if status, _, _ := s.ask(t, "GET", "/hosts/cp-2/place?uuid=aa-1", "", ""); status != 404 {
		t.Error(status)
	}
}

func TestAHostIsToldWithoutATokenWhichLifeOfItsSiteServes(t *testing.T) {
	want := state.Life{ID: "a", Began: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)}
	for _, l := range []state.Life{want, {}} {
		s := newSite(t, func(o *Options) { o.Life = l })
		got, known, err := newClient(s).Life(t.Context())
		if got != l || !known || err != nil {
			t.Errorf("%+v, %v, %v, want %+v", got, known, err, l)
		}
		if status, _, _ := s.ask(t, "POST", lifePath, "", "x"); status != 405 {
			t.Errorf("a life is written: %d", status)
		}
	}
}
