package names

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func node(name string, list ...string) state.Node {
	return state.Node{Name: name, Addresses: addrs(list...)}
}

func plane(name string, list ...string) state.Node {
	n := node(name, list...)
	n.Labels = map[string]string{state.LabelControlPlane: ""}
	return n
}

// demo returns a view of three control planes, as the second of them sees it.
func demo() state.NetworkView {
	return state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "demo", Domain: "demo.example.com", ManagedVIPs: true,
			APIVIPs: addrs("192.0.2.5", "2001:db8::5"), IngressVIPs: addrs("192.0.2.6", "2001:db8::6"),
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host: state.HostFacts{NodeName: "host-1", Addresses: addrs("192.0.2.21", "2001:db8::21"), Interface: "eth0"},
		Nodes: state.Known([]state.Node{
			plane("host-0", "192.0.2.20", "2001:db8::20"), plane("host-1", "192.0.2.21", "2001:db8::21"), plane("host-2", "192.0.2.22", "2001:db8::22"),
		}),
		Addresses: []state.HostAddress{
			{Interface: "eth0", Prefix: netip.MustParsePrefix("192.0.2.21/24"), Usable: true},
			{Interface: "eth0", Prefix: netip.MustParsePrefix("2001:db8::21/64"), Usable: true},
		},
		Upstreams: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[2001:db8::1]:53")},
	}
}

// lines prints a zone's names, one a line.
func lines(z Zone) []string {
	var out []string
	for _, n := range z.Names {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(n), "{"), "}"))
	}
	return out
}

// ofNodes returns the lines without the names of the VIPs.
func ofNodes(z Zone) []string {
	return slices.DeleteFunc(lines(z), func(line string) bool { return strings.HasPrefix(line, "api") || strings.HasPrefix(line, "*") })
}

func decided(t *testing.T, v state.NetworkView) Zone {
	t.Helper()
	z, ok := Decide(v)
	if !ok {
		t.Fatal("the view is not enough for a zone")
	}
	return z
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestAClusterHasItsVIPsAndEveryNodeByShortAndByFullName(t *testing.T) {
	z := decided(t, demo())
	equal(t, lines(z),
		"*.apps.demo.example.com [192.0.2.6 2001:db8::6]",
		"api-int.demo.example.com [192.0.2.5 2001:db8::5]",
		"api.demo.example.com [192.0.2.5 2001:db8::5]",
		"host-0 [192.0.2.20 2001:db8::20]",
		"host-0.demo.example.com [192.0.2.20 2001:db8::20]",
		"host-1 [192.0.2.21 2001:db8::21]",
		"host-1.demo.example.com [192.0.2.21 2001:db8::21]",
		"host-2 [192.0.2.22 2001:db8::22]",
		"host-2.demo.example.com [192.0.2.22 2001:db8::22]",
	)
	if !z.Complete || len(z.Omitted) > 0 {
		t.Errorf("%+v", z)
	}
}

func TestANodeWhoseFullNameLiesBelowTheDomainKeepsIt(t *testing.T) {
	v := demo()
	v.Nodes.Value = []state.Node{node("a.rack1.demo.example.com", "192.0.2.30"), node("b.demo.example.com", "192.0.2.31"), node("c.elsewhere.org", "192.0.2.32")}
	v.Host = state.HostFacts{}
	equal(t, ofNodes(decided(t, v)),
		"a [192.0.2.30]", "a.demo.example.com [192.0.2.30]", "a.rack1.demo.example.com [192.0.2.30]",
		"b [192.0.2.31]", "b.demo.example.com [192.0.2.31]",
		"c [192.0.2.32]", "c.demo.example.com [192.0.2.32]",
	)
}

// The old monitor compared only the names of nodes.
func TestH1_AChangedAddressOfANodeIsAnotherZone(t *testing.T) {
	v := demo()
	v.Nodes.Value = slices.Clone(v.Nodes.Value)
	v.Nodes.Value[0] = node("host-0", "192.0.2.99")
	equal(t, lines(decided(t, v))[3:5], "host-0 [192.0.2.99]", "host-0.demo.example.com [192.0.2.99]")
}

func TestAHostSeesItsOwnAddressChangeBeforeTheAPIDoes(t *testing.T) {
	v := demo()
	v.Host.Addresses = addrs("192.0.2.77")
	equal(t, lines(decided(t, v))[5:6], "host-1 [192.0.2.77]")
}

// B49: the plugin answers for the family without an address, because it has the
// name.
func TestB49_AVIPOfOneFamilyIsStillAName(t *testing.T) {
	v := demo()
	v.Settings.APIVIPs, v.Settings.IngressVIPs = addrs("2001:db8::5"), addrs("192.0.2.6")
	equal(t, lines(decided(t, v))[:3],
		"*.apps.demo.example.com [192.0.2.6]", "api-int.demo.example.com [2001:db8::5]", "api.demo.example.com [2001:db8::5]")
}

func TestWithoutVIPsTheirNamesAreTheSites(t *testing.T) {
	v := demo()
	v.Settings.APIVIPs, v.Settings.IngressVIPs, v.Settings.ManagedVIPs = nil, nil, false
	for _, n := range decided(t, v).Names {
		if strings.Contains(n.Name, "ap") {
			t.Errorf("%s is answered for", n.Name)
		}
	}
}

func TestWhileTheNodesAreUnknownTheHostKnowsTheVIPsAndItself(t *testing.T) {
	v := demo()
	v.Nodes, v.Role, v.Stage = state.Fact[[]state.Node]{}, state.RoleBootstrap, state.StageInstalling
	z := decided(t, v)
	if z.Complete {
		t.Error("the zone passes for one of all nodes")
	}
	if got := len(z.Names); got != 5 {
		t.Errorf("%v", lines(z))
	}
}

func TestWithoutADomainThereIsNoZone(t *testing.T) {
	for _, domain := range []string{"", ".", "de mo.example.com", "a..b", "-a.b", strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 130) + "b"} {
		v := demo()
		v.Settings.Domain = domain
		if z, ok := Decide(v); ok {
			t.Errorf("%q: %v", domain, lines(z))
		}
	}
}

func TestADomainIsTakenInAnyForm(t *testing.T) {
	v := demo()
	v.Settings.Domain = "Demo.Example.COM."
	if z := decided(t, v); z.Domain != "demo.example.com" || z.Names[0].Name != "*.apps.demo.example.com" {
		t.Errorf("%+v", z)
	}
}

// A VIP on a node's NIC is no address of the node: the node's name would follow
// the VIP. Through the reverse name, the VIP's name would have become the
// host's, too (B61).
func TestAVIPIsNeverANodesAddress(t *testing.T) {
	v := demo()
	v.Nodes.Value = []state.Node{node("host-0", "192.0.2.5", "192.0.2.20", "2001:db8::6", "192.0.2.6")}
	equal(t, lines(decided(t, v))[3:4], "host-0 [192.0.2.20]")
}

func TestWhatOthersDoNotReachIsNoAddressOfANode(t *testing.T) {
	v := demo()
	v.Nodes.Value = []state.Node{
		node("host-0", "127.0.0.1", "169.254.1.1", "fe80::1", "::1", "224.0.0.251", "0.0.0.0", "::ffff:192.0.2.20", "192.0.2.20"),
		node("host-3", "127.0.0.1"),
		{Name: "host-4"},
	}
	z := decided(t, v)
	equal(t, lines(z)[3:4], "host-0 [192.0.2.20]")
	equal(t, reasons(z), "host-3: it has no address that other hosts can reach", "host-4: it has no address that other hosts can reach")
}

func reasons(z Zone) []string {
	var out []string
	for _, o := range z.Omitted {
		out = append(out, o.Node+": "+o.Reason)
	}
	return out
}

func TestNoNodeTakesANameThatIsNotItsOwn(t *testing.T) {
	v := demo()
	v.Host = state.HostFacts{}
	v.Nodes.Value = []state.Node{
		node("api", "192.0.2.31"), node("api-int", "192.0.2.32"), node("x.apps.demo.example.com", "192.0.2.33"),
		node("localhost", "192.0.2.34"), node("bad_name", "192.0.2.35"), node("*", "192.0.2.36"), node("a b", "192.0.2.37"),
	}
	z := decided(t, v)
	equal(t, lines(z),
		"*.apps.demo.example.com [192.0.2.6 2001:db8::6]",
		"api [192.0.2.31]",
		"api-int [192.0.2.32]",
		"api-int.demo.example.com [192.0.2.5 2001:db8::5]",
		"api.demo.example.com [192.0.2.5 2001:db8::5]",
		"x [192.0.2.33]", "x.demo.example.com [192.0.2.33]",
	)
	equal(t, reasons(z),
		"*: its name is not a valid host name", "a b: its name is not a valid host name",
		"api: api.demo.example.com belongs to the cluster", "api-int: api-int.demo.example.com belongs to the cluster",
		"bad_name: its name is not a valid host name", "localhost: its name is not a valid host name",
	)
}

func TestANameThatTwoNodesClaimBelongsToNeither(t *testing.T) {
	v := demo()
	v.Host = state.HostFacts{}
	v.Nodes.Value = []state.Node{node("a.rack1.demo.example.com", "192.0.2.31"), node("a.rack2.demo.example.com", "192.0.2.32")}
	z := decided(t, v)
	equal(t, ofNodes(z), "a.rack1.demo.example.com [192.0.2.31]", "a.rack2.demo.example.com [192.0.2.32]")
	if len(z.Omitted) != 4 || z.Omitted[0].Reason != "a is claimed by a.rack1.demo.example.com and a.rack2.demo.example.com" {
		t.Errorf("%v", reasons(z))
	}
}

// The owner of a worker can give its node any name.
func TestAWorkerTakesNoNameFromAControlPlane(t *testing.T) {
	lead := func(name string, list ...string) state.Node {
		n := node(name, list...)
		n.Labels = map[string]string{state.LabelControlPlane: ""}
		return n
	}
	for _, own := range []string{"", "host-0", "host-0.anything"} {
		v := demo()
		v.Host, v.Role = state.HostFacts{}, state.RoleWorker
		v.Nodes.Value = []state.Node{lead("host-0", "192.0.2.20"), node("host-0.anything", "192.0.2.66"), node("host-0.other", "192.0.2.67")}
		if own != "" {
			v.Host = state.HostFacts{NodeName: own, Addresses: addrs(map[string]string{"host-0": "192.0.2.20", "host-0.anything": "192.0.2.66"}[own])}
		}
		z := decided(t, v)
		equal(t, ofNodes(z), "host-0 [192.0.2.20]", "host-0.demo.example.com [192.0.2.20]")
		if len(z.Omitted) != 4 || z.Omitted[0].Reason != "host-0 belongs to the control plane host-0" {
			t.Errorf("%v", reasons(z))
		}
	}
	v := demo()
	v.Host = state.HostFacts{}
	v.Nodes.Value = []state.Node{lead("a.rack1", "192.0.2.31"), lead("a.rack2", "192.0.2.32"), node("a.rack3", "192.0.2.33")}
	if z := decided(t, v); len(ofNodes(z)) != 0 || z.Omitted[0].Reason != "a is claimed by a.rack1 and a.rack2 and a.rack3" {
		t.Errorf("two control planes are called alike: %v, %v", ofNodes(z), reasons(z))
	}
}

// A host that joins as a control plane counts as one before it is a node.
func TestAHostThatJoinsKeepsItsNameFromAWorker(t *testing.T) {
	v := demo()
	v.Nodes.Value = []state.Node{node("host-1.anything", "192.0.2.66")}
	equal(t, ofNodes(decided(t, v)), "host-1 [192.0.2.21 2001:db8::21]", "host-1.demo.example.com [192.0.2.21 2001:db8::21]")
}

func TestTheOrderOfTheNodesDoesNotMatter(t *testing.T) {
	v := demo()
	first := fmt.Sprint(decided(t, v))
	slices.Reverse(v.Nodes.Value)
	if again := fmt.Sprint(decided(t, v)); again != first {
		t.Errorf("%s\n%s", first, again)
	}
	if v.Nodes.Value[0].Name != "host-2" {
		t.Error("the view was changed")
	}
}
