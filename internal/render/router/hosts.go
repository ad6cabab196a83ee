package router

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// HostsKind is the kind of the lists of hosts. It is a kind of our own, because
// every API server that applies policies reads their parameters. If its own
// library knows the kind, it waits until it has read all objects before it
// reports ready, even if it may not read them (docs/adr/0034).
var HostsKind = schema.GroupVersionKind{Group: strings.TrimSuffix(state.AnnotationDomain, "/"), Version: "v1", Kind: "RouteHosts"}

// HostsResource is the plural name of the kind.
const HostsResource = "routehosts"

// RouteHosts lists to whom each host of one IngressController's routers
// belongs; package manifests contains its definition.
type RouteHosts struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Data map[string]string `json:"data,omitempty"`
}

// RouteHostsList is a list of them.
type RouteHostsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []RouteHosts `json:"items"`
}

// InstallHosts adds the kind to a scheme.
func InstallHosts(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(HostsKind.GroupVersion(), &RouteHosts{}, &RouteHostsList{})
	metav1.AddToGroupVersion(scheme, HostsKind.GroupVersion())
	return nil
}

// DeepCopyObject makes RouteHosts an object of the API.
func (h *RouteHosts) DeepCopyObject() runtime.Object {
	out := &RouteHosts{TypeMeta: h.TypeMeta, Data: maps.Clone(h.Data)}
	h.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject makes RouteHostsList a list of the API.
func (l *RouteHostsList) DeepCopyObject() runtime.Object {
	out := &RouteHostsList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*RouteHosts))
	}
	return out
}

// hosts returns the list of hosts with their owners.
func hosts(r *ingress.Router) *RouteHosts {
	apiVersion, kind := HostsKind.ToAPIVersionAndKind()
	out := &RouteHosts{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: meta(r, ingress.HostsName(r.Name)), Data: r.Hosts.Data,
	}
	out.Labels[ingress.LabelHosts] = ingress.HostsListed
	return out
}
