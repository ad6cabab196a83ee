package peers

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

var two = Site{ControlPlanes: 2, MastersSchedulable: true}

// node returns a ready node; labels are NAME or NAME=VALUE.
func node(name, address string, labels ...string) state.Node {
	n := state.Node{Name: name, Ready: true, Labels: map[string]string{}}
	if address != "" {
		n.Addresses = []netip.Addr{netip.MustParseAddr(address)}
	}
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		n.Labels[key] = value
	}
	return n
}

const (
	isMaster = noderole.Claim + "=master"
	isWorker = noderole.Claim + "=worker"
)

func master(name, address string) state.Node {
	return node(name, address, isMaster, noderole.ControlPlane, noderole.Master, noderole.Worker)
}

// told prints a list in words: each node, its address and its role.
func told(list []state.Node) []string {
	var out []string
	for _, n := range list {
		s := n.Name
		if len(n.Addresses) > 0 {
			s += " " + n.Addresses[0].String()
		}
		if controlPlane(n) {
			s += " control"
		}
		if n.Absent {
			s += " absent"
		}
		if len(n.Lost) > 0 {
			s += fmt.Sprintf(" lost %d", len(n.Lost))
		}
		out = append(out, s)
	}
	return out
}

func TestWhoIsAPeerHangsOnNoObjectThatSomebodyMayDelete(t *testing.T) {
	cp1, cp2, cp3 := master("cp-1", "10.0.0.1"), master("cp-2", "10.0.0.2"), master("cp-3", "10.0.0.3")
	worker := node("w-1", "10.0.0.9", isWorker, noderole.Worker)
	both := []state.Node{cp1, cp2}
	for _, c := range []struct {
		name   string
		known  []state.Node
		listed []state.Node
		site   Site
		want   []string
	}{
		{"nothing is lost", both, both, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control"}},
		{"the Node of a control plane was deleted", both, []state.Node{cp1}, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control absent"}},
		{"its kubelet registered anew, without role labels", both, []state.Node{cp1, node("cp-2", "10.0.0.2", isMaster)}, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control lost 3"}},
		{"and has no address yet", both, []state.Node{cp1, node("cp-2", "", isMaster)}, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control lost 3"}},
		{"who takes the name of a control plane gets no traffic by it", both, []state.Node{cp1, node("cp-2", "10.0.0.66", isMaster)}, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control lost 3"}},
		{"one label was taken off", both, []state.Node{cp1, node("cp-2", "10.0.0.2", noderole.Master, noderole.Worker)}, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control lost 1"}},
		{"who says that it is a control plane is none", both, []state.Node{cp1, cp2, node("x", "10.0.0.7", isMaster)}, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control", "x 10.0.0.7"}},
		{"a control plane was installed anew as a worker", []state.Node{cp1, cp2, cp3}, []state.Node{cp1, cp2, node("cp-3", "10.0.0.3", isWorker)}, Site{ControlPlanes: 3}, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control", "cp-3 10.0.0.3 lost 1"}},
		{"another host took its place", both, []state.Node{cp1, cp3}, two, []string{"cp-1 10.0.0.1 control", "cp-3 10.0.0.3 control"}},
		{"another node has its address", both, []state.Node{cp1, node("w-2", "10.0.0.2", isWorker, noderole.Worker)}, two, []string{"cp-1 10.0.0.1 control", "w-2 10.0.0.2"}},
		{"a worker was deleted", append(both, worker), both, two, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control"}},
		{"two of three were deleted, one after the other", Merge([]state.Node{cp1, cp2, cp3}, []state.Node{cp1, cp2}, Site{ControlPlanes: 3}), []state.Node{cp1}, Site{ControlPlanes: 3}, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control absent", "cp-3 10.0.0.3 control absent"}},
		{"how many there are to be is not known", both, []state.Node{cp1}, Site{}, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control absent"}},
		{"a fourth one came and went", []state.Node{cp1, cp2, cp3, master("cp-4", "10.0.0.4")}, []state.Node{cp1, cp2, cp3}, Site{ControlPlanes: 3}, []string{"cp-1 10.0.0.1 control", "cp-2 10.0.0.2 control", "cp-3 10.0.0.3 control"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Merge(c.known, c.listed, c.site)
			if diff := cmp.Diff(c.want, told(got)); diff != "" {
				t.Error(diff)
			}
			if again := Merge(got, c.listed, c.site); !reflect.DeepEqual(got, again) {
				t.Errorf("a second look comes to something else: %+v, before %+v", again, got)
			}
		})
	}
}

func TestAnAbsentControlPlaneIsNotReadyAndComesBackAsItIsListed(t *testing.T) {
	both := []state.Node{master("cp-1", "10.0.0.1"), master("cp-2", "10.0.0.2")}
	gone := Merge(both, both[:1], two)
	if !gone[1].Absent || gone[1].Ready {
		t.Fatalf("%+v", gone[1])
	}
	if back := Merge(gone, both, two); back[1].Absent || !back[1].Ready || len(back[1].Lost) > 0 {
		t.Errorf("%+v", back[1])
	}
}

func TestADeletedNodeTakesNoPeerFromAVirtualIPAndNoBackendFromTheBalancer(t *testing.T) {
	cp1, cp2 := master("cp-1", "10.0.0.1"), master("cp-2", "10.0.0.2")
	vip, net := netip.MustParseAddr("10.0.0.5"), netip.MustParsePrefix("10.0.0.1/24")
	view := state.NetworkView{
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Settings: state.NetworkSettings{
			Cluster: "shop", ManagedVIPs: true, APIVIPs: []netip.Addr{vip}, MachineNetworks: []netip.Prefix{net.Masked()}, ControlPlanes: 2,
		},
		Host:      state.HostFacts{NodeName: "cp-1", Addresses: cp1.Addresses},
		Addresses: []state.HostAddress{{Interface: "eth0", Index: 1, Prefix: net, Usable: true}},
	}
	for name, listed := range map[string][]state.Node{
		"its Node is deleted": {cp1}, "it registered anew": {cp1, node("cp-2", "10.0.0.2", isMaster)},
		"this host's Node is deleted": {cp2}, "this host registered anew": {node("cp-1", "", isMaster), cp2},
	} {
		view.Nodes = state.Known(Merge([]state.Node{cp1, cp2}, listed, two))
		verdict := vrrp.Instances(view)
		if len(verdict.Instances) != 1 || !slices.Equal(verdict.Instances[0].Peers, cp2.Addresses) {
			t.Errorf("%s: %+v", name, verdict)
		}
		if backends := apilb.Backends(view); len(backends.Value) != 2 {
			t.Errorf("%s: %+v", name, backends)
		}
	}
}

// The VIP is in a network that holds none of the nodes' own addresses: only the
// reports tell who is a peer there.
func TestANodeThatLostItsReportIsAPeerByWhatItSaidLast(t *testing.T) {
	report := func(n state.Node, address string) state.Node {
		n.Annotations = map[string]string{state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{Addresses: []netip.Prefix{netip.MustParsePrefix(address)}})}
		return n
	}
	known := Merge(nil, []state.Node{report(master("cp-1", "10.0.0.1"), "10.1.0.1/24"), report(master("cp-2", "10.0.0.2"), "10.1.0.2/24")}, two)
	view := state.NetworkView{
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Settings: state.NetworkSettings{Cluster: "shop", ManagedVIPs: true, APIVIPs: []netip.Addr{netip.MustParseAddr("10.1.0.5")}, ControlPlanes: 2},
		Host:     state.HostFacts{NodeName: "cp-1", Addresses: known[0].Addresses},
		Addresses: []state.HostAddress{
			{Interface: "eth0", Index: 1, Prefix: netip.MustParsePrefix("10.0.0.1/24"), Usable: true},
			{Interface: "eth1", Index: 2, Prefix: netip.MustParsePrefix("10.1.0.1/24"), Usable: true},
		},
	}
	for range 2 { // and again, while the API says something else
		known = Merge(known, []state.Node{master("cp-1", "10.0.0.1"), master("cp-2", "10.0.0.2")}, two)
		view.Nodes = state.Known(known)
		verdict := vrrp.Instances(view)
		if len(verdict.Instances) != 1 || verdict.Instances[0].Peers[0] != netip.MustParseAddr("10.1.0.2") || len(known[0].Kept) != 1 {
			t.Errorf("%+v of %+v", verdict, known)
		}
		if r := Of(withBalancer(view)); r == nil || len(r.VRRP) != 1 {
			t.Errorf("it counts on %+v", r)
		}
	}
	if back := Merge(known, []state.Node{report(master("cp-1", "10.0.0.1"), "10.1.0.9/24")}, two); len(back[0].Kept) != 0 ||
		!strings.Contains(back[0].Annotations[state.AnnotationVIPs], "10.1.0.9/24") {
		t.Errorf("%+v", back[0])
	}
}

func withBalancer(v state.NetworkView) state.NetworkView {
	v.Balancer = state.Known(state.Balancer{Backends: map[string]bool{"cp-1": true, "cp-2": true}})
	return v
}

func TestTheListItselfIsLeftAsItIs(t *testing.T) {
	listed := []state.Node{master("cp-1", "10.0.0.1"), node("cp-2", "10.0.0.2", isMaster)}
	Merge([]state.Node{master("cp-2", "10.0.0.2")}, listed, two)
	if len(listed[1].Labels) != 1 || len(listed[1].Lost) > 0 {
		t.Errorf("who labels nodes would see labels that they lack: %+v", listed[1])
	}
}
