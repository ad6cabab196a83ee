// Package clusteroperator decides what the ClusterOperators of a site say: which version
// of each part runs, and whether it works. It knows no more than the facts of an
// upgrade and what Kubernetes' own objects say of its parts.
package clusteroperator

import (
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The names of the objects.
const (
	Etcd          = "etcd"
	APIServer     = "kube-apiserver"
	Controllers   = "kube-controller-manager"
	Scheduler     = "kube-scheduler"
	Kubelet       = "kubelet"
	Network       = "network"
	DNS           = "dns"
	Ingress       = "ingress"
	MachineConfig = "machine-config"
)

// Lease is what is known of a leader: true if it renewed its lease lately.
type Lease = state.Fact[bool]

// Pool is what a MachineConfigPool says.
type Pool struct {
	Name               string
	Updating, Degraded bool
	Message            string
}

// Input is what the objects are decided from.
type Input struct {
	Facts gate.Facts
	Step  cluster.Step
	// Releases are all that are known, by their digests.
	Releases map[string]gate.Release
	// Controllers and Scheduler tell whether their leaders are alive.
	Controllers, Scheduler Lease
	// Workloads are those of the pod network, of names, of kube-proxy and of routers.
	Workloads parts.Workloads
	// Record and Parts are those of an upgrade that is under way.
	Record cluster.Record
	Parts  []cluster.Part
	Pools  state.Fact[[]Pool]
}

// Operator is what one object says.
type Operator struct {
	Name       string
	Versions   []configv1.OperandVersion
	Conditions []configv1.ClusterOperatorStatusCondition
}

// part is a row of the table.
type part struct {
	name string
	// gates are those that keep this part from an upgrade.
	gates []gate.ID
	// judge returns which hosts or pods of the part are not well, and whether any
	// serves. versions returns the versions of its programs.
	judge    func(Input) verdict
	versions func(Input) []configv1.OperandVersion
}

// verdict is how a part is.
type verdict struct {
	// available is false if nobody gets what the part gives.
	available state.Fact[bool]
	// unwell names what does not work; unwell is not known if known is false.
	unwell []string
	known  bool
	// moving says what is being rolled out; empty for nothing.
	moving string
}

var table = []part{
	{Etcd, []gate.ID{"etcd-members", "etcd-data", "etcd-version", "pacemaker", "feature-set", "fencing", "packages", "backup"}, etcd, etcdVersion},
	{APIServer, []gate.ID{"skew", "deprecated-apis", "webhooks", "stored-versions", "certificates", "certificates-margin"}, apiServer, apiServerVersion},
	{Controllers, nil, func(in Input) verdict { return leader(in.Controllers, "the controller manager") }, apiServerVersion},
	{Scheduler, nil, func(in Input) verdict { return leader(in.Scheduler, "the scheduler") }, apiServerVersion},
	{Kubelet, []gate.ID{"hosts", "workers", "disk", "clock", "clock-source", "edited-files"}, kubelet, kubeletVersion},
	{Network, []gate.ID{"network"}, network, follows(parts.Objects, parts.KubeProxy)},
	{DNS, nil, func(in Input) verdict { return workload(in.Workloads.DNS, parts.DNS) }, follows(parts.Objects)},
	{Ingress, nil, ingress, follows(parts.Operator)},
	{MachineConfig, []gate.ID{"idle", "window", "disruption-budgets"}, pools, holdfast},
}

// podNetwork begins the conditions of the pod network: in the object network those without
// it are of the virtual IPs, and another controller writes them.
const podNetwork = "PodNetwork"

// IsDegraded reports whether a condition says that a part is degraded.
func IsDegraded(kind configv1.ClusterStatusConditionType) bool {
	return kind == configv1.OperatorDegraded || kind == podNetwork+configv1.OperatorDegraded
}

// Names returns the names of all objects, in the order in which people read them.
func Names() []string {
	var out []string
	for _, p := range table {
		out = append(out, p.name)
	}
	return out
}

// All returns what each object says. A condition that stays as it is keeps the time of
// its last change, which the caller adds: here all times are zero.
func All(in Input) []Operator {
	closed := gate.Judge(gate.Gates(in.Facts, gate.Begin), nil).Closed
	if in.Facts.From.Digest == "" {
		closed = nil // nothing can be asked
	}
	var out []Operator
	for _, p := range table {
		v := p.judge(in)
		conditions := []configv1.ClusterOperatorStatusCondition{available(v), progressing(v, in), degraded(v)}
		for i := range conditions {
			if p.name == Network {
				conditions[i].Type = podNetwork + conditions[i].Type
			}
		}
		out = append(out, Operator{Name: p.name, Versions: p.versions(in), Conditions: append(conditions, upgradeable(p, in, closed))})
	}
	return out
}

func condition(kind configv1.ClusterStatusConditionType, fact state.Fact[bool], reason, message string) configv1.ClusterOperatorStatusCondition {
	c := configv1.ClusterOperatorStatusCondition{Type: kind, Status: configv1.ConditionUnknown, Reason: "FactsUnknown", Message: message}
	if !fact.Known {
		return c
	}
	c.Status, c.Reason = configv1.ConditionFalse, "AsExpected"
	if fact.Value {
		c.Status = configv1.ConditionTrue
	}
	if reason != "" {
		c.Reason = reason
	}
	return c
}

func available(v verdict) configv1.ClusterOperatorStatusCondition {
	switch {
	case !v.available.Known:
		return condition(configv1.OperatorAvailable, v.available, "", "whether it serves is not known")
	case !v.available.Value:
		return condition(configv1.OperatorAvailable, v.available, "NothingServes", strings.Join(v.unwell, "; "))
	}
	return condition(configv1.OperatorAvailable, v.available, "", "")
}

func progressing(v verdict, in Input) configv1.ClusterOperatorStatusCondition {
	switch in.Step.Phase {
	case cluster.Hosts, cluster.Parts, cluster.Returning, cluster.Committing:
		return condition(configv1.OperatorProgressing, state.Known(true), "Upgrade", "an upgrade is under way: "+in.Step.Why)
	case cluster.Idle, cluster.Offered, cluster.Fetching, cluster.Checked, cluster.Proving:
	}
	if v.moving != "" {
		return condition(configv1.OperatorProgressing, state.Known(true), "RollingOut", v.moving)
	}
	return condition(configv1.OperatorProgressing, state.Known(false), "", "")
}

func degraded(v verdict) configv1.ClusterOperatorStatusCondition {
	switch {
	case len(v.unwell) > 0:
		return condition(configv1.OperatorDegraded, state.Known(true), "NotAllWell", strings.Join(v.unwell, "; "))
	case !v.known:
		return condition(configv1.OperatorDegraded, state.Fact[bool]{}, "", "not all facts are known")
	}
	return condition(configv1.OperatorDegraded, state.Known(false), "", "")
}

// upgradeable tells which closed gates are about the part.
func upgradeable(p part, in Input, closed []gate.Gate) configv1.ClusterOperatorStatusCondition {
	var no, unknown []string
	for _, g := range closed {
		switch {
		case !slices.Contains(p.gates, g.ID):
		case g.Verdict == gate.Unknown:
			unknown = append(unknown, g.String())
		default:
			no = append(no, g.String()+". "+g.Way)
		}
	}
	switch {
	case len(no) > 0:
		return condition(configv1.OperatorUpgradeable, state.Known(false), "GatesClosed", strings.Join(no, "; "))
	case len(unknown) > 0 || in.Facts.From.Digest == "" && p.gates != nil:
		return condition(configv1.OperatorUpgradeable, state.Fact[bool]{}, "", strings.Join(unknown, "; "))
	}
	return condition(configv1.OperatorUpgradeable, state.Known(true), "", "")
}

func apply(out *[]configv1.OperandVersion, name, version string) {
	if version != "" {
		*out = append(*out, configv1.OperandVersion{Name: name, Version: version})
	}
}

// lowest returns the lowest of versions that are all known: a new version is told only
// once nothing of the old one runs. It is empty if one is not known, or there is none.
func lowest(facts []state.Fact[gate.Version]) string {
	var out gate.Version
	for i, f := range facts {
		if !f.Known {
			return ""
		}
		if i == 0 || f.Value.Compare(out) < 0 {
			out = f.Value
		}
	}
	if len(facts) == 0 {
		return ""
	}
	return out.String()
}

// holdfast returns the version of Holdfast that all control planes run at least.
func holdfast(in Input) []configv1.OperandVersion {
	var out []configv1.OperandVersion
	var list []state.Fact[gate.Version]
	for _, h := range in.Facts.Hosts {
		if h.Worker {
			continue
		}
		r, known := in.Releases[h.Release.Value]
		if !h.Release.Known || !known {
			return nil
		}
		list = append(list, state.Known(r.Version))
	}
	apply(&out, "operator", lowest(list))
	return out
}

// follows returns the version of what follows the hosts: while its parts are not of the new
// release, or not all of their pods run, pods of the old one may be there.
func follows(names ...string) func(Input) []configv1.OperandVersion {
	return func(in Input) []configv1.OperandVersion {
		for _, p := range in.Parts {
			if !slices.Contains(names, p.Name) || in.arrived(p) {
				continue
			}
			var out []configv1.OperandVersion
			apply(&out, "operator", lowest([]state.Fact[gate.Version]{in.versionOf(in.Record.From), in.versionOf(in.Record.To)}))
			return out
		}
		return holdfast(in)
	}
}

// arrived reports whether a part is of the release to which the site goes, and runs. One that
// waits for the functional level does not count.
func (in Input) arrived(p cluster.Part) bool {
	goal := in.Record.To
	if in.Record.Returning {
		goal = in.Record.From
	}
	raises := cluster.Raises(in.Releases[in.Record.From], in.Releases[in.Record.To])
	return !cluster.Follows(p.Name, raises, in.Record.NoWayBack) || state.Is(p.Release, goal) && state.Is(p.Pending, "")
}

func (in Input) versionOf(digest string) state.Fact[gate.Version] {
	r, known := in.Releases[digest]
	return state.Fact[gate.Version]{Known: known, Value: r.Version}
}

// of returns a version of each host that has it.
func of(in Input, workers bool, get func(gate.Host) state.Fact[gate.Version]) []state.Fact[gate.Version] {
	var out []state.Fact[gate.Version]
	for _, h := range in.Facts.Hosts {
		if workers || !h.Worker {
			out = append(out, get(h))
		}
	}
	return out
}

func apiServerVersion(in Input) []configv1.OperandVersion {
	out := holdfast(in)
	apply(&out, "kubernetes", lowest(of(in, false, func(h gate.Host) state.Fact[gate.Version] { return h.APIServer })))
	return out
}

func kubeletVersion(in Input) []configv1.OperandVersion {
	out := holdfast(in)
	apply(&out, "kubelet", lowest(of(in, true, func(h gate.Host) state.Fact[gate.Version] { return h.Kubelet })))
	return out
}

func etcdVersion(in Input) []configv1.OperandVersion {
	out := holdfast(in)
	var list []state.Fact[gate.Version]
	for _, m := range in.Facts.Etcd.Members.Value {
		list = append(list, m.Version)
	}
	apply(&out, "etcd", lowest(list))
	return out
}
