package status

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/workload"
)

// clusterName is the name of objects that exist only once.
const clusterName = "cluster"

// hostOf returns a host as its Node object shows it.
func hostOf(n *corev1.Node, now time.Time) standing.Host {
	_, control := n.Labels[state.LabelControlPlane]
	control = control || n.Labels[noderole.Claim] == string(state.RoleMaster) // the label may be lost
	_, worker := n.Labels[state.LabelWorker]
	h := standing.Host{Name: n.Name, ControlPlane: control, Worker: worker, Kubelet: kubeletOf(n, now)}
	h.Labels, h.Config = standing.Know(n.Labels, saidAPI, now), standing.Know(rollout.HostOf(n), saidAPI, now)
	h.Release = standing.Know(people.HostOf(n), saidAPI, now)
	h.Renewal = standing.Know(state.ParseAnnotation[state.CertificateRenewal](n.Annotations[state.AnnotationRenewal]).Value, saidAPI, now)
	h.Authorities = standing.Know(state.ParseAnnotation[rotation.Reports](n.Annotations[state.AnnotationTrust]).Value, saidAPI, now)
	h.Keys = standing.Know(n.Annotations[state.AnnotationEncryption], saidAPI, now)
	h.Plans = standing.Know(plansOf(n), saidAPI, now)
	if control {
		h.Backup = standing.Know(backup.HostOf(n.Name, n.Annotations), saidAPI, now)
		h.Space = standing.Know(etcdspace.HostOf(n.Name, n.Annotations), saidAPI, now)
	}
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			h.Addresses = append(h.Addresses, ip)
		}
	}
	var lost []state.Deleted
	if text := n.Annotations[state.AnnotationDeleted]; text != "" && json.Unmarshal([]byte(text), &lost) == nil {
		h.Deleted = standing.Know(lost, saidAPI, now)
	}
	if r := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs]); r.Known {
		h.Holds = standing.Know(slices.Clone(r.Value.Holds), saidAPI, now)
		h.Trouble = standing.Know(r.Value.Trouble, saidAPI, now)
		if r.Value.Peers != nil {
			h.Peers = standing.Know(*r.Value.Peers, saidAPI, now)
		}
	}
	return h
}

func kubeletOf(n *corev1.Node, now time.Time) standing.Seen[standing.Kubelet] {
	k := standing.Kubelet{
		Cordoned: n.Spec.Unschedulable, Moves: n.Annotations[drain.CordonedBy] != "", Why: "it has not reported yet",
	}
	at := now
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		k.Ready, k.Since, k.Why = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time, ""
		k.Silent = c.Status == corev1.ConditionUnknown
		if !k.Ready {
			k.Why = firstLine(c.Message)
		}
		if !c.LastHeartbeatTime.IsZero() {
			at = c.LastHeartbeatTime.Time
		}
	}
	return standing.Know(k, saidAPI, at)
}

// describeSite adds the facts in the Infrastructure object.
func describeSite(f *standing.Facts, infra *configv1.Infrastructure, now time.Time) {
	f.Cluster, f.Announced = siteName(infra), standing.Know(announced(infra), saidAPI, now)
	switch infra.Status.ControlPlaneTopology {
	case configv1.SingleReplicaTopologyMode:
		f.ControlPlanes = standing.Know(1, saidAPI, now)
	case configv1.DualReplicaTopologyMode:
		f.ControlPlanes = standing.Know(2, saidAPI, now)
	case configv1.HighlyAvailableTopologyMode, configv1.HighlyAvailableArbiterMode, configv1.ExternalTopologyMode:
		// the number follows from the nodes
	}
	p := infra.Status.PlatformStatus
	if p == nil || p.BareMetal == nil {
		f.ManagedVIPs = standing.Know(false, saidAPI, now)
		return
	}
	f.ManagedVIPs = standing.Know(true, saidAPI, now)
	f.VIPs = append(vipsOf(p.BareMetal.APIServerInternalIPs, "API"), vipsOf(p.BareMetal.IngressIPs, "ingress")...)
}

// siteName returns the cluster's name with its domain, as in the address of its
// API.
func siteName(infra *configv1.Infrastructure) string {
	host := strings.TrimPrefix(infra.Status.APIServerURL, "https://api.")
	if name, _, ok := strings.Cut(host, ":"); ok && name != "" && host != infra.Status.APIServerURL {
		return name
	}
	return infra.Status.InfrastructureName
}

func vipsOf(texts []string, kind string) []standing.VIP {
	var out []standing.VIP
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, standing.VIP{Address: a, Kind: kind})
		}
	}
	return out
}

// setUpOf returns the progress of the setup of two control planes.
func setUpOf(o *operatorv1.Etcd, now time.Time) standing.Seen[standing.SetUp] {
	var s standing.SetUp
	known := false
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case handover.CompletedTransition:
			s.Done, known = c.Status == operatorv1.ConditionTrue, true
		case handover.SetupDegraded:
			if c.Status == operatorv1.ConditionTrue {
				s.Doing = firstLine(c.Message)
			}
		case handover.SetupProgressing:
			if s.Doing == "" {
				s.Doing = firstLine(c.Message)
			}
		}
	}
	if !known {
		return standing.Seen[standing.SetUp]{}
	}
	return standing.Know(s, saidAPI, now)
}

// unwell returns the ClusterOperators that are degraded or not available.
func unwell(list []configv1.ClusterOperator) []standing.Operator {
	out := []standing.Operator{}
	for _, o := range list {
		for _, c := range o.Status.Conditions {
			switch {
			case c.Type == configv1.OperatorDegraded && c.Status == configv1.ConditionTrue:
				out = append(out, standing.Operator{Name: o.Name, State: "degraded", Why: firstLine(c.Message)})
			case c.Type == configv1.OperatorAvailable && c.Status == configv1.ConditionFalse:
				out = append(out, standing.Operator{Name: o.Name, State: "not available", Why: firstLine(c.Message)})
			}
		}
	}
	slices.SortFunc(out, func(a, b standing.Operator) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func memberOf(p *corev1.Pod, now time.Time) standing.Seen[standing.Member] {
	return standing.Know(standing.Member{Healthy: state.Known(workload.Ready(p))}, saidAPI, now)
}
