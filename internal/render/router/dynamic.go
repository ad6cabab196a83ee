package router

import (
	"fmt"
	"math"

	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// Config is Traefik's dynamic configuration: its own routes on the port for
// statistics, the default certificate, and what TLS it speaks.
func (Traefik) Config(r *ingress.Router) map[string]string {
	out := map[string]string{configKey: dynamic(r)}
	if r.ClientCA != "" {
		out[clientCAKey] = r.ClientCA
	}
	return out
}

// ControllerHeader names the IngressController in a router's answers about its
// health: a host asks the router on it whether it is a default one.
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

// Names of what Traefik puts before its own services.
const (
	named = "holdfast-named"
	alive = "holdfast-alive"
	// nobodys answers for hosts that no route names.
	nobodys = "holdfast-nobodys"
)

// lastPriority comes after the default backend of an Ingress, to which Traefik
// gives the lowest number of 32 bits.
const lastPriority int64 = math.MinInt32 - 1

// firstPriority is the highest that Traefik takes: whoever asks how a router is
// must be answered by it, whatever else leads to the port for statistics.
const firstPriority int64 = math.MaxInt64 - 1000

// everything is a rule that every request follows. It names a host because
// Traefik warns of a rule with TLS and without one, at every change.
const everything = "PathPrefix(`/`) || Host(`nobody.invalid`)"

// retryAfter is when a client may ask again, in seconds: a router that starts
// knows the cluster by then.
const retryAfter = "1"

// routes are those on the port for statistics. Traefik's ping says no more
// that all is well as soon as it begins to leave: that is its readiness. It
// lives and serves until its end, and so its API does.
//
// The last one answers 503 to whoever asks for a host that no route names. It
// is there before the cluster has been read, when nobody can say whether there
// is such a host: 404 would be for good, and is what caches keep.
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
			EntryPoints: []string{portHTTP, portHTTPS}, Rule: everything, Service: nobodys,
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

// services are those without which a route leads nowhere. One that has no
// servers is answered for with 503.
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
		panic(err) // nothing that YAML cannot hold
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

// Rules are what Traefik's two providers read in the cluster, and the statuses
// of Ingresses and Gateways that they write. They read no Secret and no
// ConfigMap but copies (payload's patches).
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
