package redfish

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// patience bounds a call to a controller that never answers.
const patience = 300 * time.Millisecond

var quirkCases = []struct {
	name    string
	quirks  bmc.Quirks
	on      bool
	off     Reason // of Off
	confirm Reason // reason of ConfirmOff, directly after Off
	dead    bool   // whether the machine is dead in the end
	says    string // part of an error
}{
	{"no quirk", bmc.Quirks{}, true, "", "", true, ""},
	{"conflict-when-off", bmc.Quirks{ConflictWhenOff: true}, false, "", "", true, ""},
	{"accept-and-ignore", bmc.Quirks{AcceptAndIgnore: true}, true, "", NotOff, false, "its power state is On"},
	{"error-yet-acts", bmc.Quirks{ErrorYetActs: true}, true, ServerError, "", true, "500"},
	{"powering-off-sticks", bmc.Quirks{PoweringOffSticks: true}, true, "", NotOff, false, "PoweringOff"},
	{"slow-off", bmc.Quirks{SlowOff: bmc.Duration(time.Hour)}, true, "", NotOff, false, "PoweringOff"},
	{"says On of a dead machine", bmc.Quirks{Says: "On"}, true, "", NotOff, true, "On"},
	{"says Paused", bmc.Quirks{Says: "Paused"}, true, "", NotOff, true, "Paused"},
	{"says null", bmc.Quirks{Says: bmc.SaysNull}, true, "", NotOff, true, "unknown"},
	{"says nothing", bmc.Quirks{Says: bmc.SaysNothing}, true, "", NotOff, true, "unknown"},
	// No client can detect this one: only evidence from elsewhere can.
	{"says Off of a living machine", bmc.Quirks{Says: "Off"}, true, "", "", false, ""},
	{"action-info-only", bmc.Quirks{ActionInfoOnly: true}, true, "", "", true, ""},
	{"extra-systems", bmc.Quirks{ExtraSystems: 3}, true, "", "", true, ""},
	{"other-identity", bmc.Quirks{OtherIdentity: true}, true, WrongServer, WrongServer, false, "another machine"},
	{"sessions-held", bmc.Quirks{SessionsHeld: 8}, true, "", "", true, ""},
	{"auth-status 401", bmc.Quirks{AuthStatus: 401}, true, Credentials, Credentials, false, "check user name and password"},
	{"password", bmc.Quirks{Password: "another"}, true, Credentials, Credentials, false, "check user name and password"},
	{"auth-status 403", bmc.Quirks{AuthStatus: 403}, true, Credentials, Credentials, false, "the account may operate"},
	{"auth-status 500", bmc.Quirks{AuthStatus: 500}, true, ServerError, ServerError, false, "500"},
	{"auth-status 503", bmc.Quirks{AuthStatus: 503}, true, ServerError, ServerError, false, "503"},
	{"certificate expired", bmc.Quirks{Certificate: bmc.CertificateExpired}, true, Certificate, Certificate, false, "holdfast fencing pin"},
	{"certificate not-yet-valid", bmc.Quirks{Certificate: bmc.CertificateNotYetValid}, true, Certificate, Certificate, false, "certificate"},
	{"certificate other-host", bmc.Quirks{Certificate: bmc.CertificateOtherHost}, true, Certificate, Certificate, false, "certificate"},
	{"delay below the timeout", bmc.Quirks{Delay: bmc.Duration(10 * time.Millisecond)}, true, "", "", true, ""},
	{"delay above the timeout", bmc.Quirks{Delay: bmc.Duration(time.Hour)}, true, Timeout, Timeout, false, "no answer within 300ms"},
	{"mute", bmc.Quirks{Mute: true}, true, Timeout, Timeout, false, "reset it if it hangs"},
	{"half-open", bmc.Quirks{HalfOpen: true}, true, Timeout, Timeout, false, "no answer within 300ms"},
	{"cut-answer", bmc.Quirks{CutAnswer: true}, true, Protocol, Protocol, false, "answer was cut off"},
	{"unreachable", bmc.Quirks{Unreachable: true}, true, Unreachable, Unreachable, false, "connection refused"},
	{"conflict-when-on, powering-on", bmc.Quirks{ConflictWhenOn: true, PoweringOn: true}, true, "", "", true, ""},
	{"status-when-off", bmc.Quirks{StatusWhenOff: 400}, false, "", "", true, ""},
	{"late-reset", bmc.Quirks{LateReset: bmc.Duration(time.Hour)}, true, "", NotOff, false, "On"},
	{"stale", bmc.Quirks{Stale: bmc.Duration(time.Hour)}, true, "", NotOff, true, "On"},
	// No client can detect this one by a single read.
	{"off-leads", bmc.Quirks{OffLeads: bmc.Duration(time.Hour)}, true, "", "", false, ""},
	{"if-match needed", bmc.Quirks{IfMatch: bmc.IfMatchNeeded}, true, "", "", true, ""},
	{"if-match refused", bmc.Quirks{IfMatch: bmc.IfMatchRefused}, true, "", "", true, ""},
	{"needs-slash", bmc.Quirks{NeedsSlash: true}, true, "", "", true, ""},
	{"refusals", bmc.Quirks{AuthStatus: 503, Refusals: 1}, true, ServerError, NotOff, false, ""},
	{"drop-resets", bmc.Quirks{DropResets: 1}, true, "", NotOff, false, "its power state is On"},
	{"drop-on-after-off", bmc.Quirks{DropOnAfterOff: bmc.Duration(time.Hour)}, true, "", "", true, ""},
	{"medium", bmc.Quirks{Medium: true}, true, "", "", true, ""},
	{"refuse-on-after-off", bmc.Quirks{RefuseOnAfterOff: bmc.Duration(time.Hour)}, true, "", "", true, ""},
	{"basic off", bmc.Quirks{Basic: bmc.BasicOff}, true, Credentials, Credentials, false, "check user name and password"},
	{"basic unadvertised", bmc.Quirks{Basic: bmc.BasicUnadvertised}, true, "", "", true, ""},
	{"session-timeout", bmc.Quirks{SessionTimeout: bmc.Duration(150 * time.Millisecond)}, true, "", "", true, ""},
}

// TestWhatTheClientReportsUnderEachQuirk opens a client of a healthy
// controller, switches the quirk on, and then the machine off.
func TestWhatTheClientReportsUnderEachQuirk(t *testing.T) {
	for _, c := range quirkCases {
		t.Run(c.name, func(t *testing.T) {
			s, m, e := controller(t, c.on)
			e.UUID, e.Timeout = testUUID, 5*time.Second
			client := open(t, e)
			client.Close() // the quirk may change the connection
			s.SetQuirks(c.quirks)
			if c.off == Unreachable {
				waitFor(t, "no answer", func() bool { _, err := client.Power(t.Context()); return ReasonOf(err) == Unreachable })
			}
			if c.off == Timeout {
				client.endpoint.Timeout, client.http.Timeout = patience, patience
			}
			began := time.Now()
			off := client.Off(t.Context())
			if c.dead {
				waitFor(t, "dead", func() bool { st, _ := s.State(t.Context()); return st.Phase == bmc.PhaseOff })
			}
			confirm := client.ConfirmOff(t.Context())
			took := time.Since(began)
			wantReason(t, "Off", off, c.off, c.says)
			wantReason(t, "ConfirmOff", confirm, c.confirm, c.says)
			if m.On.Load() == c.dead {
				t.Errorf("the machine is on: %v", m.On.Load())
			}
			if c.off == Timeout && took > 2*patience+time.Second {
				t.Errorf("two calls took %s", took)
			}
		})
	}
}

func wantReason(t *testing.T, op string, err error, want Reason, says string) {
	t.Helper()
	if ReasonOf(err) != want || (err == nil) != (want == "") {
		t.Errorf("%s: error %v, want reason %q", op, err, want)
	}
	if err != nil && says != "" && !strings.Contains(err.Error(), says) {
		t.Errorf("%s: error %q does not say %q", op, err, says)
	}
	if err != nil && (strings.Contains(err.Error(), testPassword) || strings.Contains(err.Error(), testUser)) {
		t.Errorf("%s: the error tells the account: %v", op, err)
	}
}

// TestEachQuirkIsInTheTable keeps the table above complete.
func TestEachQuirkIsInTheTable(t *testing.T) {
	covered := map[string]any{}
	for _, c := range quirkCases {
		data, err := json.Marshal(c.quirks)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &covered); err != nil { // adds to what is there
			t.Fatal(err)
		}
	}
	for _, d := range bmc.QuirkDocs() {
		if _, ok := covered[d.Name]; !ok {
			t.Errorf("no case says what the client reports under %s", d.Name)
		}
	}
}

func TestOpenIsBoundedAndExplainsItself(t *testing.T) {
	cases := map[string]struct {
		quirks bmc.Quirks
		want   Reason
	}{
		"mute":        {bmc.Quirks{Mute: true}, Timeout},
		"half-open":   {bmc.Quirks{HalfOpen: true}, Timeout},
		"auth-status": {bmc.Quirks{AuthStatus: 401}, Credentials},
		"certificate": {bmc.Quirks{Certificate: bmc.CertificateExpired}, Certificate},
		"cut-answer":  {bmc.Quirks{CutAnswer: true}, Protocol},
	}
	for name, c := range cases {
		s, _, e := controller(t, true)
		s.SetQuirks(c.quirks)
		e.Timeout = 2 * time.Second
		if c.want == Timeout {
			e.Timeout = patience
		}
		began := time.Now()
		_, err := Open(t.Context(), e)
		if took := time.Since(began); ReasonOf(err) != c.want || took > 3*time.Second {
			t.Errorf("%s: after %s: %v", name, took, err)
		}
	}
}

func TestSelfSignedCertificates(t *testing.T) {
	_, _, e := controller(t, true)
	trusted := e
	e.RootCAs = nil
	if _, err := Open(t.Context(), e); ReasonOf(err) != Certificate {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	open(t, trusted)
	open(t, pinnedNow(t, e))
}

func TestAWrongPasswordIsSaidToBeOne(t *testing.T) {
	_, m, e := controller(t, true)
	e.Password = "not-the-password"
	_, err := Open(t.Context(), e)
	wantReason(t, "Open", err, Credentials, "check user name and password")
	if !m.On.Load() || strings.Contains(err.Error(), "not-the-password") {
		t.Errorf("machine on %v, error %v", m.On.Load(), err)
	}
}
