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

// readTimeout bounds a whole request; an hour's upload is none of ours.
const readTimeout = 10 * time.Minute

// Controllers are the names that Traefik has built in.
func (Traefik) Controllers() (ingressClass, gatewayClass string) {
	return "traefik.io/ingress-controller", "traefik.io/gateway-controller"
}

// Paths are served by Config's own routes. Traefik answers its ping before it
// has read anything, so a start is over when it knows the marker.
func (Traefik) Paths(r *ingress.Router) Paths {
	return Paths{Started: startedPath(r), Alive: alivePath, Ready: readyPath}
}

// The paths by which hosts and kubelet ask.
const (
	alivePath = "/healthz"
	readyPath = "/healthz/ready"
	// metricsPath is where Prometheus asks.
	metricsPath = "/metrics"
)

func startedPath(r *ingress.Router) string {
	if markerLabels(r) == nil {
		return alivePath // it would never be selected
	}
	return "/api/http/routers/" + markerRoute(r) + "@kubernetes"
}

// Container is Traefik with its static configuration as arguments: a change of
// it is a new router.
func (Traefik) Container(r *ingress.Router) corev1.Container {
	return corev1.Container{
		Name: "router", Image: payload.Image("traefik"), Command: []string{"/usr/local/bin/traefik"}, Args: Arguments(r),
		Env: []corev1.EnvVar{{Name: payload.CertificatesVariable, Value: ingress.CertificatesNamespace}},
	}
}

// ReadsCopies is whether a router reads copies of Secrets and no others. Those
// of earlier releases read all of the cluster.
func ReadsCopies(p *corev1.PodSpec) bool {
	return slices.ContainsFunc(p.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Env, corev1.EnvVar{Name: payload.CertificatesVariable, Value: ingress.CertificatesNamespace})
	})
}

// Arguments are Traefik's arguments for one IngressController.
func Arguments(r *ingress.Router) []string {
	args := []string{
		"--global.checknewversion=false", "--global.sendanonymoususage=false",
		"--log.level=INFO", "--log.format=common",
		"--api=true", "--api.dashboard=false",
		"--ping=true", "--ping.manualrouting=true",
		"--metrics.prometheus=true", "--metrics.prometheus.manualrouting=true",
		// Files are what it has first of all only if nothing waits for a second
		// change; and a change that waits keeps one that leaves for two seconds.
		"--providers.providersthrottleduration=0s",
		"--providers.file.directory=" + Folder, "--providers.file.watch=true",
	}
	args = append(args, entryPoint(r, portHTTP, r.HTTP, "asdefault=true")...)
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
	// Said, so that it does not warn: a header's name is its sender's business.
	settings = append(settings, "http.aliasheadersstrategy=keep")
	var out []string
	for _, s := range append(settings, extra...) {
		out = append(out, prefix+s)
	}
	return out
}

// web are the settings of the ports that clients use.
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

// served are the namespaces that are served, and that of the marker.
func served(r *ingress.Router) []string {
	if slices.Contains(r.Namespaces, ingress.OperandNamespace) {
		return r.Namespaces
	}
	return append([]string{ingress.OperandNamespace}, r.Namespaces...)
}

// onlyOwn keeps what is the routers' own, their API among it, from everybody
// whose objects are not in their namespace: by a name with an @ a Service, an
// Ingress or a route of any namespace would lead there.
const onlyOwn = ".crossprovidernamespaces=" + ingress.OperandNamespace

// providers read the cluster. Gateways are found by their class, and classes
// by their owner.
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

// addresses are what the status of Ingresses and Gateways says: a virtual IP
// that leads to these routers, or what a load balancer gave their Service.
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
