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

// HostsKind is the kind of lists of hosts. It is one of our own, since every API
// server that judges by policies reads their parameters: of a kind that its own
// library knows it waits until it has read all before it says that it is ready,
// also where it may not read them (docs/adr/0034).
var HostsKind = schema.GroupVersionKind{Group: strings.TrimSuffix(state.AnnotationDomain, "/"), Version: "v1", Kind: "RouteHosts"}

// HostsResource is the plural of the kind.
const HostsResource = "routehosts"

// RouteHosts is the list of whose the hosts of one IngressController's routers
// are; its definition is in package manifests.
type RouteHosts struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Data map[string]string `json:"data,omitempty"`
}

// RouteHostsList are several.
type RouteHostsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []RouteHosts `json:"items"`
}

// InstallHosts has a scheme know the kind.
func InstallHosts(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(HostsKind.GroupVersion(), &RouteHosts{}, &RouteHostsList{})
	metav1.AddToGroupVersion(scheme, HostsKind.GroupVersion())
	return nil
}

// DeepCopyObject makes it an object of the API.
func (h *RouteHosts) DeepCopyObject() runtime.Object {
	out := &RouteHosts{TypeMeta: h.TypeMeta, Data: maps.Clone(h.Data)}
	h.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject makes it a list of the API.
func (l *RouteHostsList) DeepCopyObject() runtime.Object {
	out := &RouteHostsList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*RouteHosts))
	}
	return out
}

// hosts is the list of whose hosts are.
func hosts(r *ingress.Router) *RouteHosts {
	apiVersion, kind := HostsKind.ToAPIVersionAndKind()
	out := &RouteHosts{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: meta(r, ingress.HostsName(r.Name)), Data: r.Hosts.Data,
	}
	out.Labels[ingress.LabelHosts] = ingress.HostsListed
	return out
}
