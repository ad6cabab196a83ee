package pacemakerstatus

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/state"
)

// What the metrics of fences and certificates are read from.
var (
	fenceHistory = state.FencingHistoryPath
	fenceDevices = state.FencingDir
	certificates = []string{"/etc/kubernetes/pki/*.crt", "/etc/kubernetes/pki/etcd/*.crt", "/var/lib/kubelet/pki/kubelet-client-current.pem"}
)

var (
	clusterCondition  = describe("pacemaker_cluster_condition", "Conditions of the cluster as this host sees them: 1 true, 0 false, -1 unknown.", "condition")
	nodeCondition     = describe("pacemaker_node_condition", "Conditions of a host as this host sees them: 1 true, 0 false, -1 unknown.", "host", "condition")
	resourceCondition = describe("pacemaker_resource_condition", "Conditions of a resource on a host: 1 true, 0 false, -1 unknown.", "host", "resource", "condition")
	agentCondition    = describe("pacemaker_fence_agent_condition", "Conditions of a fence agent, by the host that it switches: 1 true, 0 false, -1 unknown.", "host", "agent", "condition")
	looked            = describe("pacemaker_looked_timestamp_seconds", "When this host last looked at Pacemaker.")
	writes            = describe("pacemaker_status_writer", "1 on the host that writes the status in the API.")
	published         = describe("pacemaker_status_published_timestamp_seconds", "When the API last took what this host wrote; absent where it never did.")
	recordState       = describe("etcd_record", "1 for the state of this host's record of the two-node protocol.", "state")
	takeOvers         = describe("etcd_take_overs_total", "How often this host went on without its peer.")
	fences            = describe("fences_total", "Fences by this host, as far as its history goes.", "host", "proven")
	fenceSeconds      = describe("fence_last_seconds", "How long the last proven fence by this host took, from its begin to the proof.", "host")
	fenceWorst        = describe("fence_worst_seconds", "How long the slowest proven fence by this host took, without its delay.", "host")
	fenceProven       = describe("fence_proven_timestamp_seconds", "When a fence by this host was last proven; 0 for never.", "host")
	fenceDelay        = describe("fence_delay_seconds", "How long this host waits before it fences, so that of two hosts one is off before the other begins.", "host")
	notAfter          = describe("certificate_not_after_timestamp_seconds", "When a certificate on this host ends.", "file")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		clusterCondition, nodeCondition, resourceCondition, agentCondition, looked, writes, published, recordState, takeOvers,
		fences, fenceSeconds, fenceWorst, fenceProven, fenceDelay, notAfter,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	r, in := c.seen()
	for _, file := range certificateFiles() {
		if t, ok := ends(file); ok {
			gauge(out, notAfter, seconds(t), file)
		}
	}
	if r.At.IsZero() || in.Host == "" {
		return // nothing was looked at, as on a host that is not one of two
	}
	gauge(out, looked, seconds(r.At))
	gauge(out, writes, number(r.Writes))
	if !r.Published.IsZero() {
		gauge(out, published, seconds(r.Published))
	}
	all(out, clusterCondition, r.Status.Conditions)
	if r.Status.Nodes != nil {
		for _, n := range *r.Status.Nodes {
			collectNode(out, n)
		}
	}
	if e := in.Etcd.Value.Snapshot.Record; in.Etcd.Known && e.Known {
		gauge(out, recordState, 1, string(e.Value.State))
		out <- prometheus.MustNewConstMetric(takeOvers, prometheus.CounterValue, float64(e.Value.TakeOver.Counter))
	}
	collectFences(out)
}

func collectNode(out chan<- prometheus.Metric, n etcdv1.PacemakerClusterNodeStatus) {
	all(out, nodeCondition, n.Conditions, n.NodeName)
	for _, r := range n.Resources {
		all(out, resourceCondition, r.Conditions, n.NodeName, strings.ToLower(string(r.Name)))
	}
	for _, a := range n.FencingAgents {
		all(out, agentCondition, a.Conditions, n.NodeName, a.Name)
	}
}

func all(out chan<- prometheus.Metric, d *prometheus.Desc, list []metav1.Condition, labels ...string) {
	for _, c := range list {
		value := -1.0
		switch c.Status {
		case metav1.ConditionTrue:
			value = 1
		case metav1.ConditionFalse:
			value = 0
		case metav1.ConditionUnknown:
		}
		gauge(out, d, value, append(slices.Clip(labels), c.Type)...)
	}
}

// collectFences tells what the history of this host's fences says of each host
// that it may fence.
func collectFences(out chan<- prometheus.Metric) {
	records, err := fence.History(fenceHistory)
	if err != nil {
		return // `holdfast explain` tells
	}
	for target, delay := range delays() {
		gauge(out, fenceDelay, delay.Seconds(), target)
		proven, failed := 0, 0
		var last fence.Record
		var worst time.Duration
		for _, r := range records {
			switch {
			case r.Target != target:
			case r.Off:
				proven, last = proven+1, r
				worst = max(worst, r.Phases.Identify+r.Phases.PowerOff+r.Phases.Evidence)
			default:
				failed++
			}
		}
		out <- prometheus.MustNewConstMetric(fences, prometheus.CounterValue, float64(proven), target, "true")
		out <- prometheus.MustNewConstMetric(fences, prometheus.CounterValue, float64(failed), target, "false")
		gauge(out, fenceProven, seconds(last.Time), target)
		if proven > 0 {
			gauge(out, fenceSeconds, (last.Phases.Identify + last.Phases.Hold + last.Phases.PowerOff + last.Phases.Evidence).Seconds(), target)
			gauge(out, fenceWorst, worst.Seconds(), target)
		}
	}
}

// delays are the hosts that this one may fence, and what it waits first. Of a
// device's file nothing else is read.
func delays() map[string]time.Duration {
	out := map[string]time.Duration{}
	files, _ := filepath.Glob(filepath.Join(fenceDevices, "*.json")) // the pattern is well formed
	for _, file := range files {
		var device struct {
			Target string        `json:"target"`
			Delay  time.Duration `json:"delay"`
		}
		if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &device) == nil && device.Target != "" {
			out[device.Target] = device.Delay
		}
	}
	return out
}

func certificateFiles() []string {
	var out []string
	for _, pattern := range certificates {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		out = append(out, found...)
	}
	return out
}

// ends is when the first certificate of a file ends.
func ends(file string) (time.Time, bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, false
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			return c.NotAfter, true
		}
	}
	return time.Time{}, false
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}
