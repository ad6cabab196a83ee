package configserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatOpensWhat tries each token on each path: none gives another of its
// own kind, so that none can be renewed with itself (docs/attacks.md, F4).
func TestWhatOpensWhat(t *testing.T) {
	s := newSite(t, nil)
	tokens := map[string]string{
		"pointer":   token(t, state.RoleWorker),
		"admission": tokenOf(t, jointoken.Admission, state.RoleWorker, ""),
		"host":      tokenOf(t, jointoken.Host, state.RoleWorker, "worker-1"),
		"read":      readToken,
		"none":      "",
	}
	for _, door := range []struct{ method, path, opens, gives string }{
		{"GET", "/config/worker", "pointer", "ignition"},
		{"POST", "/hosts/worker-1", "admission", "own token of worker-1, worker"},
		{"POST", "/hosts/worker-1/bootstrap-token", "host", "bootstrap token of worker-1, worker"},
	} {
		for name, tok := range tokens {
			auth := "Bearer " + tok
			if tok == "" {
				auth = ""
			}
			status, body, header := s.ask(t, door.method, door.path, auth, "")
			opened := status == 200 && strings.Contains(body, door.gives)
			if opened != (name == door.opens) || !opened && status != 401 {
				t.Errorf("%s at %s: %d %q", name, door.path, status, body)
			}
			if header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s at %s may be cached", name, door.path)
			}
		}
	}
	for name, tok := range tokens {
		if tok != "" && strings.Contains(s.log.String(), tok) {
			t.Errorf("the log tells the token of a %s", name)
		}
	}
}

func TestAHostIsAdmittedUnderANameThatItMayHave(t *testing.T) {
	s := newSite(t, nil)
	s.ask(t, "POST", "/progress/cp-3", "Bearer "+tokenOf(t, jointoken.Host, state.RoleMaster, "cp-3"), `{"host":"cp-3","role":"master"}`)
	worker, master := tokenOf(t, jointoken.Admission, state.RoleWorker, ""), tokenOf(t, jointoken.Admission, state.RoleMaster, "")
	one := tokenOf(t, jointoken.Admission, state.RoleWorker, "worker-1")
	for _, c := range []struct {
		name, host, token, want string
		status                  int
	}{
		{"a worker", "worker-1", worker, "own token of worker-1, worker", 200},
		{"a worker by the one name that the pointer has", "worker-1", one, "own token of worker-1, worker", 200},
		{"by another name than the pointer has", "worker-2", one, "the join token is another host's", 403},
		{"a control plane", "cp-9", master, "own token of cp-9, master", 200},
		// docs/attacks.md, F21, docs/facts/findings.md#installer, D12
		{"a worker by the name of a control plane of the configuration", "cp-2", worker, "cp-2 is the name of a control plane", 409},
		{"a worker by the name of a control plane that reported", "cp-3", worker, "cp-3 is the name of a control plane", 409},
		{"a name that is none", "A_B", worker, "may contain only lower-case letters", 409},
		{"a path", "..%2fcp-1", worker, "may contain only lower-case letters", 409},
	} {
		if status, body, _ := s.ask(t, "POST", "/hosts/"+c.host, "Bearer "+c.token, ""); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q", c.name, status, body)
		}
	}
	if status, _, _ := s.ask(t, "GET", "/hosts/worker-1", "Bearer "+worker, ""); status != 405 {
		t.Errorf("GET: %d", status)
	}
}

func TestABootstrapTokenIsForTheHostItself(t *testing.T) {
	refusal := error(nil)
	s := newSite(t, func(o *Options) {
		o.Bootstrap = func(_ context.Context, own jointoken.Claims, _ JoinRequest) (Secret, error) {
			return Secret{Token: own.Host, Expires: start}, refusal
		}
	})
	ask := func(host string) (int, string) {
		status, body, _ := s.ask(t, "POST", "/hosts/"+host+"/bootstrap-token", "Bearer "+tokenOf(t, jointoken.Host, state.RoleWorker, "worker-1"), "")
		return status, body
	}
	status, body := ask("worker-1")
	var got Secret
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || got != (Secret{Token: "worker-1", Expires: start}) {
		t.Errorf("%d %q, %v", status, body, err)
	}
	for _, host := range []string{"worker-2", "cp-1"} {
		if status, body := ask(host); status != 403 || body != "the join token is another host's\n" {
			t.Errorf("%s: %d %q", host, status, body)
		}
	}
	refusal = joining.Refusal("worker-1 is a node already")
	if status, body := ask("worker-1"); status != 409 || body != "worker-1 is a node already\n" {
		t.Errorf("refused: %d %q", status, body)
	}
	refusal = errors.New("details")
	if status, body := ask("worker-1"); status != 503 || strings.Contains(body, "details") || !strings.Contains(s.log.String(), "details") {
		t.Errorf("not yet: %d %q", status, body)
	}
}

// A host says which release it was installed from. One of an earlier release says nothing.
func TestAHostThatJoinsSaysItsRelease(t *testing.T) {
	said := "nothing"
	s := newSite(t, func(o *Options) {
		o.Bootstrap = func(_ context.Context, _ jointoken.Claims, asked JoinRequest) (Secret, error) {
			said = asked.Release + asked.NewEtcd
			return Secret{}, nil
		}
	})
	for _, c := range []struct {
		body, want string
		status     int
	}{
		{"", "", 200},
		{"{}", "", 200},
		{`{"release":"sha256:old"}`, "sha256:old", 200},
		{`{"newEtcd":"https://192.0.2.13:2380"}`, "https://192.0.2.13:2380", 200},
		{"release", "nothing", 400},
		{`{"release":"` + strings.Repeat("x", maxJoin) + `"}`, "nothing", 400},
	} {
		said = "nothing"
		status, body, _ := s.ask(t, "POST", "/hosts/worker-1/bootstrap-token", "Bearer "+tokenOf(t, jointoken.Host, state.RoleWorker, "worker-1"), c.body)
		if status != c.status || said != c.want {
			t.Errorf("%.40q: %d %q, the host said %q", c.body, status, body, said)
		}
	}
}

// docs/facts/findings.md#installer, D5: the server gave the keys of a site of one to a second
// control plane.
func TestASiteOfOneServesNoSecondControlPlane(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Site = joining.Site{ControlPlanes: 1} })
	status, body, _ := s.ask(t, "GET", "/config/master", "Bearer "+token(t, state.RoleMaster), "")
	if status != 409 || !strings.Contains(body, "this site has one control plane permanently") || strings.Contains(body, secret) {
		t.Errorf("%d %q", status, body)
	}
	if status, _, _ := s.ask(t, "GET", "/config/worker", "Bearer "+token(t, state.RoleWorker), ""); status != 200 {
		t.Errorf("a worker: %d", status)
	}
}

func TestAHostThatWaitsForItsConfigurationIsToldWhyAndAsksAgain(t *testing.T) {
	const why = "the site is being upgraded from Kubernetes 1.35 to 1.36: this host joins once that has ended"
	s := newSite(t, func(o *Options) {
		o.Render = func(context.Context, jointoken.Claims, string) ([]byte, error) {
			return nil, fmt.Errorf("render: %w", joining.Later(why))
		}
	})
	for _, role := range []state.Role{state.RoleWorker, state.RoleMaster} {
		status, body, _ := s.ask(t, "GET", "/config/"+string(role), "Bearer "+token(t, role), "")
		if status != 503 || body != why+"\n" {
			t.Errorf("a %s: %d %q", role, status, body)
		}
	}
	if !strings.Contains(s.log.String(), why) {
		t.Errorf("the log says %q", s.log.String())
	}
	// A rotation of the key goes on meanwhile: it asks whether a token still opens.
	if opens, err := newClient(s).Opens(t.Context(), state.RoleWorker, token(t, state.RoleWorker)); !opens || err != nil {
		t.Errorf("the token opens: %t, %v", opens, err)
	}
}

func TestATokenThatCannotBeCheckedOpensNothing(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Read = func(context.Context, string, jointoken.Purpose) (jointoken.Claims, error) {
			return jointoken.Claims{Role: state.RoleWorker}, errors.New("the API does not answer")
		}
	})
	status, body, _ := s.ask(t, "GET", "/config/worker", "Bearer "+token(t, state.RoleWorker), "")
	if status != 503 || body != "the control plane does not answer yet: try again\n" {
		t.Errorf("%d %q", status, body)
	}
}

// The log shows how often each token was used, but never a token itself.
func TestEachUseOfATokenIsToldByItsID(t *testing.T) {
	s := newSite(t, nil)
	for range 3 {
		s.ask(t, "GET", "/config/worker", "Bearer "+token(t, state.RoleWorker), "")
	}
	s.ask(t, "HEAD", "/config/worker", "Bearer "+token(t, state.RoleWorker), "")
	want := "by token id-of-worker, which ends " + start.Add(time.Hour).Format(time.RFC3339) + " and was used 3 times since this server started"
	if !strings.Contains(s.log.String(), want) {
		t.Errorf("the log has no %q:\n%s", want, s.log.String())
	}
}
