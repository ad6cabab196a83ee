// Package viprule holds the rules about virtual IPs: the name and the sentence
// of each, and the check of those that need nothing but two lists of them. The
// install-config is checked by these rules, and decide/vips checks a change on a
// running cluster by them.
package viprule

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rule is the short name of one sentence about virtual IPs.
type Rule string

// The rules about the lists alone, which the installer checks, too.
const (
	Required        Rule = "required"
	AtMostTwo       Rule = "at-most-two"
	Address         Rule = "address"
	Reachable       Rule = "reachable"
	OneOfEach       Rule = "one-of-each-family"
	PrimaryFamily   Rule = "primary-family"
	SameFirstFamily Rule = "same-first-family"
	SameLength      Rule = "same-length"
	Distinct        Rule = "distinct"
	PodNetwork      Rule = "not-in-pod-network"
	ServiceNetwork  Rule = "not-in-service-network"
	MachineNetwork  Rule = "in-machine-network"
	Edge            Rule = "not-network-edge"
)

// The rules about a change.
const (
	FirstFixed      Rule = "first-fixed"
	SecondReplaced  Rule = "second-not-replaced"
	NetworksSound   Rule = "networks-sound"
	NetworksKept    Rule = "networks-kept"
	NetworksFirst   Rule = "networks-first-fixed"
	NetworksOverlap Rule = "networks-apart"
	NetworksHosts   Rule = "networks-hold-hosts"
	ClusterFamily   Rule = "cluster-has-family"
)

// The rules about the hosts of a running cluster.
const (
	NotANode    Rule = "not-a-node"
	NotAGateway Rule = "not-a-gateway"
	HostsFamily Rule = "hosts-have-family"
	HostsHold   Rule = "hosts-can-hold"
	Nobody      Rule = "nobody-answers"
)

// sentences holds the sentence of each rule, in the order in which they are
// shown.
var sentences = []struct {
	rule Rule
	text string
}{
	{Required, "there is at least one API VIP and one ingress VIP"},
	{AtMostTwo, "each list has at most two addresses"},
	{SameLength, "both lists have as many addresses"},
	{Address, "each VIP is an IP address, without a zone and not IPv4 in IPv6 form"},
	{Reachable, "no VIP is a loopback, link-local, multicast, broadcast or unspecified address"},
	{OneOfEach, "two addresses of a list are one of each family"},
	{PrimaryFamily, "the first VIP is of the family of the first machine network"},
	{SameFirstFamily, "both lists begin with the same family"},
	{Distinct, "no address is listed twice, in either list and however it is written"},
	{PodNetwork, "no VIP lies in the pod network"},
	{ServiceNetwork, "no VIP lies in the service network"},
	{MachineNetwork, "each VIP lies in a machine network"},
	{Edge, "no VIP is the network, broadcast or subnet-router address of its network"},
	{FirstFixed, "the first VIP of each list stays as it is"},
	{SecondReplaced, "the second pair is added or removed, never replaced"},
	{NetworksSound, "each machine network is a network in CIDR form"},
	{NetworksKept, "machine networks, once given, are not removed altogether"},
	{NetworksFirst, "the first machine network stays as it is"},
	{NetworksOverlap, "machine networks overlap neither each other nor the pod and service networks"},
	{NetworksHosts, "no machine network is removed while a node has its address there"},
	{ClusterFamily, "pods and services have the family of a new VIP"},
	{NotANode, "a new VIP is not the address of a node"},
	{NotAGateway, "a new VIP is not the address of a gateway"},
	{HostsFamily, "every host that may hold the first VIP of a list has an address of the new one's family"},
	{HostsHold, "some host that may hold a new VIP has an address in its network"},
	{Nobody, "no host on the network answers for a new VIP"},
}

// Rules returns every rule in the order in which they are shown.
func Rules() []Rule {
	var out []Rule
	for _, s := range sentences {
		out = append(out, s.rule)
	}
	return out
}

// Sentence returns the sentence of a rule.
func (r Rule) Sentence() string {
	i := slices.IndexFunc(sentences, func(s struct {
		rule Rule
		text string
	},
	) bool {
		return s.rule == r
	})
	if i < 0 {
		return string(r)
	}
	return sentences[i].text
}

// Finding is one mistake with the rule that it breaks.
type Finding struct {
	Rule Rule
	Err  *field.Error
}

// Broken returns the finding that a mistake breaks the rule.
func (r Rule) Broken(err *field.Error) Finding { return Finding{Rule: r, Err: err} }

// Errors returns the mistakes without their rules.
func Errors(list []Finding) field.ErrorList {
	var out field.ErrorList
	for _, f := range list {
		out = append(out, f.Err)
	}
	return out
}
