package configserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestOnlyAControlPlaneByItsOwnTokenIsToldTheKeyOfTheHosts(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Enter = func(_ context.Context, own jointoken.Claims, request []byte) (Entry, error) {
			if string(request) == "strange" {
				return Entry{}, joining.Refusal("no plan names " + own.Host)
			}
			return Entry{Needed: true, Input: []byte(`{"token":"key of the hosts"}`)}, nil
		}
	})
	own := tokenOf(t, jointoken.Host, state.RoleMaster, "cp-2")
	for _, c := range []struct {
		name, host, token, body, want string
		status                        int
	}{
		{"its own token", "cp-2", own, "{}", "key of the hosts", 200},
		{"refused by the plan", "cp-2", own, "strange", "no plan names cp-2", 409},
		{"the token of another control plane", "cp-1", own, "{}", "another host's", 403},
		{"a worker's", "worker-1", tokenOf(t, jointoken.Host, state.RoleWorker, "worker-1"), "{}", "only a control plane", 403},
		{"a pointer's", "cp-2", token(t, state.RoleMaster), "{}", "not one of this cluster's", 401},
		{"an admission", "cp-2", tokenOf(t, jointoken.Admission, state.RoleMaster, ""), "{}", "not one of this cluster's", 401},
		{"none", "cp-2", "", "{}", "token", 401},
		{"too much", "cp-2", own, strings.Repeat("x", maxEnter+1), "too long", 413},
	} {
		status, body, _ := s.ask(t, "POST", "/hosts/"+c.host+"/enter", "Bearer "+c.token, c.body)
		if status != c.status || !strings.Contains(body, c.want) || c.status != 200 && strings.Contains(body, "key of the hosts") {
			t.Errorf("%s: %d %q", c.name, status, body)
		}
	}
	if strings.Contains(s.log.String(), "key of the hosts") {
		t.Error("the log has the key")
	}
}

func TestAServerWithoutReplacementsLetsNobodyEnter(t *testing.T) {
	s := newSite(t, nil)
	if status, _, _ := s.ask(t, "POST", "/hosts/cp-2/enter", "Bearer "+tokenOf(t, jointoken.Host, state.RoleMaster, "cp-2"), "{}"); status != 403 {
		t.Error(status)
	}
}

func TestAnotherControlPlaneAnswersInTheNameOfTheCarrier(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Enter = func(_ context.Context, own jointoken.Claims, request []byte) (Entry, error) {
			if own.Host != "cp-3" {
				return Entry{}, joining.Refusal("no plan names " + own.Host)
			}
			return Entry{Needed: true, Waits: string(request), Pod: []byte("pod")}, nil
		}
	})
	c := newClient(s)
	entry, err := c.Enter(t.Context(), "cp-3", tokenOf(t, jointoken.Host, state.RoleMaster, "cp-3"), []byte("asks"))
	if err != nil || !entry.Needed || entry.Waits != "asks" || string(entry.Pod) != "pod" {
		t.Errorf("%+v, %v", entry, err)
	}
	_, err = c.Enter(t.Context(), "cp-4", tokenOf(t, jointoken.Host, state.RoleMaster, "cp-4"), nil)
	if _, refused := errors.AsType[joining.Refusal](err); !refused || !strings.Contains(err.Error(), "no plan names cp-4") {
		t.Errorf("%v", err)
	}
	if _, err := c.Enter(t.Context(), "cp-3", "no token", nil); err == nil || strings.Contains(err.Error(), "no token") {
		t.Errorf("%v", err)
	}
}

func TestAThirdControlPlaneIsAdmittedOnlyWhileAPlanBringsIt(t *testing.T) {
	third := ""
	s := newSite(t, func(o *Options) {
		o.Site, o.Third = joining.Site{ControlPlanes: 2, Fenced: []string{"cp-1", "cp-2"}}, func() string { return third }
	})
	token := "Bearer " + tokenOf(t, jointoken.Admission, state.RoleMaster, "")
	if status, body, _ := s.ask(t, "POST", "/hosts/cp-3", token, ""); status != 409 || !strings.Contains(body, "not cp-3") {
		t.Errorf("%d %s", status, body)
	}
	third = "cp-3"
	if status, body, _ := s.ask(t, "POST", "/hosts/cp-3", token, ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
