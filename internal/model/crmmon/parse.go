package crmmon

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// ErrNotRunning means that crm_mon found no cluster on its host.
var ErrNotRunning = errors.New("Pacemaker does not run on this host") //nolint:staticcheck // a name

// Parse reads the XML of crm_mon, or of `pcs status xml`, of Pacemaker 2.0 to
// 3.0. Times without a zone are in local. If the text says that no cluster runs,
// the error is ErrNotRunning. A text that is not whole is another error: half a
// status must not count as one.
func Parse(text []byte, local *time.Location) (Cluster, error) {
	root, err := parseXML(text)
	if err != nil {
		return Cluster{}, fmt.Errorf("read Pacemaker's status: %w", err)
	}
	if root.name != "pacemaker-result" && root.name != "crm_mon" {
		return Cluster{}, fmt.Errorf("read Pacemaker's status: it begins with %.40q", root.name)
	}
	if err := answered(root); err != nil {
		return Cluster{}, err
	}
	r := reader{local: local}
	c, err := r.cluster(root)
	if err != nil {
		return Cluster{}, fmt.Errorf("read Pacemaker's status: %w", err)
	}
	return c, nil
}

// The exit codes of crm_mon if Pacemaker does not answer (CRM_EX_DISCONNECT, and
// the one that 2.0 used).
var disconnected = []string{"102", "107"}

// answered returns nil if crm_mon reached Pacemaker.
func answered(root *element) error {
	status := root.one("status")
	code := status.text("code")
	if code == "" || code == "0" {
		return nil
	}
	words := status.text("message")
	if slices.Contains(disconnected, code) {
		return fmt.Errorf("%w: %.200s", ErrNotRunning, words)
	}
	return fmt.Errorf("crm_mon says %.200s (code %.10s)", words, code)
}

// reader converts elements to values.
type reader struct {
	local *time.Location
	err   error
}

func (r *reader) cluster(root *element) (Cluster, error) {
	summary := root.one("summary")
	if len(root.all("nodes")) == 0 || len(summary.all("cluster_options")) == 0 {
		return Cluster{}, errors.New("it has no nodes or no options: it is not whole")
	}
	var c Cluster
	c.Coordinator, c.Quorate = r.coordinator(summary.one("current_dc"))
	c.Options = r.options(summary.one("cluster_options"))
	for _, n := range root.one("nodes").all("node") {
		if n.text("id_as_resource") == "" { // the container of a bundle is no host
			c.Nodes = append(c.Nodes, r.node(n))
		}
	}
	r.resources(&c, root.one("resources"), Resource{})
	r.operations(&c, root.one("node_history"))
	for _, f := range root.one("failures").all("failure") {
		c.Failures = append(c.Failures, r.failure(f))
	}
	for _, f := range root.one("fence_history").all("fence_event") {
		c.Fences = append(c.Fences, r.fence(f))
	}
	for _, b := range root.one("bans").all("ban") {
		if weight, err := strconv.Atoi(b.text("weight")); err == nil && weight <= infinitely {
			c.Bans = append(c.Bans, Ban{Resource: b.text("resource"), Node: b.text("node")})
		}
	}
	return c, r.err
}

// infinitely is the weight of a ban without exception.
const infinitely = -1_000_000

func (r *reader) flags(e *element) *flags { return &flags{of: e} }

// keep keeps the first error.
func (r *reader) keep(f *flags) {
	if r.err == nil {
		r.err = f.err
	}
}

func (r *reader) coordinator(dc *element) (name string, quorate state.Fact[bool]) {
	f := r.flags(dc)
	defer r.keep(f)
	if !f.may(false, "present") {
		return "", state.Fact[bool]{}
	}
	return dc.text("name"), state.Known(f.must("with_quorum"))
}

func (r *reader) options(e *element) Options {
	f := r.flags(e)
	defer r.keep(f)
	return Options{
		FencingEnabled: f.must("stonith-enabled", "fencing-enabled"),
		NoQuorum:       e.text("no-quorum-policy"),
		Maintenance:    f.may(false, "maintenance-mode"),
		StopAll:        f.may(false, "stop-all-resources"),
	}
}

func (r *reader) node(e *element) Node {
	f := r.flags(e)
	defer r.keep(f)
	if e.text("name") == "" {
		f.fail(errors.New("it has no name"))
	}
	return Node{
		Name: e.text("name"), Kind: e.text("type"), Health: e.text("health"), Features: e.text("feature_set"),
		Online: f.must("online"), Standby: f.must("standby"), StandbyOnFail: f.may(false, "standby_onfail"),
		Maintenance: f.must("maintenance"), Pending: f.must("pending"), Unclean: f.must("unclean"),
		Shutdown: f.may(false, "shutdown"), Expect: f.may(true, "expected_up"),
	}
}

// resources collects the resources inside all elements that hold some: clones,
// groups, bundles and their replicas.
func (r *reader) resources(c *Cluster, e *element, around Resource) {
	for _, i := range e.inner {
		inside := around
		switch i.name {
		case "resource":
			c.Resources = append(c.Resources, r.resource(i, around))
			continue
		case "clone":
			clone := r.clone(i)
			c.Clones = append(c.Clones, clone)
			inside.Clone, inside.Maintenance = clone.ID, clone.Maintenance
			if clone.Disabled {
				inside.Target = "Stopped"
			}
		case "bundle":
			inside.Bundle = i.text("id")
		}
		r.resources(c, i, inside)
	}
}

func (r *reader) clone(e *element) Clone {
	f := r.flags(e)
	defer r.keep(f)
	return Clone{
		ID: e.text("id"), Managed: f.must("managed"), Disabled: f.may(false, "disabled"), Maintenance: f.may(false, "maintenance"),
	}
}

func (r *reader) resource(e *element, around Resource) Resource {
	f := r.flags(e)
	defer r.keep(f)
	if e.text("id") == "" || e.text("role") == "" {
		f.fail(errors.New("it has no id or no role"))
	}
	out := Resource{
		ID: e.text("id"), Agent: e.text("resource_agent"), Role: e.text("role"), Target: e.text("target_role"),
		Active: f.must("active"), Orphaned: f.may(false, "orphaned", "removed"), Blocked: f.must("blocked"),
		Managed: f.must("managed"), Failed: f.must("failed"), Maintenance: f.may(false, "maintenance") || around.Maintenance,
		Pending: e.text("pending"), Clone: around.Clone, Bundle: around.Bundle,
	}
	if out.Target == "" {
		out.Target = around.Target
	}
	for _, n := range e.all("node") {
		out.Nodes = append(out.Nodes, n.text("name"))
	}
	return out
}

// underWay is the result of an operation that is still running
// (PCMK_OCF_UNKNOWN), underWayBefore that of versions before 2.1.
const (
	underWay       = 193
	underWayBefore = -1
)

func (r *reader) operations(c *Cluster, history *element) {
	for _, n := range history.all("node") {
		for _, h := range n.all("resource_history") {
			for _, o := range h.all("operation_history") {
				code, err := strconv.Atoi(o.text("rc"))
				if err != nil || code == underWay || code == underWayBefore {
					continue // it has no result yet
				}
				c.Operations = append(c.Operations, Operation{
					Node: n.text("name"), Resource: h.text("id"), Task: o.text("task"), Code: code, Call: o.text("call"),
					Interval: o.text("interval"), When: r.time(o.text("last-rc-change")),
				})
			}
		}
	}
}

// noCode stands for a code that crm_mon does not write as a number. 0 would make
// an expected result of a failed probe.
const noCode = -1

func (r *reader) failure(e *element) Failure {
	out := Failure{
		Node: e.text("node", "id"), Task: e.text("task"), Words: e.text("exitreason"), Call: e.text("call"), When: r.time(e.text("last-rc-change")),
		Key: e.text("op_key"), Status: e.text("exitstatus"), Reason: e.text("exitreason"),
	}
	var err error
	if out.Code, err = strconv.Atoi(e.text("exitcode")); err != nil {
		out.Code = noCode
	}
	out.Resource = resourceOf(e.text("op_key"), out.Task)
	out.Probe = out.Task == "probe" || strings.HasSuffix(e.text("op_key"), "_monitor_0")
	if out.Words == "" || out.Words == "none" {
		out.Words = e.text("exitstatus")
	}
	return out
}

// resourceOf returns the resource in "kubelet_start_0" or "etcd_monitor_3000";
// an id may hold underscores itself.
func resourceOf(key, task string) string {
	if i := strings.LastIndex(key, "_"); i > 0 {
		key = key[:i]
	}
	if task != "" {
		return strings.TrimSuffix(key, "_"+task)
	}
	if i := strings.LastIndex(key, "_"); i > 0 {
		key = key[:i]
	}
	return key
}

func (r *reader) fence(e *element) Fence {
	out := Fence{
		Target: e.text("target"), Action: e.text("action"), By: e.text("delegate"), Client: e.text("client"),
		State: FenceState(e.text("status")), Words: e.text("exit-reason", "extended-status"), Done: r.time(e.text("completed")),
	}
	if out.By == "" {
		out.By = e.text("origin")
	}
	switch out.State {
	case FenceSucceeded, FenceFailed, FencePending:
	default:
		out.State = FencePending // an unknown state counts as not proven
	}
	return out
}

// layouts holds the forms of times: the local one of 2.1, and those with a zone
// of later versions.
var layouts = []string{
	"2006-01-02 15:04:05.999999Z07:00", "2006-01-02 15:04:05.999999 Z07:00",
	"2006-01-02T15:04:05.999999Z07:00", "2006-01-02 15:04:05.999999", "Mon Jan _2 15:04:05 2006",
}

// time reads a time; for any other text it returns the zero time.
func (r *reader) time(text string) time.Time {
	for _, l := range layouts {
		if t, err := time.ParseInLocation(l, strings.TrimSpace(text), r.local); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
