package ingress

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// legacyClass is the annotation with an Ingress's class from before there was a
// field for it.
const legacyClass = "kubernetes.io/ingress.class"

// routeKinds returns the kinds of routes that ask for hosts and that routers
// follow.
func routeKinds() []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, kind := range render.GatewayKinds() {
		switch kind.Kind {
		case "HTTPRoute", "GRPCRoute", "TLSRoute":
			out = append(out, kind)
		}
	}
	return out
}

// gatherRouted reads every object that asks for hosts, of all namespaces.
func (r *Reconciler) gatherRouted(ctx context.Context, g *gathered) error {
	var ingresses networkingv1.IngressList
	if err := r.Client.List(ctx, &ingresses); err != nil {
		return fmt.Errorf("list Ingresses: %w", err)
	}
	for i := range ingresses.Items {
		if o := ofIngress(&ingresses.Items[i]); o.Class != "" {
			g.routed = append(g.routed, o)
		}
	}
	if !r.gateways {
		return nil
	}
	for _, kind := range routeKinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := r.Client.List(ctx, list); err != nil {
			return fmt.Errorf("list %ss: %w", kind.Kind, err)
		}
		for i := range list.Items {
			g.routed = append(g.routed, ofRoute(&list.Items[i]))
		}
	}
	return nil
}

// ofIngress returns what an Ingress asks for; without a class no router follows
// it. An Ingress with rules has no default backend.
func ofIngress(i *networkingv1.Ingress) decide.Routed {
	out := decide.Routed{
		Kind: "Ingress", Namespace: i.Namespace, Name: i.Name, UID: string(i.UID),
		Created: i.CreationTimestamp.Time, Class: i.Annotations[legacyClass],
	}
	if i.Spec.IngressClassName != nil {
		out.Class = *i.Spec.IngressClassName
	}
	for _, rule := range i.Spec.Rules {
		asked := decide.Asked{Host: rule.Host}
		if rule.HTTP != nil {
			for _, p := range rule.HTTP.Paths {
				path := p.Path
				if path == "" {
					path = "/"
				}
				asked.Paths = append(asked.Paths, path)
			}
		}
		out.Asked = append(out.Asked, asked)
	}
	if len(i.Spec.Rules) == 0 {
		out.Asked = []decide.Asked{{Paths: []string{"/"}}}
	}
	return out
}

// ofRoute returns what a route asks for. One that names no Gateway asks for
// nothing.
func ofRoute(o *unstructured.Unstructured) decide.Routed {
	out := decide.Routed{
		Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), Created: o.GetCreationTimestamp().Time,
	}
	if !toGateway(o) {
		return out
	}
	hosts, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "hostnames")
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	paths := pathsOf(o)
	for _, h := range hosts {
		out.Asked = append(out.Asked, decide.Asked{Host: h, Paths: paths})
	}
	return out
}

func toGateway(o *unstructured.Unstructured) bool {
	parents, _, _ := unstructured.NestedSlice(o.Object, "spec", "parentRefs")
	for _, p := range parents {
		if parent, ok := p.(map[string]any); ok && parent["kind"] != "Service" {
			return true
		}
	}
	return false
}

// pathsOf returns the paths of an HTTPRoute. Other kinds have a host as a whole.
func pathsOf(o *unstructured.Unstructured) []string {
	if o.GetKind() != "HTTPRoute" {
		return []string{decide.AnyPath}
	}
	var out []string
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "rules")
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		matches, _, _ := unstructured.NestedSlice(rule, "matches")
		for _, m := range matches {
			match, _ := m.(map[string]any)
			path, found, _ := unstructured.NestedString(match, "path", "value")
			if !found {
				path = "/"
			}
			out = append(out, path)
		}
		if len(matches) == 0 {
			out = append(out, "/")
		}
	}
	return out
}

// tellTaken makes an event for each object that asks for another namespace's
// host, once for as long as it does. The event is about the object, where its
// owner looks.
func (r *Reconciler) tellTaken(g *gathered, hosts decide.HostList) {
	before := r.taken[g.name]
	now := map[string]bool{}
	for _, c := range hosts.Conflicts {
		text := c.String()
		now[text] = true
		if !before[text] {
			about := &unstructured.Unstructured{}
			about.SetGroupVersionKind(kindOfRouted(c.Object))
			about.SetNamespace(c.Object.Namespace)
			about.SetName(c.Object.Name)
			about.SetUID(types.UID(c.Object.UID))
			r.event(about, corev1.EventTypeWarning, "HostTaken", text)
		}
	}
	if r.taken == nil {
		r.taken = map[string]map[string]bool{}
	}
	r.taken[g.name] = now
}

func kindOfRouted(o decide.Routed) schema.GroupVersionKind {
	for _, kind := range routeKinds() {
		if kind.Kind == o.Kind {
			return kind
		}
	}
	return networkingv1.SchemeGroupVersion.WithKind(o.Kind)
}
