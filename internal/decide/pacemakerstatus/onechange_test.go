package pacemakerstatus

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// allOf lists all conditions of a status, each with what it is about, and the other
// things that it says.
func allOf(s etcdv1.PacemakerClusterStatus) map[string]string {
	out := map[string]string{}
	add := func(of string, list []metav1.Condition) {
		for _, c := range list {
			out[of+" "+c.Type] = fmt.Sprintf("%s, %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	add("cluster", s.Conditions)
	for _, n := range *s.Nodes {
		add(n.NodeName, n.Conditions)
		out[n.NodeName+" addresses"] = fmt.Sprint(n.Addresses)
		for _, r := range n.Resources {
			add(n.NodeName+"/"+string(r.Name), r.Conditions)
		}
		for _, a := range n.FencingAgents {
			add(n.NodeName+"/"+a.Name, a.Conditions)
			out[n.NodeName+"/"+a.Name+" method"] = string(a.Method)
		}
	}
	return out
}

// change is one change of what a host of a healthy pair sees.
type change struct {
	name string
	make func(*Input)
}

// flags returns a change for each yes or no of a structure.
func flags[T any](of string, at func(*Input) *T) []change {
	var out []change
	kind := reflect.TypeFor[T]()
	for i := range kind.NumField() {
		if kind.Field(i).Type.Kind() == reflect.Bool {
			out = append(out, change{of + ": " + kind.Field(i).Name + " is the other way", func(in *Input) {
				f := reflect.ValueOf(at(in)).Elem().Field(i)
				f.SetBool(!f.Bool())
			}})
		}
	}
	return out
}

// instance returns the instance of a resource on a node.
func instance(id, node string) func(*Input) *crmmon.Resource {
	return func(in *Input) *crmmon.Resource {
		i := slices.IndexFunc(in.Cluster.Value.Resources, func(r crmmon.Resource) bool {
			return base(r.ID) == id && (slices.Contains(r.Nodes, node) || node == "")
		})
		return &in.Cluster.Value.Resources[i]
	}
}

var moment = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ofNodes() []change {
	node := func(in *Input) *crmmon.Node { return ofNode(in, "cp-2") }
	out := flags("node", node)
	for _, c := range flags("node that is offline", node) {
		out = append(out, change{c.name, func(in *Input) { c.make(in); node(in).Online = false }})
	}
	fence := func(f crmmon.Fence) func(*Input) {
		return func(in *Input) {
			f.Target, f.Done = "cp-2", moment
			node(in).Online, node(in).Unclean = false, f.State != crmmon.FenceSucceeded
			in.Cluster.Value.Fences = append([]crmmon.Fence{f}, in.Cluster.Value.Fences...)
		}
	}
	return append(out,
		change{"node: it is a remote one", func(in *Input) { node(in).Kind = "remote" }},
		change{"node: corosync.conf does not name it", func(in *Input) { in.Corosync.Value.Nodes = in.Corosync.Value.Nodes[:1] }},
		change{"node: its addresses are odd", func(in *Input) {
			in.Corosync.Value.Nodes[1].Addresses = []string{"::ffff:10.98.0.12", "fe80::1", "fd98::12%eth0", "no address", "127.0.0.1", "10.98.0.12"}
		}},
		change{"node: it has no address, and another source knows one", func(in *Input) {
			in.Corosync.Value.Nodes[1].Addresses, in.Addresses = nil, map[string][]string{"cp-2": {"10.98.0.99"}}
		}},
		change{"node: stonith-enabled is false and it is lost", func(in *Input) {
			in.Cluster.Value.Options.FencingEnabled, node(in).Online, node(in).Unclean = false, false, true
		}},
		change{"node: fenced", fence(crmmon.Fence{State: crmmon.FenceSucceeded, Action: "reboot", By: "cp-1"})},
		change{"node: the fence failed", fence(crmmon.Fence{State: crmmon.FenceFailed, Action: "reboot", By: "cp-1", Words: "no answer"})},
		change{"node: a fence is under way", fence(crmmon.Fence{State: crmmon.FencePending, Action: "reboot", By: "cp-1"})},
		change{"node: a person said that it is off", fence(crmmon.Fence{State: crmmon.FenceSucceeded, Action: "off", By: "a human"})},
		change{"node: a fence of which nobody knows the time", func(in *Input) {
			in.Cluster.Value.Fences = []crmmon.Fence{{Target: "cp-2", Action: "reboot", By: "cp-1", State: crmmon.FenceFailed}}
		}},
		change{"node: a fence succeeded after one that failed", fences(crmmon.FenceFailed, crmmon.FenceSucceeded)},
		change{"node: a fence failed after one that succeeded", fences(crmmon.FenceSucceeded, crmmon.FenceFailed)},
		change{"node: a fence is under way after one that failed", fences(crmmon.FenceFailed, crmmon.FencePending)},
		change{"node: a fence is under way that began before another one ended", fences(crmmon.FencePending, crmmon.FenceFailed)},
		change{"nodes: none", func(in *Input) { in.Cluster.Value.Nodes = nil }},
		change{"nodes: one", func(in *Input) { in.Cluster.Value.Nodes = in.Cluster.Value.Nodes[:1] }},
		change{"nodes: three", func(in *Input) {
			in.Cluster.Value.Nodes = append(in.Cluster.Value.Nodes, crmmon.Node{Name: "cp-3", Online: true, Kind: "member"})
		}},
		change{"nodes: the third one has a name that is none", func(in *Input) {
			in.Cluster.Value.Nodes = append(in.Cluster.Value.Nodes, crmmon.Node{Name: "CP 3", Online: true, Kind: "member"})
		}},
	)
}

// fences are two fences of cp-2, an hour apart, in the order of their ends.
func fences(states ...crmmon.FenceState) func(*Input) {
	return func(in *Input) {
		in.Cluster.Value.Fences = nil
		for i, s := range states {
			in.Cluster.Value.Fences = append(in.Cluster.Value.Fences, crmmon.Fence{
				Target: "cp-2", Action: "reboot", By: "cp-1", State: s, Done: moment.Add(time.Duration(i) * time.Hour), Words: "the words",
			})
		}
	}
}

func ofResources() []change {
	var out []change
	for _, id := range []string{"kubelet", "etcd", "cp-2_redfish", "cp-1_redfish"} {
		on := "cp-2"
		if id == "cp-2_redfish" {
			on = "cp-1"
		}
		at := instance(id, on)
		out = append(out, flags(id, at)...)
		for _, role := range []string{"Stopped", "Starting", "Promoted", "Unpromoted", "Master", "Slave", "Unknown"} {
			out = append(out, change{id + ": its role is " + role, func(in *Input) { at(in).Role = role }})
		}
		for _, target := range []string{"Stopped", "stopped", "Started", "Slave"} {
			out = append(out, change{id + ": it should be " + target, func(in *Input) { at(in).Target = target }})
		}
		out = append(out,
			change{id + ": an action is under way", func(in *Input) { at(in).Pending, at(in).Role = "Starting", "Stopped" }},
			change{id + ": another agent", func(in *Input) { at(in).Agent = "ocf:heartbeat:Dummy" }},
			change{id + ": in a bundle", func(in *Input) { at(in).Bundle = "b" }},
			change{id + ": of no clone", func(in *Input) { at(in).Clone = "" }},
			change{id + ": on both nodes", func(in *Input) { at(in).Nodes = []string{"cp-1", "cp-2"} }},
			change{id + ": nowhere", func(in *Input) { r := at(in); r.Nodes, r.Active, r.Role = nil, false, "Stopped" }},
			change{id + ": nowhere, and failed and blocked", func(in *Input) {
				r := at(in)
				r.Nodes, r.Active, r.Role, r.Failed, r.Blocked = nil, false, "Stopped", true, true
			}},
			change{id + ": gone", func(in *Input) {
				r := *at(in)
				in.Cluster.Value.Resources = slices.DeleteFunc(in.Cluster.Value.Resources, func(o crmmon.Resource) bool { return reflect.DeepEqual(o, r) })
			}},
			change{id + ": on a node that is lost and not proven off", func(in *Input) { n := ofNode(in, on); n.Online, n.Unclean = false, true }},
		)
		for _, task := range []string{"monitor", "start", "stop"} {
			for _, failed := range []bool{false, true} {
				out = append(out, change{fmt.Sprintf("%s: %s failed, failed now %t", id, task, failed), func(in *Input) {
					r := at(in)
					r.Failed = failed
					in.Cluster.Value.Failures = append(in.Cluster.Value.Failures,
						crmmon.Failure{Node: on, Resource: r.ID, Task: task, Code: 1, Status: "complete", Words: "the older failure", When: moment.Add(-time.Hour)},
						crmmon.Failure{Node: on, Resource: r.ID, Task: task, Code: 1, Status: "complete", Words: "the newer failure", When: moment},
						crmmon.Failure{Node: "cp-9", Resource: r.ID, Task: task, Code: 1, Status: "complete", Words: "that of another node", When: moment.Add(time.Hour)})
					if failed && task == "stop" {
						r.Nodes, r.Active, r.Role = nil, false, "Stopped"
					}
				}})
			}
		}
	}
	return out
}

func ofTheRest() []change {
	out := flags("options", func(in *Input) *crmmon.Options { return &in.Cluster.Value.Options })
	for i, id := range []string{"kubelet-clone", "etcd-clone"} {
		clone := func(in *Input) *crmmon.Clone {
			at := slices.IndexFunc(in.Cluster.Value.Clones, func(c crmmon.Clone) bool { return c.ID == id })
			return &in.Cluster.Value.Clones[at]
		}
		of := []string{"kubelet", "etcd"}[i]
		for _, c := range flags(id, clone) {
			out = append(out, c, change{c.name + ", and it has no instance", func(in *Input) {
				c.make(in)
				in.Cluster.Value.Resources = slices.DeleteFunc(in.Cluster.Value.Resources, func(r crmmon.Resource) bool { return base(r.ID) == of })
			}})
		}
	}
	for _, task := range []string{"start", "monitor", "stop"} {
		for _, code := range []int{0, 1} {
			for _, on := range []string{"cp-1", "cp-2"} {
				out = append(out, change{fmt.Sprintf("device: the only result is %d of %s on %s", code, task, on), func(in *Input) {
					in.Cluster.Value.Operations = []crmmon.Operation{{Node: on, Resource: "cp-2_redfish", Task: task, Code: code, When: moment}}
				}})
			}
		}
	}
	return append(out,
		change{"options: no-quorum-policy is ignore", func(in *Input) { in.Cluster.Value.Options.NoQuorum = "ignore" }},
		change{"options: no-quorum-policy is not told", func(in *Input) { in.Cluster.Value.Options.NoQuorum = "" }},
		change{"corosync.conf: two_node is off", func(in *Input) { in.Corosync.Value.TwoNode = false }},
		change{"corosync.conf: it cannot be read", func(in *Input) { in.Corosync = state.Fact[corosync.Conf]{} }},
		change{"Pacemaker: it does not answer", func(in *Input) { in.Cluster, in.Trouble = state.Fact[crmmon.Cluster]{}, "it is not running" }},
		change{"neither can be read", func(in *Input) {
			in.Cluster, in.Corosync, in.Trouble = state.Fact[crmmon.Cluster]{}, state.Fact[corosync.Conf]{}, "it is not running"
		}},
		change{"quorum: none", func(in *Input) { in.Cluster.Value.Quorate = state.Known(false) }},
		change{"quorum: unknown", func(in *Input) { in.Cluster.Value.Quorate = state.Fact[bool]{} }},
		change{"settings: one was changed", func(in *Input) {
			in.Drift = state.Known([]twonode.Difference{{Words: "token is 1, not 1500", Ours: true}})
		}},
		change{"settings: no-quorum-policy is ignore, which the table shows already", func(in *Input) {
			in.Cluster.Value.Options.NoQuorum, in.Drift = "ignore", state.Known([]twonode.Difference{})
		}},
		change{"devices: one is listed twice, stopped and started", func(in *Input) {
			r := *instance("cp-2_redfish", "cp-1")(in)
			r.Nodes, r.Active, r.Role = nil, false, "Stopped"
			in.Cluster.Value.Resources = append(in.Cluster.Value.Resources, r)
		}},
		change{"etcd: one more instance, of no clone and nowhere", func(in *Input) {
			r := *instance("etcd", "cp-2")(in)
			r.Nodes, r.Active, r.Role, r.Clone = nil, false, "Stopped", ""
			in.Cluster.Value.Resources = append(in.Cluster.Value.Resources, r)
			instance("etcd", "cp-2")(in).Nodes = []string{"cp-1"}
		}},
		change{"settings: all as wanted", func(in *Input) { in.Drift = state.Known([]twonode.Difference{}) }},
		change{"devices: of ten, some sick", func(in *Input) {
			r := *instance("cp-2_redfish", "cp-1")(in)
			for i := range 10 {
				r.ID, r.Failed = fmt.Sprintf("cp-2_redfish%d", i), i%2 == 1
				in.Cluster.Value.Resources = append(in.Cluster.Value.Resources, r)
			}
		}},
		change{"devices: eight, none sick", func(in *Input) {
			r := *instance("cp-2_redfish", "cp-1")(in)
			for i := range 7 {
				r.ID = fmt.Sprintf("cp-2_redfish%d", i)
				in.Cluster.Value.Resources = append(in.Cluster.Value.Resources, r)
			}
		}},
		change{"devices: one with a long and odd name", func(in *Input) {
			instance("cp-2_redfish", "cp-1")(in).ID = "cp-2_" + strings.Repeat("ä b", 120)
		}},
		change{"devices: one has no name of a node", func(in *Input) { instance("cp-2_redfish", "cp-1")(in).ID = "redfish" }},
		change{"devices: one is banned from its target", func(in *Input) {
			instance("cp-2_redfish", "cp-1")(in).ID = "redfish"
			in.Cluster.Value.Bans = append(in.Cluster.Value.Bans, crmmon.Ban{Resource: "redfish", Node: "cp-2"})
		}},
		change{"devices: neither host can run the other's", func(in *Input) {
			for _, id := range []string{"cp-1_redfish", "cp-2_redfish"} {
				r := instance(id, "")(in)
				r.Nodes, r.Active, r.Role = nil, false, "Stopped"
			}
		}},
		change{"BMC: a test ran into something", func(in *Input) {
			in.Found = map[string]state.BMCProblem{"cp-2": {Words: "it answers 401", Repair: state.SetAccount}}
		}},
		change{"membership: Corosync has lost the other host", func(in *Input) {
			in.Membership = state.Known(state.Membership{Members: []string{"cp-1"}, Quorate: true})
		}},
		change{"membership: both", func(in *Input) {
			in.Membership = state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
		}},
		change{"no coordinator", func(in *Input) { in.Cluster.Value.Coordinator = "" }},
	)
}

// TestWhatEachFactOfAPairChangesIsTheApproved changes one thing that a host of a
// healthy pair sees, and lists the conditions that change with it.
func TestWhatEachFactOfAPairChangesIsTheApproved(t *testing.T) {
	usual := allOf(Status(input(t, "healthy")))
	for name, list := range map[string][]change{"nodes.txt": ofNodes(), "resources.txt": ofResources(), "rest.txt": ofTheRest()} {
		var out strings.Builder
		for _, c := range list {
			in := input(t, "healthy")
			c.make(&in)
			s := Status(in)
			acceptable(t, s)
			now := allOf(s)
			fmt.Fprintf(&out, "%s\n", c.name)
			for _, key := range slices.Sorted(maps.Keys(now)) {
				if now[key] != usual[key] {
					fmt.Fprintf(&out, "  %s is %.240s\n", key, now[key])
				}
			}
			for _, key := range slices.Sorted(maps.Keys(usual)) {
				if _, ok := now[key]; !ok {
					fmt.Fprintf(&out, "  %s is gone\n", key)
				}
			}
		}
		golden.Check(t, name, []byte(out.String()))
	}
}
