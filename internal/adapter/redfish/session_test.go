package redfish

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc"
)

func TestASessionIsOpenedWhereNothingElseIsTakenAndEndedAfterwards(t *testing.T) {
	s, m, e := controller(t, true)
	s.SetQuirks(bmc.Quirks{Basic: bmc.BasicOff})
	for _, e.Login = range []Login{LoginAny, LoginSession} {
		m.On.Store(true)
		c := open(t, e)
		if !c.Session() || s.Sessions() != 1 {
			t.Errorf("%q: by session: %v, %d open", e.Login, c.Session(), s.Sessions())
		}
		if err := c.AskOff(t.Context()); err != nil {
			t.Error(err)
		}
		waitFor(t, "off", func() bool { return c.ConfirmOff(t.Context()) == nil })
		if c.Close(); s.Sessions() != 0 {
			t.Errorf("%q: %d sessions are left behind", e.Login, s.Sessions())
		}
	}
	e.Login = LoginBasic
	if _, err := Open(t.Context(), e); ReasonOf(err) != Credentials || s.Sessions() != 0 {
		t.Errorf("without a session: %v", err)
	}
}

func TestAControllerThatTakesTheAccountIsAskedForNoSession(t *testing.T) {
	s, _, e := controller(t, true)
	for _, q := range []bmc.Quirks{{}, {Basic: bmc.BasicUnadvertised}} {
		s.SetQuirks(q)
		if c := open(t, e); c.Session() || s.Sessions() != 0 {
			t.Errorf("%+v: by session: %v", q, c.Session())
		}
	}
	// A controller that once had only sessions has none to give now.
	s.SetQuirks(bmc.Quirks{SessionsHeld: 8})
	e.Login = LoginSession
	if c := open(t, e); c.Session() {
		t.Error("by session")
	}
}

func TestASessionThatTheControllerEndsIsOpenedAnew(t *testing.T) {
	s, _, e := controller(t, true)
	s.SetQuirks(bmc.Quirks{Basic: bmc.BasicOff, SessionTimeout: bmc.Duration(50 * time.Millisecond)})
	c := open(t, e)
	waitFor(t, "the session is ended", func() bool { return s.Sessions() == 0 })
	if state, err := c.Power(t.Context()); err != nil || state != On {
		t.Errorf("%s, %v", state, err)
	}
}

// logins counts how often an account is sent, by kind.
type logins struct{ basic, session atomic.Int32 }

// TestAWrongPasswordIsToldOnceWhereThatIsEnough: controllers count attempts,
// and lock out.
func TestAWrongPasswordIsToldOnceWhereThatIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		challenge      string
		login          Login
		sessions       int // status of a request for a session
		basic, session int32
		reason         Reason
	}{
		"Basic is offered":             {`Basic realm="x"`, LoginAny, 401, 1, 0, Credentials},
		"several are offered":          {`Negotiate, basic realm="x"`, LoginAny, 401, 1, 0, Credentials},
		"it may be the way":            {"", LoginAny, 401, 1, 1, Credentials},
		"a session is what it takes":   {"", LoginSession, 401, 0, 1, Credentials},
		"it has no sessions to give":   {"", LoginSession, 503, 1, 1, Credentials},
		"it knows no sessions":         {"", LoginAny, 404, 1, 2, Credentials},
		"one way alone":                {"", LoginBasic, 401, 1, 0, Credentials},
		"all sessions are taken":       {"", LoginAny, 503, 1, 1, Credentials},
		"it breaks when asked for one": {"", LoginAny, 0, 1, 1, Protocol},
	} {
		var n logins
		e := answers(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				n.session.Add(1)
				if r.Header.Get("Authorization") != "" {
					t.Errorf("%s: a session is asked for with a header that some refuse", name)
				}
				if c.sessions == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(c.sessions)
				return
			}
			n.basic.Add(1)
			if c.challenge != "" {
				w.Header().Set("WWW-Authenticate", c.challenge)
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		e.Login = c.login
		_, err := Open(t.Context(), e)
		if ReasonOf(err) != c.reason || n.basic.Load() != c.basic || n.session.Load() != c.session || strings.Contains(err.Error(), string(testPassword)) {
			t.Errorf("%s: %d and %d times: %v", name, n.basic.Load(), n.session.Load(), err)
		}
	}
}

// TestASessionsPathIsFoundWhereverItIsTold: in a header, only in the body, or
// at the path from before Redfish 1.6.
func TestASessionsPathIsFoundWhereverItIsTold(t *testing.T) {
	for name, c := range map[string]struct{ post, location, body string }{
		"in the header":          {sessionPaths[0], "/redfish/v1/SessionService/Sessions/7", ""},
		"as a whole address":     {sessionPaths[0], "https://bmc.example.com/redfish/v1/SessionService/Sessions/7", "{}"},
		"in the body":            {sessionPaths[0], "", `{"@odata.id":"/redfish/v1/SessionService/Sessions/7"}`},
		"at the place of before": {sessionPaths[1], "/redfish/v1/SessionService/Sessions/7", "no JSON"},
	} {
		var ended atomic.Value
		e := answers(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost && r.URL.Path == c.post:
				w.Header().Set("X-Auth-Token", "t0ken")
				if c.location != "" {
					w.Header().Set("Location", c.location)
				}
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, c.body)
			case r.Method == http.MethodPost:
				w.WriteHeader(http.StatusNotFound)
			case r.Method == http.MethodDelete:
				ended.Store(r.URL.Path)
			case r.Header.Get("X-Auth-Token") != "t0ken":
				w.WriteHeader(http.StatusUnauthorized)
			default:
				_, _ = io.WriteString(w, strings.Replace(whole, "%", "", 1))
			}
		})
		open(t, e).Close()
		if got := ended.Load(); got != "/redfish/v1/SessionService/Sessions/7" {
			t.Errorf("%s: ended %v", name, got)
		}
	}
}
