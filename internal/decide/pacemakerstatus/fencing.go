package pacemakerstatus

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// maxAgents is the API's limit on a node's fence agents.
const maxAgents = 8

// agents returns the fence agents whose target is a node. all has every one. listed
// has as many as the API holds, prefers those that do not work, and is sorted by
// name.
func (v view) agents(node string) (listed, all []etcdv1.PacemakerClusterFencingAgentStatus) {
	names := map[string]bool{}
	for _, id := range v.devices(node) {
		a := v.agent(node, id)
		for i := 2; names[a.Name]; i++ {
			a.Name = fmt.Sprintf("%s-%d", agentName(id), i)
		}
		names[a.Name] = true
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b etcdv1.PacemakerClusterFencingAgentStatus) int {
		return rank(a) - rank(b)
	})
	listed = append([]etcdv1.PacemakerClusterFencingAgentStatus{}, all[:min(len(all), maxAgents)]...)
	slices.SortFunc(listed, func(a, b etcdv1.PacemakerClusterFencingAgentStatus) int { return strings.Compare(a.Name, b.Name) })
	return listed, all
}

// rank puts agents that do not work first.
func rank(a etcdv1.PacemakerClusterFencingAgentStatus) int {
	if healthyAgent(a) {
		return 1
	}
	return 0
}

func healthyAgent(a etcdv1.PacemakerClusterFencingAgentStatus) bool {
	return Holds(a.Conditions, etcdv1.ResourceHealthyConditionType)
}

// devices returns the sorted ids of a node's fence devices.
func (v view) devices(node string) []string {
	var out []string
	for _, r := range v.cluster.Resources {
		if id := base(r.ID); r.Fences() && v.target(id) == node && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// target returns the node that a device switches. It is the node with the longest
// name that begins the device's id; otherwise the only node that a ban keeps the
// device from; otherwise empty.
func (v view) target(device string) string {
	best := ""
	for _, n := range v.names {
		rest, ok := strings.CutPrefix(device, n)
		if ok && (rest == "" || rest[0] == '_') && len(n) > len(best) {
			best = n
		}
	}
	if best != "" {
		return best
	}
	var kept []string
	for _, b := range v.cluster.Bans {
		if b.Resource == device && !slices.Contains(kept, b.Node) {
			kept = append(kept, b.Node)
		}
	}
	if len(kept) == 1 {
		return kept[0]
	}
	return ""
}

func (v view) agent(node, id string) etcdv1.PacemakerClusterFencingAgentStatus {
	var f facts
	agent, on := "", []string(nil)
	for _, r := range v.cluster.Resources {
		if !r.Fences() || base(r.ID) != id {
			continue
		}
		agent = r.Agent
		on = append(on, r.Nodes...)
		v.device(&f, r)
	}
	switch {
	case len(on) == 0:
		note(&f.inactive, v.nowhere(node))
		note(&f.stopped, v.nowhere(node))
	case !slices.ContainsFunc(on, func(n string) bool { return n != node }):
		note(&f.inactive, "it runs only on the host that it fences: it is unknown whether another host reaches the BMC")
	case !slices.ContainsFunc(on, func(n string) bool { return v.unseen(n) == "" }):
		f.unseen = v.unseen(on[0])
	}
	return etcdv1.PacemakerClusterFencingAgentStatus{Name: agentName(id), Method: method(id, agent), Conditions: f.conditions()}
}

// device adds to f the facts of one instance of a device.
func (v view) device(f *facts, r crmmon.Resource) {
	if len(r.Nodes) == 0 {
		v.settled(f, "", r)
	}
	for _, on := range r.Nodes {
		v.settled(f, on, r)
	}
	if r.Failed {
		note(&f.failed, "it failed"+v.whyAnywhere(r.ID))
	}
	if len(r.Nodes) == 0 {
		if why := v.whyAnywhere(r.ID); why != "" {
			note(&f.failed, "it failed"+why)
		}
		return
	}
	if !r.Active {
		note(&f.inactive, "it is not active")
	}
	if !started(r.Role) {
		note(&f.stopped, roleWords(r))
	}
	if r.Orphaned {
		note(&f.unmanaged, "it runs although it is no longer configured")
	}
}

// nowhere says why a device runs nowhere.
func (v view) nowhere(node string) string {
	for _, n := range v.cluster.Nodes {
		if n.Name != node && n.Online {
			return "it runs nowhere"
		}
	}
	return "no other host is online that could fence " + node
}

// whyAnywhere returns the last failure of a device on the first node that has one.
// It uses the message of the agent that tested the BMC where there is one.
func (v view) whyAnywhere(id string) string {
	for _, n := range v.names {
		why := v.why(n, id)
		if words := v.Found[v.target(id)].Words; why != "" && words != "" {
			return ": on " + n + ": " + shorten(words, maxMessage*3/4)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// notReached maps the repair of a BMC to the reason for which its host is not proven
// to be fenceable.
var notReached = map[state.BMCRepair]string{
	state.PinCertificate: ReasonUntrusted, state.SetAccount: ReasonAccountRefused, state.AllowLegacyTLS: ReasonLegacyTLS,
}

// unreached returns the reason for which the peer does not reach a node's BMC.
func (v view) unreached(node string) string {
	return cmp.Or(notReached[v.Found[node].Repair], ReasonPeerReachesNot)
}

// Wonders reports whether a fence device has failed, so that its agent should be
// asked for the reason.
func Wonders(c crmmon.Cluster) bool {
	return slices.ContainsFunc(c.Failures, func(f crmmon.Failure) bool {
		return slices.ContainsFunc(c.Resources, func(r crmmon.Resource) bool { return r.Fences() && base(r.ID) == base(f.Resource) })
	})
}

var (
	agentCharacters = regexp.MustCompile(`[^a-zA-Z0-9._-]`)
	ipmi            = regexp.MustCompile(`(?i)ipmi|_ilo|_idrac|_drac`)
)

// maxAgentName is the API's limit on an agent's name, in bytes.
const maxAgentName = 290

// agentName returns a device's id in the form that the API accepts.
func agentName(id string) string {
	id = agentCharacters.ReplaceAllString(id, "-")
	if len(id) > maxAgentName {
		id = id[:maxAgentName]
	}
	return id
}

// method returns how a device switches, judged by its agent's name, else by its id.
// The API knows two values.
func method(id, agent string) etcdv1.FencingMethod {
	if !strings.Contains(agent, "redfish") && !strings.Contains(agent, "fence_holdfast") && (ipmi.MatchString(agent) || ipmi.MatchString(id)) {
		return etcdv1.FencingMethodIPMI
	}
	return etcdv1.FencingMethodRedfish
}

// fencing returns those of the API's conditions of a node that follow from its
// fence agents.
func (v view) fencing(node string, all []etcdv1.PacemakerClusterFencingAgentStatus) []metav1.Condition {
	if !v.Cluster.Known {
		return []metav1.Condition{nodeAvailable.unknown(v.Trouble), nodeFencing.unknown(v.Trouble)}
	}
	var sick []string
	for _, a := range all {
		if !healthyAgent(a) {
			sick = append(sick, a.Name+": "+Find(a.Conditions, etcdv1.ResourceHealthyConditionType).Message)
		}
	}
	if len(all) > maxAgents {
		sick = append(sick, fmt.Sprintf("%d agents, of which %d are listed", len(all), maxAgents))
	}
	if len(all) == 0 {
		sick = []string{"there is no fence agent for " + node}
	}
	available := slices.ContainsFunc(all, healthyAgent)
	return []metav1.Condition{
		nodeAvailable.is(available, unless(available, sick)...),
		nodeFencing.is(len(sick) == 0, sick...),
	}
}

func unless(good bool, words []string) []string {
	if good {
		return nil
	}
	return words
}

// proven returns our own condition of whether the peer reaches a node's BMC. It is
// true where a device of the node last answered to another host.
func (v view) proven(node string) metav1.Condition {
	m := meaning{FencingProven, ReasonPeerReaches, v.unreached(node)}
	if !v.Cluster.Known {
		return m.unknown(v.Trouble)
	}
	var failed []string
	onTarget := false
	for _, r := range v.cluster.Resources {
		id := base(r.ID)
		if !r.Fences() || v.target(id) != node {
			continue
		}
		onTarget = onTarget || slices.Contains(r.Nodes, node)
		answered, tried := v.answered(node, id, r.Nodes)
		if answered && !r.Failed {
			return m.is(true)
		}
		if tried {
			failed = append(failed, r.ID+cmp.Or(v.whyAnywhere(id), " failed"))
		}
	}
	switch {
	case len(failed) > 0:
		return m.is(false, failed...)
	case onTarget:
		return condition(FencingProven, metav1.ConditionFalse, ReasonOnOwnTarget, "its device runs on "+node+" itself: no other host has tried the BMC")
	}
	return condition(FencingProven, metav1.ConditionUnknown, ReasonNotTested, "no other host has tried its BMC")
}

// answered reports whether a device last answered on a host that runs it and is not
// its target, and whether such a host tried it. An answer on a host where the
// device no longer runs does not count.
func (v view) answered(target, device string, runs []string) (answered, tried bool) {
	for _, o := range v.cluster.Operations {
		n := v.node(o.Node)
		if base(o.Resource) != device || o.Node == target || !n.Value.Online || o.Task != "start" && o.Task != "monitor" {
			continue
		}
		if o.Code != 0 {
			return false, true
		}
		if slices.Contains(runs, o.Node) {
			answered, tried = true, true
		}
	}
	return answered, tried
}
