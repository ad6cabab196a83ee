package ports_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	. "github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
)

// every calls a test with the rules of each kind of host, of a host that knows
// much, of one that knows no node, and of one that knows nothing.
func every(test func(name string, r Rules)) {
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		for _, settled := range []bool{false, true} {
			v, h := two()
			v.Role = role
			h.Also, h.BMCs = nets("10.20.0.7/32", "fd20::/64"), append(h.BMCs, addr("fd99::1"))
			test("all known", Decide(v, h, settled))
			v.Nodes, v.Stale, h.Rings = state.Fact[[]state.Node]{}, true, nil
			test("no node known", Decide(v, h, settled))
			test("nothing known", Decide(state.NetworkView{Role: role}, Host{}, settled))
		}
	}
}

func TestARuleNamesOnlySetsAndNetworksOfItsOwnFamily(t *testing.T) {
	every(func(name string, r Rules) {
		sets := map[string]bool{}
		for _, s := range r.Sets {
			if _, twice := sets[s.Name]; twice {
				t.Errorf("%s: two sets have the name %s", name, s.Name)
			}
			sets[s.Name] = s.IPv6
			for _, a := range s.Addresses {
				if a.Is6() != s.IPv6 {
					t.Errorf("%s: set %s holds %s", name, s.Name, a)
				}
			}
		}
		for _, x := range slices.Concat(r.Input, r.Forward) {
			for _, set := range []string{x.Not, x.To} {
				if ipv6, ok := sets[set]; set != "" && (!ok || ipv6 != x.IPv6) {
					t.Errorf("%s: %+v names a set that is not there, or one of the other family", name, x)
				}
			}
			for _, n := range x.Nets {
				if n.Addr().Is6() != x.IPv6 {
					t.Errorf("%s: %+v", name, x)
				}
			}
			if x.From.IsValid() && x.From.Addr().Is6() != x.IPv6 {
				t.Errorf("%s: %+v", name, x)
			}
		}
	})
}

func TestEachRuleSaysWhyItIsThere(t *testing.T) {
	every(func(name string, r Rules) {
		if !r.On {
			t.Errorf("%s: nobody switched the rules off", name)
		}
		for _, x := range slices.Concat(r.Input, r.Forward) {
			if x.Why == "" {
				t.Errorf("%s: %+v", name, x)
			}
		}
	})
	v, h := two()
	r := Decide(v, h, true)
	var said []string
	for _, x := range slices.Concat(r.Input, r.Forward) {
		said = append(said, x.Why)
	}
	for _, want := range []string{"etcd: control planes", "etcd: not from pods", "management controllers: not from pods"} {
		if !slices.Contains(said, want) {
			t.Errorf("no rule says %q", want)
		}
	}
}

// A table is written again only where it differs, so the order in which facts
// arrive, and facts that arrive twice, must not show in it.
func TestTheRulesAreTheSameInWhateverOrderFactsArrive(t *testing.T) {
	v, h := two()
	v.Settings.MachineNetworks = nets("10.98.0.0/24", "10.98.0.0/25", "10.40.0.0/16", "fd98::/64")
	want := Decide(v, h, false)
	slices.Reverse(v.Nodes.Value)
	slices.Reverse(h.Rings)
	slices.Reverse(h.BMCs)
	slices.Reverse(v.Settings.MachineNetworks)
	h.Rings, h.BMCs = append(h.Rings, h.Rings...), append(h.BMCs, h.BMCs...)
	v.Settings.MachineNetworks = append(v.Settings.MachineNetworks, v.Settings.MachineNetworks...)
	if got := Decide(v, h, false); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	for _, x := range want.Input {
		for i, n := range x.Nets[:max(len(x.Nets)-1, 0)] {
			if next := x.Nets[i+1]; n.Addr().Compare(next.Addr()) > 0 || n.Addr() == next.Addr() && n.Bits() >= next.Bits() {
				t.Errorf("%v is not in order", x.Nets)
			}
		}
	}
}

func TestWhatIsNoAddressOrNetworkGetsIntoNoRule(t *testing.T) {
	v, h := two()
	h.BMCs = append(h.BMCs, netip.Addr{}, addr("::ffff:10.99.0.113"), addr("fe80::1%eth0"))
	v.Settings.MachineNetworks = append(v.Settings.MachineNetworks, netip.Prefix{})
	r := Decide(v, h, false)
	for _, s := range r.Sets {
		for _, a := range s.Addresses {
			if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
				t.Errorf("set %s holds %s", s.Name, a)
			}
		}
	}
	for _, x := range r.Input {
		if slices.ContainsFunc(x.Nets, func(n netip.Prefix) bool { return !n.IsValid() }) {
			t.Errorf("%+v", x)
		}
	}
	if !drops(r, r.Forward, packet{pod, "10.99.0.113", TCP, 443}) {
		t.Error("an address in the form ::ffff: is one of IPv4")
	}
}

func TestNoPodReachesAPortThatIsClosedToPodsOnAnyHost(t *testing.T) {
	v, h := two()
	for _, p := range Table() {
		closed := p.From == NoPods || p.From == Planes || p.From == Hosts || p.From == Machines
		for _, protocol := range p.Protocols {
			for _, port := range []uint16{p.First, p.Last} {
				if got := drops(Decide(v, h, true), Decide(v, h, true).Forward, packet{pod, peer, protocol, port}); got != closed {
					t.Errorf("%s, %s %d: dropped %t", p.Who, protocol, port, got)
				}
			}
		}
	}
}

// Each of the labels alone makes a control plane, also of one that takes
// workloads like a worker.
func TestAControlPlaneThatTakesWorkloadsIsStillAControlPlane(t *testing.T) {
	for _, label := range []string{state.LabelMaster, state.LabelControlPlane} {
		v, h := two()
		both := node("cp-3", "worker", "10.98.0.13")
		both.Labels[label] = ""
		v.Nodes.Value = append(v.Nodes.Value, both)
		if r := Decide(v, h, true); drops(r, r.Input, packet{"10.98.0.13", self, TCP, 2379}) {
			t.Errorf("with label %s it is kept from etcd", label)
		}
	}
}

func TestWhereNoHostIsKnownOnlyTheMachineNetworksAreLetIn(t *testing.T) {
	v, h := two()
	v.Nodes, h.Rings = state.Fact[[]state.Node]{}, nil
	r := Decide(v, h, false)
	for _, p := range []packet{{abroad, self, TCP, 2379}, {abroad, self, UDP, 5405}, {abroad, self, UDP, 8472}} {
		if !drops(r, r.Input, p) {
			t.Errorf("%+v is let in", p)
		}
	}
}

// The hosts of corosync.conf are the control planes, not all hosts.
func TestWhereOnlyTheControlPlanesAreKnownNoWorkerIsCutOff(t *testing.T) {
	v, h := two()
	v.Nodes, v.Settings.MachineNetworks = state.Fact[[]state.Node]{}, nil
	if r := Decide(v, h, false); drops(r, r.Input, packet{worker, self, UDP, 8472}) {
		t.Error("VXLAN of a worker is dropped")
	}
}

func TestWhatIsSettledStaysSoWhileTheClusterIsCalm(t *testing.T) {
	v, _ := two()
	m, _ := Next(Memory{}, v, begin)
	m, _ = Next(m, v, begin.Add(Tighten))
	for i := range 3 {
		var again time.Time
		if m, again = Next(m, v, begin.Add(time.Duration(i+2)*time.Hour)); !m.Settled() || !again.IsZero() {
			t.Fatalf("after %d h: %+v, %v", i+2, m, again)
		}
	}
}

func TestWorkersDoNotCountAsTheControlPlanesThatMustBeListed(t *testing.T) {
	for name, c := range map[string]struct {
		wanted  int
		nodes   []state.Node
		settled bool
	}{
		"two of two":                             {2, []state.Node{node("cp-1", "control-plane"), node("cp-2", "control-plane")}, true},
		"two of two, by the older label":         {2, []state.Node{node("cp-1", "master"), node("cp-2", "master")}, true},
		"one of two and a worker":                {2, []state.Node{node("cp-1", "control-plane"), node("w-1", "worker")}, false},
		"a worker, and nobody knows how many":    {0, []state.Node{node("cp-1", "worker")}, false},
		"one control plane, nobody knows of how": {0, []state.Node{node("cp-1", "control-plane")}, true},
	} {
		v, _ := two()
		v.Settings.ControlPlanes, v.Nodes.Value = c.wanted, c.nodes
		m, _ := Next(Memory{}, v, begin)
		if m, _ = Next(m, v, begin.Add(Tighten)); m.Settled() != c.settled {
			t.Errorf("%s: settled %t", name, m.Settled())
		}
	}
}

func TestAnAdditionIsAnAddressWithoutAZoneAndInItsOwnFamily(t *testing.T) {
	also, _, problems := ReadAlso("fe80::1%eth0\n::ffff:10.0.0.0/104\n::ffff:10.20.0.7\n")
	if !slices.Equal(also, nets("10.20.0.7/32")) || len(problems) != 2 {
		t.Errorf("%v %q", also, problems)
	}
}

// Services and routers may listen at these.
func TestAPortOfUDPOrOfServicesHasNoOwner(t *testing.T) {
	for _, port := range []int32{5353, 5405, 8472, 30000, 32767} {
		if got := Owner(port); got != "" {
			t.Errorf("TCP port %d is %s's", port, got)
		}
	}
}
