package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
)

// objects lists the objects of a kind that the API may not have.
func (c *Cluster) objects(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.reader.List(ctx, &list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	return list.Items, nil
}

// Annotations with instructions to metal3 about a host.
const (
	detached       = "baremetalhost.metal3.io/detached"
	rebootRequest  = "reboot.metal3.io"
	labelInstaller = "installer.openshift.io/role"
)

// bareMetalHost contains the relevant fields of a BareMetalHost.
type bareMetalHost struct {
	Spec struct {
		Online bool `json:"online"`
		BMC    struct {
			Address string `json:"address"`
		} `json:"bmc"`
		ConsumerRef struct {
			Name string `json:"name"`
		} `json:"consumerRef"`
	} `json:"spec"`
	Status struct {
		Hardware struct {
			Hostname string `json:"hostname"`
		} `json:"hardware"`
	} `json:"status"`
}

func (c *Cluster) metal(ctx context.Context) ([]decide.BareMetalHost, error) {
	items, err := c.objects(ctx, schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: "BareMetalHost"})
	if err != nil {
		return nil, err
	}
	out := []decide.BareMetalHost{}
	for _, item := range items {
		var b bareMetalHost
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &b); err != nil {
			return nil, fmt.Errorf("BareMetalHost %s/%s: %w", item.GetNamespace(), item.GetName(), err)
		}
		h := decide.BareMetalHost{
			Namespace: item.GetNamespace(), Name: item.GetName(), Hostname: b.Status.Hardware.Hostname, Consumer: b.Spec.ConsumerRef.Name,
			ControlPlane: item.GetLabels()[labelInstaller] == "control-plane", BMC: b.Spec.BMC.Address != "", Online: b.Spec.Online,
		}
		for name := range item.GetAnnotations() {
			h.Detached = h.Detached || name == detached
			h.Reboots = h.Reboots || name == rebootRequest || strings.HasPrefix(name, rebootRequest+"/")
		}
		out = append(out, h)
	}
	return out, nil
}

// annotationNode names the node of a remediation whose own name is another.
const annotationNode = "remediation.medik8s.io/node-name"

// remedial lists the kinds with which operators restart or delete nodes, either
// by a selector or by their own name.
var remedial = []struct {
	schema.GroupVersionKind

	byName bool
}{
	{schema.GroupVersionKind{Group: "remediation.medik8s.io", Version: "v1alpha1", Kind: "NodeHealthCheck"}, false},
	{schema.GroupVersionKind{Group: "self-node-remediation.medik8s.io", Version: "v1alpha1", Kind: "SelfNodeRemediation"}, true},
	{schema.GroupVersionKind{Group: "fence-agents-remediation.medik8s.io", Version: "v1alpha1", Kind: "FenceAgentsRemediation"}, true},
	{schema.GroupVersionKind{Group: "machine-deletion-remediation.medik8s.io", Version: "v1alpha1", Kind: "MachineDeletionRemediation"}, true},
}

func (c *Cluster) remedies(ctx context.Context) ([]decide.RemediationRule, error) {
	out := []decide.RemediationRule{}
	for _, kind := range remedial {
		items, err := c.objects(ctx, kind.GroupVersionKind)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			r := decide.RemediationRule{Kind: kind.Kind, Namespace: item.GetNamespace(), Name: item.GetName()}
			if kind.byName {
				r.Node = cmp.Or(item.GetAnnotations()[annotationNode], item.GetName())
			} else if r.Selector, err = selectorOf(item); err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// selectorOf reads spec.selector. A missing selector selects nothing.
func selectorOf(item unstructured.Unstructured) (*metav1.LabelSelector, error) {
	raw, found, err := unstructured.NestedMap(item.Object, "spec", "selector")
	if err != nil || !found {
		return nil, err
	}
	b, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	var s metav1.LabelSelector
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%s %s: spec.selector: %w", item.GetKind(), item.GetName(), err)
	}
	return &s, nil
}
