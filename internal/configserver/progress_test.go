package configserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/state"
)

func report(t *testing.T, p state.Progress) string {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestProgressIsTakenFromAHostOfTheTokensRole(t *testing.T) {
	s := newSite(t, nil)
	worker, master := "Bearer "+token(t, state.RoleWorker), "Bearer "+token(t, state.RoleMaster)
	good := state.Progress{Host: "worker-0.example.com", Role: state.RoleWorker, Steps: []state.Step{{Name: "join", State: state.StepRunning, Started: start}}}
	tests := []struct {
		name, host, auth, body string
		status                 int
	}{
		{"a report", good.Host, worker, report(t, good), 204},
		{"the same again", good.Host, worker, report(t, good), 204},
		{"without a token", good.Host, "", report(t, good), 401},
		{"with the read token", good.Host, "Bearer " + readToken, report(t, good), 401},
		{"with another role's token", good.Host, master, report(t, good), 403},
		{"of another host", "worker-1.example.com", worker, report(t, good), 400},
		{"a worker speaks for a known host of another role", good.Host, master, report(t, state.Progress{Host: good.Host, Role: state.RoleMaster}), 403},
		{"not JSON", good.Host, worker, "{", 400},
		{"a list", good.Host, worker, "[]", 400},
		{"without a role", good.Host, worker, `{"host":"worker-0.example.com"}`, 403},
		{"an unknown state", good.Host, worker, `{"host":"worker-0.example.com","role":"worker","steps":[{"name":"x","state":"lost"}]}`, 400},
		{"a name that is none", "A_B", worker, `{"host":"A_B","role":"worker"}`, 400},
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
	if status, body, _ := s.ask(t, "POST", "/progress/cp-0", master, report(t, other)); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	_, body, _ := s.ask(t, "GET", "/progress", "Bearer "+readToken, "")
	var all []state.Progress
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	other.Error = "red [31m alert\n"
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

func TestTheStoreIsBounded(t *testing.T) {
	m := NewMemory()
	for i := range maxHosts {
		if err := m.Put(state.Progress{Host: fmt.Sprint("h", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Put(state.Progress{Host: "one-more"}); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if err := m.Put(state.Progress{Host: "h0", Complete: true}); err != nil {
		t.Errorf("a known one: %v", err)
	}
}
