// Package twonode decides how Corosync and Pacemaker are set up on two hosts:
// the value of every setting with its reason (Wanted), and the commands that
// change the present set-up to that without touching what is not Holdfast's
// (Steps).
package twonode

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Step is one part of the setup that runs on a host.
type Step string

// The steps, in their order.
const (
	Auth     Step = "auth"      // gives the host the key of the two and puts it into the cluster
	Fencing  Step = "fencing"   // writes the fence agent's files and tests the peer's BMC
	Setup    Step = "setup"     // makes the devices, resources and constraints
	Manifest Step = "manifest"  // writes how etcd is run
	HandOver Step = "hand-over" // takes etcd from kubelet
	Finish   Step = "finish"    // makes Pacemaker start everything at boot
)

// Input is the input of a step, as JSON on its standard input. It holds secrets.
type Input struct {
	// Format is the number of the form; the first one is written without it.
	Format int `json:"format,omitempty"`
	// Cluster is the cluster's name.
	Cluster string `json:"cluster"`
	// Nodes are the two control planes.
	Nodes []Node `json:"nodes"`
	// Self is the name of the node that the step runs on.
	Self string `json:"self"`
	// Token is the shared secret of the two hosts, from which they make their keys.
	Token string `json:"token,omitempty"`
	// Fencing holds the device of each node.
	Fencing []state.FencingDevice `json:"fencing,omitempty"`
	// Manifest is the pod from which Self's etcd is run.
	Manifest string `json:"manifest,omitempty"`
}

// inputFormat is the highest number of an input that this release reads, and the one
// that it writes, by leaving it out.
const inputFormat = 1

// Node is a control plane.
type Node struct {
	Name string `json:"name"`
	// Address is the address at which the other one reaches it.
	Address string `json:"address"`
}

// minimumToken is the least length of a token; a shorter one is a mistake and no
// secret.
const minimumToken = 16

// twoNodes is the number of hosts in such a cluster.
const twoNodes = 2

// Peer returns the other node.
func (in Input) Peer() Node {
	for _, n := range in.Nodes {
		if n.Name != in.Self {
			return n
		}
	}
	return Node{}
}

// byName returns the nodes ordered by name.
func (in Input) byName() []Node {
	return slices.SortedFunc(slices.Values(in.Nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}

// Validate returns every mistake that matters to a step, each with its field. No
// text quotes a secret.
func (in Input) Validate(step Step) error {
	if in.Format > inputFormat {
		return fmt.Errorf("format: a later release has written it: it is %d, and this one reads %d: upgrade this host first", in.Format, inputFormat)
	}
	problems := append(in.checkNodes(), in.checkSelf()...)
	switch step {
	case Auth:
		problems = append(problems, in.checkToken()...)
	case Fencing:
		problems = append(problems, in.checkFencing()...)
	case Manifest:
		if strings.TrimSpace(in.Manifest) == "" {
			problems = append(problems, errors.New("manifest: must not be empty"))
		}
	case Setup, HandOver, Finish:
	}
	return errors.Join(problems...)
}

func (in Input) checkNodes() []error {
	var bad []error
	if in.Cluster == "" {
		bad = append(bad, errors.New("cluster: must not be empty"))
	}
	if len(in.Nodes) != twoNodes {
		return append(bad, fmt.Errorf("nodes: there are %d, must be two", len(in.Nodes)))
	}
	for i, n := range in.Nodes {
		bad = append(bad, n.check(fmt.Sprintf("nodes[%d]", i))...)
	}
	a, b := in.Nodes[0], in.Nodes[1]
	if a.Name == b.Name {
		bad = append(bad, fmt.Errorf("nodes[1].name: %q is already the name of nodes[0]", b.Name))
	}
	first, err1 := netip.ParseAddr(a.Address)
	second, err2 := netip.ParseAddr(b.Address)
	switch {
	case err1 != nil || err2 != nil: // reported above
	case first == second:
		bad = append(bad, fmt.Errorf("nodes[1].address: %s is already the address of nodes[0]", b.Address))
	case first.Is4() != second.Is4():
		bad = append(bad, fmt.Errorf("nodes[1].address: %s is not of the same address family as %s of nodes[0]", b.Address, a.Address))
	}
	return bad
}

func (n Node) check(path string) []error {
	var bad []error
	if !isNodeName(n.Name) {
		bad = append(bad, fmt.Errorf("%s.name: %q is not a node name: only lower-case letters, digits, dashes and dots are allowed", path, n.Name))
	}
	address, err := netip.ParseAddr(n.Address)
	switch {
	case err != nil:
		bad = append(bad, fmt.Errorf("%s.address: %q is not an IP address", path, n.Address))
	case address.Is4In6() || address.Zone() != "" || address.IsLoopback() || address.IsUnspecified() || address.IsMulticast():
		bad = append(bad, fmt.Errorf("%s.address: the peer cannot reach %s", path, n.Address))
	}
	return bad
}

// maxNodeName is the length of a DNS name.
const maxNodeName = 253

// isNodeName reports whether Kubernetes may give a node this name. No character
// in it has a meaning to a shell, to pcs or in a file's path.
func isNodeName(name string) bool {
	if name == "" || len(name) > maxNodeName {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

func (in Input) checkSelf() []error {
	for _, n := range in.Nodes {
		if n.Name == in.Self {
			return nil
		}
	}
	return []error{fmt.Errorf("self: %q is not one of the nodes", in.Self)}
}

func (in Input) checkToken() []error {
	switch {
	case len(in.Token) < minimumToken:
		return []error{fmt.Errorf("token: is %d bytes long, must have at least %d", len(in.Token), minimumToken)}
	case strings.ContainsAny(in.Token, "\r\n\x00"):
		return []error{errors.New("token: must be a single line")}
	}
	return nil
}

func (in Input) checkFencing() []error {
	var bad []error
	count := map[string]int{}
	for i, d := range in.Fencing {
		path := fmt.Sprintf("fencing[%d]", i)
		count[d.Target]++
		if !slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Name == d.Target }) {
			bad = append(bad, fmt.Errorf("%s.target: %q is not one of the nodes", path, d.Target))
		}
		if _, err := bmc.Parse(d.Address); err != nil {
			bad = append(bad, fmt.Errorf("%s.address: %w", path, err))
		}
		if d.Username == "" || d.Password == "" {
			bad = append(bad, fmt.Errorf("%s: username and password are required", path))
		}
		if d.Delay < 0 {
			bad = append(bad, fmt.Errorf("%s.delay: must not be negative", path))
		}
	}
	for _, n := range in.Nodes {
		if count[n.Name] != 1 {
			bad = append(bad, fmt.Errorf("fencing: %d devices switch %s, must be exactly one", count[n.Name], n.Name))
		}
	}
	return bad
}
