package coredns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/names"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// hosts returns the n-th address of a family.
func hosts(kind string, n int) []netip.Addr {
	v4, v6 := netip.AddrFrom4([4]byte{192, 168, 111, byte(n)}), netip.MustParseAddr(fmt.Sprintf("fd2e:6f44:5dd8::%x", n))
	switch kind {
	case "v4":
		return []netip.Addr{v4}
	case "v6":
		return []netip.Addr{v6}
	}
	return []netip.Addr{v4, v6}
}

// networks returns the networks of a family.
func networks(kind, v4, v6 string) []netip.Prefix {
	switch kind {
	case "v4":
		return []netip.Prefix{netip.MustParsePrefix(v4)}
	case "v6":
		return []netip.Prefix{netip.MustParsePrefix(v6)}
	}
	return []netip.Prefix{netip.MustParsePrefix(v4), netip.MustParsePrefix(v6)}
}

// shapes lists the numbers of control planes and workers in the golden files.
var shapes = map[string][2]int{"one": {1, 0}, "two": {2, 0}, "three": {3, 2}}

// view returns the view of the first host of a shape.
func view(shape, kind string) state.NetworkView {
	v := state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "edge", Domain: "edge.example.com", MachineNetworks: networks(kind, "192.168.111.0/24", "fd2e:6f44:5dd8::/64"),
			PodNetworks: networks(kind, "10.128.0.0/14", "fd01::/48"), ServiceNetworks: networks(kind, "172.30.0.0/16", "fd02::/112"),
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host: state.HostFacts{NodeName: "host-0", Addresses: hosts(kind, 20), Interface: "eth0"},
	}
	if shape != "one" {
		v.Settings.ManagedVIPs, v.Settings.APIVIPs, v.Settings.IngressVIPs = true, hosts(kind, 5), hosts(kind, 6)
	}
	var nodes []state.Node
	for i := range shapes[shape][0] + shapes[shape][1] {
		nodes = append(nodes, state.Node{Name: fmt.Sprintf("host-%d", i), Addresses: hosts(kind, 20+i)})
	}
	v.Nodes = state.Known(nodes)
	for _, a := range hosts(kind, 1) {
		v.Upstreams = append(v.Upstreams, netip.AddrPortFrom(a, 53))
	}
	return v
}

// bootstrap returns the view of the first host while the nodes are unknown.
func bootstrap(kind string) state.NetworkView {
	v := view("three", kind)
	v.Role, v.Stage, v.Nodes = state.RoleBootstrap, state.StageInstalling, state.Fact[[]state.Node]{}
	return v
}

func check(t *testing.T, name string, v state.NetworkView) {
	t.Helper()
	z, ok := names.Decide(v)
	s, enough := names.DecideServer(v)
	if !ok || !enough {
		t.Fatal("the view is not enough")
	}
	conf := Config(s, ZonePath)
	golden.Check(t, name+".zone", Zone(z))
	golden.Check(t, name+".Corefile", conf)
}

func TestZoneAndCorefileOfEveryTopologyAndFamily(t *testing.T) {
	for _, kind := range []string{"v4", "v6", "dual"} {
		for shape := range shapes {
			t.Run(shape+"-"+kind, func(t *testing.T) { check(t, shape+"-"+kind, view(shape, kind)) })
		}
		t.Run("bootstrap-"+kind, func(t *testing.T) { check(t, "bootstrap-"+kind, bootstrap(kind)) })
	}
}

func TestHardCase29_B48_ACorefileWithoutUpstreamsStillServesTheCluster(t *testing.T) {
	v := view("two", "dual")
	v.Upstreams = nil
	check(t, "no-upstreams", v)
}

func TestHardCase29_H2_ACorefileNamesFifteenUpstreamsAtMost(t *testing.T) {
	v := view("two", "v4")
	for i := range 18 {
		v.Upstreams = append(v.Upstreams, netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 53))
	}
	v.Upstreams = append(v.Upstreams, netip.MustParseAddrPort("192.168.111.20:53"), netip.MustParseAddrPort("127.0.0.53:53"))
	check(t, "many-upstreams", v)
}

func TestAZoneSaysWhomItLeavesOut(t *testing.T) {
	v := view("two", "v4")
	v.Nodes.Value = append(v.Nodes.Value, state.Node{Name: "line\nbreak", Addresses: hosts("v4", 30)}, state.Node{Name: "host-9"})
	check(t, "left-out", v)
}

func TestACorefileSaysWhichServersAWorkerClaims(t *testing.T) {
	v := view("one", "v4")
	v.Nodes.Value = append(v.Nodes.Value, state.Node{Name: "host-9", Addresses: hosts("v4", 1)})
	check(t, "claimed", v)
}

// The former Corefile matched api.domain in xapi-domain, and apps in fooapps.
func TestB50_H3_NoNameIsEverMatchedByAnExpression(t *testing.T) {
	z, _ := names.Decide(view("three", "dual"))
	s, _ := names.DecideServer(view("three", "dual"))
	conf := Config(s, ZonePath)
	for _, word := range []string{"match", "regex", "answer", `\.`} {
		if strings.Contains(string(conf)+string(Zone(z)), word) {
			t.Errorf("the files hold %q", word)
		}
	}
}

func TestEqualNamesAreEqualBytesAndOthersHaveAnotherSerial(t *testing.T) {
	a, _ := names.Decide(view("three", "dual"))
	again, _ := names.Decide(view("three", "dual"))
	v := view("three", "dual")
	v.Nodes.Value[1].Addresses = hosts("dual", 99)
	b, _ := names.Decide(v)
	if string(Zone(a)) != string(Zone(again)) || serial(Zone(a)) == serial(Zone(b)) {
		t.Errorf("%s and %s", serial(Zone(a)), serial(Zone(b)))
	}
}

func serial(zone []byte) string {
	for line := range strings.Lines(string(zone)) {
		if f := strings.Fields(line); len(f) > 6 && f[3] == "SOA" {
			return f[6]
		}
	}
	return ""
}

func TestAZoneTellsWhetherTheNodesWereKnown(t *testing.T) {
	whole, _ := names.Decide(view("three", "v4"))
	early, _ := names.Decide(bootstrap("v4"))
	if !Complete(Zone(whole)) || Complete(Zone(early)) || Complete(nil) {
		t.Error("a zone does not tell")
	}
}

// Without a name of its own, a cluster would listen to all hosts on the
// network.
func TestNobodyIsListenedToWhileTheClusterHasNoName(t *testing.T) {
	v := view("two", "v4")
	v.Settings.Cluster = ""
	s, _ := names.DecideServer(v)
	if conf := Config(s, ZonePath); strings.Contains(string(conf), "mdns") {
		t.Errorf("%s", conf)
	}
}

func TestACorefileTellsWhetherItAsksOthers(t *testing.T) {
	v := view("two", "v4")
	for _, forwards := range []bool{true, false} {
		s, _ := names.DecideServer(v)
		if conf := Config(s, ZonePath); Forwards(conf) != forwards {
			t.Errorf("%s", conf)
		}
		v.Upstreams = nil
	}
}

func TestPod(t *testing.T) {
	pod, err := Pod(payload.Image("coredns"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "pod.yaml", pod)
}
