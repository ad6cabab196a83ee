package router

import (
	"fmt"

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
)

// routes are those on the port for statistics. Traefik's ping says no more
// that all is well as soon as it begins to leave: that is its readiness. It
// lives and serves until its end, and so its API does.
func routes(r *ingress.Router) map[string]route {
	stats := func(path, service string, middlewares ...string) route {
		return route{EntryPoints: []string{ingress.MetricsPort}, Rule: fmt.Sprintf("Path(`%s`)", path), Service: service, Middlewares: middlewares}
	}
	out := map[string]route{
		"holdfast-alive":   stats(alivePath, "api@internal", named, alive),
		"holdfast-ready":   stats(readyPath, "ping@internal", named),
		"holdfast-metrics": stats(metricsPath, "prometheus@internal"),
	}
	if markerLabels(r) != nil {
		out["holdfast-started"] = stats(startedPath(r), "api@internal")
	}
	return out
}

func middlewares(r *ingress.Router) map[string]any {
	return map[string]any{
		named: map[string]any{"headers": map[string]any{"customResponseHeaders": map[string]string{ControllerHeader: r.Name}}},
		alive: map[string]any{"replacePath": map[string]string{"path": "/api/version"}},
	}
}

func dynamic(r *ingress.Router) string {
	data, err := yaml.Marshal(map[string]any{
		"http": map[string]any{"routers": routes(r), "middlewares": middlewares(r)},
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

// Rules are what Traefik's two providers read, and the statuses of Gateways
// that it writes. Secrets are the certificates that Ingresses and Gateways
// name, of which any may be one.
func (Traefik) Rules() []rbacv1.PolicyRule {
	const gateway = "gateway.networking.k8s.io"
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "namespaces", "nodes", "secrets", "services"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingressclasses", "ingresses"}, Verbs: read},
		{
			APIGroups: []string{gateway},
			Resources: []string{"backendtlspolicies", "gatewayclasses", "gateways", "grpcroutes", "httproutes", "referencegrants"},
			Verbs:     read,
		},
		{
			APIGroups: []string{gateway},
			Resources: []string{
				"backendtlspolicies/status", "gatewayclasses/status", "gateways/status", "grpcroutes/status", "httproutes/status",
			},
			Verbs: write,
		},
	}
}
