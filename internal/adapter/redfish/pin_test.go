package redfish

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

func TestAPinnedCertificateIsTheOnlyOneThatIsTrusted(t *testing.T) {
	s, _, e := controller(t, true)
	e.RootCAs, e.Name = nil, "cp-1"
	if _, err := Open(t.Context(), e); ReasonOf(err) != Certificate {
		t.Fatalf("an unknown authority is trusted: %v", err)
	}
	e = pinnedNow(t, e)
	pinned := e.Fingerprint
	e.Fingerprint = strings.ToUpper(pinned)
	open(t, e)
	s.SetQuirks(bmc.Quirks{Certificate: bmc.CertificateOtherHost})
	shown := pinnedNow(t, e).Fingerprint
	_, err := Open(t.Context(), e)
	if ReasonOf(err) != Pin || shown == pinned {
		t.Fatalf("another certificate than the pinned one: %v", err)
	}
	for _, want := range []string{pinned, shown, "holdfast fencing pin cp-1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not name %s: %v", want, err)
		}
	}
}

// docs/facts/life.md#certificates, L-C35: a BMC's clock may be in 1970, and nobody renews
// its certificate.
func TestAPinnedCertificateIsTrustedWhateverItsDates(t *testing.T) {
	s, _, e := controller(t, true)
	for _, dates := range []string{bmc.CertificateExpired, bmc.CertificateNotYetValid} {
		s.SetQuirks(bmc.Quirks{Certificate: dates})
		if _, err := Open(t.Context(), e); ReasonOf(err) != Certificate {
			t.Errorf("%s, and not pinned: %v", dates, err)
		}
		open(t, pinnedNow(t, e))
	}
}

// TestNobodyIsToldTheAccountWhoseCertificateIsNotTrusted puts a server in
// between that answers everything.
func TestNobodyIsToldTheAccountWhoseCertificateIsNotTrusted(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"@odata.id":"/redfish/v1/Systems/1","Id":"1","PowerState":"Off"}`))
	}))
	t.Cleanup(s.Close)
	e := Endpoint{Address: addressOf(s.Listener.Addr().String(), systemsPath+"/1"), Username: testUser, Password: testPassword}
	for _, e.Fingerprint = range []string{"", strings.Repeat("00", 32)} {
		if c, err := Open(t.Context(), e); err == nil || asked.Load() != 0 {
			t.Errorf("pin %q: it was asked %d times, and believed: %v", e.Fingerprint, asked.Load(), c)
		}
	}
	open(t, pinnedNow(t, e)) // this proves that the server would have answered
	if asked.Load() == 0 {
		t.Error("nothing was asked over the right connection either")
	}
}

func TestWhatACertificateSaysOfItselfIsFitForATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"CN=iLO": "CN=iLO", "CN=\x1b[2J\x07evil": "CN=?[2J?evil", "a\nb": "a b", "пароль": "пароль", "\u202eCN": "?CN", "\xff": "?",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
