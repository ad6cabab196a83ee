package lab

import (
	"encoding/json"
	"strings"
	"testing"

	agent "github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheStatusTellsTheTroubleOfAHostsNetwork(t *testing.T) {
	status := agent.Status{
		NetworkStatus: state.NetworkStatus{View: state.NetworkView{Claims: []state.VIPClaim{{By: "10.98.0.200", RouterID: 77}}}},

		Reconcilers: []agent.ReconcilerState{{Loop: state.Loop{Name: "haproxy"}}, {Loop: state.Loop{Name: "names", Error: "no disk", Failures: 3}}},
	}
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(troubles("cp-1", data), "\n")
	for _, want := range []string{"cp-1: names: no disk (3 tries)", "10.98.0.200", "router id 77"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "haproxy") {
		t.Error("what is well is told")
	}
	if got := troubles("cp-1", []byte("{")); len(got) != 1 {
		t.Errorf("a broken status: %v", got)
	}
}
