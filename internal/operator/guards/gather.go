package guards

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// wanted is the number of control planes in a cluster with guards.
const wanted = 2

// present holds the policies and bindings of the cluster by name, including
// others'.
type present struct {
	policies map[string]*admissionv1.ValidatingAdmissionPolicy
	bindings map[string]*admissionv1.ValidatingAdmissionPolicyBinding
}

func (r *Reconciler) present(ctx context.Context) (present, error) {
	out := present{map[string]*admissionv1.ValidatingAdmissionPolicy{}, map[string]*admissionv1.ValidatingAdmissionPolicyBinding{}}
	var policies admissionv1.ValidatingAdmissionPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		return out, fmt.Errorf("list admission policies: %w", err)
	}
	for i := range policies.Items {
		out.policies[policies.Items[i].Name] = &policies.Items[i]
	}
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	if err := r.Client.List(ctx, &bindings); err != nil {
		return out, fmt.Errorf("list the bindings of admission policies: %w", err)
	}
	for i := range bindings.Items {
		out.bindings[bindings.Items[i].Name] = &bindings.Items[i]
	}
	return out, nil
}

// controlPlanes returns the hosts that have joined, and those that may be fenced:
// a host whose node was deleted still runs.
func (r *Reconciler) controlPlanes(ctx context.Context) ([]render.ControlPlane, error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes, client.HasLabels{state.LabelControlPlane}); err != nil {
		return nil, fmt.Errorf("list control planes: %w", err)
	}
	var secrets corev1.SecretList
	if err := r.Client.List(ctx, &secrets, client.InNamespace(manifests.NamespaceEtcd)); err != nil {
		return nil, fmt.Errorf("list the accounts of BMCs: %w", err)
	}
	known := map[string]bool{}
	var out []render.ControlPlane
	for i := range secrets.Items {
		if s := &secrets.Items[i]; isAccount(s) {
			node := strings.TrimPrefix(s.Name, manifests.FencingSecretPrefix)
			known[node] = true
			out = append(out, render.NewControlPlane(node, string(s.Data["address"])))
		}
	}
	for _, n := range nodes.Items {
		if !known[n.Name] {
			out = append(out, render.ControlPlane{Name: n.Name})
		}
	}
	return out, nil
}

// takenOut returns the data of the list of hosts that were taken out, nil if there is no list.
func (r *Reconciler) takenOut(ctx context.Context) (map[string]string, error) {
	var list corev1.ConfigMap
	key := client.ObjectKey{Namespace: retired.Namespace, Name: retired.ConfigMap}
	if err := r.Client.Get(ctx, key, &list); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the list of hosts that were taken out, ConfigMap %s: %w", key, err)
	}
	return list.Data, nil
}

// isList reports whether a ConfigMap is the list of hosts that were taken out.
func isList(o client.Object) bool {
	return o.GetNamespace() == retired.Namespace && o.GetName() == retired.ConfigMap
}

// isAccount reports whether a Secret has the account of a control plane's BMC.
func isAccount(o client.Object) bool {
	return o.GetNamespace() == manifests.NamespaceEtcd && strings.HasPrefix(o.GetName(), manifests.FencingSecretPrefix)
}

// roleChanged reports whether a node became a control plane, or stopped being
// one.
func roleChanged(e event.UpdateEvent) bool {
	_, was := e.ObjectOld.GetLabels()[state.LabelControlPlane]
	_, is := e.ObjectNew.GetLabels()[state.LabelControlPlane]
	return was != is
}
