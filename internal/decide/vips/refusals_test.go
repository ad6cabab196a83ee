package vips_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/viprule"
)

// refusals are sentences that a refusal proves: each change breaks one rule.
var refusals = []struct {
	sentence string
	change   func(*vips.Snapshot)
	want     string
}{
	{
		"the first VIP cannot be changed", func(s *vips.Snapshot) { s.Spec.API = []string{"10.98.0.7"} },
		`first-fixed: ` + at + `apiServerInternalIPs[0]: Invalid value: "10.98.0.7": the first address cannot be changed: it must stay 10.98.0.5`,
	},
	{
		"the first VIP cannot change its place", func(s *vips.Snapshot) {
			add("fd98::5", "fd98::6")(s)
			slices.Reverse(s.Spec.API)
			slices.Reverse(s.Spec.Ingress)
		},
		`primary-family: ` + at + `apiServerInternalIPs[0]: Invalid value: "fd98::5": must be IPv4, the family of the first machine network
primary-family: ` + at + `ingressIPs[0]: Invalid value: "fd98::6": must be IPv4, the family of the first machine network
first-fixed: ` + at + `apiServerInternalIPs[0]: Invalid value: "fd98::5": the first address cannot be changed: it must stay 10.98.0.5
first-fixed: ` + at + `ingressIPs[0]: Invalid value: "fd98::6": the first address cannot be changed: it must stay 10.98.0.6`,
	},
	{
		"both lists are changed alike", func(s *vips.Snapshot) { s.Spec.API = append(s.Spec.API, "fd98::5") },
		`same-length: ` + at + `ingressIPs: Invalid value: 1: must have as many addresses as apiServerInternalIPs, which has 2`,
	},
	{
		"a pair is one of each family", add("10.98.0.7", "10.98.0.8"),
		`one-of-each-family: ` + at + `apiServerInternalIPs[1]: Invalid value: "10.98.0.7": is IPv4 as the first: two addresses must be one of each family
one-of-each-family: ` + at + `ingressIPs[1]: Invalid value: "10.98.0.8": is IPv4 as the first: two addresses must be one of each family`,
	},
	{
		"an address stands once, across lists and positions", add("fd98::5", "FD98:0:0::5"),
		`distinct: ` + at + `ingressIPs[1]: Duplicate value: "fd98::5": is the same as ` + at + `apiServerInternalIPs[1]`,
	},
	{
		"a third pair is too many", func(s *vips.Snapshot) {
			s.Spec.API = []string{"10.98.0.5", "fd98::5", "fd98::7"}
			s.Spec.Ingress = []string{"10.98.0.6", "fd98::6"}
		},
		`at-most-two: ` + at + `apiServerInternalIPs: Too many: 3: must have at most 2 items
same-length: ` + at + `ingressIPs: Invalid value: 2: must have as many addresses as apiServerInternalIPs, which has 3`,
	},
	{
		"a VIP is an address", add("fd98::5::", "vip.example.com"),
		`address: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::5::": must be an IP address
address: ` + at + `ingressIPs[1]: Invalid value: "vip.example.com": must be an IP address`,
	},
	{
		"a VIP has no zone", add("fd98::5%eth0", "fd98::6"),
		`address: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::5%eth0": must not have a zone`,
	},
	{
		"a VIP is not IPv4 in IPv6 form", add("::ffff:10.98.0.7", "fd98::6"),
		`address: ` + at + `apiServerInternalIPs[1]: Invalid value: "::ffff:10.98.0.7": is an IPv4 address in IPv6 form: write it as 10.98.0.7`,
	},
	{
		"a VIP is no loopback address", add("::1", "fd98::6"),
		`reachable: ` + at + `apiServerInternalIPs[1]: Invalid value: "::1": is a loopback address, which no host can hold`,
	},
	{
		"a VIP is no link-local address", add("fe80::5", "fd98::6"),
		`reachable: ` + at + `apiServerInternalIPs[1]: Invalid value: "fe80::5": is a link-local address, which no host can hold`,
	},
	{
		"a VIP is no multicast address", add("ff02::12", "fd98::6"),
		`reachable: ` + at + `apiServerInternalIPs[1]: Invalid value: "ff02::12": is a multicast address, which no host can hold`,
	},
	{
		"a VIP is not the unspecified address", add("::", "fd98::6"),
		`reachable: ` + at + `apiServerInternalIPs[1]: Invalid value: "::": is the unspecified address, which no host can hold`,
	},
	{
		"a VIP is not in the pod network", add("fd44::5", "fd98::6"),
		`not-in-pod-network: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd44::5": lies in the pod network fd44::/56`,
	},
	{
		"a VIP is not in the service network", add("fd98::5", "fd96::6"),
		`not-in-service-network: ` + at + `ingressIPs[1]: Invalid value: "fd96::6": lies in the service network fd96::/112`,
	},
	{
		"a VIP lies in a machine network", add("fd77::5", "fd98::6"),
		`in-machine-network: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd77::5": lies in no machine network (10.98.0.0/24, fd98::/64)`,
	},
	{
		"a VIP is not the network's own address", add("fd98::", "fd98::6"),
		`not-network-edge: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::": is the subnet-router address of fd98::/64`,
	},
	{
		"a VIP is not the address of a node", add("fd98::12", "fd98::6"),
		`not-a-node: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::12": is the address of node cp-2`,
	},
	{
		"a VIP is not the address of a gateway", add("fd98::1", "fd98::6"),
		`not-a-gateway: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::1": is the address of a gateway of cp-1`,
	},
	{
		"every host that may hold an ingress VIP has its family: hosts without it are named", func(s *vips.Snapshot) {
			add("fd98::5", "fd98::6")(s)
			s.Hosts[2].Addresses = addrs("10.98.0.31")
		},
		`hosts-have-family: ` + at + `ingressIPs[1]: Invalid value: "fd98::6": is IPv6, but there is no IPv6 address on w-1, which may have to hold it`,
	},
	{
		"every control plane has the family of an API VIP: hosts without it are named", func(s *vips.Snapshot) {
			add("fd98::5", "fd98::6")(s)
			s.Hosts[0].Addresses, s.Hosts[1].Addresses = addrs("10.98.0.11"), addrs("10.98.0.12")
		},
		`hosts-have-family: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::5": is IPv6, but there is no IPv6 address on cp-1, cp-2, which may have to hold it
hosts-can-hold: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::5": lies in fd98::/64, where no control plane has an address of its own
hosts-have-family: ` + at + `ingressIPs[1]: Invalid value: "fd98::6": is IPv6, but there is no IPv6 address on cp-1, cp-2, which may have to hold it`,
	},
	{
		"a VIP lies in a network of a host that may hold it", func(s *vips.Snapshot) {
			s.Spec.MachineNetworks = append(s.Spec.MachineNetworks, "fd97::/64")
			add("fd97::5", "fd98::6")(s)
		},
		`hosts-can-hold: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd97::5": lies in fd97::/64, where no control plane has an address of its own`,
	},
	{
		"pods have the family of a new VIP", func(s *vips.Snapshot) {
			add("fd98::5", "fd98::6")(s)
			s.Cluster, s.Service = s.Cluster[:1], s.Service[:1]
		},
		`cluster-has-family: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::5": is IPv6, but the pod network is 10.128.0.0/14: only a cluster whose pods and services have both families can have a second pair
cluster-has-family: ` + at + `ingressIPs[1]: Invalid value: "fd98::6": is IPv6, but the pod network is 10.128.0.0/14: only a cluster whose pods and services have both families can have a second pair`,
	},
	{
		"services have the family of a new VIP, also where its machine network comes with it", func(s *vips.Snapshot) {
			s.Status.MachineNetworks = s.Status.MachineNetworks[:1]
			add("fd98::5", "fd98::6")(s)
			s.Service = s.Service[:1]
		},
		`cluster-has-family: ` + at + `apiServerInternalIPs[1]: Invalid value: "fd98::5": is IPv6, but the service network is 172.30.0.0/16: only a cluster whose pods and services have both families can have a second pair
cluster-has-family: ` + at + `ingressIPs[1]: Invalid value: "fd98::6": is IPv6, but the service network is 172.30.0.0/16: only a cluster whose pods and services have both families can have a second pair`,
	},
	{
		"nobody answers for a new VIP", func(s *vips.Snapshot) {
			add("fd98::5", "fd98::6")(s)
			s.Found[addr("fd98::6")] = vips.Holder{Hardware: "52:54:00:00:00:99", Seen: "cp-2"}
		},
		`nobody-answers: ` + at + `ingressIPs[1]: Invalid value: "fd98::6": is taken: 52:54:00:00:00:99 answers for it, as reported by cp-2`,
	},
	{
		"machine networks are not removed altogether", func(s *vips.Snapshot) { s.Spec.MachineNetworks = nil },
		`networks-kept: ` + at + `machineNetworks: Required value: the networks of the hosts, of which the first is 10.98.0.0/24`,
	},
	{
		"the first machine network is fixed", func(s *vips.Snapshot) {
			s.Spec.MachineNetworks = []string{"10.98.0.0/23", "fd98::/64"}
		},
		`networks-first-fixed: ` + at + `machineNetworks[0]: Invalid value: "10.98.0.0/23": the first machine network cannot be changed: it must stay 10.98.0.0/24`,
	},
	{
		"machine networks do not overlap each other", func(s *vips.Snapshot) {
			s.Spec.MachineNetworks = append(s.Spec.MachineNetworks, "10.98.0.128/25")
		},
		`networks-apart: ` + at + `machineNetworks[2]: Invalid value: "10.98.0.128/25": overlaps ` + at + `machineNetworks[0] 10.98.0.0/24`,
	},
	{
		"machine networks do not overlap the pod network", func(s *vips.Snapshot) {
			s.Spec.MachineNetworks = append(s.Spec.MachineNetworks, "10.129.0.0/24")
		},
		`networks-apart: ` + at + `machineNetworks[2]: Invalid value: "10.129.0.0/24": overlaps the pod network 10.128.0.0/14`,
	},
	{
		"a machine network is a network", func(s *vips.Snapshot) {
			s.Spec.MachineNetworks = append(s.Spec.MachineNetworks, "10.97.0.1/24")
		},
		`networks-sound: ` + at + `machineNetworks[2]: Invalid value: "10.97.0.1/24": has bits outside its mask; the network is 10.97.0.0/24`,
	},
	{
		"no machine network is removed from under a node", func(s *vips.Snapshot) {
			s.Spec.MachineNetworks = s.Spec.MachineNetworks[:1]
		},
		`networks-hold-hosts: ` + at + `machineNetworks: Invalid value: "fd98::/64": cannot be removed: node cp-1 has fd98::11 there`,
	},
}

func TestHardCase25_EveryRuleIsCheckedOnTheLiveCluster(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.sentence, func(t *testing.T) {
			s := one()
			c.change(&s)
			if got, want := words(vips.Decide(s)), "refused\n"+c.want; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	s := one()
	s.Spec.API = []string{"10.98.0.9", "fd44::5", "x"}
	s.Spec.Ingress = []string{"10.98.0.255"}
	var rules []viprule.Rule
	for _, f := range vips.Decide(s).Findings {
		rules = append(rules, f.Rule)
	}
	want := []viprule.Rule{
		viprule.AtMostTwo, viprule.PodNetwork, viprule.Address, viprule.Edge, viprule.SameLength,
		viprule.FirstFixed, viprule.FirstFixed,
	}
	if !slices.Equal(rules, want) {
		t.Errorf("got %v, want %v", rules, want)
	}
}

// A refusal writes no status, whatever else there is to do.
func TestARefusalChangesNothing(t *testing.T) {
	for _, c := range refusals {
		s := one()
		c.change(&s)
		if d := vips.Decide(s); d.Status != nil || d.Spec != nil {
			t.Errorf("%s: it writes\n%s", c.sentence, words(d))
		}
	}
}

func TestTheDocumentNamesEveryRule(t *testing.T) {
	text, err := os.ReadFile("../../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range viprule.Rules() {
		if line := fmt.Sprintf("| `%s` | %s |", r, r.Sentence()); !strings.Contains(string(text), line) {
			t.Errorf("docs/API.md lacks %s", line)
		}
	}
}
