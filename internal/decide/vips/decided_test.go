package vips_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/viprule"
)

func decided(change func(*vips.Snapshot)) vips.Decision {
	s := one()
	change(&s)
	return vips.Decide(s)
}

func TestWhatADecisionAddsAndRemoves(t *testing.T) {
	for _, c := range []struct {
		name           string
		from           vips.Snapshot
		change         func(*vips.Snapshot)
		added, removed []netip.Addr
	}{
		{"a second pair", one(), add("fd98::5", "fd98::6"), addrs("fd98::5", "fd98::6"), nil},
		{"one address for both kinds", one(), add("fd98::5", "fd98::5"), addrs("fd98::5"), nil},
		{"no second pair any more", two(), func(s *vips.Snapshot) { s.Spec = one().Spec }, nil, addrs("fd98::5", "fd98::6")},
		{"another second pair", two(), add("fd98::7", "fd98::8"), addrs("fd98::7", "fd98::8"), addrs("fd98::5", "fd98::6")},
		{"another spelling", two(), add("fd98:0::5", "fd98::0:6"), nil, nil},
		{"nothing", one(), func(*vips.Snapshot) {}, nil, nil},
	} {
		c.change(&c.from)
		if d := vips.Decide(c.from); !slices.Equal(d.Added, c.added) || !slices.Equal(d.Removed, c.removed) {
			t.Errorf("%s: adds %v, removes %v", c.name, d.Added, d.Removed)
		}
	}
}

// A client that compares texts must not see a change where there is none.
func TestAnAddressThatStaysKeepsItsSpelling(t *testing.T) {
	s := two()
	s.Spec.API, s.Spec.MachineNetworks = []string{"10.98.0.5", "fd98:0::5"}, append(s.Spec.MachineNetworks, "fd97::/64")
	d := vips.Decide(s)
	if d.Outcome != vips.Accepted || !slices.Equal(d.Status.API, two().Status.API) || !slices.Equal(d.Status.Ingress, two().Status.Ingress) {
		t.Errorf("%s", words(d))
	}
}

func TestAnOlderClusterGetsTheFieldsOfTodayOnceAndKeepsThem(t *testing.T) {
	old := one()
	old.Spec, old.Status.API, old.Status.Ingress = vips.Values{}, nil, nil
	d := vips.Decide(old)
	if d.Outcome != vips.Settled || d.Status == nil || !d.Status.Equal(one().Status) || d.Spec == nil || !d.Spec.Equal(one().Status) {
		t.Fatalf("%+v", d)
	}
	for name, change := range map[string]func(*vips.Snapshot){
		"another older API VIP":     func(s *vips.Snapshot) { s.LegacyAPI = "10.98.0.7" },
		"another older ingress VIP": func(s *vips.Snapshot) { s.LegacyIngress = "" },
	} {
		if d := decided(change); d.Status == nil || !d.Status.Equal(one().Status) {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := decided(func(*vips.Snapshot) {}); d.Status != nil || d.Spec != nil {
		t.Errorf("it is written again: %+v", d)
	}
	for name, change := range map[string]func(*vips.Snapshot){
		"only networks": func(s *vips.Snapshot) { s.Spec.API, s.Spec.Ingress = nil, nil },
		"no API":        func(s *vips.Snapshot) { s.Spec.API = nil },
		"no ingress":    func(s *vips.Snapshot) { s.Spec.Ingress = nil },
	} {
		if d := decided(change); d.Outcome != vips.Settled || d.Spec == nil || !d.Spec.Equal(one().Spec) {
			t.Errorf("a spec that names %s: %+v", name, d)
		}
	}
	if d := decided(func(s *vips.Snapshot) { s.Spec.MachineNetworks = s.Spec.MachineNetworks[:1]; s.Spec.API = nil }); d.Spec == nil || len(d.Spec.MachineNetworks) != 1 {
		t.Errorf("networks that a person wrote are not kept: %+v", d)
	}
}

func TestWhatIsNotKnownOfAChange(t *testing.T) {
	pair := add("fd98::5", "fd98::6")
	with := func(change func(*vips.Snapshot)) func(*vips.Snapshot) {
		return func(s *vips.Snapshot) { pair(s); change(s) }
	}
	for _, c := range []struct {
		name    string
		change  func(*vips.Snapshot)
		outcome vips.Outcome
		pending string
		unknown map[viprule.Rule]string
		unasked int
	}{
		{"all is known", pair, vips.Accepted, "", nil, 0},
		{"the networks of pods", with(func(s *vips.Snapshot) { s.NetworksKnown, s.Cluster, s.Service = false, nil, nil }), vips.Undecided, "the networks of pods and services", map[viprule.Rule]string{viprule.PodNetwork: "not read", viprule.ServiceNetwork: "not read", viprule.ClusterFamily: "not read"}, 0}, //nolint:exhaustive // the others are not meant
		{"the hosts", with(func(s *vips.Snapshot) { s.Hosts = nil }), vips.Refused, "no node is known", nil, 0},
		{"the gateways of the first host", with(func(s *vips.Snapshot) { s.Hosts[0].Report.Known = false }), vips.Accepted, "", map[viprule.Rule]string{viprule.NotAGateway: "node cp-1 has not reported its gateways"}, 0},                                                                    //nolint:exhaustive // the others are not meant
		{"whether an address is free", with(func(s *vips.Snapshot) { s.Found = nil }), vips.Undecided, "no host has yet reported whether fd98::5 is in use", map[viprule.Rule]string{viprule.Nobody: "no host has reported it yet"}, 2},                                                        //nolint:exhaustive // the others are not meant
		{"a host that still holds it", with(func(s *vips.Snapshot) { s.Found[addr("fd98::5")] = vips.Holder{Hardware: "x", Ours: "cp-2"} }), vips.Undecided, "cp-2 still holds fd98::5", map[viprule.Rule]string{viprule.Nobody: "cp-2 still holds fd98::5 from an earlier configuration"}, 2}, //nolint:exhaustive // the others are not meant
		{"the site's load balancer has it", with(func(s *vips.Snapshot) { s.UserManaged, s.Found = true, nil }), vips.Accepted, "", map[viprule.Rule]string{viprule.Nobody: "the site's load balancer answers for it"}, 0},                                                                     //nolint:exhaustive // the others are not meant
		{"somebody has it", with(func(s *vips.Snapshot) {
			s.Found[addr("fd98::5")] = vips.Holder{Hardware: "52:54:00:00:00:99", Seen: "cp-1"}
		}), vips.Refused, "", nil, 0},
		{"a removal asks nothing", func(s *vips.Snapshot) { *s = two(); s.Spec = one().Spec; s.Hosts, s.Found = nil, nil }, vips.Accepted, "", nil, 0},
	} {
		d := decided(c.change)
		if d.Outcome != c.outcome || !strings.HasPrefix(strings.Join(d.Pending, "; "), c.pending) || (c.pending == "") != (len(d.Pending) == 0) || len(d.Unasked()) != c.unasked {
			t.Errorf("%s: %s, waits for %q, asks for %v", c.name, d.Outcome, d.Pending, d.Unasked())
		}
		for rule, why := range c.unknown {
			if d.Unknown[rule] != why {
				t.Errorf("%s: rule %s is unknown because %q", c.name, rule, d.Unknown[rule])
			}
		}
		if len(d.Unknown) != len(c.unknown) {
			t.Errorf("%s: %v", c.name, d.Unknown)
		}
	}
}

func TestASiteWithoutMachineNetworksIsExaminedAsFarAsItCanBe(t *testing.T) {
	s := one()
	s.Spec.MachineNetworks, s.Status.MachineNetworks = nil, nil
	d := vips.Examine(s)
	for _, r := range []viprule.Rule{viprule.MachineNetwork, viprule.HostsHold, viprule.Edge} {
		if d.Unknown[r] == "" {
			t.Errorf("rule %s is judged without a network", r)
		}
	}
	s = one()
	s.NetworksKnown, s.Cluster, s.Service = false, nil, nil
	if d := vips.Examine(s); d.Outcome != vips.Settled || len(d.Pending) > 0 || d.Unknown[viprule.PodNetwork] != "not read" {
		t.Errorf("%+v", d)
	}
	s = one()
	s.Spec, s.Status.API = vips.Values{}, nil // of an older version
	s.Hosts[2].Addresses = addrs("10.98.0.5")
	if d := vips.Examine(s); len(d.Findings) == 0 || d.Findings[0].Rule != viprule.NotANode {
		t.Errorf("the older field is not examined: %+v", d.Findings)
	}
	s = one()
	s.HasStatus = false
	if d := vips.Examine(s); len(d.Findings) > 0 || d.Outcome != vips.Settled {
		t.Errorf("%+v", d)
	}
	s = one()
	add("10.98.0.77", "fd98::6")(&s)
	if d := vips.Examine(s); d.Outcome != vips.Refused {
		t.Errorf("a change is examined as such: %s", d.Outcome)
	}
}

// Only hosts that may have to hold an address need its family.
func TestWhichHostsNeedTheFamilyOfAnAddress(t *testing.T) {
	v4only := func(name string, controlPlane bool, a string) vips.Host { return host(name, controlPlane, a) }
	for _, c := range []struct {
		name string
		host vips.Host
		want string
	}{
		{"a control plane beside the first API VIP", v4only("cp-3", true, "10.98.0.13"), "cp-3"},
		{"a control plane elsewhere", v4only("cp-3", true, "10.70.0.13"), ""},
		{"a worker beside the first ingress VIP", v4only("w-2", false, "10.98.0.32"), "w-2"},
		{"a worker elsewhere", v4only("w-2", false, "10.70.0.32"), ""},
	} {
		s := one()
		s.Hosts = append(s.Hosts, c.host)
		add("fd98::5", "fd98::6")(&s)
		var said []string
		for _, f := range vips.Decide(s).Findings {
			if f.Rule == viprule.HostsFamily {
				said = append(said, f.Err.Error())
			}
		}
		if (len(said) > 0) != (c.want != "") || !strings.Contains(strings.Join(said, " "), c.want) {
			t.Errorf("%s: %q", c.name, said)
		}
	}
}

func TestAnAddressNeedsAHostInItsNetworkThatMayHoldIt(t *testing.T) {
	s := one()
	s.Spec.MachineNetworks = append([]string{"10.97.0.0/24"}, s.Spec.MachineNetworks...)
	s.Status.MachineNetworks = slices.Clone(s.Spec.MachineNetworks)
	s.Spec.API, s.Spec.Ingress = []string{"10.97.0.5"}, []string{"10.97.0.6"}
	s.Status.API, s.Status.Ingress, s.LegacyAPI, s.LegacyIngress = s.Spec.API, s.Spec.Ingress, "10.97.0.5", "10.97.0.6"
	for who, want := range map[string][]string{"": {"no control plane has", "no host has"}, "w-1": {"no control plane has"}, "cp-1": nil} {
		s := s
		s.Hosts = one().Hosts
		for i := range s.Hosts {
			if s.Hosts[i].Name == who {
				s.Hosts[i].Report.Value.Addresses = []netip.Prefix{netip.MustParsePrefix("10.97.0.99/24")}
			}
		}
		var said []string
		for _, f := range vips.Examine(s).Findings {
			if f.Rule == viprule.HostsHold {
				said = append(said, f.Err.Error())
			}
		}
		text := strings.Join(said, "; ")
		if len(said) != len(want) || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) }) {
			t.Errorf("with %q there: %q", who, said)
		}
	}
}

func TestWhichRulesAreCheckedAfterTheOthers(t *testing.T) {
	verdicts := func(change func(*vips.Snapshot)) map[viprule.Rule]vips.Verdict {
		out := map[viprule.Rule]vips.Verdict{} //nolint:exhaustive // the others are not meant
		for _, c := range decided(change).Checks() {
			if out[c.Rule] = c.Verdict; c.Sentence != c.Rule.Sentence() || c.Sentence == "" {
				t.Errorf("rule %s says %q", c.Rule, c.Sentence)
			}
		}
		return out
	}
	hosts := []viprule.Rule{viprule.NotANode, viprule.NotAGateway, viprule.HostsFamily, viprule.HostsHold, viprule.Nobody}
	early := verdicts(add("10.98.0.77", "fd98::6")) // of the same family
	for _, r := range hosts {
		if early[r] != vips.NotKnown {
			t.Errorf("rule %s is %s beside a mistake in the lists", r, early[r])
		}
	}
	late := verdicts(add("fd98::11", "fd98::6")) // a node's
	for _, r := range hosts {
		want := map[viprule.Rule]vips.Verdict{viprule.NotANode: vips.Failed, viprule.Nobody: vips.NotKnown}[r] //nolint:exhaustive // the others are not meant
		if want == "" {
			want = vips.Passed
		}
		if late[r] != want {
			t.Errorf("rule %s is %s beside a node's address", r, late[r])
		}
	}
	for r, v := range verdicts(add("fd98::5", "fd98::6")) {
		if v != vips.Passed {
			t.Errorf("rule %s is %s", r, v)
		}
	}
}

func TestAPlanHoldsTheAddressesOfItsValues(t *testing.T) {
	p := vips.PlanOf(two().Spec, true)
	if !slices.Equal(p.API, addrs("10.98.0.5", "fd98::5")) || !slices.Equal(p.Ingress, addrs("10.98.0.6", "fd98::6")) || !p.UserManaged {
		t.Errorf("%+v", p)
	}
	if r := vips.Follow(dual, nil, allAnswer()); r.Applied {
		t.Error("no host at all has them")
	}
	site := dual
	site.UserManaged = true
	hosts := settled()
	for i := range hosts {
		hosts[i].Report.Value = state.VIPReport{Certificate: dual.API}
	}
	r := vips.Follow(site, hosts, nil)
	for _, v := range r.VIPs {
		if !v.Answers || v.Waiting != "" {
			t.Errorf("the site's load balancer holds it: %+v", v)
		}
	}
	hosts = settled()
	hosts[2].Ready = false // the only router
	r = vips.Follow(dual, hosts, allAnswer())
	for _, v := range r.VIPs {
		if v.Role == "ingress" && (!v.Answers || v.Holder != "") || v.Role == "api" && v.Holder != "cp-1" {
			t.Errorf("nobody holds a VIP of ingress before there is a router: %+v", v)
		}
	}
	if !slices.Equal(vips.Follow(dual, settled(), allAnswer()).Hosts[0].Holds, dual.API) {
		t.Error("what a host holds is not told")
	}
}

func TestTheNewestQuestionCounts(t *testing.T) {
	hosts := one().Hosts
	older, newer := question, question
	older.ID, older.At = "old", noon.Add(-10*time.Second)
	for _, order := range [][2]state.VIPProbe{{older, newer}, {newer, older}} {
		hosts[0].Probe, hosts[1].Probe = state.Known(order[0]), state.Known(order[1])
		p := vips.Probe(question.Addresses, hosts, noon.Add(time.Second))
		if len(p.Ask) > 0 || len(p.Silent) != 1 {
			t.Errorf("%+v", p)
		}
	}
	p := vips.Probe(question.Addresses, one().Hosts, noon)
	if p.Request.ID == "" || !p.Request.At.Equal(noon) || !slices.Equal(p.Request.Addresses, question.Addresses) {
		t.Errorf("%+v", p.Request)
	}
}
