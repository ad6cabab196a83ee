package pacemakerstatus

import (
	"fmt"
	"slices"
	"strings"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// tracked is a resource that every node has. Its agent identifies it, not its id,
// which anybody may choose.
type tracked struct {
	name   etcdv1.PacemakerClusterResourceName
	clone  string
	agents []string
}

var (
	kubelet = tracked{etcdv1.PacemakerClusterResourceNameKubelet, twonode.KubeletClone, []string{"systemd:kubelet", "service:kubelet"}}
	etcd    = tracked{etcdv1.PacemakerClusterResourceNameEtcd, twonode.EtcdClone, []string{twonode.EtcdAgent, "ocf:heartbeat:podman-etcd"}}
)

// facts holds what is wrong with a resource or a fence agent, for each condition,
// empty for nothing.
type facts struct {
	service, unmanaged, disabled, failed, inactive, stopped, blocked string
	// unseen says why nobody knows whether it runs, empty where that is known.
	unseen string
}

func (f facts) conditions() []metav1.Condition {
	list := []metav1.Condition{
		said(resourceService, f.service), said(resourceManaged, f.unmanaged), said(resourceEnabled, f.disabled),
		said(resourceOperational, f.failed), f.runs(resourceActive, f.inactive), f.runs(resourceStarted, f.stopped),
		said(resourceSchedulable, f.blocked),
	}
	return slices.Insert(list, 0, resourceHealthy.all(list))
}

func said(m meaning, wrong string) metav1.Condition {
	if wrong == "" {
		return m.is(true)
	}
	return m.is(false, wrong)
}

// runs returns a condition that only a running resource can have. It is Unknown
// where nothing is known to be wrong but nobody sees the resource.
func (f facts) runs(m meaning, wrong string) metav1.Condition {
	if wrong == "" && f.unseen != "" {
		return m.unknown(f.unseen)
	}
	return said(m, wrong)
}

// nothing returns the conditions of a resource that no source reports on.
func nothing(words string) []metav1.Condition {
	var out []metav1.Condition
	for _, m := range []meaning{
		resourceHealthy, resourceService, resourceManaged, resourceEnabled, resourceOperational, resourceActive, resourceStarted, resourceSchedulable,
	} {
		out = append(out, m.unknown(words))
	}
	return out
}

// resource returns the status of one of a node's resources.
func (v view) resource(node string, t tracked) etcdv1.PacemakerClusterResourceStatus {
	out := etcdv1.PacemakerClusterResourceStatus{Name: t.name}
	if !v.Cluster.Known {
		out.Conditions = nothing(v.Trouble)
		return out
	}
	var here, all []crmmon.Resource
	for _, r := range v.cluster.Resources {
		if !slices.Contains(t.agents, r.Agent) || r.Bundle != "" {
			continue
		}
		all = append(all, r)
		if slices.Contains(r.Nodes, node) {
			here = append(here, r)
		}
	}
	var f facts
	if len(here) > 0 {
		f = v.running(node, here)
	} else {
		f = v.absent(node, t, all)
	}
	out.Conditions = f.conditions()
	return out
}

// running returns the facts of the instances on a node. For each condition the
// first instance with a fault counts.
func (v view) running(node string, instances []crmmon.Resource) facts {
	f := facts{unseen: v.unseen(node)}
	for _, r := range instances {
		v.settled(&f, node, r)
		if r.Failed {
			note(&f.failed, "it failed"+v.why(node, r.ID))
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
	return f
}

// unseen returns why nobody knows what runs on a host that is lost and not proven
// off, empty for any other host. Pacemaker goes on showing what it knew last.
func (v view) unseen(node string) string {
	n := v.node(node).Value
	if !n.Unclean || n.Online {
		return ""
	}
	return node + " is lost and not proven off"
}

// settled adds the facts that follow from settings of an administrator or of
// Pacemaker.
func (v view) settled(f *facts, node string, r crmmon.Resource) {
	n := v.node(node)
	switch {
	case v.cluster.Options.Maintenance:
		note(&f.service, "maintenance-mode is true")
	case n.Known && n.Value.Maintenance:
		note(&f.service, node+" is in maintenance")
	case r.Maintenance:
		note(&f.service, "it is in maintenance")
	}
	if !r.Managed {
		note(&f.unmanaged, "Pacemaker does not manage it (pcs resource manage "+r.ID+")")
	}
	if strings.EqualFold(r.Target, "Stopped") {
		note(&f.disabled, "it is disabled (pcs resource enable "+r.ID+")")
	}
	if v.cluster.Options.StopAll && !r.Fences() {
		note(&f.disabled, "stop-all-resources is true")
	}
	if r.Blocked {
		note(&f.blocked, "Pacemaker does nothing more about it"+v.why(node, r.ID))
	}
}

// absent returns the facts of a resource that is not on a node. Instances that are
// nowhere show how it is configured.
func (v view) absent(node string, t tracked, all []crmmon.Resource) facts {
	f := facts{inactive: "it does not run on " + node, stopped: "it does not run on " + node}
	if len(all) == 0 {
		const words = "it is not configured"
		f = facts{inactive: words, stopped: words, blocked: words, unmanaged: words}
	}
	for _, c := range v.cluster.Clones {
		if len(all) == 0 && c.ID == t.clone && v.empty(c.ID) {
			f = facts{inactive: "it runs nowhere", stopped: "it runs nowhere"}
			v.settled(&f, node, crmmon.Resource{ID: c.ID, Managed: c.Managed, Maintenance: c.Maintenance, Target: targetOf(c)})
		}
	}
	for _, r := range all {
		if len(r.Nodes) == 0 || r.Clone != "" {
			r.Blocked = r.Blocked && len(r.Nodes) == 0 // another node's instance may be
			v.settled(&f, node, r)
		}
	}
	for _, r := range all {
		if why := v.why(node, r.ID); why != "" && f.failed == "" {
			f.failed = "it failed" + why
		}
	}
	return f
}

// empty reports whether a clone has no instances.
func (v view) empty(clone string) bool {
	return !slices.ContainsFunc(v.cluster.Resources, func(r crmmon.Resource) bool { return r.Clone == clone })
}

func targetOf(c crmmon.Clone) string {
	if c.Disabled {
		return "Stopped"
	}
	return ""
}

// why returns the last failure of a resource on a node, as the end of a sentence.
func (v view) why(node, id string) string {
	var last *crmmon.Failure
	for i, f := range v.cluster.Failures {
		if f.Node == node && base(f.Resource) == base(id) && (last == nil || !f.When.Before(last.When)) {
			last = &v.cluster.Failures[i]
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf(": %s on %s: %s", last.Task, node, shorten(last.Words, maxMessage/4))
}

// base returns a resource's id without the number of its instance.
func base(id string) string {
	name, number, ok := strings.Cut(id, ":")
	if ok && strings.Trim(number, "0123456789") == "" {
		return name
	}
	return id
}

// note keeps the first thing that is wrong.
func note(what *string, words string) {
	if *what == "" {
		*what = words
	}
}

// started reports whether a role means that the resource runs.
func started(role string) bool {
	return slices.Contains([]string{"Started", "Promoted", "Unpromoted", "Master", "Slave"}, role)
}

func roleWords(r crmmon.Resource) string {
	if r.Pending != "" {
		return "it is " + strings.ToLower(r.Pending)
	}
	return "its role is " + r.Role
}
