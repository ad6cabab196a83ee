package peers

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
)

// balanced returns what cp-1, one of two control planes with an API VIP, sees.
func balanced(nodes ...state.Node) state.NetworkView {
	net := netip.MustParsePrefix("10.0.0.1/24")
	return state.NetworkView{
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Settings: state.NetworkSettings{
			Cluster: "shop", ManagedVIPs: true, APIVIPs: []netip.Addr{netip.MustParseAddr("10.0.0.5")},
			IngressVIPs: []netip.Addr{netip.MustParseAddr("10.0.0.6")}, MachineNetworks: []netip.Prefix{net.Masked()}, ControlPlanes: 2,
		},
		Host:      state.HostFacts{NodeName: "cp-1", Addresses: []netip.Addr{net.Addr()}},
		Addresses: []state.HostAddress{{Interface: "eth0", Index: 1, Prefix: net, Usable: true}},
		Nodes:     state.Known(nodes),
	}
}

// TestWhatAControlPlaneReportsOfItsPeers has one line for each part of the report.
func TestWhatAControlPlaneReportsOfItsPeers(t *testing.T) {
	both := func() state.NetworkView {
		return balanced(master("cp-2", "10.0.0.2"), master("cp-1", "10.0.0.1"), node("w-1", "10.0.0.9", isWorker, noderole.Worker))
	}
	whole := &state.PeerReport{VRRP: []string{"cp-2"}, Backends: []string{"cp-1", "cp-2"}}
	for name, c := range map[string]struct {
		change func(*state.NetworkView)
		want   *state.PeerReport
	}{
		"its peer and both backends": {func(*state.NetworkView) {}, whole},
		"what its balancer runs with goes before what it should": {func(v *state.NetworkView) {
			v.Balancer = state.Known(state.Balancer{Backends: map[string]bool{"cp-3": false, "cp-1": true}})
		}, &state.PeerReport{VRRP: []string{"cp-2"}, Backends: []string{"cp-1", "cp-3"}}},
		"a node with two addresses is one backend": {func(v *state.NetworkView) {
			v.Settings.APIVIPs = append(v.Settings.APIVIPs, netip.MustParseAddr("fd00::5"))
			v.Settings.MachineNetworks = append(v.Settings.MachineNetworks, netip.MustParsePrefix("fd00::/64"))
			v.Host.Addresses = append(v.Host.Addresses, netip.MustParseAddr("fd00::1"))
			v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Index: 1, Prefix: netip.MustParsePrefix("fd00::1/64"), Usable: true})
			for i, a := range []string{"fd00::2", "fd00::1"} {
				v.Nodes.Value[i].Addresses = append(v.Nodes.Value[i].Addresses, netip.MustParseAddr(a))
			}
		}, whole},
		"a peer by one of its two labels":     {func(v *state.NetworkView) { delete(v.Nodes.Value[0].Labels, noderole.ControlPlane) }, &state.PeerReport{VRRP: []string{"cp-2"}, Backends: []string{"cp-1"}}},
		"it is alone":                         {func(v *state.NetworkView) { v.Nodes.Value = v.Nodes.Value[1:] }, &state.PeerReport{VRRP: []string{}, Backends: []string{"cp-1"}}},
		"a host that may hold nothing":        {func(v *state.NetworkView) { v.MayHold = state.Known(false) }, nil},
		"a host that may":                     {func(v *state.NetworkView) { v.MayHold = state.Known(true) }, whole},
		"a host that is being installed":      {func(v *state.NetworkView) { v.Stage = state.StageInstalling }, nil},
		"a worker":                            {func(v *state.NetworkView) { v.Role = state.RoleWorker }, nil},
		"a site whose VIPs another one holds": {func(v *state.NetworkView) { v.Settings.ManagedVIPs = false }, nil},
		"no list of nodes":                    {func(v *state.NetworkView) { v.Nodes.Known = false }, nil},
	} {
		v := both()
		c.change(&v)
		if diff := cmp.Diff(c.want, Of(v)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestWhatANodeOfAnEarlierLookGives has one line for each fact that a Node may
// have lost.
func TestWhatANodeOfAnEarlierLookGives(t *testing.T) {
	report := func(n state.Node, text string) state.Node {
		n.Annotations = map[string]string{state.AnnotationVIPs: text}
		return n
	}
	worker := func(address string) state.Node { return node("w-1", address, isWorker, noderole.Worker) }
	for name, c := range map[string]struct {
		before, listed state.Node
		address, note  string
		kept           int
	}{
		"a worker that moved":                    {worker("10.0.0.8"), worker("10.0.0.9"), "10.0.0.9", "", 0},
		"a worker without an address":            {worker("10.0.0.8"), worker(""), "10.0.0.8", "", 0},
		"a control plane that moved":             {master("cp-2", "10.0.0.2"), master("cp-2", "10.0.0.3"), "10.0.0.3", "", 0},
		"one that lost its label has none known": {master("cp-2", ""), node("cp-2", "10.0.0.3", isMaster), "10.0.0.3", "", 0},
		"a report that is still there":           {report(worker("10.0.0.8"), "old"), report(worker("10.0.0.8"), "new"), "10.0.0.8", "new", 0},
		"a report that is lost":                  {report(worker("10.0.0.8"), "old"), worker("10.0.0.8"), "10.0.0.8", "old", 1},
		"no report at all":                       {worker("10.0.0.8"), worker("10.0.0.8"), "10.0.0.8", "", 0},
	} {
		got := one(c.listed, c.before, two)
		if got.Addresses[0].String() != c.address || got.Annotations[state.AnnotationVIPs] != c.note || len(got.Kept) != c.kept {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatIsKeptOfAReportIsNotWrittenIntoTheList(t *testing.T) {
	listed := node("w-1", "10.0.0.8", isWorker, noderole.Worker)
	listed.Annotations = map[string]string{"a": "b"}
	before := listed
	before.Annotations = map[string]string{state.AnnotationVIPs: "old"}
	if got := one(listed, before, two); len(listed.Annotations) != 1 || got.Annotations["a"] != "b" {
		t.Errorf("%+v of %+v", got.Annotations, listed.Annotations)
	}
	if got := one(state.Node{Name: "x"}, state.Node{}, two); got.Annotations != nil {
		t.Errorf("%+v", got)
	}
}

func TestALabelIsGivenToANodeWithoutAny(t *testing.T) {
	got := one(state.Node{Name: "cp-2"}, master("cp-2", "10.0.0.2"), two)
	if !controlPlane(got) || len(got.Lost) != 3 {
		t.Errorf("%+v", got)
	}
	if whole := one(master("cp-2", "10.0.0.2"), state.Node{}, two); len(whole.Lost) != 0 {
		t.Errorf("%+v", whole)
	}
}

func TestEachOfTheTwoLabelsMakesAControlPlane(t *testing.T) {
	for label, want := range map[string]bool{state.LabelMaster: true, state.LabelControlPlane: true, noderole.Worker: false} {
		if got := controlPlane(node("x", "", label)); got != want {
			t.Errorf("%s: %v", label, got)
		}
	}
}

func TestNodesAreInTheOrderOfTheirNames(t *testing.T) {
	got := Merge([]state.Node{master("cp-0", "10.0.0.4")}, []state.Node{master("cp-2", "10.0.0.2"), master("cp-1", "10.0.0.1")}, Site{ControlPlanes: 3})
	if diff := cmp.Diff([]string{"cp-0 10.0.0.4 control absent", "cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control"}, told(got)); diff != "" {
		t.Error(diff)
	}
	workers := Merge([]state.Node{node("w-1", "10.0.0.9", isWorker, noderole.Worker)}, nil, Site{})
	if len(workers) != 0 {
		t.Errorf("a worker that is gone stays: %+v", workers)
	}
}
