// Package vipobject reads and writes the objects of a cluster that hold its
// virtual IPs, for both the operator and the commands of administrators.
package vipobject

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ClusterName is the name of the objects that exist only once.
const ClusterName = "cluster"

// Open returns a client for these objects, with the access of a kubeconfig.
func Open(access kube.Access) (client.Client, error) {
	cfg, err := access.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	return client.New(cfg, client.Options{Scheme: scheme})
}

// Gather reads everything that a decision about virtual IPs needs. Of the
// probes that were requested of hosts it reads only those of one asker.
func Gather(ctx context.Context, c client.Reader, asker string) (*configv1.Infrastructure, vips.Snapshot, error) {
	infra := &configv1.Infrastructure{}
	if err := c.Get(ctx, client.ObjectKey{Name: ClusterName}, infra); err != nil {
		return nil, vips.Snapshot{}, missing("the Infrastructure object", err)
	}
	network := &configv1.Network{}
	if err := c.Get(ctx, client.ObjectKey{Name: ClusterName}, network); apierrors.IsNotFound(err) {
		network = nil
	} else if err != nil {
		return nil, vips.Snapshot{}, missing("the Network object", err)
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, vips.Snapshot{}, missing("the nodes", err)
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	var hosts []vips.Host
	for i := range nodes.Items {
		hosts = append(hosts, vips.HostOf(&nodes.Items[i], asker))
	}
	s := vips.SnapshotOf(infra, network, hosts)
	s.Moves = infra.Annotations[kube.ReaddressAnnotation] != ""
	return infra, s, nil
}

// WriteProbe requests a probe of a host for an asker, or withdraws it if probe is
// nil.
func WriteProbe(ctx context.Context, c client.Client, node, asker string, probe *state.VIPProbe) error {
	var value any
	if probe != nil {
		value = state.FormatAnnotation(probe)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{state.AnnotationVIPProbe + asker: value},
	}})
	if err != nil {
		return err
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := c.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("ask node %s who answers for an address: %w", node, err)
	}
	return nil
}

// WriteSpec writes lists into the spec of a bare-metal cluster, provided that
// the object has not changed since it was read. It leaves out empty lists: a
// list that exists may not become null.
func WriteSpec(ctx context.Context, c client.Client, infra *configv1.Infrastructure, v vips.Values) error {
	patch, err := patchOf(infra, "spec", "platformSpec", values(v))
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, infra, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write the virtual IPs into the spec: %w", err)
	}
	return nil
}

// WriteStatus writes lists into the status, and the first entry of each into
// the older fields.
func WriteStatus(ctx context.Context, c client.Client, infra *configv1.Infrastructure, v vips.Values) error {
	fields := values(v)
	if len(v.API) > 0 {
		fields["apiServerInternalIP"] = v.API[0]
	}
	if len(v.Ingress) > 0 {
		fields["ingressIP"] = v.Ingress[0]
	}
	patch, err := patchOf(infra, "status", "platformStatus", fields)
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, infra, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write the virtual IPs into the status: %w", err)
	}
	return nil
}

func values(v vips.Values) map[string]any {
	out := map[string]any{}
	for field, list := range map[string][]string{
		"apiServerInternalIPs": v.API, "ingressIPs": v.Ingress, "machineNetworks": v.MachineNetworks,
	} {
		if len(list) > 0 {
			out[field] = list
		}
	}
	return out
}

func patchOf(infra *configv1.Infrastructure, half, platform string, fields map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": infra.ResourceVersion},
		half:       map[string]any{platform: map[string]any{"baremetal": fields}},
	})
}

func missing(what string, err error) error { return fmt.Errorf("read %s: %w", what, err) }
