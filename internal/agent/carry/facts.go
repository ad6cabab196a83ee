package carry

import (
	"context"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Fact makes a fact of an answer. A question that failed is unknown.
func Fact[T any](value T, err error) state.Fact[T] {
	if err != nil {
		return state.Fact[T]{}
	}
	return state.Known(value)
}

// NodesAPI is the part of the cluster's API that Work needs.
type NodesAPI interface {
	Nodes(ctx context.Context) ([]state.Node, error)
}

// Work asks the API what else changes hosts now (plans.Busy). record is the text of the upgrade's record.
func Work(ctx context.Context, api NodesAPI, record state.Fact[string], but string) state.Fact[string] {
	if !record.Known {
		return record
	}
	nodes, err := api.Nodes(ctx)
	return Fact(plans.Busy(hold.Of(record, nil).Rewrite, nodes, but), err)
}

// Administrator opens the cluster as the administrator: such a plan is a person's wish, and the
// agent's own account has no right to delete nodes or to change the topology.
func Administrator() (*kube.Client, error) { return kube.Open(state.AdminKubeconfig) }

// Members counts the voters among the members of etcd, and returns the last learner, zero if there is
// none.
func Members(members []state.EtcdMember) (voters int, learner state.EtcdMember) {
	for _, m := range members {
		if m.Learner {
			learner = m
			continue
		}
		voters++
	}
	return voters, learner
}

// Hands says in whose hands etcd and the start of this host are.
type Hands struct {
	// Podmans is true once podman runs etcd and has its data. Pod is true if kubelet's file of etcd is
	// ready beside kubelet's folder, or in it. Boots is true if kubelet starts at boot without
	// Pacemaker. Runs is true while Corosync or Pacemaker runs or starts at boot. Paired is true while
	// this host has a file by which it is one of two.
	Podmans, Pod, Boots, Runs, Paired state.Fact[bool]
}

// HandsOf looks at a host. kubelets is true if kubelet has etcd; pod renders kubelet's file of it,
// which nobody needs any more once it is in kubelet's folder.
func HandsOf(ctx context.Context, steps *twonode.Host, kubelets bool, pod func() ([]byte, error)) Hands {
	var h Hands
	h.Podmans = Fact(steps.PodmanHasEtcd(ctx))
	if kubelets {
		h.Pod = state.Known(true)
	} else if want, err := pod(); err == nil {
		h.Pod = Fact(steps.PodReady(want))
	}
	h.Boots = state.Known(steps.KubeletBoots(ctx))
	h.Runs = Fact(steps.RingRuns(ctx))
	h.Paired = Fact(steps.Paired())
	return h
}
