package redfish

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/bmc"
)

func addressOf(addr, system string) bmc.Address {
	ap := netip.MustParseAddrPort(addr)
	return bmc.Address{Host: ap.Addr().String(), Port: ap.Port(), System: system}
}

// showing returns the endpoint of a server, with an account that must not be
// sent.
func showing(t *testing.T, s *httptest.Server) Endpoint {
	t.Helper()
	at, err := netip.ParseAddrPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return Endpoint{Address: bmc.Address{Host: at.Addr().String(), Port: at.Port()}, Username: "admin", Timeout: 5 * time.Second}
}

func TestWhatABMCShowsIsReadWithoutAnAccount(t *testing.T) {
	date := "Fri, 20 Nov 2026 03:00:02 GMT"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/redfish/v1/" || r.Header.Get("Authorization") != "" || r.Header.Get("X-Auth-Token") != "" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		w.Header()["Date"] = nil
		if date != "" {
			w.Header().Set("Date", date)
		}
		http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusFound)
	}))
	t.Cleanup(s.Close)
	for _, want := range []time.Time{time.Date(2026, 11, 20, 3, 0, 2, 0, time.UTC), {}} {
		got, err := ShownBy(t.Context(), showing(t, s))
		if err != nil {
			t.Fatal(err)
		}
		if !got.Clock.Equal(want) || !got.Ends.Equal(s.Certificate().NotAfter) || got.Answered.Before(got.Asked) || got.Asked.IsZero() {
			t.Errorf("%+v, want the clock %s", got, want)
		}
		date = ""
	}
}

func TestABMCThatShowsNothingIsAnError(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	e := showing(t, s)
	s.Close()
	if _, err := ShownBy(t.Context(), e); err == nil || !strings.Contains(err.Error(), "read the service, BMC https://127.0.0.1") {
		t.Errorf("%v", err)
	}
}
