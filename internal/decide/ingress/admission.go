package ingress

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Admission is the result of Admit: whether an IngressController is carried
// out, and with which domain and strategy.
type Admission struct {
	Domain string
	// Strategy is the strategy in force: the wanted one, or the present one
	// while the change is refused.
	Strategy *operatorv1.EndpointPublishingStrategy
	// Problems lists everything that is wrong; it is empty if the
	// IngressController is admitted.
	Problems []string
	// NotFollowed lists fields that are set and have no effect.
	NotFollowed []string
}

// Valid reports whether there are no problems.
func (a Admission) Valid() bool { return len(a.Problems) == 0 }

// Admit judges one IngressController among all of them. foreign names objects
// that it would need and that somebody else made; more lists further problems.
func Admit(ic *operatorv1.IngressController, all []operatorv1.IngressController, c Cluster, foreign []string, more ...string) Admission {
	wanted := EffectiveStrategy(ic.Spec.EndpointPublishingStrategy)
	a := Admission{Domain: domain(ic, c), Strategy: wanted, NotFollowed: notFollowed(&ic.Spec)}
	a.Problems = append(a.Problems, domainProblems(ic, a.Domain, all, c)...)
	a.Problems = append(a.Problems, strategyProblems(wanted)...)
	a.Problems = append(a.Problems, unasked(ic, wanted, c)...)
	a.Problems = append(a.Problems, blocked(ic, wanted, foreign)...)
	a.Problems = append(a.Problems, specProblems(&ic.Spec)...)
	a.Problems = append(a.Problems, more...)
	if _, err := overriddenFallback(ic); err != nil {
		a.Problems = append(a.Problems, err.Error())
	}
	if present := ic.Status.EndpointPublishingStrategy; !a.Valid() && present != nil {
		a.Strategy = EffectiveStrategy(present)
	}
	return a
}

// domain returns the domain of an IngressController. It is settled once and
// then stays, because routers, certificates and DNS names that point here
// depend on it.
func domain(ic *operatorv1.IngressController, c Cluster) string {
	return normalDomain(cmp.Or(ic.Status.Domain, ic.Spec.Domain, c.Domain))
}

func domainProblems(ic *operatorv1.IngressController, wanted string, all []operatorv1.IngressController, c Cluster) []string {
	if wanted == "" {
		return []string{"domain is required: set spec.domain, or the domain of ingresses.config.openshift.io/cluster"}
	}
	for i := range all {
		if other := &all[i]; goesBefore(other, ic, wanted, c) {
			return []string{"conflicts with: " + other.Name}
		}
	}
	return nil
}

// goesBefore reports whether another IngressController has a better claim to a
// domain: it was admitted with it, or it asks for it too and is older.
func goesBefore(other, ic *operatorv1.IngressController, wanted string, c Cluster) bool {
	if other.UID == ic.UID && other.Name == ic.Name {
		return false
	}
	if admitted(other) {
		return normalDomain(other.Status.Domain) == wanted && (!admitted(ic) || older(other, ic))
	}
	if admitted(ic) || other.DeletionTimestamp != nil {
		return false
	}
	return domain(other, c) == wanted && older(other, ic)
}

// older orders by creation time, and by name if both were created in the same
// second.
func older(a, b *operatorv1.IngressController) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// blocked refuses a new way of publishing if the Service for it belongs to
// somebody else. An IngressController that already publishes that way is not
// refused; a foreign Service then degrades it.
func blocked(ic *operatorv1.IngressController, wanted *operatorv1.EndpointPublishingStrategy, foreign []string) []string {
	if sameType(ic.Status.EndpointPublishingStrategy, wanted) || !NeedsService(wanted) {
		return nil
	}
	name := ObjectName("Service", OperandNamespace, RouterName(ic.Name))
	if !slices.Contains(foreign, name) {
		return nil
	}
	return []string{fmt.Sprintf("%s is needed for %s but has another owner: delete or rename it, "+
		"or set its label %s=%s to hand it over", name, wanted.Type, LabelOwner, ic.Name)}
}

func specProblems(spec *operatorv1.IngressControllerSpec) []string {
	out := append(tlsProblems(spec.TLSSecurityProfile), clientTLSProblems(spec.ClientTLS)...)
	if p := spec.NodePlacement; p != nil && p.NodeSelector != nil && len(p.NodeSelector.MatchExpressions) > 0 {
		out = append(out, "spec.nodePlacement.nodeSelector.matchExpressions: not supported, use matchLabels")
	}
	for path, s := range map[string]*metav1.LabelSelector{
		"spec.namespaceSelector": spec.NamespaceSelector, "spec.routeSelector": spec.RouteSelector,
	} {
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			out = append(out, fmt.Sprintf("%s: %v", path, err))
		}
	}
	if r := spec.Replicas; r != nil && *r < 0 {
		out = append(out, fmt.Sprintf("spec.replicas: %d is less than 0", *r))
	}
	t := spec.TuningOptions
	if t.HeaderBufferBytes != 0 && t.HeaderBufferMaxRewriteBytes != 0 && t.HeaderBufferBytes <= t.HeaderBufferMaxRewriteBytes {
		out = append(out, fmt.Sprintf("spec.tuningOptions.headerBufferBytes: %d is not more than headerBufferMaxRewriteBytes %d",
			t.HeaderBufferBytes, t.HeaderBufferMaxRewriteBytes))
	}
	return sorted(out)
}

func clientTLSProblems(c operatorv1.ClientTLS) []string {
	var out []string
	if c.ClientCertificatePolicy != "" && c.ClientCA.Name == "" {
		out = append(out, "spec.clientTLS.clientCA.name: required if clients have to present certificates")
	}
	for i, pattern := range c.AllowedSubjectPatterns {
		if _, err := regexp.Compile(pattern); err != nil {
			out = append(out, fmt.Sprintf("spec.clientTLS.allowedSubjectPatterns[%d]: %v", i, err))
		}
	}
	if len(c.AllowedSubjectPatterns) > 0 {
		// An administrator who set them relies on them: serving everybody would
		// be worse than serving nobody.
		out = append(out, "spec.clientTLS.allowedSubjectPatterns: these routers check only the issuer of a client certificate, not its subject")
	}
	return out
}

// message joins problems into the message of a condition.
func message(problems []string) string { return strings.Join(problems, "; ") }
