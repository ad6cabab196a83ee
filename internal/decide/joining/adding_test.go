package joining

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func TestAHostIsAddedUnlessSomethingIsInItsPlaceAndAllReasonsAreTold(t *testing.T) {
	cp := func(name string) state.Node {
		return state.Node{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Ready: true, Addresses: addresses("192.0.2.11")}
	}
	w1 := state.Node{Name: "w-1", Ready: true, Addresses: addresses("192.0.2.21")}
	lost := state.Node{Name: "w-2"}
	one := Site{ControlPlanes: 1}
	two := Site{ControlPlanes: 2, Fenced: []string{"cp-1", "cp-2"}, Named: []string{"cp-1", "cp-2"}}
	three := Site{ControlPlanes: 3}
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	out := retired.List{{Name: "w-3", When: time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC), By: "kim"}}
	family := &dualstack.Plan{ID: "f1", By: "kim", Hosts: map[string]dualstack.Host{"cp-1": {ControlPlane: true}, "w-1": {}}}
	var text strings.Builder
	for _, c := range []struct {
		sentence string
		site     Site
		add      Adding
		refused  int
	}{
		{"a worker by a new name", one, Adding{Role: state.RoleWorker, Host: "w-3", Nodes: []state.Node{cp("cp-1"), w1}}, 0},
		{"any worker", one, Adding{Role: state.RoleWorker, Nodes: []state.Node{cp("cp-1"), w1}}, 0},
		{"a worker by a name that was taken out", one, Adding{Role: state.RoleWorker, Host: "w-3", Nodes: []state.Node{cp("cp-1")}, Retired: out}, 0},
		{"a worker by the name of a ready one", one, Adding{Role: state.RoleWorker, Host: "w-1", Nodes: []state.Node{cp("cp-1"), w1}}, 1},
		{"a worker for the last share of the pod network", Site{ControlPlanes: 1, Shares: 3}, Adding{Role: state.RoleWorker, Host: "w-3", Nodes: []state.Node{cp("cp-1"), w1}}, 0},
		{"a worker for which the pod network has no share", Site{ControlPlanes: 1, Shares: 2}, Adding{Role: state.RoleWorker, Host: "w-3", Nodes: []state.Node{cp("cp-1"), w1}}, 1},
		{"the empty place of three, and the pod network has no share", Site{ControlPlanes: 3, Shares: 2}, Adding{Role: state.RoleMaster, Host: "cp-3", Nodes: []state.Node{cp("cp-1"), cp("cp-2")}}, 1},
		{"a worker by the name of a lost one", one, Adding{Role: state.RoleWorker, Host: "w-2", Nodes: []state.Node{cp("cp-1"), lost}}, 1},
		{"a worker by the name of a control plane", two, Adding{Role: state.RoleWorker, Host: "cp-2", Nodes: []state.Node{cp("cp-1")}}, 1},
		{"a worker whose predecessor left pods", one, Adding{Role: state.RoleWorker, Host: "w-3", Nodes: []state.Node{cp("cp-1")}, Pods: 2}, 1},
		{"a worker for whose name pods are made again", one, Adding{Role: state.RoleWorker, Host: "w-3", Nodes: []state.Node{cp("cp-1")}, Bound: []string{"pod shop/till-* (of ReplicaSet till-5f): it was made for that name after the host was taken out"}}, 0},
		{"a worker while an upgrade is under way", one, Adding{Role: state.RoleWorker, Host: "w-3", Upgrade: "Hosts: waiting for w-1"}, 1},
		{"a worker while the site gets a second address family", one, Adding{Role: state.RoleWorker, Host: "w-3", Family: family}, 1},
		{"any worker meanwhile", one, Adding{Role: state.RoleWorker, Family: family}, 1},
		{"a worker in place of a lost one meanwhile", one, Adding{Role: state.RoleWorker, Host: "w-1", Family: family}, 0},
		{"a worker while a move of the site is announced", one, Adding{Role: state.RoleWorker, Host: "w-3", Moves: "the move m1 of kim is announced for the hosts that the site has now: ship the site first, or take the move back"}, 1},
		{"everything is wrong at once", one, Adding{Role: state.RoleWorker, Host: "W_3", Addresses: addresses("192.0.2.21", "192.0.2.5"), VIPs: addresses("192.0.2.5"), Nodes: []state.Node{w1}, Upgrade: "Hosts"}, 4},
		{"a second control plane", one, Adding{Role: state.RoleMaster, Host: "cp-2", Nodes: []state.Node{cp("cp-1")}}, 1},
		{"a third control plane", two, Adding{Role: state.RoleMaster, Nodes: []state.Node{cp("cp-1"), cp("cp-2")}}, 1},
		{"the lost control plane of two", two, Adding{Role: state.RoleMaster, Host: "cp-2", Nodes: []state.Node{cp("cp-1")}}, 1},
		{"a fourth control plane", three, Adding{Role: state.RoleMaster, Host: "cp-4", Nodes: []state.Node{cp("cp-1"), cp("cp-2"), cp("cp-3")}}, 1},
		{"the empty place of three", three, Adding{Role: state.RoleMaster, Host: "cp-3", Nodes: []state.Node{cp("cp-1"), cp("cp-2")}}, 0},
		{"the place of a lost one of three, in an upgrade", three, Adding{Role: state.RoleMaster, Host: "cp-3", Nodes: []state.Node{cp("cp-1"), cp("cp-2")}, Waits: "waits for the upgrade: cp-2 rises to the level of its release first"}, 1},
		{"a control plane outside of the machine networks", three, Adding{Role: state.RoleMaster, Host: "cp-3", Networks: networks, Addresses: addresses("203.0.113.9")}, 1},
		{"a remote worker", one, Adding{Role: state.RoleWorker, Host: "w-3", Networks: networks, Addresses: addresses("203.0.113.9")}, 0},
	} {
		refused, notes := Add(c.site, c.add)
		if len(refused) != c.refused {
			t.Errorf("%s: %d refusals, want %d: %v", c.sentence, len(refused), c.refused, refused)
		}
		text.WriteString("# " + c.sentence + "\n")
		for _, err := range refused {
			text.WriteString("refused: " + err.Error() + "\n")
		}
		for _, n := range notes {
			text.WriteString("note: " + n + "\n")
		}
	}
	golden.Check(t, "adding.txt", []byte(text.String()))
}
