// Package ingress decides what becomes of an IngressController: whether it is
// admitted, what its routers are, which of a user's edits stay, and what its
// status says. It looks at values that were gathered before and writes nothing.
package ingress

import (
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// Where things are.
const (
	// Namespace holds the IngressControllers and the authority of their
	// default certificates.
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
	// AnnotationLocalFallback lets a network that knows it fall back to other
	// hosts where a host has no router.
	AnnotationLocalFallback = "traffic-policy.network.alpha.openshift.io/local-with-fallback"
)

// RouterName is the name of the Deployment, of the budget, of the network
// policy and of the Service that publishes the routers.
func RouterName(name string) string { return "router-" + name }

// InternalName is the name of the Service for the inside of the cluster.
func InternalName(name string) string { return "router-internal-" + name }

// CertificateName is the name of the Secret that routers serve by default.
func CertificateName(name string) string { return "router-certs-" + name }

// ConfigName is the name of the ConfigMap with a router's configuration.
func ConfigName(name string) string { return "router-config-" + name }

// HostsName is the name of the list that says whose hosts are, and was that of a
// ConfigMap with it.
func HostsName(name string) string { return "router-hosts-" + name }

// ClassName is the name of the IngressClass and of the GatewayClass.
func ClassName(name string) string { return "openshift-" + name }

// NamesOf returns the IngressControllers that an object may belong to by its
// name.
func NamesOf(object string) []string {
	var out []string
	for _, prefix := range []string{"router-internal-", "router-certs-", "router-config-", "router-hosts-", "router-", "openshift-"} {
		if name, ok := strings.CutPrefix(object, prefix); ok && name != "" {
			out = append(out, name)
		}
	}
	return out
}

// PodLabels are the labels by which the routers of one IngressController are
// found, and by which Services select them.
func PodLabels(name string) map[string]string { return map[string]string{LabelDeployment: name} }

// OwnerLabels are the labels of everything that belongs to one.
func OwnerLabels(name string) map[string]string { return map[string]string{LabelOwner: name} }

// Selector is what status.selector says.
func Selector(name string) string { return LabelDeployment + "=" + name }

// Owned reports whether labels are those of an object of this IngressController.
// What lacks them is somebody else's and is never touched.
func Owned(name string, labels map[string]string) bool { return labels[LabelOwner] == name }

// normalDomain is the one spelling of a domain that comparisons use.
func normalDomain(domain string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSpace(domain), "."))
}

// admitted reports whether an IngressController was admitted before.
func admitted(ic *operatorv1.IngressController) bool {
	c, ok := find(ic.Status.Conditions, Admitted)
	return ok && c.Status == operatorv1.ConditionTrue
}
