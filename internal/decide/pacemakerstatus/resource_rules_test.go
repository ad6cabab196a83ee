package pacemakerstatus

import (
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// etcdOn is an instance of etcd's clone, without faults.
func etcdOn(nodes ...string) crmmon.Resource {
	r := crmmon.Resource{ID: "etcd", Agent: twonode.EtcdAgent, Clone: twonode.EtcdClone, Role: "Started", Active: true, Managed: true, Nodes: nodes}
	if len(nodes) == 0 {
		r.Role, r.Active = "Stopped", false
	}
	return r
}

// TestWhatIsWrongWithEtcdOnAHost has what the condition Healthy of etcd on cp-1 says.
func TestWhatIsWrongWithEtcdOnAHost(t *testing.T) {
	failed := func(node, resource, words string, ago time.Duration) crmmon.Failure {
		return crmmon.Failure{Node: node, Resource: resource, Task: "start", Words: words, When: moment.Add(-ago)}
	}
	with := func(list ...crmmon.Resource) func(*crmmon.Cluster) {
		return func(c *crmmon.Cluster) { c.Resources = list }
	}
	but := func(r crmmon.Resource, change func(*crmmon.Resource)) crmmon.Resource { change(&r); return r }
	const elsewhere = "Inactive (it does not run on cp-1); Stopped"
	for rule, c := range map[string]struct {
		change func(*crmmon.Cluster)
		want   string
	}{
		"it runs":                            {with(etcdOn("cp-1"), etcdOn("cp-2")), ""},
		"it runs on the other host alone":    {with(etcdOn("cp-2"), etcdOn()), elsewhere},
		"the agent of a distribution counts": {with(but(etcdOn("cp-1"), func(r *crmmon.Resource) { r.Agent = "ocf:heartbeat:podman-etcd" })), ""},
		"another agent does not, whatever its id": {
			with(but(etcdOn("cp-1"), func(r *crmmon.Resource) { r.Agent = "ocf:heartbeat:Dummy" })),
			"Unmanaged (it is not configured); Inactive; Stopped; Unschedulable",
		},
		"it is not configured":                 {func(*crmmon.Cluster) {}, "Unmanaged (it is not configured); Inactive; Stopped; Unschedulable"},
		"its clone is there without instances": {func(c *crmmon.Cluster) { c.Clones = []crmmon.Clone{{ID: twonode.EtcdClone, Managed: true}} }, "Inactive (it runs nowhere); Stopped"},
		"so it is, disabled": {func(c *crmmon.Cluster) {
			c.Clones = []crmmon.Clone{{ID: twonode.EtcdClone, Managed: true, Disabled: true}}
		}, "Disabled (it is disabled (pcs resource enable etcd-clone)); Inactive (it runs nowhere); Stopped"},
		"another clone without instances is not its": {
			func(c *crmmon.Cluster) { c.Clones = []crmmon.Clone{{ID: "kubelet-clone", Managed: true}} },
			"Unmanaged (it is not configured); Inactive; Stopped; Unschedulable",
		},
		"the other host's instance is disabled, as the clone is": {with(but(etcdOn("cp-2"), func(r *crmmon.Resource) { r.Target = "stopped" })), "Disabled (it is disabled (pcs resource enable etcd)); " + elsewhere},
		"the other host's instance of no clone says nothing":     {with(but(etcdOn("cp-2"), func(r *crmmon.Resource) { r.Target, r.Clone = "Stopped", "" })), elsewhere},
		"the other host's instance is blocked, not this one":     {with(but(etcdOn("cp-2"), func(r *crmmon.Resource) { r.Blocked = true })), elsewhere},
		"an instance that is nowhere is blocked":                 {with(but(etcdOn(), func(r *crmmon.Resource) { r.Blocked = true })), elsewhere + "; Unschedulable (Pacemaker does nothing more about it)"},
		"it could not start here": {func(c *crmmon.Cluster) {
			c.Resources, c.Failures = []crmmon.Resource{etcdOn()}, []crmmon.Failure{failed("cp-1", "etcd", "no space", 0)}
		}, "Failed (it failed: start on cp-1: no space); " + elsewhere},
		"the last failure is named, whatever the order": {func(c *crmmon.Cluster) {
			c.Resources, c.Failures = []crmmon.Resource{etcdOn()}, []crmmon.Failure{failed("cp-1", "etcd", "the last", 0), failed("cp-1", "etcd", "before", time.Hour)}
		}, "Failed (it failed: start on cp-1: the last); " + elsewhere},
		"of two at one time, the one that is listed last": {func(c *crmmon.Cluster) {
			c.Resources, c.Failures = []crmmon.Resource{etcdOn()}, []crmmon.Failure{failed("cp-1", "etcd", "before", 0), failed("cp-1", "etcd", "the last", 0)}
		}, "Failed (it failed: start on cp-1: the last); " + elsewhere},
		"that of another resource or host is not its": {func(c *crmmon.Cluster) {
			c.Resources, c.Failures = []crmmon.Resource{etcdOn()}, []crmmon.Failure{failed("cp-1", "kubelet", "x", 0), failed("cp-2", "etcd", "x", 0)}
		}, elsewhere},
		"instances of a clone are one resource": {func(c *crmmon.Cluster) {
			c.Resources, c.Failures = []crmmon.Resource{but(etcdOn(), func(r *crmmon.Resource) { r.ID = "etcd:1" })}, []crmmon.Failure{failed("cp-1", "etcd:0", "no space", 0)}
		}, "Failed (it failed: start on cp-1: no space); " + elsewhere},
		"of two instances with one fault, the first is told":  {with(but(etcdOn("cp-1"), func(r *crmmon.Resource) { r.Role = "Starting" }), but(etcdOn("cp-1"), func(r *crmmon.Resource) { r.Role = "Stopping" })), "Stopped (its role is Starting)"},
		"what runs on a host in maintenance is not looked at": {func(c *crmmon.Cluster) { c.Resources, c.Nodes[0].Maintenance = []crmmon.Resource{etcdOn("cp-1")}, true }, "InMaintenance (cp-1 is in maintenance)"},
		"the maintenance of all comes before that of one": {func(c *crmmon.Cluster) {
			c.Resources, c.Nodes[0].Maintenance, c.Options.Maintenance = []crmmon.Resource{etcdOn("cp-1")}, true, true
		}, "InMaintenance (maintenance-mode is true)"},
		"it was seen stopped on a host that is lost: that is known": {func(c *crmmon.Cluster) {
			c.Resources, c.Nodes[0].Online, c.Nodes[0].Unclean = []crmmon.Resource{but(etcdOn("cp-1"), func(r *crmmon.Resource) { r.Role = "Stopped" })}, false, true
		}, "Active is unknown (cp-1 is lost and not proven off); Stopped (its role is Stopped)"},
	} {
		v := sees(c.change, "cp-1", "cp-2")
		if got := Find(v.resource("cp-1", etcd).Conditions, etcdv1.ResourceHealthyConditionType); got.Message != c.want || (got.Status == yes) != (c.want == "") {
			t.Errorf("%s:\n got %q\nwant %q", rule, got.Message, c.want)
		}
	}
}

func TestTheIDOfAResourceWithoutTheNumberOfItsInstance(t *testing.T) {
	for id, want := range map[string]string{"etcd": "etcd", "etcd:0": "etcd", "etcd:12": "etcd", "etcd:x": "etcd:x", "a:1b": "a:1b", "etcd:": "etcd"} {
		if got := base(id); got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func TestAnAddressOfANodeIsGlobalAndThereAreEightAtMost(t *testing.T) {
	var many []string
	for i := range 9 {
		many = append(many, "10.0.0."+string(rune('1'+i)))
	}
	for what, c := range map[string]struct {
		said []string
		want string
	}{
		"a name, which only that host could look up": {[]string{"cp-1.example", "10.0.0.1"}, "10.0.0.1"},
		"no text at all":       {[]string{"", "10.0.0.1"}, "10.0.0.1"},
		"one in brackets":      {[]string{"[fd00::1]"}, "fd00::1"},
		"nine, of which eight": {many, strings.Join(many[:8], " ")},
	} {
		v := view{Input: Input{Corosync: state.Known(corosync.Conf{Nodes: []corosync.Node{{Name: "cp-1", Addresses: c.said}, {Name: "cp-2", Addresses: []string{"10.0.0.99"}}}})}}
		var got []string
		for _, a := range v.addresses("cp-1") {
			got = append(got, a.Address)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestOnlyAMemberThatCorosyncKnowsIsOne: a remote node needs no Corosync.
func TestOnlyAMemberThatCorosyncKnowsIsOne(t *testing.T) {
	in := input(t, "healthy")
	in.Membership = state.Known(state.Membership{Members: []string{"cp-1"}, Quorate: true})
	for kind, status := range map[string]string{"member": "False", "remote": "True"} {
		ofNode(&in, "cp-2").Kind = kind
		if got := Find(node(t, in, "cp-2").Conditions, etcdv1.NodeOnlineConditionType); string(got.Status) != status {
			t.Errorf("%s, of which Corosync says nothing: %+v", kind, got)
		}
	}
	in = input(t, "healthy")
	for known, status := range map[bool]string{true: "False", false: "True"} {
		in.Corosync.Known, in.Corosync.Value.Nodes = known, in.Corosync.Value.Nodes[:1]
		in.Addresses = map[string][]string{"cp-2": {"10.98.0.12"}}
		if got := Find(node(t, in, "cp-2").Conditions, etcdv1.NodeMemberConditionType); string(got.Status) != status {
			t.Errorf("corosync.conf without it is known to be so: %t: %+v", known, got)
		}
	}
}

// TestWhatIsRecalledOfAReading: what ran stays where its host stayed, its record is
// missing, and it is still configured.
func TestWhatIsRecalledOfAReading(t *testing.T) {
	last := sees(func(c *crmmon.Cluster) {
		c.Resources = []crmmon.Resource{etcdOn("cp-1"), fencer("cp-2_redfish", "cp-1")}
		c.Operations = []crmmon.Operation{{Node: "cp-1", Resource: "etcd", Task: "start"}, {Node: "cp-1", Resource: "cp-2_redfish", Task: "start"}, {Node: "cp-2", Resource: "etcd", Task: "stop"}}
	}, "cp-1", "cp-2").Input
	with := func(list ...crmmon.Resource) func(*crmmon.Cluster) {
		return func(c *crmmon.Cluster) { c.Resources = list }
	}
	orphan := etcdOn()
	orphan.Orphaned, orphan.Clone = true, ""
	for rule, c := range map[string]struct {
		change    func(*crmmon.Cluster)
		resources string // each with where it is
		recalled  int    // operations
	}{
		"listed as stopped: it runs, and is listed once": {with(fencer("cp-2_redfish"), etcdOn()), "cp-2_redfish@cp-1 etcd@cp-1", 2},
		"another one that is stopped stays":              {with(fencer("other"), etcdOn()), "etcd@cp-1 other@", 1},
		"not listed, but its clone is configured":        {func(c *crmmon.Cluster) { c.Clones = []crmmon.Clone{{ID: twonode.EtcdClone}} }, "etcd@cp-1", 1},
		"not configured any more: nothing":               {func(*crmmon.Cluster) {}, "", 0},
		"configured no more, and left over: nothing":     {with(orphan), "etcd@", 0},
		"it runs there: nothing is recalled":             {with(etcdOn("cp-1"), fencer("cp-2_redfish", "cp-1")), "cp-2_redfish@cp-1 etcd@cp-1", 0},
		"it runs elsewhere, which says nothing of here":  {with(fencer("cp-2_redfish", "cp-3")), "cp-2_redfish@cp-1 cp-2_redfish@cp-3", 1},
		"it was stopped there: nothing is recalled": {func(c *crmmon.Cluster) {
			c.Resources, c.Operations = []crmmon.Resource{etcdOn()}, []crmmon.Operation{{Node: "cp-1", Resource: "etcd:0", Task: "stop"}}
		}, "etcd@", 0},
		"another resource was stopped there": {func(c *crmmon.Cluster) {
			c.Resources, c.Operations = []crmmon.Resource{etcdOn()}, []crmmon.Operation{{Node: "cp-1", Resource: "kubelet", Task: "stop"}}
		}, "etcd@cp-1", 1},
		"its host left": {func(c *crmmon.Cluster) { c.Resources, c.Nodes[0].Online = []crmmon.Resource{etcdOn()}, false }, "etcd@", 0},
	} {
		now := sees(c.change, "cp-1", "cp-2").Input
		out, told := now.Recalled(last)
		var got []string
		for _, r := range out.Cluster.Value.Resources {
			got = append(got, r.ID+"@"+strings.Join(r.Nodes, "+"))
		}
		slices.Sort(got)
		recalled := len(out.Cluster.Value.Operations) - len(now.Cluster.Value.Operations)
		if s := strings.Join(got, " "); s != c.resources || recalled != c.recalled || told != (c.recalled > 0) {
			t.Errorf("%s: %s, %d operations, told %t", rule, s, recalled, told)
		}
	}
}
