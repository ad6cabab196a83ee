package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatIsKnownOfHostsIsPutTogether(t *testing.T) {
	now := time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)
	wide, close := state.Known(Offset{Low: -time.Second, High: time.Second}), state.Known(Offset{Low: -time.Millisecond})
	published := func(name string, age time.Duration) Host {
		return Host{Name: name, Source: Published, To: now.Add(-age), Offset: wide, Swap: state.Known[uint64](1)}
	}
	found := Facts{
		Topology: Topology{ControlPlanes: 3},
		Hosts:    []Host{published("cp-1", time.Minute), published("cp-2", time.Minute), published("cp-3", 3*time.Hour)},
		Cluster:  Cluster{Nodes: state.Known([]Node{})},
	}
	facts := Merge(found, []Host{
		{Name: "cp-1", Source: Asked, Offset: close, Swap: state.Known[uint64](2)},
		{Name: "cp-2", Trouble: []string{"no route"}},
		{Name: "w-1", Source: Here},
	}, now)
	if len(facts.Hosts) != 3 {
		t.Fatalf("a worker is no control plane: %+v", facts.Hosts)
	}
	if h := facts.Hosts[0]; h.Swap.Value != 2 || h.Offset != close {
		t.Errorf("what it says now counts, and the closer offset: %+v", h)
	}
	if h := facts.Hosts[1]; h.Swap.Value != 1 || h.Trouble[0] != "no route" {
		t.Errorf("what it published is left: %+v", h)
	}
	if h := facts.Hosts[2]; h.Swap.Known || h.Source != Unasked || !strings.Contains(h.Trouble[0], "published nothing for 3h0m0s") || h.Offset != wide {
		t.Errorf("what is too old is unknown, and its clock was asked now: %+v", h)
	}
}

func TestWithoutAnAPIAHostSaysWhatClusterItIsAndWhoIsMissing(t *testing.T) {
	h := Host{Name: "cp-2", Source: Here, Topology: state.Known(Topology{ControlPlanes: 2, Fencing: true})}
	for name, bmcs := range map[string]state.Fact[[]BMC]{
		"cp-1":                  state.Known([]BMC{{Target: "cp-1", Address: "10.99.0.1"}}),
		"another control plane": {}, // the test does not run as root, or has no answer for this name
	} {
		h.BMCs = bmcs
		alone := Merge(Facts{}, []Host{h}, time.Now())
		if alone.Topology.ControlPlanes != 2 || len(alone.Hosts) != 2 || alone.Hosts[0].Name != name {
			t.Errorf("%+v", alone)
		}
		if r := Examine(alone, "fence-delay"); r[0].Severity == finding.OK {
			t.Errorf("a peer that nobody saw is not well: %+v", r)
		}
	}
}
