// Package vips decides about virtual IPs: whether a pair of lists keeps every
// rule, at installation and on a running cluster; what a wish to change them
// comes to; and how far a change has got. It is the one place where those
// rules are: the installer, the operator and `holdfast vip` all ask it.
package vips

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rule is one sentence about virtual IPs, by a short name.
type Rule string

// The rules of the lists by themselves, which the installer checks too.
const (
	RuleRequired        Rule = "required"
	RuleAtMostTwo       Rule = "at-most-two"
	RuleAddress         Rule = "address"
	RuleReachable       Rule = "reachable"
	RuleOneOfEach       Rule = "one-of-each-family"
	RulePrimaryFamily   Rule = "primary-family"
	RuleSameFirstFamily Rule = "same-first-family"
	RuleSameLength      Rule = "same-length"
	RuleDistinct        Rule = "distinct"
	RulePodNetwork      Rule = "not-in-pod-network"
	RuleServiceNetwork  Rule = "not-in-service-network"
	RuleMachineNetwork  Rule = "in-machine-network"
	RuleEdge            Rule = "not-network-edge"
)

// The rules of a change.
const (
	RuleFirstFixed      Rule = "first-fixed"
	RuleSecondReplaced  Rule = "second-not-replaced"
	RuleNetworksSound   Rule = "networks-sound"
	RuleNetworksKept    Rule = "networks-kept"
	RuleNetworksFirst   Rule = "networks-first-fixed"
	RuleNetworksOverlap Rule = "networks-apart"
	RuleNetworksHosts   Rule = "networks-hold-hosts"
	RuleClusterFamily   Rule = "cluster-has-family"
)

// The rules about the hosts of a running cluster.
const (
	RuleNotANode    Rule = "not-a-node"
	RuleNotAGateway Rule = "not-a-gateway"
	RuleHostsFamily Rule = "hosts-have-family"
	RuleHostsHold   Rule = "hosts-can-hold"
	RuleNobody      Rule = "nobody-answers"
)

// sentences say what each rule wants, in the order in which they are shown.
var sentences = []struct {
	rule Rule
	text string
}{
	{RuleRequired, "there is at least one API VIP and one ingress VIP"},
	{RuleAtMostTwo, "each list has at most two addresses"},
	{RuleSameLength, "both lists have as many addresses"},
	{RuleAddress, "each VIP is an IP address, without a zone and not IPv4 in IPv6 form"},
	{RuleReachable, "no VIP is a loopback, link-local, multicast, broadcast or unspecified address"},
	{RuleOneOfEach, "two addresses of a list are one of each family"},
	{RulePrimaryFamily, "the first VIP is of the family of the first machine network"},
	{RuleSameFirstFamily, "both lists begin with the same family"},
	{RuleDistinct, "no address stands twice, in either list and however written"},
	{RulePodNetwork, "no VIP lies in the pod network"},
	{RuleServiceNetwork, "no VIP lies in the service network"},
	{RuleMachineNetwork, "each VIP lies in a machine network"},
	{RuleEdge, "no VIP is the network, broadcast or subnet-router address of its network"},
	{RuleFirstFixed, "the first VIP of each list stays as it is"},
	{RuleSecondReplaced, "the second pair is added or removed, never replaced"},
	{RuleNetworksSound, "each machine network is a network in CIDR form"},
	{RuleNetworksKept, "machine networks, once given, are not removed altogether"},
	{RuleNetworksFirst, "the first machine network stays as it is"},
	{RuleNetworksOverlap, "machine networks overlap neither each other nor the pod and service networks"},
	{RuleNetworksHosts, "no machine network is removed while a node has its address there"},
	{RuleClusterFamily, "pods and services have the family of a new VIP"},
	{RuleNotANode, "a new VIP is not the address of a node"},
	{RuleNotAGateway, "a new VIP is not the address of a gateway"},
	{RuleHostsFamily, "every host that may hold the first VIP of a list has an address of the new one's family"},
	{RuleHostsHold, "some host that may hold a new VIP has an address in its network"},
	{RuleNobody, "nobody on the network answers for a new VIP"},
}

// Rules returns every rule in the order in which they are shown.
func Rules() []Rule {
	var out []Rule
	for _, s := range sentences {
		out = append(out, s.rule)
	}
	return out
}

// Sentence says what a rule wants.
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

// Finding is one mistake, and the rule that it breaks.
type Finding struct {
	Rule Rule
	Err  *field.Error
}

// Errors returns the mistakes alone.
func Errors(list []Finding) field.ErrorList {
	var out field.ErrorList
	for _, f := range list {
		out = append(out, f.Err)
	}
	return out
}
