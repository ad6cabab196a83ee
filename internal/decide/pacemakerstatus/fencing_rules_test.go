package pacemakerstatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// sees returns what a host of these nodes, all online, sees of Pacemaker.
func sees(change func(*crmmon.Cluster), names ...string) view {
	v := view{names: names}
	for _, n := range names {
		v.cluster.Nodes = append(v.cluster.Nodes, crmmon.Node{Name: n, Online: true, Kind: member})
	}
	change(&v.cluster)
	v.Cluster = state.Known(v.cluster)
	return v
}

// fencer is an instance of a fence device, without faults.
func fencer(id string, nodes ...string) crmmon.Resource {
	r := crmmon.Resource{ID: id, Agent: "stonith:fence_holdfast", Role: "Started", Active: true, Managed: true, Nodes: nodes}
	if len(nodes) == 0 {
		r.Role, r.Active = "Stopped", false
	}
	return r
}

func TestADeviceSwitchesTheNodeWhoseNameBeginsItsID(t *testing.T) {
	ban := func(device, node string) crmmon.Ban { return crmmon.Ban{Resource: device, Node: node} }
	for rule, c := range map[string]struct {
		nodes  []string
		device string
		bans   []crmmon.Ban
		want   string
	}{
		"the name, an underscore and anything":                      {[]string{"cp-1", "cp-2"}, "cp-2_redfish", nil, "cp-2"},
		"the name alone":                                            {[]string{"cp-1", "cp-2"}, "cp-2", nil, "cp-2"},
		"a longer word is another name":                             {[]string{"cp-1"}, "cp-10", nil, ""},
		"so it is with a dot":                                       {[]string{"cp"}, "cp.example_redfish", nil, ""},
		"of two names that begin it, the longer one":                {[]string{"cp", "cp_1"}, "cp_1_redfish", nil, "cp_1"},
		"so it is in the other order":                               {[]string{"cp_1", "cp"}, "cp_1_redfish", nil, "cp_1"},
		"without a name: the one node that it is banned from":       {[]string{"cp-1", "cp-2"}, "redfish", []crmmon.Ban{ban("redfish", "cp-2")}, "cp-2"},
		"two bans of one node are one":                              {[]string{"cp-1", "cp-2"}, "redfish", []crmmon.Ban{ban("redfish", "cp-2"), ban("redfish", "cp-2")}, "cp-2"},
		"a device that is banned from two nodes switches neither":   {[]string{"cp-1", "cp-2"}, "redfish", []crmmon.Ban{ban("redfish", "cp-2"), ban("redfish", "cp-1")}, ""},
		"another device's ban says nothing":                         {[]string{"cp-1", "cp-2"}, "redfish", []crmmon.Ban{ban("other", "cp-2")}, ""},
		"a name counts more than a ban":                             {[]string{"cp-1", "cp-2"}, "cp-1_redfish", []crmmon.Ban{ban("cp-1_redfish", "cp-2")}, "cp-1"},
		"an id that is only the end of a name is no device of it's": {[]string{"cp-1"}, "_redfish", nil, ""},
	} {
		v := sees(func(x *crmmon.Cluster) { x.Bans = c.bans }, c.nodes...)
		if got := v.target(c.device); got != c.want {
			t.Errorf("%s: %s switches %q", rule, c.device, got)
		}
	}
}

// TestTheListOfANodesDevices: the API holds eight; those that do not work are never
// left out, and the list is sorted.
func TestTheListOfANodesDevices(t *testing.T) {
	v := sees(func(c *crmmon.Cluster) {
		for i := range 9 {
			r := fencer(fmt.Sprintf("cp-2_%d", 8-i), "cp-1")
			r.Failed = r.ID == "cp-2_8"
			c.Resources = append(c.Resources, r)
		}
		c.Resources = append(c.Resources, crmmon.Resource{ID: "cp-2_0", Agent: "ocf:heartbeat:Dummy", Nodes: []string{"cp-2"}}, fencer("cp-1_0", "cp-2"))
	}, "cp-1", "cp-2")
	listed, all := v.agents("cp-2")
	var names []string
	for _, a := range listed {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != "cp-2_0 cp-2_1 cp-2_2 cp-2_3 cp-2_4 cp-2_5 cp-2_6 cp-2_8" || len(all) != 9 {
		t.Errorf("%s, of %d", got, len(all))
	}
	if !healthyAgent(listed[0]) || healthyAgent(listed[7]) {
		t.Error("a resource that is no device has the id of one, and counts")
	}
}

// TestTwoDevicesWhoseNamesTheAPIWouldTakeForOneAreToldApart: the API accepts few
// characters in a name.
func TestTwoDevicesWhoseNamesTheAPIWouldTakeForOneAreToldApart(t *testing.T) {
	v := sees(func(c *crmmon.Cluster) {
		c.Resources = []crmmon.Resource{fencer("cp-2_a b", "cp-1"), fencer("cp-2_a:b", "cp-1"), fencer("cp-2_a?b", "cp-1"), fencer("cp-2_a-b", "cp-1")}
	}, "cp-1", "cp-2")
	listed, _ := v.agents("cp-2")
	var names []string
	for _, a := range listed {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != "cp-2_a-b cp-2_a-b-2 cp-2_a-b-3 cp-2_a-b-4" {
		t.Error(got)
	}
}

func TestHowADeviceSwitchesIsReadFromItsAgent(t *testing.T) {
	for _, c := range []struct {
		id, agent string
		want      etcdv1.FencingMethod
	}{
		{"cp-2_redfish", "stonith:fence_redfish", etcdv1.FencingMethodRedfish},
		{"cp-2_ipmi", "stonith:fence_redfish", etcdv1.FencingMethodRedfish},
		{"cp-2_ipmi", "stonith:fence_holdfast", etcdv1.FencingMethodRedfish},
		{"cp-2_x", "stonith:fence_ipmilan", etcdv1.FencingMethodIPMI},
		{"cp-2_x", "stonith:fence_ilo5", etcdv1.FencingMethodIPMI},
		{"cp-2_x", "stonith:fence_idrac", etcdv1.FencingMethodIPMI},
		{"cp-2_IPMI", "stonith:fence_x", etcdv1.FencingMethodIPMI},
		{"cp-2_x", "stonith:fence_x", etcdv1.FencingMethodRedfish},
	} {
		v := sees(func(x *crmmon.Cluster) {
			r := fencer(c.id, "cp-1")
			r.Agent = c.agent
			x.Resources = []crmmon.Resource{r}
		}, "cp-1", "cp-2")
		if got := v.agent("cp-2", c.id).Method; got != c.want {
			t.Errorf("%s of %s: %s", c.id, c.agent, got)
		}
	}
	if got := agentName(strings.Repeat("x", maxAgentName)); len(got) != maxAgentName {
		t.Errorf("a name as long as the API takes is cut to %d", len(got))
	}
}

// TestWhatIsWrongWithADevice: which condition of the device of cp-2 does not hold, and
// what it says.
func TestWhatIsWrongWithADevice(t *testing.T) {
	failed := func(node, words string) crmmon.Failure {
		return crmmon.Failure{Node: node, Resource: "cp-2_redfish", Task: "start", Words: words, When: moment}
	}
	lose := func(c *crmmon.Cluster, i int) { c.Nodes[i].Online, c.Nodes[i].Unclean = false, true }
	for rule, c := range map[string]struct {
		change func(*crmmon.Cluster)
		want   string
	}{
		"it runs on the other host":         {func(c *crmmon.Cluster) { c.Resources = []crmmon.Resource{fencer("cp-2_redfish", "cp-1")} }, ""},
		"it runs on its own target as well": {func(c *crmmon.Cluster) { c.Resources = []crmmon.Resource{fencer("cp-2_redfish", "cp-2", "cp-1")} }, ""},
		"it runs on its own target alone":   {func(c *crmmon.Cluster) { c.Resources = []crmmon.Resource{fencer("cp-2_redfish", "cp-2")} }, "Inactive (it runs only on the host that it fences: it is unknown whether another host reaches the BMC)"},
		"it runs nowhere":                   {func(c *crmmon.Cluster) { c.Resources = []crmmon.Resource{fencer("cp-2_redfish")} }, "Inactive (it runs nowhere); Stopped"},
		"nobody is there who could run it": {func(c *crmmon.Cluster) {
			c.Resources = []crmmon.Resource{fencer("cp-2_redfish")}
			c.Nodes[0].Online = false
		}, "Inactive (no other host is online that could fence cp-2); Stopped"},
		"it runs nowhere, for it failed": {func(c *crmmon.Cluster) {
			c.Resources = []crmmon.Resource{fencer("cp-2_redfish")}
			c.Failures = []crmmon.Failure{failed("cp-1", "401")}
		}, "Failed (it failed: start on cp-1: 401); Inactive (it runs nowhere); Stopped"},
		"it runs, and a start failed before": {func(c *crmmon.Cluster) {
			c.Resources = []crmmon.Resource{fencer("cp-2_redfish", "cp-1")}
			c.Failures = []crmmon.Failure{failed("cp-1", "401")}
		}, ""},
		"one instance runs, another does not": {
			func(c *crmmon.Cluster) {
				c.Resources = []crmmon.Resource{fencer("cp-2_redfish:0", "cp-1"), fencer("cp-2_redfish:1")}
			}, "",
		},
		"it runs on a host that is lost and not proven off": {
			func(c *crmmon.Cluster) { c.Resources = []crmmon.Resource{fencer("cp-2_redfish", "cp-1")}; lose(c, 0) },
			"Active is unknown (cp-1 is lost and not proven off); Started is unknown",
		},
		"on one such host and on one that is there": {func(c *crmmon.Cluster) {
			c.Resources = []crmmon.Resource{fencer("cp-2_redfish", "cp-1", "cp-3")}
			lose(c, 0)
		}, ""},
		"the device of another host failed": {func(c *crmmon.Cluster) {
			other := fencer("cp-1_redfish", "cp-2")
			other.Failed = true
			c.Resources = []crmmon.Resource{fencer("cp-2_redfish", "cp-1"), other}
		}, ""},
	} {
		v := sees(c.change, "cp-1", "cp-2", "cp-3")
		if strings.HasPrefix(rule, "nobody") {
			v.cluster.Nodes = v.cluster.Nodes[:2]
		}
		if got := Find(v.agent("cp-2", "cp-2_redfish").Conditions, etcdv1.ResourceHealthyConditionType); got.Message != c.want || (got.Status == metav1.ConditionTrue) != (c.want == "") {
			t.Errorf("%s: %s, %q", rule, got.Status, got.Message)
		}
	}
}

func TestTheWordsOfWhoTestedTheBMCCountMoreThanPacemakers(t *testing.T) {
	v := sees(func(c *crmmon.Cluster) {
		c.Failures = []crmmon.Failure{{Node: "cp-1", Resource: "cp-2_redfish", Task: "monitor", Words: "Error"}}
	}, "cp-1", "cp-2")
	if got := v.whyAnywhere("cp-2_redfish"); got != ": monitor on cp-1: Error" {
		t.Error(got)
	}
	v.Found = map[string]state.BMCProblem{"cp-2": {Words: "it answers 401"}}
	if got := v.whyAnywhere("cp-2_redfish"); got != ": on cp-1: it answers 401" {
		t.Error(got)
	}
	if got := v.whyAnywhere("cp-1_redfish"); got != "" {
		t.Errorf("of a device that did not fail: %s", got)
	}
	v.cluster.Failures = nil
	if got := v.whyAnywhere("cp-2_redfish"); got != "" {
		t.Errorf("the words of a test are from another day: %s", got)
	}
}

// TestWhetherAHostIsProvenToBeFenceable: by an answer of its BMC to another host, and
// by nothing else.
func TestWhetherAHostIsProvenToBeFenceable(t *testing.T) {
	op := func(node, task string, code int) crmmon.Operation {
		return crmmon.Operation{Node: node, Resource: "cp-2_redfish", Task: task, Code: code}
	}
	for rule, c := range map[string]struct {
		on     []string
		ops    []crmmon.Operation
		change func(*crmmon.Cluster)
		status metav1.ConditionStatus
		reason string
	}{
		"it was started on another host":         {[]string{"cp-1"}, []crmmon.Operation{op("cp-1", "start", 0)}, nil, yes, ReasonPeerReaches},
		"or last monitored there":                {[]string{"cp-1"}, []crmmon.Operation{op("cp-1", "monitor", 0)}, nil, yes, ReasonPeerReaches},
		"another action proves nothing":          {[]string{"cp-1"}, []crmmon.Operation{op("cp-1", "stop", 0)}, nil, unknown, ReasonNotTested},
		"it did not answer there":                {[]string{"cp-1"}, []crmmon.Operation{op("cp-1", "monitor", 1)}, nil, no, ReasonPeerReachesNot},
		"one that failed counts, whatever else":  {[]string{"cp-1"}, []crmmon.Operation{op("cp-1", "start", 0), op("cp-1", "monitor", 1)}, nil, no, ReasonPeerReachesNot},
		"nobody tried":                           {[]string{"cp-1"}, nil, nil, unknown, ReasonNotTested},
		"only the host itself did":               {[]string{"cp-2"}, []crmmon.Operation{op("cp-2", "start", 0)}, nil, no, ReasonOnOwnTarget},
		"it runs nowhere, and nobody tried":      {nil, nil, nil, unknown, ReasonNotTested},
		"it no longer runs where it answered":    {nil, []crmmon.Operation{op("cp-1", "start", 0)}, nil, unknown, ReasonNotTested},
		"the host that it answered to is lost":   {[]string{"cp-1"}, []crmmon.Operation{op("cp-1", "start", 0)}, func(c *crmmon.Cluster) { c.Nodes[0].Online = false }, unknown, ReasonNotTested},
		"it answered, and Pacemaker says failed": {[]string{"cp-1"}, []crmmon.Operation{op("cp-1", "start", 0)}, func(c *crmmon.Cluster) { c.Resources[0].Failed = true }, no, ReasonPeerReachesNot},
		"of two devices, one is enough": {
			[]string{"cp-1"},
			[]crmmon.Operation{op("cp-1", "monitor", 1), {Node: "cp-1", Resource: "cp-2_ipmi", Task: "start"}},
			func(c *crmmon.Cluster) { c.Resources = append(c.Resources, fencer("cp-2_ipmi", "cp-1")) }, yes, ReasonPeerReaches,
		},
		"the device of the other host proves nothing": {
			nil,
			[]crmmon.Operation{{Node: "cp-2", Resource: "cp-1_redfish", Task: "start"}},
			func(c *crmmon.Cluster) { c.Resources = append(c.Resources, fencer("cp-1_redfish", "cp-2")) }, unknown, ReasonNotTested,
		},
	} {
		v := sees(func(x *crmmon.Cluster) {
			x.Resources, x.Operations = []crmmon.Resource{fencer("cp-2_redfish", c.on...)}, c.ops
			if c.change != nil {
				c.change(x)
			}
		}, "cp-1", "cp-2")
		if got := v.proven("cp-2"); got.Status != c.status || got.Reason != c.reason {
			t.Errorf("%s: %s, %s: %s", rule, got.Status, got.Reason, got.Message)
		}
	}
}

// fence is a request to fence cp-2 that ended at a second after the moment.
func fence(s crmmon.FenceState, second int, by string) crmmon.Fence {
	f := crmmon.Fence{Target: "cp-2", Action: "reboot", By: by, State: s}
	if s != crmmon.FencePending {
		f.Done = moment.Add(time.Duration(second) * time.Second)
	}
	return f
}

// TestWhichFenceIsTheLast: one under way, else the one that ended last. One that failed
// because an administrator had meanwhile confirmed that the host is off does not count.
func TestWhichFenceIsTheLast(t *testing.T) {
	const ok, bad, open = crmmon.FenceSucceeded, crmmon.FenceFailed, crmmon.FencePending
	of := func(list ...crmmon.Fence) []crmmon.Fence { return list }
	another := fence(ok, 0, byPerson)
	another.Target = "cp-1"
	for rule, c := range map[string]struct {
		fences []crmmon.Fence
		want   string
	}{
		"none":                        {nil, ReasonNeverFenced},
		"one that succeeded":          {of(fence(ok, 0, "cp-1")), ReasonFenceSucceeded},
		"one that failed":             {of(fence(bad, 0, "cp-1")), ReasonFenceFailed},
		"another host's":              {of(another), ReasonNeverFenced},
		"of two, the later one":       {of(fence(bad, 0, "cp-1"), fence(ok, 9, "cp-1")), ReasonFenceSucceeded},
		"whatever their order":        {of(fence(ok, 9, "cp-1"), fence(bad, 0, "cp-1")), ReasonFenceSucceeded},
		"one under way is the newest": {of(fence(ok, 9, "cp-1"), fence(open, 0, "cp-1")), ReasonFencePending},
		"whatever its place":          {of(fence(open, 0, "cp-1"), fence(ok, 9, "cp-1")), ReasonFencePending},
		"one that gave way at the moment of the word":  {of(fence(ok, 9, byPerson), fence(bad, 9, "cp-1")), ReasonFenceSucceeded},
		"one that gave way at the limit":               {of(fence(ok, 0, byPerson), fence(bad, 30, "cp-1")), ReasonFenceSucceeded},
		"one that failed after that failed by itself":  {of(fence(ok, 0, byPerson), fence(bad, 31, "cp-1")), ReasonFenceFailed},
		"one that failed before the word, which is it": {of(fence(bad, 0, "cp-1"), fence(ok, 9, byPerson)), ReasonFenceSucceeded},
		"one that failed after another fence":          {of(fence(ok, 0, "cp-1"), fence(bad, 9, "cp-1")), ReasonFenceFailed},
		"the word for another host is none for this":   {of(another, fence(bad, 9, "cp-1")), ReasonFenceFailed},
		"a word that failed is none":                   {of(fence(bad, 0, byPerson), fence(bad, 9, "cp-1")), ReasonFenceFailed},
	} {
		v := sees(func(x *crmmon.Cluster) { x.Fences = c.fences }, "cp-1", "cp-2")
		if got := v.lastFence("cp-2"); got.Reason != c.want || (got.Status == yes) != (c.want == ReasonNeverFenced || c.want == ReasonFenceSucceeded) {
			t.Errorf("%s: %+v", rule, got)
		}
	}
}

func TestTheWordsOfAFence(t *testing.T) {
	f := fence(crmmon.FenceFailed, 0, "cp-1")
	f.Words = "no answer"
	if got := fenceWords(f); got != "reboot by cp-1 at 2026-11-20T12:00:00Z: no answer" {
		t.Error(got)
	}
	if got := fenceWords(crmmon.Fence{Action: "off"}); got != "off" {
		t.Errorf("of which nobody knows more: %q", got)
	}
}
