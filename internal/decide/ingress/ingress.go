// Package ingress decides about an IngressController: whether it is admitted,
// how its routers are configured, which of a user's edits stay, and what its
// status says. It decides from values that the caller gathered, and writes
// nothing.
package ingress

import (
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// The namespaces, and the name of the default IngressController.
const (
	// Namespace holds the IngressControllers and the authority of their default
	// certificates.
	Namespace = "openshift-ingress-operator"
	// OperandNamespace holds the routers.
	OperandNamespace = "openshift-ingress"
	// DefaultName is the IngressController that every cluster has.
	DefaultName = "default"
)

// Labels, annotations and the finalizer by which other tools know these
// objects; the names are the API's.
const (
	LabelOwner      = "ingresscontroller.operator.openshift.io/owning-ingresscontroller"
	LabelDeployment = "ingresscontroller.operator.openshift.io/deployment-ingresscontroller"
	LabelHash       = "ingresscontroller.operator.openshift.io/hash"
	Finalizer       = "ingresscontroller.operator.openshift.io/finalizer-ingresscontroller"
	// AnnotationNodePort marks the Service of the strategy NodePortService.
	AnnotationNodePort = "operator.openshift.io/node-port-service-for"
	// AnnotationLocalFallback lets a network plugin that knows it fall back to
	// other hosts if a host has no router.
	AnnotationLocalFallback = "traffic-policy.network.alpha.openshift.io/local-with-fallback"
)

// RouterName is the name of the Deployment, of its disruption budget, of the
// network policy and of the Service that publishes the routers.
func RouterName(name string) string { return "router-" + name }

// InternalName is the name of the Service for the inside of the cluster.
func InternalName(name string) string { return "router-internal-" + name }

// CertificateName is the name of the Secret that routers serve by default.
func CertificateName(name string) string { return "router-certs-" + name }

// ConfigName is the name of the ConfigMap with a router's configuration.
func ConfigName(name string) string { return "router-config-" + name }

// HostsName is the name of the list of hosts and their owners, and of the
// ConfigMap that held it in earlier releases.
func HostsName(name string) string { return "router-hosts-" + name }

// ClassName is the name of the IngressClass and of the GatewayClass.
func ClassName(name string) string { return "openshift-" + name }

// NamesOf returns the names of the IngressControllers that an object may belong
// to, judging by its name.
func NamesOf(object string) []string {
	var out []string
	for _, prefix := range []string{"router-internal-", "router-certs-", "router-config-", "router-hosts-", "router-", "openshift-"} {
		if name, ok := strings.CutPrefix(object, prefix); ok && name != "" {
			out = append(out, name)
		}
	}
	return out
}

// PodLabels returns the labels of one IngressController's routers, by which
// Services select them.
func PodLabels(name string) map[string]string { return map[string]string{LabelDeployment: name} }

// OwnerLabels returns the labels of everything that belongs to one
// IngressController.
func OwnerLabels(name string) map[string]string { return map[string]string{LabelOwner: name} }

// Selector returns the value of status.selector.
func Selector(name string) string { return LabelDeployment + "=" + name }

// Owned reports whether an object with these labels belongs to this
// IngressController. An object without them is foreign and is never touched.
func Owned(name string, labels map[string]string) bool { return labels[LabelOwner] == name }

// normalDomain returns the spelling of a domain that comparisons use.
func normalDomain(domain string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSpace(domain), "."))
}

// admitted reports whether an IngressController was admitted before.
func admitted(ic *operatorv1.IngressController) bool {
	c, ok := find(ic.Status.Conditions, Admitted)
	return ok && c.Status == operatorv1.ConditionTrue
}
