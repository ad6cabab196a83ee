package redfish

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowController delays each answer and records what was asked.
type slowController struct {
	takes time.Duration
	mu    sync.Mutex
	asked []string
}

func (s *slowController) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/redfish/v1"))
	s.mu.Unlock()
	time.Sleep(s.takes)
	switch r.URL.Path {
	case systemsPath:
		_, _ = io.WriteString(w, `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`)
	case systemsPath + "/1":
		_, _ = io.WriteString(w, `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","UUID":"`+testUUID+`","PowerState":"On",
			"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Reset","ResetType@Redfish.AllowableValues":["On","ForceOff"]}}}`)
	case systemsPath + "/1/Reset":
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, r)
	}
}

func (s *slowController) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.asked)
}

func TestAControllerThatIsSlowWithEachAnswerGetsAllOfThem(t *testing.T) {
	s := &slowController{takes: 300 * time.Millisecond}
	e := answers(t, s.ServeHTTP)
	e.Address.System, e.UUID, e.Timeout = "", testUUID, 550*time.Millisecond
	c := open(t, e) // two requests, longer than the limit of one
	if got := c.Slowest(); got < s.takes || got > e.Timeout {
		t.Errorf("slowest %s", got)
	}
	e.Timeout = 100 * time.Millisecond
	if _, err := Open(t.Context(), e); ReasonOf(err) != Timeout || !strings.Contains(err.Error(), "no answer within 100ms") {
		t.Errorf("an answer slower than its time: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Power(ctx); ReasonOf(err) != Timeout || !strings.Contains(err.Error(), "before the time limit") {
		t.Errorf("the time of the whole: %v", err)
	}
}

func TestAFenceOfAKnownSystemNeedsNoRequestBesidesItsOwn(t *testing.T) {
	const known = "[GET /Systems/1 POST /Systems/1/Reset GET /Systems/1]"
	for name, c := range map[string]struct{ system, hint, want string }{
		"its path is in the address": {systemsPath + "/1", "", known},
		"it was found before":        {"", systemsPath + "/1", known},
		"it has moved":               {"", systemsPath + "/7", "[GET /Systems/7 GET /Systems GET /Systems/1 POST /Systems/1/Reset GET /Systems/1]"},
	} {
		s := &slowController{}
		e := answers(t, s.ServeHTTP)
		e.Address.System, e.Hint, e.UUID = c.system, c.hint, testUUID
		client := open(t, e)
		if err := client.AskOff(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := client.Power(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := client.ReadSystem(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.all(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAHintIsNoSubstituteForAnIdentity(t *testing.T) {
	s := &slowController{}
	e := answers(t, s.ServeHTTP)
	e.Address.System, e.Hint = "", systemsPath+"/1"
	open(t, e)
	if got := s.all(); !strings.HasPrefix(got, "[GET /Systems ") {
		t.Errorf("asked %s", got)
	}
}
