package pacemakerstatus

import (
	"slices"
	"strings"

	etcdv1 "github.com/openshift/api/etcd/v1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/metric"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	clusterCondition  = metric.Describe("pacemaker_cluster_condition", "Conditions of the cluster as this host sees them: 1 true, 0 false, -1 unknown.", "condition")
	clusterSince      = metric.Describe("pacemaker_cluster_condition_since_timestamp_seconds", "Since when a condition of the cluster has its value.", "condition")
	nodeCondition     = metric.Describe("pacemaker_node_condition", "Conditions of a host as this host sees them: 1 true, 0 false, -1 unknown.", "host", "condition")
	resourceCondition = metric.Describe("pacemaker_resource_condition", "Conditions of a resource on a host: 1 true, 0 false, -1 unknown.", "host", "resource", "condition")
	agentCondition    = metric.Describe("pacemaker_fence_agent_condition", "Conditions of a fence agent, by the host that it switches: 1 true, 0 false, -1 unknown.", "host", "agent", "condition")
	survives          = metric.Describe("survives_loss", "1 if the cluster continues by itself when this host is lost now, as far as the reporting host knows.", "host")
	looked            = metric.Describe("pacemaker_looked_timestamp_seconds", "When this host last read Pacemaker's status.")
	writes            = metric.Describe("pacemaker_status_writer", "1 on the host that writes the status in the API.")
	published         = metric.Describe("pacemaker_status_published_timestamp_seconds", "When the API last accepted the status from this host; absent if it never did.")
	recordState       = metric.Describe("etcd_record", "1 for the state of this host's record of the two-node protocol.", "state")
	recordWritten     = metric.Describe("etcd_record_written_timestamp_seconds", "When this host's record was last written.")
	step              = metric.Describe("etcd_step", "1 for the next step of this host's etcd keeper; ask-human waits for an administrator.", "action")
	members           = metric.Describe("etcd_members", "Members of etcd as this host's own one knows them.", "kind")
	leader            = metric.Describe("etcd_has_leader", "1 while the etcd of this host runs and knows a leader.")
	stalled           = metric.Describe("etcd_stalled_seconds", "How long nothing could be committed through the etcd of this host, 0 while commits succeed; absent while it does not run.")
	down              = metric.Describe("etcd_down_seconds", "How long etcd has been down while it should run.")
	takeOvers         = metric.Describe("etcd_take_overs_total", "How often this host went on without its peer.")
	takeOverSeconds   = metric.Describe("etcd_take_over_last_seconds", "How long the last take-over by this host took, from the loss of its peer until this host was the only voter.")
	aloneSeconds      = metric.Describe("etcd_alone_last_seconds", "How long this host was alone at the last take-over, until there were two voters again.")
	takeOverTime      = metric.Describe("etcd_take_over_last_timestamp_seconds", "When this host last became the only voter.")
	standInSeconds    = metric.Describe("etcd_stand_in_last_seconds", "Time from the start of the last stand-in in this boot until each step of its vote was done; writes work from committing on.", "step")
	peerLost          = metric.Describe("peer_lost_timestamp_seconds", "Since when Corosync does not see the peer; absent while it does.")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range slices.Concat([]*prometheus.Desc{
		clusterCondition, clusterSince, nodeCondition, resourceCondition, agentCondition, survives, looked, writes, published,
		recordState, recordWritten, step, members, leader, stalled, down, takeOvers, takeOverSeconds, aloneSeconds, takeOverTime,
		standInSeconds, peerLost,
	}, aboutFences, aboutFailover) {
		out <- d
	}
}

// Collect implements prometheus.Collector. A host that is not one of two, or has
// not looked yet, gives no metrics.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	out := metric.Send(to)
	r, in := c.seen()
	if r.At.IsZero() || in.Host == "" {
		return
	}
	out.Gauge(looked, metric.Seconds(r.At))
	out.Gauge(writes, metric.Bool(r.Writes))
	out.Time(published, r.Published)
	collectStatus(out, r.Status, in.Blind())
	if in.Etcd.Known {
		collectEtcd(out, in.Etcd.Value)
	}
	collectTakeOver(out, r)
	for name, ms := range c.standIn() {
		out.Gauge(standInSeconds, ms/1000, name)
	}
	collectFences(out)
	if r.Writes {
		c.collectFailover(out)
	}
}

// collectStatus exports facts about hosts only from a host that is part of the
// cluster: a blind one would raise alerts about a healthy peer.
func collectStatus(out metric.Send, s etcdv1.PacemakerClusterStatus, blind bool) {
	all(out, clusterCondition, s.Conditions)
	for _, c := range s.Conditions {
		out.Time(clusterSince, c.LastTransitionTime.Time, c.Type)
	}
	if blind {
		return
	}
	for _, s := range decide.Survives(s) {
		out.Gauge(survives, metric.Bool(s.Survives), s.Host)
	}
	if s.Nodes == nil {
		return
	}
	for _, n := range *s.Nodes {
		all(out, nodeCondition, n.Conditions, n.NodeName)
		for _, r := range n.Resources {
			all(out, resourceCondition, r.Conditions, n.NodeName, strings.ToLower(string(r.Name)))
		}
		for _, a := range n.FencingAgents {
			all(out, agentCondition, a.Conditions, n.NodeName, a.Name)
		}
	}
}

func all(out metric.Send, d *prometheus.Desc, list []metav1.Condition, labels ...string) {
	for _, c := range list {
		out.Gauge(d, metric.Condition(c.Status), append(slices.Clip(labels), c.Type)...)
	}
}

// collectEtcd exports what the etcd keeper on this host reports.
func collectEtcd(out metric.Send, r state.EtcdReport) {
	local := r.Snapshot.Local
	if r.Verdict.Action != "" {
		out.Gauge(step, 1, string(r.Verdict.Action))
	}
	out.Gauge(down, r.Down.Seconds())
	if local.Running.Known {
		out.Gauge(leader, metric.Bool(local.Running.Value && local.Leader.Value != 0))
	}
	// A query that takes the least over the hosts must find neither a zero nor a
	// constant time on one whose etcd is stopped.
	if state.Is(local.Running, true) {
		out.Gauge(stalled, local.Stalled.Seconds())
	}
	if local.Members.Known {
		learners := 0
		for _, m := range local.Members.Value {
			if m.Learner {
				learners++
			}
		}
		out.Gauge(members, float64(len(local.Members.Value)-learners), "voter")
		out.Gauge(members, float64(learners), "learner")
	}
	if record := r.Snapshot.Record; record.Known {
		out.Gauge(recordState, 1, string(record.Value.State))
		out.Time(recordWritten, record.Value.Written)
		out.Counter(takeOvers, float64(record.Value.TakeOver.Counter))
	}
}

func collectTakeOver(out metric.Send, r decide.Report) {
	out.Time(peerLost, r.Lost)
	out.Time(takeOverTime, r.TakeOver.Alone)
	took, alone := r.TakeOver.Took()
	if took > 0 {
		out.Gauge(takeOverSeconds, took.Seconds())
	}
	if alone > 0 {
		out.Gauge(aloneSeconds, alone.Seconds())
	}
}

// lastStandIn returns the times of the last stand-in in this boot.
func lastStandIn() map[string]float64 {
	s, err := etcd.StandInState()
	if err != nil || s.Last == nil {
		return nil
	}
	return s.Last.MS
}
