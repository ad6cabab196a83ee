package incident

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/workload"
)

// client is an API server in the form that the loop needs.
type client struct{ *kube.Client }

// Places returns where pods run, with the facts that show whether those of a lost
// host run elsewhere.
func (c client) Places(ctx context.Context) ([]decide.Pod, error) {
	pods, err := c.Pods(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]decide.Pod, 0, len(pods))
	for i := range pods {
		out = append(out, placeOf(&pods[i]))
	}
	return out, nil
}

func placeOf(p *corev1.Pod) decide.Pod {
	out := decide.Pod{Node: p.Spec.NodeName, Created: p.CreationTimestamp.Time, Ends: p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed}
	for _, o := range p.OwnerReferences {
		out.Bound = out.Bound || o.Kind == "DaemonSet" || o.Kind == "Node"
	}
	if r := workload.ReadinessOf(p); r.Ready {
		out.Ready = r.Since
	}
	return out
}
