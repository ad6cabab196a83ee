package parts

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/workload"
)

// askedOf is for how many ports of Services a router is asked, of Ingresses and of routes each.
const askedOf = 5

// Led is a host that a router leads to a port of a Service.
type Led struct {
	Host, Path         string
	Namespace, Service string
	// Port is the port of the Service, by its number, or by its name if that is not empty.
	Number int32
	Name   string
}

// LedByIngresses returns where Ingresses of a class lead to, each port of a Service once and a few
// of them. A host with a wildcard is no name that could be asked for.
func LedByIngresses(list []networkingv1.Ingress, class string) []Led {
	var out []Led
	for i := range list {
		if of := list[i].Spec.IngressClassName; of == nil || *of != class {
			continue
		}
		for _, rule := range list[i].Spec.Rules {
			if !askable(rule.Host) || rule.HTTP == nil {
				continue
			}
			for _, p := range rule.HTTP.Paths {
				if s := p.Backend.Service; s != nil {
					out = append(out, Led{Host: rule.Host, Path: cmp.Or(p.Path, "/"), Namespace: list[i].Namespace, Service: s.Name, Number: s.Port.Number, Name: s.Port.Name})
				}
			}
		}
	}
	return some(out)
}

func askable(host string) bool { return host != "" && !strings.HasPrefix(host, "*") }

// some returns the first ones of a list, by their names, each port of a Service once.
func some(list []Led) []Led {
	slices.SortStableFunc(list, func(a, b Led) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Service, b.Service), cmp.Compare(a.Number, b.Number), strings.Compare(a.Name, b.Name))
	})
	list = slices.CompactFunc(list, func(a, b Led) bool {
		a.Host, a.Path = b.Host, b.Path
		return a == b
	})
	return list[:min(len(list), askedOf)]
}

// Gateway has the fields of a Gateway that matter here.
type Gateway struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Class     string     `json:"gatewayClassName"`
		Listeners []Listener `json:"listeners"`
	} `json:"spec"`
}

// Listener is one of a Gateway.
type Listener struct {
	Name     string `json:"name"`
	Hostname string `json:"hostname"`
	Protocol string `json:"protocol"`
}

// HTTPRoute has the fields of a route that matter here.
type HTTPRoute struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Hostnames []string    `json:"hostnames"`
		Rules     []routeRule `json:"rules"`
	} `json:"spec"`
	Status struct {
		Parents []struct {
			Parent     Parent             `json:"parentRef"`
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"parents"`
	} `json:"status"`
}

// routeRule is one rule of a route.
type routeRule struct {
	Matches []struct {
		Path struct {
			Type  string `json:"type"`
			Value string `json:"value"`
		} `json:"path"`
		Headers     []any  `json:"headers"`
		QueryParams []any  `json:"queryParams"`
		Method      string `json:"method"`
	} `json:"matches"`
	Backends []struct {
		Kind      string `json:"kind"`
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Port      int32  `json:"port"`
		Weight    *int32 `json:"weight"`
	} `json:"backendRefs"`
}

// Parent names a Gateway, and one of its listeners if Section is not empty.
type Parent struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Section   string `json:"sectionName"`
}

// LedByRoutes returns where routes that were accepted by a Gateway of a class lead to, as
// LedByIngresses does: those that plain HTTP reaches, by a path alone.
func LedByRoutes(list []HTTPRoute, gateways []Gateway, class string) []Led {
	var out []Led
	for i := range list {
		for _, host := range list[i].Spec.Hostnames {
			if askable(host) && list[i].reached(host, gateways, class) {
				out = append(out, list[i].leads(host)...)
			}
		}
	}
	return some(out)
}

// leads returns where a route leads a host.
func (r *HTTPRoute) leads(host string) []Led {
	var out []Led
	for _, rule := range r.Spec.Rules {
		path, plain := rule.plain()
		if !plain {
			continue
		}
		for _, b := range rule.Backends {
			if (b.Kind == "" || b.Kind == "Service") && (b.Namespace == "" || b.Namespace == r.Metadata.Namespace) && (b.Weight == nil || *b.Weight > 0) {
				out = append(out, Led{Host: host, Path: path, Namespace: r.Metadata.Namespace, Service: b.Name, Number: b.Port})
			}
		}
	}
	return out
}

// plain returns the path of the first match of a rule, if a plain request for that matches.
func (r routeRule) plain() (path string, is bool) {
	if len(r.Matches) == 0 {
		return "/", true
	}
	m := r.Matches[0]
	return cmp.Or(m.Path.Value, "/"), len(m.Headers)+len(m.QueryParams) == 0 && (m.Method == "" || m.Method == "GET") && m.Path.Type != "RegularExpression"
}

// reached reports whether a Gateway of a class takes plain HTTP for a host of the route, and its
// router said that it accepted the route and found what that names.
func (r *HTTPRoute) reached(host string, gateways []Gateway, class string) bool {
	for _, p := range r.Status.Parents {
		if !holds(p.Conditions, "Accepted") || !holds(p.Conditions, "ResolvedRefs") || p.Parent.Kind != "" && p.Parent.Kind != "Gateway" {
			continue
		}
		for i := range gateways {
			g := &gateways[i]
			if g.Spec.Class != class || g.Metadata.Name != p.Parent.Name || g.Metadata.Namespace != cmp.Or(p.Parent.Namespace, r.Metadata.Namespace) {
				continue
			}
			if slices.ContainsFunc(g.Spec.Listeners, func(l Listener) bool {
				return l.Protocol == "HTTP" && (p.Parent.Section == "" || p.Parent.Section == l.Name) && l.takes(host)
			}) {
				return true
			}
		}
	}
	return false
}

// takes reports whether a listener is for a host.
func (l Listener) takes(host string) bool {
	suffix, wild := strings.CutPrefix(l.Hostname, "*")
	return l.Hostname == "" || l.Hostname == host || wild && strings.HasSuffix(host, suffix)
}

func holds(list []metav1.Condition, kind string) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.Type == kind && c.Status == metav1.ConditionTrue })
}

// PodBehind returns where a ready pod of a Service serves the port to which a router leads; empty
// if none is known. Without the Service a port that is given by its number is known only if there
// is no other one.
func PodBehind(l Led, service *corev1.Service, list []discoveryv1.EndpointSlice) string {
	name, known := l.portOf(service)
	for _, s := range list {
		if !known && (service != nil || len(s.Ports) != 1) {
			continue
		}
		for _, p := range s.Ports {
			if at := podOf(s.Endpoints, p.Port); at != "" && (!known || nameOf(p) == name) {
				return at
			}
		}
	}
	return ""
}

// portOf returns the name of the port of a Service to which a router leads.
func (l Led) portOf(service *corev1.Service) (name string, known bool) {
	if l.Name != "" || service == nil {
		return l.Name, l.Name != ""
	}
	for _, p := range service.Spec.Ports {
		if p.Port == l.Number {
			return p.Name, true
		}
	}
	return "", false
}

// podOf returns where a ready pod serves a port; empty if none does.
func podOf(list []discoveryv1.Endpoint, port *int32) string {
	for _, e := range list {
		if port != nil && len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
			return at(e.Addresses[0], *port)
		}
	}
	return ""
}

// at returns an address with a port; empty if it is none.
func at(address string, port int32) string {
	a, err := netip.ParseAddr(address)
	if err != nil || port < 1 || port > 1<<16-1 {
		return ""
	}
	return netip.AddrPortFrom(a, uint16(port)).String()
}

func nameOf(p discoveryv1.EndpointPort) string {
	if p.Name == nil {
		return ""
	}
	return *p.Name
}

// RouterAt returns where a router that is ready serves a port; empty for another one.
func RouterAt(p *corev1.Pod, port string) string {
	if !workload.Ready(p) || p.DeletionTimestamp != nil || p.Status.PodIP == "" || len(p.Spec.Containers) == 0 {
		return ""
	}
	for _, of := range p.Spec.Containers[0].Ports {
		if of.Name == port {
			return at(p.Status.PodIP, of.ContainerPort)
		}
	}
	return ""
}
