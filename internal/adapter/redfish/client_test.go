package redfish

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/lab/bmc/bmctest"
	"github.com/holdfast/holdfast/internal/model/secret"
)

const (
	testUser     = "fencer-account"
	testPassword = "S3cr3t-battery-staple"
	testUUID     = "4c4c4544-0051-3310-8051-b7c04f4e3132"
	testSerial   = "HF0001"
)

// controller runs the simulated controller of a machine on loopback.
func controller(t *testing.T, on bool) (*bmc.Server, *bmctest.Machine, Endpoint) {
	t.Helper()
	m := &bmctest.Machine{}
	m.On.Store(on)
	s, err := bmc.New(bmc.Config{
		Name: "cp-0", Username: testUser, Password: testPassword, UUID: testUUID, Serial: testSerial,
	}, m)
	if err != nil {
		t.Fatal(err)
	}
	addr := bmctest.Serve(t, s, "127.0.0.1:0")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CertificatePEM())
	return s, m, Endpoint{
		Address: addressOf(addr, s.SystemPath()), RootCAs: pool,
		Username: testUser, Password: testPassword, Timeout: 5 * time.Second,
	}
}

// pinnedNow returns an endpoint with the pin of the certificate that it shows.
func pinnedNow(t *testing.T, e Endpoint) Endpoint {
	t.Helper()
	shown, err := CertificateShown(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	e.Fingerprint = shown.Fingerprint
	return e
}

func open(t *testing.T, e Endpoint) *Client {
	t.Helper()
	c, err := Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// waitFor waits for something that the controller does at its own pace.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if ok() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("it did not happen within 5 s: %s", what)
}

// TestAnOpenThatFailsLeavesNoConnection: the etcd keeper asks a BMC again and again, for as
// long as its peer is away.
func TestAnOpenThatFailsLeavesNoConnection(t *testing.T) {
	var opened, ended atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			ended.Add(1)
		case http.StateActive, http.StateIdle, http.StateHijacked:
		}
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	e := pinnedNow(t, showing(t, srv))
	for range 5 {
		if _, err := Open(t.Context(), e); ReasonOf(err) != Credentials {
			t.Errorf("%v", err)
		}
	}
	waitFor(t, "each connection is closed", func() bool { return opened.Load() > 5 && ended.Load() == opened.Load() })
}

func TestAMachineIsSwitchedAndRead(t *testing.T) {
	s, m, e := controller(t, false)
	e.UUID, e.Serial = strings.ToUpper(testUUID), testSerial
	c := open(t, e)
	if err := c.On(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "on", m.On.Load)
	if state, err := c.Power(t.Context()); err != nil || state != On {
		t.Errorf("power %s, %v", state, err)
	}
	if err := c.ConfirmOff(t.Context()); ReasonOf(err) != NotOff {
		t.Errorf("a machine that is on is confirmed off: %v", err)
	}
	if err := c.Reset(t.Context(), ResetForceRestart); err != nil {
		t.Error(err)
	}
	waitFor(t, "restarted", func() bool { st, _ := s.State(t.Context()); return st.Phase == bmc.PhaseRunning })
	if err := c.Off(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "confirmed off", func() bool { return c.ConfirmOff(t.Context()) == nil })
	if m.On.Load() {
		t.Error("confirmed off while the machine is on")
	}
	uuid, serial, err := c.Identity(t.Context())
	if err != nil || uuid != testUUID || serial != testSerial {
		t.Errorf("identity %s %s, %v", uuid, serial, err)
	}
}

func TestNothingIsAskedOfAMachineThatIsThereAlready(t *testing.T) {
	s, m, e := controller(t, false)
	c := open(t, e)
	if err := c.Off(t.Context()); err != nil {
		t.Error(err)
	}
	m.On.Store(true)
	if err := c.On(t.Context()); err != nil {
		t.Error(err)
	}
	if resets := s.Resets(); len(resets) != 0 {
		t.Errorf("asked for %v", resets)
	}
}

func TestNoSessionIsOpened(t *testing.T) {
	s, _, e := controller(t, true)
	s.SetQuirks(bmc.Quirks{SessionsHeld: 8})
	if _, err := open(t, e).Power(t.Context()); err != nil {
		t.Errorf("without a free session: %v", err)
	}
}

func TestSystemIsFoundByPathIdentityOrBeingAlone(t *testing.T) {
	cases := []struct {
		name         string
		extra        int
		system       string
		uuid, serial string
		want         string
		reason       Reason
	}{
		{"the only system", 0, "", "", "", "/redfish/v1/Systems/1", ""},
		{"the only system, of the right machine", 0, "", testUUID, "", "/redfish/v1/Systems/1", ""},
		{"the only system, of another machine", 0, "", "00000000-0000-0000-0000-000000000001", "", "", WrongServer},
		{"by path", 3, "/redfish/v1/Systems/1", "", "", "/redfish/v1/Systems/1", ""},
		{"by path, of another machine", 3, "/redfish/v1/Systems/neighbour-1", testUUID, "", "", WrongServer},
		{"by a path that is not there", 3, "/redfish/v1/Systems/9", "", "", "", NotFound},
		{"one of many, by nothing", 3, "", "", "", "", NoSystem},
		{"one of many, by UUID", 3, "", testUUID, "", "/redfish/v1/Systems/1", ""},
		{"one of many, by serial number", 3, "", "", strings.ToLower(testSerial), "/redfish/v1/Systems/1", ""},
		{"one of many, which is not there", 3, "", "", "HF0002", "", WrongServer},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, _, e := controller(t, true)
			s.SetQuirks(bmc.Quirks{ExtraSystems: c.extra})
			e.Address.System, e.UUID, e.Serial = c.system, c.uuid, c.serial
			client, err := Open(t.Context(), e)
			if ReasonOf(err) != c.reason || (err == nil) != (c.reason == "") {
				t.Fatalf("error %v, want reason %q", err, c.reason)
			}
			if err == nil && client.SystemPath() != c.want {
				t.Errorf("found %s, want %s", client.SystemPath(), c.want)
			}
			if c.reason == NoSystem && !strings.Contains(err.Error(), "/redfish/v1/Systems/neighbour-2") {
				t.Errorf("the error does not list the systems: %v", err)
			}
		})
	}
}

func TestUUIDsOfSMBIOSAndControllerAreOne(t *testing.T) {
	cases := []struct {
		a, b string
		same bool
	}{
		{testUUID, strings.ToUpper(testUUID), true},
		{testUUID, "44454c4c-5100-1033-8051-b7c04f4e3132", true},
		{testUUID, "4c4c4544-0051-3310-8051-b7c04f4e3133", false},
		{testUUID, "", false},
		{"not a uuid", "NOT A UUID", true},
		{"not a uuid", testUUID, false},
	}
	for _, c := range cases {
		if got := sameUUID(c.a, c.b); got != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestASystemThatReportsNoIdentityIsNotTrusted(t *testing.T) {
	e := Endpoint{UUID: testUUID, Serial: testSerial}
	for _, c := range []struct {
		uuid, serial string
		ok           bool
	}{{"", "", false}, {testUUID, "", true}, {"", testSerial, true}, {testUUID, "that of the board", true}, {"4c4c4544-0051-3310-8051-b7c04f4e3133", testSerial, false}} {
		if err := e.meant(c.uuid, c.serial, ""); (err == nil) != c.ok {
			t.Errorf("UUID %q, serial %q: %v", c.uuid, c.serial, err)
		}
	}
}

// answers returns an endpoint that answers everything by h.
func answers(t *testing.T, h http.HandlerFunc) Endpoint {
	t.Helper()
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return Endpoint{
		Address: addressOf(u.Host, "/redfish/v1/Systems/1"), RootCAs: pool,
		Username: testUser, Password: testPassword, Timeout: 5 * time.Second,
	}
}

func TestErrorsHoldNoCredentialsEvenIfTheControllerEchoesThem(t *testing.T) {
	echo := func(status int, format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			user, password, ok := r.BasicAuth()
			if !ok && strings.HasSuffix(r.URL.Path, "/redfish/v1/") {
				_, _ = io.WriteString(w, `{"@odata.id":"/redfish/v1/"}`)
				return
			}
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, format, user, password, r.Header.Get("Authorization"))
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"in an error":    echo(401, `{"error":{"message":"bad account %s with %s or %s"}}`),
		"as plain text":  echo(500, `%s %s %s`),
		"as a page":      echo(403, `<html>%s %s %s</html>`),
		"in no JSON":     echo(200, `%s %s %s`),
		"in wrong types": echo(200, `{"UUID": {"%s":"%s %s"}}`),
		"in the state":   echo(200, `{"@odata.id":"/x","Id":"1","PowerState":"%s %s %s"}`),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Open(t.Context(), answers(t, h))
			if err == nil {
				err = c.ConfirmOff(t.Context())
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				text := fmt.Sprintf("%v %+v", e, e)
				if strings.Contains(text, testPassword) || strings.Contains(text, testUser) || strings.Contains(text, "ZmVuY2VyLW") {
					t.Errorf("the error tells the account: %s", text)
				}
			}
			if err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestTheAccountIsNotTakenElsewhere(t *testing.T) {
	var visited atomic.Bool
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited.Store(true) }))
	defer elsewhere.Close()
	e := answers(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	_, err := Open(t.Context(), pinnedNow(t, e))
	if ReasonOf(err) != Protocol || visited.Load() {
		t.Errorf("error %v, followed: %v", err, visited.Load())
	}
}

func TestAnswersWithoutEndAreCutOff(t *testing.T) {
	e := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Name":"`)
		block := strings.Repeat("x", 1<<16)
		for range 2 * maxAnswer / len(block) {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	})
	if _, err := Open(t.Context(), e); ReasonOf(err) != Protocol {
		t.Errorf("error %v", err)
	}
}

func TestTheCallersContextEndsACall(t *testing.T) {
	s, _, e := controller(t, true)
	c := open(t, e)
	s.SetQuirks(bmc.Quirks{Mute: true})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.Power(ctx); ReasonOf(err) != Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestConnectionsAreMadeByTheGivenDialer(t *testing.T) {
	_, _, e := controller(t, true)
	place := net.JoinHostPort(e.Address.Host, fmt.Sprint(e.Address.Port))
	var dialled atomic.Value
	e.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Store(addr)
		return new(net.Dialer).DialContext(ctx, network, place)
	}
	e = pinnedNow(t, e)
	e.Address.Host, e.Address.Port = "10.99.0.111", 443
	open(t, e)
	if got := dialled.Load(); got != "10.99.0.111:443" {
		t.Errorf("dialled %v", got)
	}
}

func TestWordsStayWholeWhereTheAccountIsTakenOut(t *testing.T) {
	for _, c := range []struct{ user, password, text, want string }{
		{"u", "S3cr3t-battery", "not understood by u: S3cr3t-battery", "not understood by <redacted>: <redacted>"},
		{"admin", "on", "administrator admin: connection on", "administrator <redacted>: connection <redacted>"},
		{"root", "S3cr3t-battery", "xS3cr3t-batteryx", "x<redacted>x"},
		{"redacted", "ed", "for redacted with ed", "for <redacted> with <redacted>"},
		{"a", "!b", "a!b x!b !bx", "<redacted><redacted> x<redacted> !bx"},
		{"u", "p", "Basic dTpw", "Basic <redacted>"},
		{"", "", "nothing", "nothing"},
	} {
		e := Endpoint{Username: c.user, Password: secret.Text(c.password)}
		if got := e.scrub(c.text); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.user, c.password, got, c.want)
		}
	}
}
