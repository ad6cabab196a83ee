package standing

import (
	"slices"
	"strings"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
)

// rule describes the finding for a condition that does not hold. In its texts,
// {host} is the node and {peer} the other one.
type rule struct {
	id           finding.ID
	condition    string // its type
	severity     finding.Severity
	problem      string
	meaning      string
	command, on  string
	page         string // empty for the page of the kind
	whileOffline bool   // the finding matters even if the node is offline
}

const oneHost = "a control plane"

// ofCluster holds the rules for the cluster's conditions, the most important
// first.
var ofCluster = []rule{
	{
		id: FencingDisabled, condition: pacemakerstatus.FencingEnabled, severity: finding.Critical, problem: "fencing is disabled",
		meaning: "A lost host would not be fenced, and the other one would stop and wait for an administrator.", command: "sudo pcs property set stonith-enabled=true", on: oneHost,
	},
	{
		id: SettingsChanged, condition: pacemakerstatus.SettingsAsExpected, severity: finding.Critical, problem: "a setting that is needed for safety was changed",
		meaning: "The message names the setting and what may follow.", command: "sudo pcs property config", on: oneHost,
	},
	{
		id: NoQuorum, condition: pacemakerstatus.Quorate, severity: finding.Critical, problem: "Pacemaker has no quorum",
		meaning: "This part of the cluster runs nothing. Bring the other host back; only if that is impossible, let this one go on.", command: "sudo holdfast quorum confirm --dry-run", on: oneHost,
	},
	{
		id: ClusterInMaintenance, condition: etcdv1.ClusterInServiceConditionType, severity: finding.Warning, problem: "Pacemaker is in maintenance",
		meaning: "It starts, monitors and recovers nothing: a host that boots now has no etcd and no kubelet until somebody ends the maintenance.", command: "sudo pcs property set maintenance-mode=false", on: oneHost,
	},
	{
		id: NodeCountMismatch, condition: etcdv1.ClusterNodeCountAsExpectedConditionType, severity: finding.Warning, problem: "there are not two nodes",
		meaning: "A replacement was not finished, or a node was added.", command: "sudo pcs status", on: oneHost,
	},
}

// ofNode holds the rules for a node's conditions.
var ofNode = []rule{
	{
		id: NodeNotProvenOff, condition: etcdv1.NodeCleanConditionType, severity: finding.Critical, problem: "{host} is not proven off", whileOffline: true,
		meaning: "Until then, its workload is not recovered. If you are sure that it is off, confirm it.", command: "sudo holdfast quorum confirm --dry-run", on: "{peer}",
	},
	{
		id: NodeOffline, condition: etcdv1.NodeOnlineConditionType, severity: finding.Warning, problem: "{host} is absent", whileOffline: true,
		meaning: "{peer} works alone: its loss stops the cluster. Switch {host} on; the rest happens by itself.", command: "sudo holdfast fencing verify", on: "{peer}",
	},
	{
		id: NodeInMaintenance, condition: etcdv1.NodeInServiceConditionType, severity: finding.Warning, problem: "{host} is in maintenance",
		meaning: "Pacemaker does not touch it, starts and recovers nothing there, also after a boot, and fences no host for etcd.", command: "sudo pcs node unmaintenance {host}", on: oneHost,
	},
	{
		id: NodeInStandby, condition: etcdv1.NodeActiveConditionType, severity: finding.Warning, problem: "{host} is in standby",
		meaning: "Nothing runs there.", command: "sudo pcs node unstandby {host}", on: oneHost,
	},
	{
		id: NodeJoining, condition: etcdv1.NodeReadyConditionType, severity: finding.Note, problem: "{host} is joining or leaving",
		meaning: "This takes seconds and ends by itself.", command: "sudo pcs status", on: oneHost,
	},
	{
		id: NodeNoMember, condition: etcdv1.NodeMemberConditionType, severity: finding.Warning, problem: "{host} is not a full member",
		meaning: "It does not count for quorum.", command: "sudo pcs status", on: oneHost,
	},
	{
		id: FencingUnavailable, condition: etcdv1.NodeFencingAvailableConditionType, severity: finding.Critical, problem: "{host} cannot be fenced",
		meaning: "If it is lost now, {peer} stops and waits for an administrator. After a password change: holdfast fencing rotate; after a certificate renewal: holdfast fencing pin.", command: "sudo holdfast fencing verify", on: "{peer}",
	},
	{
		id: FencingDegraded, condition: etcdv1.NodeFencingHealthyConditionType, severity: finding.Warning, problem: "not every way to switch {host} off works",
		meaning: "At least one other way works.", command: "sudo holdfast fencing verify", on: "{peer}",
	},
	{
		id: FencingNotVerified, condition: pacemakerstatus.FencingProven, severity: finding.Warning, problem: "it is not verified that {host} can be fenced",
		meaning: "It is unknown whether {peer} reaches the BMC of {host}. The test changes nothing.", command: "sudo holdfast fencing verify", on: "{peer}",
	},
	{
		id: LastFenceFailed, condition: pacemakerstatus.LastFenceSucceeded, severity: finding.Warning, problem: "the last fence of {host} did not succeed", whileOffline: true,
		meaning: "The message is the fence agent's.", command: "sudo holdfast fencing verify", on: "{peer}",
	},
}

// ofResource is the rule for kubelet and etcd on a node; {resource} is the
// resource's name.
var ofResource = rule{
	id: ResourceNotWell, condition: etcdv1.ResourceHealthyConditionType, severity: finding.Warning, problem: "{resource} on {host} is unhealthy",
	meaning: "Pacemaker restarts it if it may; failed actions stay listed until they are cleaned up.", command: "sudo holdfast explain", on: "{host}",
}

// ofReport finds the conditions of Pacemaker that do not hold.
func (d describer) ofReport() []finding.Finding {
	if d.size() != 2 || !d.reported() {
		return nil
	}
	var out []finding.Finding
	for _, r := range ofCluster {
		if r.condition == pacemakerstatus.Quorate && d.asked() {
			continue // that host's own finding says more
		}
		out = append(out, r.finding(pacemakerstatus.Find(d.Pacemaker.Value.Conditions, r.condition), "", d)...)
	}
	if len(d.nodes()) == 0 {
		out = append(out, finding.Finding{
			ID: PacemakerWithoutNodes, Severity: finding.Critical, Problem: "Pacemaker reports no nodes", Meaning: "Pacemaker is not running, or its configuration is gone.",
			Commands: finding.On("both hosts", "systemctl status pacemaker corosync"),
		})
	}
	out = append(out, d.resyncing()...)
	out = append(out, d.strangers()...)
	for i := range d.nodes() {
		out = append(out, d.ofReportedNode(&d.nodes()[i])...)
	}
	return out
}

// resyncing finds a host that is back and still catches up.
func (d describer) resyncing() []finding.Finding {
	c := d.redundant()
	if c.Status != metav1.ConditionFalse || c.Reason != pacemakerstatus.ReasonResyncing {
		return nil
	}
	return []finding.Finding{{
		ID: Resyncing, Variant: c.Message, Severity: finding.Warning, Problem: "the two hosts are resynchronizing: " + c.Message,
		Meaning:  "This ends by itself once the data are copied. Do not switch the other host off.",
		Commands: finding.Anywhere("holdfast status --watch"),
	}}
}

// strangers returns the finding about members of etcd that belong to no host.
func (d describer) strangers() []finding.Finding {
	c := d.redundant()
	if c.Status != metav1.ConditionFalse || c.Reason != pacemakerstatus.ReasonStranger {
		return nil
	}
	words, command := pacemakerstatus.Hinted(c.Message)
	return []finding.Finding{{
		ID: EtcdStranger, Variant: words, Severity: finding.Critical, Problem: words,
		Meaning:  "Somebody added it. A voter counts for the quorum: when the next host is lost, nothing takes over. Remove it while both hosts live, unless you know whose it is.",
		Commands: finding.On(oneHost, "sudo "+command),
	}}
}

// listedStrangers returns the same finding where each etcd was asked. All etcds list the
// same members, so the first one that lists a stranger counts. A member that never started
// may belong to a control plane that is just being installed.
func (d describer) listedStrangers() []finding.Finding {
	for _, h := range d.controlPlanes() {
		if !h.Member.Known || h.Member.Value.Strangers == "" {
			continue
		}
		words := "etcd lists " + h.Member.Value.Strangers + ", which belongs to no control plane"
		return []finding.Finding{{
			ID: EtcdStranger, Variant: words, Severity: finding.Warning, Problem: words,
			Meaning:  "A voter counts for the quorum, and this one helps with none. If no host is just joining, remove it while the others live.",
			Commands: finding.On(h.Name, "sudo "+etcdmember.RemoveCommand(h.Member.Value.Stranger)),
		}}
	}
	return nil
}

func (d describer) ofReportedNode(n *etcdv1.PacemakerClusterNodeStatus) []finding.Finding {
	var out []finding.Finding
	offline := pacemakerstatus.Find(n.Conditions, etcdv1.NodeOnlineConditionType).Status == metav1.ConditionFalse
	said := map[string]bool{}
	for _, r := range ofNode {
		if offline && !r.whileOffline || d.follows(n.NodeName, r.condition, said) {
			continue
		}
		found := r.finding(pacemakerstatus.Find(n.Conditions, r.condition), n.NodeName, d)
		said[r.condition] = len(found) > 0
		out = append(out, found...)
	}
	if offline || d.maintenance() {
		return out // missing or unmanaged resources follow from it
	}
	for _, s := range n.Resources {
		r := ofResource
		r.problem = strings.ReplaceAll(r.problem, "{resource}", strings.ToLower(string(s.Name)))
		r.page = "docs/runbook/twonode-" + strings.ToLower(string(s.Name)) + ".md"
		out = append(out, r.finding(pacemakerstatus.Find(s.Conditions, r.condition), n.NodeName, d)...)
	}
	return out
}

// follows reports whether a condition only repeats another finding. A failed
// last fence repeats that the host is not proven off. A host that cannot be
// fenced is not proven to be fenceable either. Nobody can fence the last host
// that is present, and maintenance is a finding of its own.
func (d describer) follows(host, kind string, said map[string]bool) bool {
	switch kind {
	case pacemakerstatus.LastFenceSucceeded:
		return said[etcdv1.NodeCleanConditionType]
	case etcdv1.NodeFencingHealthyConditionType, pacemakerstatus.FencingProven, etcdv1.NodeFencingAvailableConditionType:
		return said[etcdv1.NodeFencingAvailableConditionType] || d.maintenance() || d.offline(d.peer(host)) != nil ||
			kind == pacemakerstatus.FencingProven && said[etcdv1.NodeFencingHealthyConditionType]
	}
	return false
}

// widens reports whether a host is one of three voters, by its record: a plan by which a third control
// plane comes or goes keeps Pacemaker in maintenance then (docs/adr/0097, docs/adr/0102).
func (d describer) widens() bool {
	return slices.ContainsFunc(d.Hosts, func(h Host) bool { return h.Record.Known && h.Record.Value.State == state.EtcdMajority })
}

// maintenance reports whether Pacemaker is in maintenance and manages nothing.
func (d describer) maintenance() bool {
	return pacemakerstatus.Find(d.Pacemaker.Value.Conditions, etcdv1.ClusterInServiceConditionType).Status == metav1.ConditionFalse
}

func nodeConditions(n *etcdv1.PacemakerClusterNodeStatus) []metav1.Condition {
	if n == nil {
		return nil
	}
	return n.Conditions
}

// finding returns the finding for a condition that does not hold. An unknown
// condition is a finding only for FencingProven, which must be known for a loss
// to be survived.
func (r rule) finding(c metav1.Condition, host string, d describer) []finding.Finding {
	unproven := r.condition == pacemakerstatus.FencingProven && c.Status == metav1.ConditionUnknown
	if c.Status != metav1.ConditionFalse && !unproven {
		return nil
	}
	if r.id == ClusterInMaintenance && d.widens() {
		r.meaning, r.command = "Raft's majority of three decides. Leave it so: the plan goes on.", "sudo "+pacemakerstatus.WidensCommand
	}
	fill := strings.NewReplacer("{host}", host, "{peer}", d.peer(host))
	problem := fill.Replace(r.problem)
	if c.Message != "" {
		problem += ": " + pacemakerstatus.WithoutHint(c.Message, strings.TrimPrefix(fill.Replace(r.command), "sudo "))
	}
	f := finding.Finding{ID: r.id, Subject: host, Variant: r.variant(c), Severity: r.severity, Problem: problem, Meaning: fill.Replace(r.meaning), Commands: finding.On(fill.Replace(r.on), fill.Replace(r.command)), Page: r.page}
	if command, ok := mends[d.condition(host, pacemakerstatus.FencingProven).Reason]; ok && pageOf(r.id) == pageFencing {
		f.Commands = finding.On(fill.Replace(r.on), fill.Replace(command))
	}
	return []finding.Finding{f}
}

// variant returns what tells two findings of the rule for one node apart. The message
// about a fence holds its time, so the reason counts there.
func (r rule) variant(c metav1.Condition) string {
	if r.condition == pacemakerstatus.LastFenceSucceeded || r.condition == etcdv1.NodeCleanConditionType {
		return c.Reason
	}
	return r.problem + ": " + c.Message
}

// mends maps the reason for which a host is not proven to be fenceable to the
// command that repairs the way to its BMC.
var mends = map[string]string{
	pacemakerstatus.ReasonUntrusted:      "sudo holdfast fencing pin {host}",
	pacemakerstatus.ReasonAccountRefused: "sudo holdfast fencing rotate {host}",
	pacemakerstatus.ReasonLegacyTLS:      "sudo holdfast fencing rotate {host} --tls Legacy",
}
