package vips_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/viprule"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, addr(t))
	}
	return out
}

// host is a dual-stack node with a report as an agent makes it.
func host(name string, controlPlane bool, addresses ...string) vips.Host {
	return vips.Host{
		Name: name, ControlPlane: controlPlane, Ready: true, Addresses: addrs(addresses...),
		Report: state.Known(state.VIPReport{VIPs: addrs("10.98.0.5", "10.98.0.6"), Gateways: addrs("10.98.0.1", "fd98::1")}),
	}
}

// one is a dual-stack cluster with one pair of VIPs. Nobody answers for the second
// pair.
func one() vips.Snapshot {
	v := vips.Values{
		API: []string{"10.98.0.5"}, Ingress: []string{"10.98.0.6"}, MachineNetworks: []string{"10.98.0.0/24", "fd98::/64"},
	}
	return vips.Snapshot{
		Platform: vips.BareMetal, Path: field.NewPath("spec", "platformSpec", "baremetal"),
		HasStatus: true, Spec: v.Clone(), Status: v.Clone(), LegacyAPI: "10.98.0.5", LegacyIngress: "10.98.0.6",
		Cluster: []string{"10.128.0.0/14", "fd44::/56"}, Service: []string{"172.30.0.0/16", "fd96::/112"}, NetworksKnown: true,
		Hosts: []vips.Host{
			host("cp-1", true, "10.98.0.11", "fd98::11"), host("cp-2", true, "10.98.0.12", "fd98::12"),
			host("w-1", false, "10.98.0.31", "fd98::31"),
		},
		Found: map[netip.Addr]vips.Holder{addr("fd98::5"): {}, addr("fd98::6"): {}},
	}
}

// two is the same cluster with two pairs.
func two() vips.Snapshot {
	s := one()
	s.Status.API, s.Status.Ingress = []string{"10.98.0.5", "fd98::5"}, []string{"10.98.0.6", "fd98::6"}
	s.Spec = s.Status.Clone()
	return s
}

// add requests a second pair.
func add(api, ingress string) func(*vips.Snapshot) {
	return func(s *vips.Snapshot) {
		s.Spec.API = []string{"10.98.0.5", api}
		s.Spec.Ingress = []string{"10.98.0.6", ingress}
	}
}

// words describes a decision, one line for each part.
func words(d vips.Decision) string {
	out := []string{string(d.Outcome)}
	for _, f := range d.Findings {
		out = append(out, fmt.Sprintf("%s: %s", f.Rule, f.Err))
	}
	for _, p := range d.Pending {
		out = append(out, "pending: "+p)
	}
	if d.Spec != nil {
		out = append(out, fmt.Sprintf("spec %v", *d.Spec))
	}
	if d.Status != nil {
		out = append(out, fmt.Sprintf("status %v", *d.Status))
	}
	return strings.Join(out, "\n")
}

const at = "spec.platformSpec.baremetal."

// changes are sentences about changes that are allowed, wait, or change nothing.
var changes = []struct {
	sentence string
	from     func() vips.Snapshot
	change   func(*vips.Snapshot)
	want     string
}{
	{
		"a second pair may be added", one, add("fd98::5", "fd98::6"),
		"accepted\nstatus {[10.98.0.5 fd98::5] [10.98.0.6 fd98::6] [10.98.0.0/24 fd98::/64]}",
	},
	{
		"the second pair may be deleted", two, func(s *vips.Snapshot) { s.Spec.API, s.Spec.Ingress = s.Spec.API[:1], s.Spec.Ingress[:1] },
		"accepted\nstatus {[10.98.0.5] [10.98.0.6] [10.98.0.0/24 fd98::/64]}",
	},
	{"the second pair may be deleted while a node lacks its family and while somebody answers for it", two, func(s *vips.Snapshot) {
		s.Spec.API, s.Spec.Ingress = s.Spec.API[:1], s.Spec.Ingress[:1]
		s.Hosts[0].Addresses = addrs("10.98.0.11")
		s.Found[addr("fd98::5")] = vips.Holder{Hardware: "52:54:00:00:00:99", Seen: "cp-2"}
	}, "accepted\nstatus {[10.98.0.5] [10.98.0.6] [10.98.0.0/24 fd98::/64]}"},
	{
		"the second pair is not replaced in one step", two, add("fd98::7", "fd98::8"),
		`refused
second-not-replaced: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::7": cannot replace fd98::5: remove the second pair first (holdfast vip remove), then add the new one
second-not-replaced: ` + at + `ingressIPs[1]: Invalid value: "fd98::8": cannot replace fd98::6: remove the second pair first (holdfast vip remove), then add the new one`,
	},
	{
		"one half of the second pair is not deleted alone", two, func(s *vips.Snapshot) { s.Spec.API = s.Spec.API[:1] },
		`refused
same-length: ` + at + `ingressIPs: Invalid value: 2: must have as many addresses as apiServerInternalIPs, which has 1`,
	},
	{"hard case 24: the same addresses in other words are nothing new", two, add("FD98:0:0:0:0:0:0:5", "fd98:0::0006"), "settled"},
	{"hard case 24: the same networks in other words are nothing new", one, func(s *vips.Snapshot) {
		s.Spec.MachineNetworks[1] = "FD98:0::/64"
	}, "settled"},
	{"what is written differently keeps the status' words when a pair is added", one, func(s *vips.Snapshot) {
		s.Status.API = []string{"10.98.0.5"}
		s.Spec.API, s.Spec.Ingress = []string{"10.98.0.5", "FD98::5"}, []string{"10.98.0.6", "fd98::6"}
	}, "accepted\nstatus {[10.98.0.5 FD98::5] [10.98.0.6 fd98::6] [10.98.0.0/24 fd98::/64]}"},
	{
		"hard case 23: an empty spec is filled from the status", one, func(s *vips.Snapshot) { s.Spec = vips.Values{} },
		"settled\nspec {[10.98.0.5] [10.98.0.6] [10.98.0.0/24 fd98::/64]}",
	},
	{
		"an empty list of the spec is filled by itself", one, func(s *vips.Snapshot) { s.Spec.Ingress = nil },
		"settled\nspec {[10.98.0.5] [10.98.0.6] [10.98.0.0/24 fd98::/64]}",
	},
	{"a spec is filled although the cluster breaks a rule by now", one, func(s *vips.Snapshot) {
		s.Spec, s.Status.MachineNetworks = vips.Values{}, nil
		s.Hosts = nil
	}, "settled\nspec {[10.98.0.5] [10.98.0.6] []}"},
	{"an old status of one address each becomes lists, and so does the spec", one, func(s *vips.Snapshot) {
		s.Spec, s.Status = vips.Values{}, vips.Values{}
	}, "settled\nspec {[10.98.0.5] [10.98.0.6] []}\nstatus {[10.98.0.5] [10.98.0.6] []}"},
	{
		"the older fields of one address repeat the first of the lists", one, func(s *vips.Snapshot) { s.LegacyAPI = "10.98.0.4" },
		"settled\nstatus {[10.98.0.5] [10.98.0.6] [10.98.0.0/24 fd98::/64]}",
	},
	{"B75: without a platform in the status nothing is written", one, func(s *vips.Snapshot) {
		s.HasStatus, s.Status, s.Spec = false, vips.Values{}, vips.Values{}
	}, "settled"},
	{"B75: an empty platform in both halves is left alone", one, func(s *vips.Snapshot) {
		s.Status, s.Spec, s.LegacyAPI, s.LegacyIngress = vips.Values{}, vips.Values{}, "", ""
	}, "settled"},
	{"H12: a status without addresses is no reason to fall over", one, func(s *vips.Snapshot) {
		s.Status, s.LegacyAPI, s.LegacyIngress = vips.Values{}, "", ""
		s.Spec.MachineNetworks = nil
	}, `refused
first-fixed: ` + at + `apiServerInternalIPs: Invalid value: "10.98.0.5": cannot be added: the status has no address of this kind, and only a second one may be added
first-fixed: ` + at + `ingressIPs: Invalid value: "10.98.0.6": cannot be added: the status has no address of this kind, and only a second one may be added`},
	{
		"H12: API and ingress VIPs are compared across positions", one, add("fd98::6", "fd98::6"),
		`refused
distinct: ` + at + `ingressIPs[1]: Duplicate value: "fd98::6": is the same as ` + at + `apiServerInternalIPs[1]`,
	},
	{"a further machine network may be added and removed", one, func(s *vips.Snapshot) {
		s.Spec.MachineNetworks = append(s.Spec.MachineNetworks, "10.97.0.0/24")
	}, "accepted\nstatus {[10.98.0.5] [10.98.0.6] [10.98.0.0/24 fd98::/64 10.97.0.0/24]}"},
	{
		"machine networks may be named for the first time", one, func(s *vips.Snapshot) { s.Status.MachineNetworks = nil },
		"accepted\nstatus {[10.98.0.5] [10.98.0.6] [10.98.0.0/24 fd98::/64]}",
	},
	{"a second pair may be added where no machine network is named", one, func(s *vips.Snapshot) {
		s.Status.MachineNetworks, s.Spec.MachineNetworks = nil, nil
		add("fd98::5", "fd98::6")(s)
	}, "accepted\nstatus {[10.98.0.5 fd98::5] [10.98.0.6 fd98::6] []}"},
	{"nothing is accepted before a host has looked who answers", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		delete(s.Found, addr("fd98::6"))
	}, "undecided\npending: no host has yet reported whether fd98::6 is in use"},
	{"nothing is written while something is not known, not even what is overdue", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		s.Found, s.LegacyAPI = nil, "10.98.0.4"
	}, "undecided\npending: no host has yet reported whether fd98::5 is in use\npending: no host has yet reported whether fd98::6 is in use"},
	{"an address that a host of ours has from before is waited for", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		s.Found[addr("fd98::6")] = vips.Holder{Hardware: "52:54:00:00:00:12", Seen: "cp-1", Ours: "cp-2"}
	}, "undecided\npending: cp-2 still holds fd98::6 from an earlier configuration (what answers: 52:54:00:00:00:12)"},
	{"nothing is accepted while a move of the site is announced, and no host is asked", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		s.Found, s.Moves = nil, true
	}, "undecided\npending: a move of the site is announced, and brings the virtual IPs of its plan: wait for its end, or take it back (holdfast site readdress withdraw)"},
	{"a mistake is told also then", one, func(s *vips.Snapshot) {
		add("fd98::6", "fd98::6")(s)
		s.Moves = true
	}, "refused\ndistinct: " + at + `ingressIPs[1]: Duplicate value: "fd98::6": is the same as ` + at + `apiServerInternalIPs[1]`},
	{"without a change a move is none of its business", one, func(s *vips.Snapshot) { s.Moves = true }, "settled"},
	{"nothing is accepted while the networks cannot be read", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		s.NetworksKnown, s.Cluster, s.Service = false, nil, nil
	}, "undecided\npending: the networks of pods and services (object networks.config.openshift.io/cluster) cannot be read"},
	{"nothing is accepted while no node is known", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		s.Spec.MachineNetworks, s.Status.MachineNetworks, s.Hosts = nil, nil, nil
	}, "undecided\npending: no node is known"},
	{"hosts that tell of their second family only themselves may hold it", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		for i := range s.Hosts {
			s.Hosts[i].Report.Value.Addresses = []netip.Prefix{netip.PrefixFrom(s.Hosts[i].Addresses[1], 64)}
			s.Hosts[i].Addresses = s.Hosts[i].Addresses[:1]
		}
	}, "accepted\nstatus {[10.98.0.5 fd98::5] [10.98.0.6 fd98::6] [10.98.0.0/24 fd98::/64]}"},
	{"a host in another network, which holds no VIP, need not have the family", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		s.Spec.MachineNetworks, s.Status.MachineNetworks = append(s.Spec.MachineNetworks, "10.77.0.0/24"), append(s.Status.MachineNetworks, "10.77.0.0/24")
		s.Hosts = append(s.Hosts, host("w-far", false, "10.77.0.21"))
	}, "accepted\nstatus {[10.98.0.5 fd98::5] [10.98.0.6 fd98::6] [10.98.0.0/24 fd98::/64 10.77.0.0/24]}"},
	{"a host in another network that nobody named need not either", one, func(s *vips.Snapshot) {
		add("fd98::5", "fd98::6")(s)
		s.Hosts = append(s.Hosts, host("w-far", false, "10.77.0.21"))
	}, "accepted\nstatus {[10.98.0.5 fd98::5] [10.98.0.6 fd98::6] [10.98.0.0/24 fd98::/64]}"},
	{"a cluster of one family with the site's own load balancer takes a second pair", one, func(s *vips.Snapshot) {
		s.UserManaged, s.Cluster, s.Service = true, s.Cluster[:1], s.Service[:1]
		add("fd98::5", "fd98::6")(s)
	}, "accepted\nstatus {[10.98.0.5 fd98::5] [10.98.0.6 fd98::6] [10.98.0.0/24 fd98::/64]}"},
	{"the site's own load balancer may have one address for both, anywhere", one, func(s *vips.Snapshot) {
		s.UserManaged = true
		add("fd77::5", "fd77::5")(s)
		s.Hosts[2].Addresses = addrs("10.98.0.31")
	}, "accepted\nstatus {[10.98.0.5 fd77::5] [10.98.0.6 fd77::5] [10.98.0.0/24 fd98::/64]}"},
	{"vSphere's VIPs are validated and left alone", one, func(s *vips.Snapshot) {
		s.Platform = vips.VSphere
		add("fd98::5", "fd98::5")(s)
	}, `unmanaged
distinct: ` + at + `ingressIPs[1]: Duplicate value: "fd98::5": is the same as ` + at + `apiServerInternalIPs[1]`},
	{"OpenStack's VIPs are compared with its status and left alone", one, func(s *vips.Snapshot) {
		s.Platform = vips.OpenStack
		s.Spec.API = []string{"10.98.0.7"}
	}, `unmanaged
first-fixed: ` + at + `apiServerInternalIPs[0]: Invalid value: "10.98.0.7": the first address cannot be changed: it must stay 10.98.0.5`},
	{"OpenStack's VIPs are not compared with a status that has none", one, func(s *vips.Snapshot) {
		s.Platform, s.Status = vips.OpenStack, vips.Values{}
	}, "unmanaged"},
	{"B75: vSphere without VIPs is left alone", one, func(s *vips.Snapshot) {
		s.Platform, s.Spec, s.Status, s.HasStatus = vips.VSphere, vips.Values{}, vips.Values{}, false
	}, "unmanaged"},
	{"platform none has no VIPs", one, func(s *vips.Snapshot) { s.Platform = "None" }, "unmanaged"},
}

func TestWhatAChangeComesTo(t *testing.T) {
	for _, c := range changes {
		t.Run(c.sentence, func(t *testing.T) {
			s := c.from()
			c.change(&s)
			if got := words(vips.Decide(s)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A decision must be settled once it is written: nothing is written twice.
func TestADecisionThatIsWrittenIsSettled(t *testing.T) {
	for _, c := range changes {
		s := c.from()
		c.change(&s)
		d := vips.Decide(s)
		if d.Spec != nil {
			s.Spec = *d.Spec
		}
		if d.Status != nil {
			s.Status = *d.Status
			s.LegacyAPI, s.LegacyIngress = s.Status.API[0], s.Status.Ingress[0]
		}
		again := vips.Decide(s)
		if again.Spec != nil || again.Status != nil || d.Outcome == vips.Accepted && again.Outcome != vips.Settled {
			t.Errorf("%s: then comes\n%s", c.sentence, words(again))
		}
	}
}

func TestHardCase22_AWrongPairIsDeletedAndACorrectedOneAdded(t *testing.T) {
	s := one()
	for _, step := range []func(*vips.Snapshot){
		add("fd98::5", "fd98::7"),
		func(s *vips.Snapshot) { s.Spec.API, s.Spec.Ingress = s.Spec.API[:1], s.Spec.Ingress[:1] },
		add("fd98::5", "fd98::6"),
	} {
		step(&s)
		s.Found[addr("fd98::7")] = vips.Holder{}
		d := vips.Decide(s)
		if d.Outcome != vips.Accepted {
			t.Fatalf("got\n%s", words(d))
		}
		s.Status = *d.Status
	}
	if got := fmt.Sprint(s.Status.Ingress); got != "[10.98.0.6 fd98::6]" {
		t.Errorf("ingress is %s", got)
	}
}

func TestAnExaminationLooksAtTheVIPsThatAreThere(t *testing.T) {
	s := two()
	s.Hosts[2].Addresses = addrs("10.98.0.31")
	d := vips.Examine(s)
	if d.Outcome != vips.Settled || d.Status != nil || len(d.Findings) != 1 || d.Findings[0].Rule != viprule.HostsFamily {
		t.Errorf("got %s", words(d))
	}
	if d := vips.Examine(two()); len(d.Findings) != 0 || d.Unknown[viprule.Nobody] == "" {
		t.Errorf("got %s, unknown %v", words(d), d.Unknown)
	}
	s = one()
	add("fd98::12", "fd98::6")(&s)
	if d := vips.Examine(s); d.Outcome != vips.Refused {
		t.Errorf("got %s", words(d))
	}
}

func TestEveryCheckHasItsVerdict(t *testing.T) {
	s := one()
	add("fd98::12", "fd98::6")(&s)
	s.Hosts[1].Report = state.Fact[state.VIPReport]{}
	var got []string
	for _, c := range vips.Decide(s).Checks() {
		if c.Verdict != vips.Passed {
			got = append(got, fmt.Sprintf("%s %s: %s", c.Rule, c.Verdict, strings.Join(c.Details, "; ")))
		}
		if c.Sentence == string(c.Rule) {
			t.Errorf("rule %s has no sentence", c.Rule)
		}
	}
	want := []string{
		`not-a-node failed: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::12": is the address of node cp-2`,
		"not-a-gateway unknown: node cp-2 has not reported its gateways",
		"nobody-answers unknown: checked only once all other rules are kept",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(viprule.Rules()); n < 20 || len(vips.Decide(s).Checks()) != n {
		t.Errorf("%d rules", n)
	}
}
