// Package kube is the adapter of the Kubernetes API: it converts objects to
// state values, and small changes to requests.
package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/holdfast/holdfast/internal/model/state"
)

// fieldManager is the name of Holdfast's agent in the API's records of who set
// a field.
const fieldManager = "holdfast-agent"

// requestTimeout bounds every request that is not a watch.
const requestTimeout = 15 * time.Second

// resync is the interval at which everything is reported again, in case an
// event was lost.
const resync = 30 * time.Second

// Client talks to one cluster.
type Client struct {
	set kubernetes.Interface
}

// Nodes returns the nodes of the cluster.
func (c *Client) Nodes(ctx context.Context) ([]state.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var nodes []state.Node
	for i := range list.Items {
		nodes = append(nodes, NodeOf(&list.Items[i]))
	}
	return nodes, nil
}

// ConfigMap returns the data of a ConfigMap, nil if there is none.
func (c *Client) ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	got, err := c.set.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ConfigMap %s/%s: %w", namespace, name, err)
	}
	return got.Data, nil
}

// WatchNodes calls changed with all nodes after each change of one of them, and
// every 30 s. It returns when the context ends. Calls do not overlap.
func (c *Client) WatchNodes(ctx context.Context, changed func([]*corev1.Node)) error {
	factory := informers.NewSharedInformerFactory(c.set, resync)
	return inform(ctx, factory, factory.Core().V1().Nodes().Informer(), func(items []any) {
		var nodes []*corev1.Node
		for _, item := range items {
			if n, ok := item.(*corev1.Node); ok {
				nodes = append(nodes, n)
			}
		}
		changed(nodes)
	})
}

// inform calls changed with all objects of an informer after each change of one
// of them, and every 30 s, until the context ends.
func inform(ctx context.Context, factory informers.SharedInformerFactory, informer cache.SharedIndexInformer, changed func([]any)) error {
	wake := make(chan struct{}, 1)
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal() },
		UpdateFunc: func(_, _ any) { signal() },
		DeleteFunc: func(any) { signal() },
	}); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
			changed(informer.GetStore().List())
		}
	}
}

// AddLabels adds labels with empty values to a node.
func (c *Client) AddLabels(ctx context.Context, node string, labels []string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	set := map[string]string{}
	for _, l := range labels {
		set[l] = ""
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": set}})
	if err != nil {
		return err
	}
	_, err = c.set.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("label node %s: %w", node, err)
	}
	return nil
}

// NodeOf returns the parts of a node that Holdfast's programs read.
func NodeOf(n *corev1.Node) state.Node {
	out := state.Node{
		Name: n.Name, Labels: n.Labels, Created: n.CreationTimestamp.Time, Addresses: internal(n.Status.Addresses),
		Annotations: ownAnnotations(n), Tunnel: tunnel(n.Annotations), BootID: n.Status.NodeInfo.BootID, Silent: true,
		Cordoned: n.Spec.Unschedulable,
	}
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			out.Ready, out.Silent = cond.Status == corev1.ConditionTrue, cond.Status == corev1.ConditionUnknown
		}
	}
	return out
}

// ownAnnotations returns those that Holdfast writes, nil if there are none. About
// the configuration of hosts they have upstream's names.
func ownAnnotations(n *corev1.Node) map[string]string {
	var out map[string]string
	for name, value := range n.Annotations {
		if !strings.HasPrefix(name, state.AnnotationDomain) && !strings.HasPrefix(name, mcfgv1.GroupName+"/") {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}
