package ports_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	. "github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func nets(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func node(name, role string, addresses ...string) state.Node {
	n := state.Node{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}
	if role != "" {
		n.Labels["node-role.kubernetes.io/"+role] = ""
	}
	for _, a := range addresses {
		n.Addresses = append(n.Addresses, addr(a))
	}
	return n
}

// two is a site of two control planes and a worker, seen from cp-1.
func two() (state.NetworkView, Host) {
	v := state.NetworkView{
		Role: state.RoleMaster, Stage: state.StageInstalled, LocalAPI: state.Known(true), Host: state.HostFacts{NodeName: "cp-1"},
		Settings: state.NetworkSettings{
			ControlPlanes: 2, Fencing: true, ManagedVIPs: true, MachineNetworks: nets("10.98.0.0/24", "fd98::/64"),
			PodNetworks: nets("10.128.0.0/14", "fd01::/48"),
			APIVIPs:     []netip.Addr{addr("10.98.0.5")}, IngressVIPs: []netip.Addr{addr("10.98.0.6")},
		},
		Nodes: state.Known([]state.Node{
			node("cp-1", "control-plane", "10.98.0.11", "fd98::11"), node("cp-2", "control-plane", "10.98.0.12", "fd98::12"),
			node("w-1", "worker", "10.98.0.21", "fd98::21"), node("far", "worker", "10.70.0.5"),
		}),
	}
	return v, Host{
		Flannel: true,
		Rings:   []netip.Addr{addr("10.98.0.11"), addr("10.98.0.12"), addr("10.97.0.11"), addr("10.97.0.12")},
		BMCs:    []netip.Addr{addr("10.99.0.111"), addr("10.99.0.112")},
	}
}

// packet is the first packet of a connection.
type packet struct {
	from, to string
	protocol Protocol
	port     uint16
}

// drops applies the rules of a chain as the kernel does.
func drops(r Rules, chain []Rule, p packet) bool {
	from, to := addr(p.from), addr(p.to)
	in := func(set string, a netip.Addr) bool {
		return slices.ContainsFunc(r.Sets, func(s Set) bool { return s.Name == set && slices.Contains(s.Addresses, a) })
	}
	within := func(list []netip.Prefix, a netip.Addr) bool {
		return slices.ContainsFunc(list, func(n netip.Prefix) bool { return n.Contains(a) })
	}
	return slices.ContainsFunc(chain, func(x Rule) bool {
		return x.IPv6 == from.Is6() && (x.Protocol == "" || x.Protocol == p.protocol && x.First <= p.port && p.port <= x.Last) &&
			(!x.From.IsValid() || x.From.Contains(from)) && (x.Not == "" || !in(x.Not, from) && !within(x.Nets, from)) &&
			(x.To == "" || in(x.To, to))
	})
}

const (
	peer, worker, far, stranger = "10.98.0.12", "10.98.0.21", "10.70.0.5", "10.98.0.77"
	self, abroad, pod           = "10.98.0.11", "192.0.2.9", "10.128.3.4"
)

func TestWhatComesToAControlPlaneOfTwo(t *testing.T) {
	v, h := two()
	r := Decide(v, h, true)
	for _, c := range []struct {
		name     string
		protocol Protocol
		port     uint16
		from     []string
		open     bool
	}{
		{"etcd, from control planes by any network", TCP, 2380, []string{peer, "fd98::12", "10.97.0.12"}, true},
		{"etcd, from others", TCP, 2379, []string{worker, far, stranger, abroad, pod, "fd98::21", "fd01::9", "10.98.0.6"}, false},
		{"Corosync", UDP, 5406, []string{peer, "10.97.0.12"}, true},
		{"Corosync, from others", UDP, 5405, []string{worker, stranger, pod}, false},
		{"pcsd", TCP, 2224, []string{worker, stranger, pod, abroad}, false},
		{"the daemons of etcd, by any network", TCP, 2382, []string{peer, "10.99.0.12", abroad}, true},
		{"the daemons of etcd, from pods", TCP, 2382, []string{pod, "fd01::9"}, false},
		{"VXLAN, from hosts", UDP, 8472, []string{peer, worker, far, "fd98::21"}, true},
		{"VXLAN, from others", UDP, 8472, []string{stranger, abroad, pod}, false},
		{"health, from the machine network and hosts", TCP, 9444, []string{peer, worker, stranger, far, "fd98::77"}, true},
		{"health, from elsewhere", TCP, 18080, []string{abroad, pod, "2001:db8::1"}, false},
		{"the configuration server", TCP, 22623, []string{worker, stranger, abroad}, true},
		{"the configuration server, from pods", TCP, 22623, []string{pod, "fd01::9"}, false},
		{"the API server", TCP, 6443, []string{peer, worker, abroad, pod}, true},
		{"kubelet", TCP, 10250, []string{peer, pod, abroad}, true},
	} {
		for _, from := range c.from {
			if got := drops(r, r.Input, packet{from, self, c.protocol, c.port}); got == c.open {
				t.Errorf("%s: from %s, dropped: %t", c.name, from, got)
			}
		}
	}
}

// TestAPeerOfASiteThatMovesComesFromEitherAddress: within one network nobody can tell whether it has moved yet.
func TestAPeerOfASiteThatMovesComesFromEitherAddress(t *testing.T) {
	const other = "10.98.0.112"
	v, h := two()
	for _, moves := range []bool{false, true} {
		if moves {
			v.Nodes.Value[1].Also = []netip.Addr{addr(other)}
		}
		r := Decide(v, h, true)
		for _, p := range []packet{{other, self, TCP, 2380}, {other, self, UDP, 8472}} {
			if drops(r, r.Input, p) == moves {
				t.Errorf("the peer moves: %t; dropped: %v", moves, p)
			}
		}
		if !drops(r, r.Input, packet{stranger, self, TCP, 2380}) {
			t.Errorf("the peer moves: %t; a stranger is let in", moves)
		}
	}
}

// Whatever is known: no rule may close an administrator's way in, or addresses
// and names.
func TestNoRuleTouchesWhatAHostAndAPersonNeed(t *testing.T) {
	for name, change := range map[string]func(*state.NetworkView, *Host){
		"all known":     func(*state.NetworkView, *Host) {},
		"nothing known": func(v *state.NetworkView, h *Host) { *v, *h = state.NetworkView{Role: state.RoleMaster}, Host{} },
		"a worker":      func(v *state.NetworkView, _ *Host) { v.Role = state.RoleWorker },
		"no networks":   func(v *state.NetworkView, _ *Host) { v.Settings.MachineNetworks = nil },
	} {
		v, h := two()
		change(&v, &h)
		r := Decide(v, h, true)
		for _, c := range []struct {
			protocol Protocol
			ports    []uint16
		}{{TCP, []uint16{22, 53, 80, 443, 6443, 9445, 10250, 1936, 30000, 32767, 40000}}, {UDP, []uint16{53, 67, 68, 123, 546, 547, 5353, 30001}}, {"icmp", []uint16{0}}, {VRRP, []uint16{0}}} {
			for _, port := range c.ports {
				for _, from := range []string{peer, worker, stranger, abroad, pod, "fe80::1", "fd98::77"} {
					if drops(r, r.Input, packet{from, self, c.protocol, port}) {
						t.Errorf("%s: %s/%d from %s is dropped", name, c.protocol, port, from)
					}
				}
			}
		}
	}
}

func TestWhatPodsSendToOtherHostsAndToManagementControllers(t *testing.T) {
	v, h := two()
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		v.Role = role
		r := Decide(v, h, true)
		for _, c := range []struct {
			packet
			open bool
		}{
			{packet{pod, "10.99.0.111", TCP, 443}, false},
			{packet{pod, "10.99.0.112", UDP, 623}, false},
			{packet{"fd01::9", "fd98::12", TCP, 2379}, false},
			{packet{pod, peer, TCP, 2379}, false},
			{packet{pod, peer, TCP, 22623}, false},
			{packet{pod, "10.98.0.5", TCP, 22623}, false},
			{packet{pod, peer, UDP, 8472}, false}, // it would leave with this host's address
			{packet{pod, far, UDP, 8472}, false},
			{packet{pod, peer, TCP, 6443}, true},
			{packet{pod, peer, TCP, 10250}, true},
			{packet{pod, "10.99.0.1", TCP, 443}, true},
			{packet{pod, "10.50.0.9", TCP, 2379}, true}, // an etcd of the site
			{packet{pod, "10.128.9.9", TCP, 2379}, true},
			{packet{worker, "10.99.0.111", TCP, 443}, true}, // a router of the site that is also a host here
		} {
			if got := drops(r, r.Forward, c.packet); got == c.open {
				t.Errorf("%s: %+v, dropped: %t", role, c.packet, got)
			}
		}
	}
}

func TestWhileTheClusterIsNotSettledTheMachineNetworksAreLetIn(t *testing.T) {
	v, h := two()
	r := Decide(v, h, false)
	for from, open := range map[string]bool{peer: true, stranger: true, "fd98::77": true, abroad: false, pod: false, far: false} {
		if got := drops(r, r.Input, packet{from, self, TCP, 2380}); got == open {
			t.Errorf("from %s, dropped: %t", from, got)
		}
	}
	v.Stale = true
	if r := Decide(v, h, false); drops(r, r.Input, packet{stranger, self, UDP, 8472}) || !drops(r, r.Input, packet{abroad, self, UDP, 8472}) {
		t.Error("hosts may have other addresses since the last boot")
	}
}

// Such a host has no list of nodes, for example at its first boot or with a
// damaged disk.
func TestAHostThatKnowsNobodyCutsNobodyOff(t *testing.T) {
	v, h := two()
	v.Nodes, v.Stage, h.Rings = state.Fact[[]state.Node]{}, state.StageInstalling, nil
	r := Decide(v, h, false)
	for _, p := range []packet{{peer, self, TCP, 2379}, {peer, self, UDP, 5405}, {peer, self, UDP, 8472}, {"fd98::12", self, TCP, 2380}} {
		if drops(r, r.Input, p) {
			t.Errorf("%+v is dropped", p)
		}
	}
	v.Settings.MachineNetworks = nil
	r = Decide(v, h, false)
	for _, from := range []string{peer, abroad, "fd98::12"} {
		if drops(r, r.Input, packet{from, self, TCP, 2380}) {
			t.Errorf("%s is dropped, and nobody is known", from)
		}
	}
	if !drops(r, r.Input, packet{pod, self, TCP, 22623}) {
		t.Error("a pod needs no list of hosts to be one")
	}
}

func TestTheTwoHostsOfCorosyncAreKnownWithoutTheAPI(t *testing.T) {
	v, h := two()
	v.Nodes, v.Settings.MachineNetworks = state.Fact[[]state.Node]{}, nil
	r := Decide(v, h, false)
	if drops(r, r.Input, packet{"10.97.0.12", self, UDP, 5406}) || drops(r, r.Input, packet{peer, self, TCP, 2380}) {
		t.Error("the peer that corosync.conf names is dropped")
	}
	if !drops(r, r.Input, packet{abroad, self, TCP, 2380}) {
		t.Error("a stranger is let in")
	}
}

// kubeadm has etcd take in a member before it labels the node.
func TestAControlPlaneThatJoinsIsLetInBeforeItIsLabelled(t *testing.T) {
	v, h := two()
	joining := node("cp-3", "", "10.98.0.13")
	joining.Labels["holdfast.io/role"] = "master"
	newWorker := node("w-2", "", "10.98.0.22")
	newWorker.Labels["holdfast.io/role"] = "worker"
	liar := node("w-3", "worker", "10.98.0.23")
	liar.Labels["holdfast.io/role"] = "master"
	v.Nodes.Value = append(v.Nodes.Value, joining, newWorker, liar)
	r := Decide(v, h, true)
	for from, open := range map[string]bool{"10.98.0.13": true, "10.98.0.22": false, "10.98.0.23": false} {
		if got := drops(r, r.Input, packet{from, self, TCP, 2379}); got == open {
			t.Errorf("from %s, dropped: %t", from, got)
		}
	}
}

func TestAHostIsKnownByEveryAddressThatItSendsFrom(t *testing.T) {
	v, h := two()
	n := &v.Nodes.Value[1]
	n.Annotations[state.AnnotationVIPs] = state.FormatAnnotation(state.VIPReport{Addresses: nets("fd98::a1b2/64")})
	n.Tunnel = []netip.Addr{addr("10.96.0.12")}
	r := Decide(v, h, true)
	for _, p := range []packet{{"fd98::a1b2", self, TCP, 2380}, {"10.96.0.12", self, UDP, 8472}} {
		if drops(r, r.Input, p) {
			t.Errorf("%+v is dropped", p)
		}
	}
}

func TestAWorkerKeepsItsOwnPortsAndThoseOfOthersFromItsPods(t *testing.T) {
	v, h := two()
	v.Role = state.RoleWorker
	r := Decide(v, h, false)
	for _, x := range r.Input {
		if x.First <= 2379 && 2379 <= x.Last || x.First == 22623 {
			t.Errorf("a worker has no such port: %+v", x)
		}
	}
	if !drops(r, r.Input, packet{stranger, worker, UDP, 8472}) || !drops(r, r.Forward, packet{pod, peer, TCP, 2379}) {
		t.Error("VXLAN of strangers and etcd from pods are let through")
	}
}

// Root on a worker writes into its Node whatever addresses it likes, and every host closes
// a dozen ports of these to its pods.
func TestAWorkerKeepsPodsFromFewAddressesAndFromNoPodOrService(t *testing.T) {
	for _, way := range []string{"address", "tunnel", "report"} {
		v, h := two()
		v.Settings.ServiceNetworks = nets("172.30.0.0/16", "fd02::/112")
		says := func(n *state.Node, list ...netip.Addr) {
			switch way {
			case "address":
				n.Addresses = append(n.Addresses, list...)
			case "tunnel":
				n.Tunnel = append(n.Tunnel, list...)
			default:
				var report state.VIPReport
				for _, a := range list {
					report.Addresses = append(report.Addresses, netip.PrefixFrom(a, a.BitLen()))
				}
				n.Annotations[state.AnnotationVIPs] = state.FormatAnnotation(report)
			}
		}
		lies := []netip.Addr{addr("10.128.3.9"), addr("::ffff:10.128.3.9"), addr("172.30.0.10"), addr("fd01::9"), addr("fd02::a")}
		for i := range 1000 {
			lies = append(lies, netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}))
		}
		says(&v.Nodes.Value[2], lies...)
		says(&v.Nodes.Value[1], addr("10.97.0.99"), addr("10.128.1.1"))
		r := Decide(v, h, true)
		reached := func(to string) bool { return !drops(r, r.Forward, packet{pod, to, TCP, 2379}) }
		if !reached("10.128.3.9") || !reached("172.30.0.10") || drops(r, r.Forward, packet{"fd01::4", "fd01::9", TCP, 2379}) || drops(r, r.Forward, packet{"fd01::4", "fd02::a", TCP, 2379}) {
			t.Errorf("%s: a worker keeps pods from each other and from Services", way)
		}
		if reached(worker) || reached(far) || reached(peer) || reached("10.97.0.99") || reached("10.128.1.1") {
			t.Errorf("%s: pods reach a port of a host that is closed to them", way)
		}
		count := 0
		for _, a := range lies {
			if !reached(a.String()) && a.Is4() {
				count++
			}
		}
		if count > 64 || drops(r, r.Input, packet{worker, self, UDP, 8472}) {
			t.Errorf("%s: %d addresses of a worker count", way, count)
		}
	}
}

func TestAPersonLetsOthersInOrTakesAllRulesAway(t *testing.T) {
	v, h := two()
	h.Also = nets("10.20.0.7/32", "10.30.0.0/16")
	r := Decide(v, h, true)
	for from, open := range map[string]bool{"10.20.0.7": true, "10.30.9.9": true, "10.20.0.8": false} {
		if got := drops(r, r.Input, packet{from, self, TCP, 2379}); got == open {
			t.Errorf("from %s, dropped: %t", from, got)
		}
	}
	h.Off = true
	if r := Decide(v, h, true); r.On || len(r.Input)+len(r.Forward)+len(r.Sets) > 0 {
		t.Errorf("%+v", r)
	}
}

func TestAnotherPodNetworkHasItsOwnPorts(t *testing.T) {
	v, h := two()
	h.Flannel = false
	r := Decide(v, h, true)
	if drops(r, r.Input, packet{abroad, self, UDP, 8472}) || drops(r, r.Forward, packet{pod, peer, UDP, 8472}) {
		t.Error("8472 is somebody else's there")
	}
}

var begin = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)

func TestRulesAreNarrowOnceTheClusterHasStoodForAMinute(t *testing.T) {
	v, _ := two()
	m, again := Next(Memory{}, v, begin)
	if m.Settled() || !again.Equal(begin.Add(Tighten)) {
		t.Errorf("%+v, %v", m, again)
	}
	v.LocalAPI = state.Known(false)
	m, _ = Next(m, v, begin.Add(30*time.Second)) // the time counts anew
	v.LocalAPI = state.Known(true)
	if m, _ = Next(m, v, begin.Add(50*time.Second)); m.Settled() {
		t.Error("too early")
	}
	if m, _ = Next(m, v, begin.Add(70*time.Second)); m.Settled() {
		t.Error("too early, it was ill in between")
	}
	if m, again = Next(m, v, begin.Add(110*time.Second)); !m.Settled() || !again.IsZero() {
		t.Errorf("%+v, %v", m, again)
	}
}

// A take-over takes the API away for seconds, and no rule changes meanwhile.
// Sources that the rules themselves may have cut off from etcd are let in after
// ten.
func TestRulesAreWideAgainWhereTheAPIServerStaysAway(t *testing.T) {
	v, _ := two()
	m, _ := Next(Memory{}, v, begin)
	m, _ = Next(m, v, begin.Add(Tighten))
	v.LocalAPI = state.Known(false)
	m, again := Next(m, v, begin.Add(100*time.Second))
	if !m.Settled() || !again.Equal(begin.Add(100*time.Second+Loosen)) {
		t.Errorf("%+v, %v", m, again)
	}
	if m, _ = Next(m, v, begin.Add(109*time.Second)); !m.Settled() {
		t.Error("a take-over lasts so long")
	}
	if m, _ = Next(m, v, begin.Add(110*time.Second)); m.Settled() {
		t.Error("what was cut off stays so")
	}
}

func TestNothingIsSettledBeforeTheClusterStands(t *testing.T) {
	for name, change := range map[string]func(*state.NetworkView){
		"installing":                  func(v *state.NetworkView) { v.Stage = state.StageReady },
		"from the disk":               func(v *state.NetworkView) { v.Stale = true },
		"one control plane is listed": func(v *state.NetworkView) { v.Nodes.Value = v.Nodes.Value[:1] },
		"this host is not listed":     func(v *state.NetworkView) { v.Host.NodeName = "x" },
		"the API is not known":        func(v *state.NetworkView) { v.LocalAPI = state.Fact[bool]{} },
	} {
		v, _ := two()
		change(&v)
		m, _ := Next(Memory{}, v, begin)
		if m, _ = Next(m, v, begin.Add(time.Hour)); m.Settled() {
			t.Error(name)
		}
	}
}

func TestWhatAPersonSaysAboutTheRules(t *testing.T) {
	also, off, problems := ReadAlso("# the backup\n10.20.0.7\n10.30.1.0/16   # all of it\n\nfd00::7\nbackup.site\n10.0.0.0/33\n")
	if !slices.Equal(also, nets("10.20.0.7/32", "10.30.0.0/16", "fd00::7/128")) || off || len(problems) != 2 {
		t.Errorf("%v %t %q", also, off, problems)
	}
	if problems[0] != `line 6: "backup.site" is not an address, a network such as 192.0.2.0/24, or off` {
		t.Error(problems[0])
	}
	if _, off, problems := ReadAlso("off\n"); !off || problems != nil {
		t.Errorf("%t %q", off, problems)
	}
}
