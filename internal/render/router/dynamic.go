package router

import (
	"fmt"
	"math"

	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// Config returns Traefik's dynamic configuration: its own routes on the port
// for statistics, the default certificate, and the TLS settings.
func (Traefik) Config(r *ingress.Router) map[string]string {
	out := map[string]string{configKey: dynamic(r)}
	if r.ClientCA != "" {
		out[clientCAKey] = r.ClientCA
	}
	return out
}

// ControllerHeader names the IngressController in a router's health answers: a
// host asks its router whether that is a default one.
const ControllerHeader = "Ingress-Controller"

type route struct {
	EntryPoints []string `json:"entryPoints"`
	Rule        string   `json:"rule"`
	Service     string   `json:"service"`
	Middlewares []string `json:"middlewares,omitempty"`
	Priority    int64    `json:"priority,omitempty"`
}

type tlsOptions struct {
	MinVersion       string      `json:"minVersion,omitempty"`
	CipherSuites     []string    `json:"cipherSuites,omitempty"`
	CurvePreferences []string    `json:"curvePreferences,omitempty"`
	ClientAuth       *clientAuth `json:"clientAuth,omitempty"`
}

type clientAuth struct {
	CAFiles        []string `json:"caFiles"`
	ClientAuthType string   `json:"clientAuthType"`
}

// Names of the middlewares before Traefik's own services.
const (
	named = "holdfast-named"
	alive = "holdfast-alive"
	// nobodys answers for hosts that no route names.
	nobodys = "holdfast-nobodys"
)

// lastPriority comes after the default backend of an Ingress, to which Traefik
// gives the lowest 32-bit number.
const lastPriority int64 = math.MinInt32 - 1

// firstPriority is the highest priority that Traefik accepts: the router itself
// must answer a health request, whatever else leads to the port for statistics.
const firstPriority int64 = math.MaxInt64 - 1000

// everything is a rule that matches every request. It names a host because
// otherwise Traefik warns, at every change, of a rule that exists with and
// without TLS.
const everything = "PathPrefix(`/`) || Host(`nobody.invalid`)"

// retryAfter is the time after which a client may retry, in seconds: by then a
// starting router knows the cluster.
const retryAfter = "1"

// routes returns the router's own routes. Those for health and metrics are on
// the port for statistics. Traefik's ping stops reporting success as soon as
// Traefik begins to leave: that is its readiness. Traefik lives and serves
// until its end, and so does its API.
//
// The last route answers 503 to requests for a host that no route names. It
// exists before the router has read the cluster, when nobody knows whether
// there is such a host: a 404 would be permanent, and caches would keep it.
func routes(r *ingress.Router) map[string]route {
	stats := func(path, service string, middlewares ...string) route {
		return route{
			EntryPoints: []string{ingress.MetricsPort}, Rule: fmt.Sprintf("Path(`%s`)", path), Service: service, Middlewares: middlewares,
			Priority: firstPriority,
		}
	}
	out := map[string]route{
		"holdfast-alive":   stats(alivePath, "api@internal", named, alive),
		"holdfast-ready":   stats(readyPath, "ping@internal", named),
		"holdfast-metrics": stats(metricsPath, "prometheus@internal"),
		nobodys: {
			EntryPoints: []string{PortHTTP, portHTTPS}, Rule: everything, Service: nobodys,
			Middlewares: []string{nobodys}, Priority: lastPriority,
		},
	}
	if markerLabels(r) != nil {
		out["holdfast-started"] = stats(startedPath(r), "api@internal")
	}
	return out
}

func middlewares(r *ingress.Router) map[string]any {
	header := func(name, value string) any {
		return map[string]any{"headers": map[string]any{"customResponseHeaders": map[string]string{name: value}}}
	}
	return map[string]any{
		named:   header(ControllerHeader, r.Name),
		alive:   map[string]any{"replacePath": map[string]string{"path": "/api/version"}},
		nobodys: header("Retry-After", retryAfter),
	}
}

// services returns the services that the routes need. A service without servers
// answers 503.
func services() map[string]any {
	return map[string]any{nobodys: map[string]any{"loadBalancer": map[string]any{"servers": []any{}}}}
}

func dynamic(r *ingress.Router) string {
	data, err := yaml.Marshal(map[string]any{
		"http": map[string]any{"routers": routes(r), "middlewares": middlewares(r), "services": services()},
		"tls": map[string]any{
			"stores": map[string]any{"default": map[string]any{"defaultCertificate": map[string]string{
				"certFile": Folder + "/tls/tls.crt", "keyFile": Folder + "/tls/tls.key",
			}}},
			"options": map[string]any{"default": options(r)},
		},
	})
	if err != nil {
		panic(err) // the value contains nothing that YAML cannot express
	}
	return string(data)
}

func options(r *ingress.Router) tlsOptions {
	out := tlsOptions{MinVersion: string(r.TLS.MinTLSVersion), CipherSuites: ingress.Ciphers(r.TLS)}
	if r.ClientCA == "" {
		return out
	}
	kind := "VerifyClientCertIfGiven"
	if r.ClientTLS.ClientCertificatePolicy == operatorv1.ClientCertificatePolicyRequired {
		kind = "RequireAndVerifyClientCert"
	}
	out.ClientAuth = &clientAuth{CAFiles: []string{Folder + "/client-ca/" + clientCAKey}, ClientAuthType: kind}
	return out
}

var (
	read  = []string{"get", "list", "watch"}
	write = []string{"update", "patch"}
)

// Rules returns the rights of Traefik's two providers: what they read in the
// cluster, and the statuses of Ingresses and Gateways that they write. They
// read no Secrets and ConfigMaps except copies (payload's patches).
func (Traefik) Rules() []rbacv1.PolicyRule {
	const gateway = ingress.GatewayGroup
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "nodes", "services"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingressclasses", "ingresses"}, Verbs: read},
		{
			APIGroups: []string{gateway},
			Resources: []string{"backendtlspolicies", "gatewayclasses", "gateways", "grpcroutes", "httproutes", "referencegrants", "tlsroutes"},
			Verbs:     read,
		},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses/status"}, Verbs: write},
		{
			APIGroups: []string{gateway},
			Resources: []string{
				"backendtlspolicies/status", "gatewayclasses/status", "gateways/status", "grpcroutes/status", "httproutes/status",
				"tlsroutes/status",
			},
			Verbs: write,
		},
	}
}
