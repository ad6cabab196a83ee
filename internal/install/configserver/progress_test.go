package configserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

func report(t *testing.T, p state.Progress) string {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestProgressIsTakenFromTheHostItself(t *testing.T) {
	s := newSite(t, nil)
	good := state.Progress{Host: "worker-0.example.com", Role: state.RoleWorker, Steps: []state.Step{{Name: "join", State: state.StepRunning, Started: start}}}
	own := func(role state.Role, host string) string { return "Bearer " + tokenOf(t, jointoken.Host, role, host) }
	worker := own(state.RoleWorker, good.Host)
	tests := []struct {
		name, host, auth, body string
		status                 int
	}{
		{"a report", good.Host, worker, report(t, good), 204},
		{"the same again", good.Host, worker, report(t, good), 204},
		{"without a token", good.Host, "", report(t, good), 401},
		{"with the read token", good.Host, "Bearer " + readToken, report(t, good), 401},
		{"with a pointer's token", good.Host, "Bearer " + token(t, state.RoleWorker), report(t, good), 401},
		{"with an admission", good.Host, "Bearer " + tokenOf(t, jointoken.Admission, state.RoleWorker, good.Host), report(t, good), 401},
		// docs/attacks.md, F21, docs/facts/findings.md#installer, D12
		{"with another host's", good.Host, own(state.RoleWorker, "worker-1"), report(t, good), 403},
		{"of a control plane that is not there yet", "cp-3", worker, report(t, state.Progress{Host: "cp-3", Role: state.RoleWorker}), 403},
		{"of another host", "worker-1.example.com", own(state.RoleWorker, "worker-1.example.com"), report(t, good), 400},
		{"in another role", good.Host, worker, report(t, state.Progress{Host: good.Host, Role: state.RoleMaster}), 403},
		{"not JSON", good.Host, worker, "{", 400},
		{"a list", good.Host, worker, "[]", 400},
		{"without a role", good.Host, worker, `{"host":"worker-0.example.com"}`, 403},
		{"an unknown state", good.Host, worker, `{"host":"worker-0.example.com","role":"worker","steps":[{"name":"x","state":"lost"}]}`, 400},
		{"too large", good.Host, worker, report(t, state.Progress{Host: good.Host, Role: state.RoleWorker, Error: strings.Repeat("x", MaxProgressBytes)}), 413},
		{"as large as may be", good.Host, worker, strings.Repeat(" ", MaxProgressBytes-len(report(t, good))) + report(t, good), 204},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body, _ := s.ask(t, "POST", "/progress/"+tt.host, tt.auth, tt.body)
			if status != tt.status {
				t.Errorf("got %d %q, want %d", status, body, tt.status)
			}
		})
	}
	if status, _, _ := s.ask(t, "GET", "/progress/"+good.Host, worker, ""); status != 405 {
		t.Errorf("GET of one host: %d", status)
	}
	other := state.Progress{Host: "cp-0", Role: state.RoleMaster, Complete: true, Error: "red \x1b[31m alert\n"}
	if status, body, _ := s.ask(t, "POST", "/progress/cp-0", own(state.RoleMaster, "cp-0"), report(t, other)); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	_, body, _ := s.ask(t, "GET", "/progress", "Bearer "+readToken, "")
	var all []state.Progress
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	other.Error = "red  [31m alert\n"
	if diff := cmp.Diff([]state.Progress{other, good}, all); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestWithoutAReadTokenNobodyReads(t *testing.T) {
	s := newSite(t, func(o *Options) { o.ReadToken = "" })
	for _, auth := range []string{"", "Bearer ", "Bearer x"} {
		if status, _, _ := s.ask(t, "GET", "/progress", auth, ""); status != 401 {
			t.Errorf("%q: %d", auth, status)
		}
	}
}

// A worker's token may report under any worker's name (docs/attacks.md, F21): the
// store is bounded, and no worker keeps another host out.
func TestTheStoreIsBoundedAndWorkersDoNotFillIt(t *testing.T) {
	m := NewMemory()
	put := func(host string, role state.Role) error { return m.Put(state.Progress{Host: host, Role: role}) }
	if err := put("cp-1", state.RoleBootstrap); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxHosts {
		if err := put(fmt.Sprint("w", i), state.RoleWorker); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("cp-2", state.RoleMaster); err != nil {
		t.Errorf("a control plane: %v", err)
	}
	all, err := m.All()
	if err != nil || len(all) != maxHosts || all[0].Host != "cp-1" || all[1].Host != "cp-2" {
		t.Errorf("%d hosts, the first %q and %q, %v", len(all), all[0].Host, all[1].Host, err)
	}
	if slices.ContainsFunc(all, func(p state.Progress) bool { return p.Host == "w0" }) {
		t.Error("the worker that was heard the longest ago is kept")
	}
	full := NewMemory()
	for i := range maxHosts {
		if err := full.Put(state.Progress{Host: fmt.Sprint("cp", i), Role: state.RoleMaster}); err != nil {
			t.Fatal(err)
		}
	}
	if err := full.Put(state.Progress{Host: "w", Role: state.RoleWorker}); !errors.Is(err, ErrFull) {
		t.Errorf("one more than control planes: %v", err)
	}
}

func TestTheWordOfAControlPlaneGoesBeforeAWorkers(t *testing.T) {
	m := NewMemory()
	for _, c := range []struct {
		role state.Role
		want error
	}{
		{state.RoleWorker, nil}, {state.RoleWorker, nil}, {state.RoleMaster, nil}, {state.RoleWorker, ErrOtherRole}, {state.RoleMaster, nil},
	} {
		if err := m.Put(state.Progress{Host: "cp-3", Role: c.role}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.role, err)
		}
	}
}
