package pacemakerstatus

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// TestThatPacemakerLooksAnewIsNoChange replays the lab: when a lost host had
// joined, everything on the survivor was reported as stopped, with sixteen events.
// "lab-refreshed" was recorded between the two steps of an administrator's refresh,
// which are the same two.
func TestThatPacemakerLooksAnewIsNoChange(t *testing.T) {
	edit := func(name string, change func(n *crmmon.Node)) func(now, last *Input) {
		return func(now, _ *Input) {
			for i := range now.Cluster.Value.Nodes {
				if n := &now.Cluster.Value.Nodes[i]; n.Name == name {
					change(n)
				}
			}
		}
	}
	has := func(o crmmon.Operation) func(now, last *Input) {
		return func(now, _ *Input) { now.Cluster.Value.Operations = append(now.Cluster.Value.Operations, o) }
	}
	without := func(id string) func(now, last *Input) {
		return func(now, _ *Input) {
			c := &now.Cluster.Value
			c.Resources = slices.DeleteFunc(slices.Clone(c.Resources), func(r crmmon.Resource) bool { return r.ID == id })
			c.Clones = slices.DeleteFunc(slices.Clone(c.Clones), func(o crmmon.Clone) bool { return strings.HasPrefix(o.ID, id) })
		}
	}
	const all = "cp-1: kubelet etcd cp-2_redfish; cp-2: kubelet etcd cp-1_redfish"
	for _, c := range []struct {
		what   string
		change func(now, last *Input)
		want   string
	}{
		{"all that stands", func(_, _ *Input) {}, all},
		{"a host that is lost", edit("cp-2", func(n *crmmon.Node) { n.Online = false }), "cp-1: kubelet etcd cp-2_redfish; cp-2:"},
		{"a host that joins", edit("cp-2", func(n *crmmon.Node) { n.Pending = true }), "cp-1: kubelet etcd cp-2_redfish; cp-2:"},
		{"a host that leaves", edit("cp-1", func(n *crmmon.Node) { n.Shutdown = true }), "cp-1:; cp-2: kubelet etcd cp-1_redfish"},
		{"a host that was lost at the last look", func(_, last *Input) { *last = input(t, "lost-fenced") }, "cp-1: kubelet etcd cp-2_redfish; cp-2:"},
		{"what was stopped", has(crmmon.Operation{Node: "cp-1", Resource: "etcd", Task: "stop"}), "cp-1: kubelet cp-2_redfish; cp-2: kubelet etcd cp-1_redfish"},
		{"what was looked at", has(crmmon.Operation{Node: "cp-2", Resource: "kubelet:1", Task: "probe", Code: 7}), "cp-1: kubelet etcd cp-2_redfish; cp-2: etcd cp-1_redfish"},
		{"what is configured no more", without("kubelet"), "cp-1: etcd cp-2_redfish; cp-2: etcd cp-1_redfish"},
		{"no resource of a clone", func(now, _ *Input) {
			c := &now.Cluster.Value
			c.Resources = slices.DeleteFunc(slices.Clone(c.Resources), func(r crmmon.Resource) bool { return r.Clone != "" })
		}, all},
		{"no answer of Pacemaker", func(now, _ *Input) { *now = Input{Host: "cp-1", Trouble: "crm_mon took too long"} }, ""},
		{"nothing known before", func(_, last *Input) { *last = Input{Host: "cp-1"} }, "cp-1:; cp-2:"},
	} {
		now, last := input(t, "lab-refreshed"), input(t, "healthy")
		c.change(&now, &last)
		before := len(now.Cluster.Value.Resources)
		out, told := now.Recalled(last)
		if got := whatRuns(out); got != c.want || told != strings.Contains(got, "redfish") {
			t.Errorf("%s: %q %v, not %q", c.what, got, told, c.want)
		}
		if len(now.Cluster.Value.Resources) != before {
			t.Errorf("%s: it changed what was seen", c.what)
		}
	}
	now, last := input(t, "lab-refreshed"), input(t, "healthy")
	out, _ := now.Recalled(last)
	last.Cluster.Value.Fences, out.Cluster.Value.Fences = nil, nil // from another day
	if !Same(Status(out), Status(last)) {
		t.Errorf("%s\nis not\n%s", JSON(Status(out)), JSON(Status(last)))
	}
	if again, told := last.Recalled(last); told || !Same(Status(again), Status(last)) {
		t.Error("what is recorded is not recalled")
	}
}

// whatRuns lists what runs on each host, in one line.
func whatRuns(in Input) string {
	var hosts []string
	for _, n := range in.Cluster.Value.Nodes {
		line := n.Name + ":"
		for _, id := range []string{"kubelet", "etcd", "cp-1_redfish", "cp-2_redfish"} {
			for _, r := range in.Cluster.Value.Resources {
				if r.ID == id && slices.Contains(r.Nodes, n.Name) {
					line += " " + id
				}
			}
		}
		hosts = append(hosts, line)
	}
	return strings.Join(hosts, "; ")
}
