package router

import (
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// Traefik is Traefik v3 with its providers for Ingresses and for Gateways.
type Traefik struct{}

// readTimeout bounds a whole request; an upload of an hour is not supported.
const readTimeout = 10 * time.Minute

// Controllers returns the names that are built into Traefik.
func (Traefik) Controllers() (ingressClass, gatewayClass string) {
	return "traefik.io/ingress-controller", "traefik.io/gateway-controller"
}

// Paths returns the paths of Config's own routes. Traefik answers its ping
// before it has read anything, so a start ends only when Traefik knows the
// marker.
func (Traefik) Paths(r *ingress.Router) Paths {
	return Paths{Started: startedPath(r), Alive: alivePath, Ready: readyPath}
}

// The paths for requests by hosts and kubelet.
const (
	alivePath = "/healthz"
	readyPath = "/healthz/ready"
	// metricsPath is the path for Prometheus.
	metricsPath = "/metrics"
)

func startedPath(r *ingress.Router) string {
	if markerLabels(r) == nil {
		return alivePath // the marker would never be selected
	}
	return "/api/http/routers/" + markerRoute(r) + "@kubernetes"
}

// Container returns Traefik with its static configuration as arguments: a
// change of those makes a new router.
func (Traefik) Container(r *ingress.Router) corev1.Container {
	return corev1.Container{
		Name: "router", Image: payload.Image("traefik"), Command: []string{"/usr/local/bin/traefik"}, Args: Arguments(r),
		Env: []corev1.EnvVar{{Name: payload.CertificatesVariable, Value: ingress.CertificatesNamespace}},
	}
}

// ReadsCopies reports whether a router reads only copies of Secrets. Routers of
// earlier releases read all Secrets of the cluster.
func ReadsCopies(p *corev1.PodSpec) bool {
	return slices.ContainsFunc(p.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Env, corev1.EnvVar{Name: payload.CertificatesVariable, Value: ingress.CertificatesNamespace})
	})
}

// Arguments returns Traefik's arguments for one IngressController.
func Arguments(r *ingress.Router) []string {
	args := []string{
		"--global.checknewversion=false", "--global.sendanonymoususage=false",
		"--log.level=INFO", "--log.format=common",
		"--api=true", "--api.dashboard=false",
		"--ping=true", "--ping.manualrouting=true",
		"--metrics.prometheus=true", "--metrics.prometheus.manualrouting=true",
		// The files are read first only if no change waits for a second one; and a
		// waiting change would delay a router that leaves by two seconds.
		"--providers.providersthrottleduration=0s",
		"--providers.file.directory=" + Folder, "--providers.file.watch=true",
	}
	args = append(args, entryPoint(r, PortHTTP, r.HTTP, "asdefault=true")...)
	args = append(args, entryPoint(r, portHTTPS, r.HTTPS, "asdefault=true", "http.tls=true")...)
	args = append(args, entryPoint(r, ingress.MetricsPort, r.Stats)...)
	args = append(args, providers(r)...)
	if r.AccessLog {
		args = append(args, "--accesslog=true")
	}
	return args
}

func entryPoint(r *ingress.Router, name string, number int32, extra ...string) []string {
	prefix := "--entrypoints." + name + "."
	settings := []string{
		fmt.Sprintf("address=:%d", number),
		"transport.lifecycle.requestacceptgracetimeout=" + seconds(r.Drain.Accept),
		"transport.lifecycle.gracetimeout=" + seconds(r.Drain.Finish),
		"transport.respondingtimeouts.readtimeout=" + seconds(readTimeout),
	}
	if name != ingress.MetricsPort {
		settings = append(settings, web(r)...)
	}
	// Set explicitly, so that Traefik does not warn: the sender is responsible for
	// a header's name.
	settings = append(settings, "http.aliasheadersstrategy=keep")
	var out []string
	for _, s := range append(settings, extra...) {
		out = append(out, prefix+s)
	}
	return out
}

// web returns the settings of the ports for clients.
func web(r *ingress.Router) []string {
	var out []string
	if r.ProxyProtocol {
		out = append(out, "proxyprotocol.insecure=true")
	}
	switch r.ForwardedHeaders {
	case operatorv1.ReplaceHTTPHeaderPolicy, operatorv1.NeverHTTPHeaderPolicy:
	case operatorv1.AppendHTTPHeaderPolicy, operatorv1.IfNoneHTTPHeaderPolicy:
		out = append(out, "forwardedheaders.insecure=true")
	default:
		out = append(out, "forwardedheaders.insecure=true") // the API's default is Append
	}
	if r.IdleTimeout > 0 {
		out = append(out, "transport.respondingtimeouts.idletimeout="+seconds(r.IdleTimeout))
	}
	if r.HeaderBytes > 0 {
		out = append(out, fmt.Sprintf("http.maxheaderbytes=%d", r.HeaderBytes))
	}
	return out
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

// served returns the served namespaces, and that of the marker.
func served(r *ingress.Router) []string {
	if slices.Contains(r.Namespaces, ingress.OperandNamespace) {
		return r.Namespaces
	}
	return append([]string{ingress.OperandNamespace}, r.Namespaces...)
}

// onlyOwn protects the routers' own services, among them their API. Otherwise a
// Service, an Ingress or a route in any namespace could reach them by a name
// with an @.
const onlyOwn = ".crossprovidernamespaces=" + ingress.OperandNamespace

// providers returns the settings of the providers, which read the cluster.
// Gateways are found by their class, and classes by their owner.
func providers(r *ingress.Router) []string {
	const ingresses, gateways = "--providers.kubernetesingress", "--providers.kubernetesgateway"
	out := []string{
		ingresses + "=true", ingresses + ".ingressclass=" + ingress.ClassName(r.Name), ingresses + ".allowemptyservices=true",
		ingresses + ".strictprefixmatching=true", ingresses + onlyOwn,
	}
	if r.Gateways {
		out = append(out, gateways+"=true", gateways+".labelselector="+ingress.LabelOwner+"="+r.Name, gateways+onlyOwn)
	}
	out = append(out, addresses(r, ingresses, gateways)...)
	if r.RouteSelector != nil {
		out = append(out, ingresses+".labelselector="+metav1.FormatLabelSelector(r.RouteSelector))
	}
	if r.Namespaces != nil {
		list := strings.Join(served(r), ",")
		out = append(out, ingresses+".namespaces="+list)
		if r.Gateways {
			out = append(out, gateways+".namespaces="+list)
		}
	}
	return out
}

// addresses returns the settings for the address in the status of Ingresses and
// Gateways: a virtual IP that leads to these routers, or the address that a
// load balancer gave their Service.
func addresses(r *ingress.Router, ingresses, gateways string) []string {
	var out []string
	switch {
	case r.Address != "":
		out = append(out, ingresses+".ingressendpoint.ip="+r.Address)
		if r.Gateways {
			out = append(out, gateways+".statusaddress.ip="+r.Address)
		}
	case r.Strategy.Type == operatorv1.LoadBalancerServiceStrategyType:
		service := ingress.RouterName(r.Name)
		out = append(out, ingresses+".ingressendpoint.publishedservice="+ingress.OperandNamespace+"/"+service)
		if r.Gateways {
			out = append(out, gateways+".statusaddress.service.namespace="+ingress.OperandNamespace, gateways+".statusaddress.service.name="+service)
		}
	}
	return out
}
