package ingress

import (
	"maps"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Router is one IngressController with everything settled that its routers
// depend on. It is the input for rendering.
type Router struct {
	Name, Domain string
	Strategy     *operatorv1.EndpointPublishingStrategy
	// HTTP, HTTPS and Stats are the ports on which a router listens.
	HTTP, HTTPS, Stats int32
	// ProxyProtocol reports whether the load balancer in front names the client
	// by the PROXY protocol.
	ProxyProtocol bool

	Replicas     int32
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// AvoidRemote keeps routers off hosts in other networks.
	AvoidRemote bool
	Rollout     Rollout
	Drain       Drain

	// Namespaces lists the namespaces that are served, RouteSelector selects
	// the routes in them; nil means all.
	Namespaces    []string
	RouteSelector *metav1.LabelSelector
	// Gateways reports whether the cluster has the kinds of the Gateway API.
	Gateways bool
	// Hosts records which namespace owns which host.
	Hosts HostList

	TLS *configv1.TLSProfileSpec
	// Certificate is the Secret that is served by default.
	Certificate string
	ClientTLS   operatorv1.ClientTLS
	// ClientCA holds the authorities of clients in PEM, empty if clients are
	// not asked for certificates.
	ClientCA string

	AccessLog        bool
	ForwardedHeaders operatorv1.IngressControllerHTTPHeaderPolicy
	// IdleTimeout and HeaderBytes are 0 for the router's own defaults.
	IdleTimeout time.Duration
	HeaderBytes int32
	// Address is the address that Ingresses and Gateways show in their status,
	// empty for none. It is only one, because routers do not write a second
	// one.
	Address string
	// LocalFallback asks a network plugin that knows it to fall back to other
	// hosts' routers.
	LocalFallback bool
}

// HostNetwork reports whether routers listen on their hosts' own addresses.
func (r *Router) HostNetwork() bool { return r.Strategy.Type == operatorv1.HostNetworkStrategyType }

// Drain holds the times of a router's shutdown.
type Drain struct {
	// Accept is how long a router takes new connections after it has reported
	// that it is not ready, so that load balancers in front notice.
	Accept time.Duration
	// Finish is how long open requests may take after that.
	Finish time.Duration
}

// Grace returns the grace period of a pod: both times and some spare.
func (d Drain) Grace() time.Duration { return d.Accept + d.Finish + drainSpare }

const drainSpare = 10 * time.Second

// drain depends on what a router occupies while it stops. On the host network
// the successor gets the ports only after the router has gone, so it must not
// take an hour. The number of routers does not matter, so scaling replaces no
// router. If another host serves meanwhile, the wait costs nobody anything. If
// one of two hosts is fenced, no other host serves, so the wait is at most ten
// seconds.
//
// A lone router takes no new connections while it finishes, and nobody else
// does either. Traefik finishes as soon as no request is under way, except that
// it waits to the end for connections that have not sent a request yet. Clients
// that connect ahead, as browsers do, always have some of those, so nearly
// every shutdown takes all of Finish. One second is enough for nearly every
// request. A longer request is cut, rather than everybody waiting for it.
func drain(hostNetwork, single bool) Drain {
	switch {
	case !hostNetwork:
		return Drain{Accept: 20 * time.Second, Finish: time.Hour - 20*time.Second - drainSpare}
	case !single:
		return Drain{Accept: 10 * time.Second, Finish: 10 * time.Second}
	}
	return Drain{Finish: time.Second}
}

// newRouter settles everything that does not depend on other objects.
func newRouter(ic *operatorv1.IngressController, domain string, strategy *operatorv1.EndpointPublishingStrategy, c Cluster) *Router {
	p := DefaultPlacement(c)
	r := &Router{
		Name: ic.Name, Domain: domain, Strategy: strategy, ProxyProtocol: proxyProtocol(strategy),
		HTTP: HTTPPort, HTTPS: HTTPSPort, Stats: StatsPort,
		Replicas: replicas(ic, p), AvoidRemote: !p.ControlPlane,
		TLS: TLSProfile(ic.Spec.TLSSecurityProfile), Certificate: CertificateName(ic.Name), ClientTLS: ic.Spec.ClientTLS,
	}
	if strategy.HostNetwork != nil {
		r.HTTP, r.HTTPS, r.Stats = strategy.HostNetwork.HTTPPort, strategy.HostNetwork.HTTPSPort, strategy.HostNetwork.StatsPort
	}
	if r.HostNetwork() && ic.Name == DefaultName && r.HTTP == HTTPPort && r.HTTPS == HTTPSPort {
		r.Address = c.Address // it leads to the default routers at these ports
	}
	place(r, ic.Spec.NodePlacement, p)
	tune(r, &ic.Spec)
	r.Drain = drain(r.HostNetwork(), p.Single)
	return r
}

func replicas(ic *operatorv1.IngressController, p Placement) int32 {
	if ic.Spec.Replicas != nil {
		return max(*ic.Spec.Replicas, 0)
	}
	return p.Replicas
}

// place takes the administrator's selector instead of the default one, and his
// tolerations in addition to ours: without ours, no host that the selector
// names would take a router.
func place(r *Router, wanted *operatorv1.NodePlacement, p Placement) {
	r.NodeSelector = maps.Clone(p.NodeSelector)
	var given []corev1.Toleration
	if wanted != nil {
		given = wanted.Tolerations
		if wanted.NodeSelector != nil {
			r.NodeSelector = copyLabels(wanted.NodeSelector.MatchLabels)
		}
	}
	r.Tolerations = append(r.Tolerations, given...)
	if selectsControlPlane(r.NodeSelector) {
		for _, t := range ControlPlaneTolerations() {
			if !tolerates(given, corev1.Taint{Key: t.Key, Effect: t.Effect}) {
				r.Tolerations = append(r.Tolerations, t)
			}
		}
	}
	r.Tolerations = append(r.Tolerations, stay(p.Single, given)...)
}

func tune(r *Router, spec *operatorv1.IngressControllerSpec) {
	r.AccessLog = spec.Logging != nil && spec.Logging.Access != nil
	if spec.HTTPHeaders != nil {
		r.ForwardedHeaders = spec.HTTPHeaders.ForwardedHeaderPolicy
	}
	if t := spec.TuningOptions.HTTPKeepAliveTimeout; t != nil {
		r.IdleTimeout = t.Duration
	}
	r.HeaderBytes = spec.TuningOptions.HeaderBufferBytes
}

// notFollowed names fields that are set and that these routers do not follow.
func notFollowed(spec *operatorv1.IngressControllerSpec) []string {
	t := spec.TuningOptions
	var out []string
	for field, set := range map[string]bool{
		"spec.httpErrorCodePages":                    spec.HttpErrorCodePages.Name != "",
		"spec.httpCompression":                       len(spec.HTTPCompression.MimeTypes) > 0,
		"spec.haproxyVersion":                        spec.HAProxyVersion != "",
		"spec.tuningOptions":                         t.ThreadCount != 0 || t.ClientTimeout != nil || t.ServerTimeout != nil || t.TunnelTimeout != nil || t.MaxConnections != 0,
		"spec.httpHeaders.actions":                   spec.HTTPHeaders != nil && (len(spec.HTTPHeaders.Actions.Request) > 0 || len(spec.HTTPHeaders.Actions.Response) > 0),
		"spec.httpHeaders (Never)":                   spec.HTTPHeaders != nil && spec.HTTPHeaders.ForwardedHeaderPolicy == operatorv1.NeverHTTPHeaderPolicy,
		"spec.httpHeaders (IfNone)":                  spec.HTTPHeaders != nil && spec.HTTPHeaders.ForwardedHeaderPolicy == operatorv1.IfNoneHTTPHeaderPolicy,
		"spec.httpHeaders.uniqueId":                  spec.HTTPHeaders != nil && spec.HTTPHeaders.UniqueId.Name != "",
		"spec.logging.access (syslog)":               spec.Logging != nil && spec.Logging.Access != nil && spec.Logging.Access.Destination.Type == operatorv1.SyslogLoggingDestinationType,
		"spec.httpHeaders.headerNameCaseAdjustments": spec.HTTPHeaders != nil && len(spec.HTTPHeaders.HeaderNameCaseAdjustments) > 0,
		"spec.httpEmptyRequestsPolicy":               spec.HTTPEmptyRequestsPolicy == operatorv1.HTTPEmptyRequestsPolicyIgnore,
		"spec.idleConnectionTerminationPolicy":       spec.IdleConnectionTerminationPolicy == operatorv1.IngressControllerConnectionTerminationPolicyDeferred,
		"spec.closedClientConnectionPolicy":          spec.ClosedClientConnectionPolicy == operatorv1.IngressControllerClosedClientConnectionPolicyAbort,
	} {
		if set {
			out = append(out, field)
		}
	}
	return sorted(out)
}
