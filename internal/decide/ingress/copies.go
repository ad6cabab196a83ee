package ingress

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// CertificatesNamespace holds copies of the Secrets and ConfigMaps of other
// namespaces that routers need. The routers' account is used on workers and may
// read nothing but these copies.
const CertificatesNamespace = "holdfast-router-certificates"

// AnnotationCopyOf names the source of a copy, AnnotationCopied the version of
// the source, and AnnotationDigest the digest of the copy's content when it was
// made.
const (
	AnnotationCopyOf = state.AnnotationDomain + "copy-of"
	AnnotationCopied = state.AnnotationDomain + "copied-version"
	AnnotationDigest = state.AnnotationDomain + "copied-digest"
)

// The kinds of objects that are copied.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// authorityKey is the key of a ConfigMap or Secret that holds the authorities
// of a backend.
const authorityKey = "ca.crt"

// Source is an object that an Ingress or a Gateway names.
type Source struct{ Kind, Namespace, Name string }

// CopyName returns the name of the source's copy. A namespace has no dots, so
// the first dot ends it.
func (s Source) CopyName() string { return s.Namespace + "." + s.Name }

func (s Source) String() string { return s.Kind + " " + s.Namespace + "/" + s.Name }

// maxObjectName is the API's limit for the length of a name.
const maxObjectName = 253

// Needed names a source and the parts of it that routers read.
type Needed struct {
	Source
	// Pair asks for a certificate with its key, Authority for the authorities
	// of backends.
	Pair, Authority bool
	// By is the first route that names it.
	By Route
}

// Route is an object that names sources: an Ingress, a Gateway or a
// BackendTLSPolicy.
type Route struct{ Kind, Namespace, Name string }

// Refused is a route that names a source that routers never get, and why.
type Refused struct {
	Route
	Why string
}

// Reference is a reference of the Gateway API.
type Reference struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// Gateway has the fields of a Gateway API Gateway that matter here.
type Gateway struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ClassName string `json:"gatewayClassName"`
		Listeners []struct {
			TLS struct {
				CertificateRefs []Reference `json:"certificateRefs"`
			} `json:"tls"`
		} `json:"listeners"`
	} `json:"spec"`
}

// BackendTLSPolicy has the fields of a Gateway API BackendTLSPolicy that matter
// here.
type BackendTLSPolicy struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Validation struct {
			CACertificateRefs []Reference `json:"caCertificateRefs"`
		} `json:"validation"`
	} `json:"spec"`
}

// ReferenceGrant has the fields of a Gateway API ReferenceGrant that matter
// here.
type ReferenceGrant struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		From []Reference `json:"from"`
		To   []Reference `json:"to"`
	} `json:"spec"`
}

// Routes holds all objects that may name sources.
type Routes struct {
	// Classes lists the names of our classes.
	Classes   []string
	Ingresses []networkingv1.Ingress
	Gateways  []Gateway
	Policies  []BackendTLSPolicy
	Grants    []ReferenceGrant
}

// NeededBy returns what routers need and what they are refused, both sorted.
func NeededBy(r Routes) ([]Needed, []Refused) {
	n := needs{of: map[Source]Needed{}}
	for i := range r.Ingresses {
		n.ingress(&r.Ingresses[i], r.Classes)
	}
	for i := range r.Gateways {
		n.gateway(&r.Gateways[i], r)
	}
	for i := range r.Policies {
		n.policy(&r.Policies[i])
	}
	needed := slices.SortedFunc(maps.Values(n.of), func(a, b Needed) int { return strings.Compare(a.String(), b.String()) })
	slices.SortFunc(n.refused, func(a, b Refused) int {
		return cmp.Or(strings.Compare(fmt.Sprint(a.Route), fmt.Sprint(b.Route)), strings.Compare(a.Why, b.Why))
	})
	return needed, slices.Compact(n.refused)
}

type needs struct {
	of      map[Source]Needed
	refused []Refused
}

// add records a source that a route names, or why no router gets it.
func (n *needs) add(by Route, what Needed) {
	switch {
	case !Lends(what.Namespace):
		n.refused = append(n.refused, Refused{by, fmt.Sprintf("%s: objects of this namespace are not given to routers, since routers run on workers: "+
			"put a separate certificate into another namespace, or use the default one", what.Source)})
		return
	case len(what.CopyName()) > maxObjectName:
		n.refused = append(n.refused, Refused{by, fmt.Sprintf("%s: its name and its namespace's have more than %d characters together: use a shorter name",
			what.Source, maxObjectName-1)})
		return
	}
	if before, there := n.of[what.Source]; there {
		what.Pair, what.Authority, by = what.Pair || before.Pair, what.Authority || before.Authority, before.By
	}
	what.By = by
	n.of[what.Source] = what
}

// Lends reports whether routers may be given anything of a namespace. The
// cluster's own namespaces hold the BMC accounts, tokens and authorities:
// anyone who may create an Ingress there must not have one of those copied to
// where workers can read it.
func Lends(namespace string) bool {
	switch namespace {
	case OperandNamespace:
		return true
	case CertificatesNamespace:
		return false
	}
	return !strings.HasPrefix(namespace, "kube-") && !strings.HasPrefix(namespace, "openshift-")
}

func (n *needs) ingress(i *networkingv1.Ingress, classes []string) {
	class := i.Annotations["kubernetes.io/ingress.class"]
	if i.Spec.IngressClassName != nil {
		class = *i.Spec.IngressClassName
	}
	if !slices.Contains(classes, class) {
		return
	}
	for _, t := range i.Spec.TLS {
		if t.SecretName != "" {
			n.add(Route{"Ingress", i.Namespace, i.Name}, Needed{Source: Source{KindSecret, i.Namespace, t.SecretName}, Pair: true})
		}
	}
}

func (n *needs) gateway(g *Gateway, r Routes) {
	if !slices.Contains(r.Classes, g.Spec.ClassName) {
		return
	}
	for _, l := range g.Spec.Listeners {
		for _, ref := range l.TLS.CertificateRefs {
			what := Needed{Source: Source{KindSecret, cmp.Or(ref.Namespace, g.Namespace), ref.Name}, Pair: true}
			if ref.Group == "" && cmp.Or(ref.Kind, KindSecret) == KindSecret && granted(g.Namespace, what.Source, r.Grants) {
				n.add(Route{"Gateway", g.Namespace, g.Name}, what)
			}
		}
	}
}

// granted reports whether a Gateway may name a Secret. A Secret of another
// namespace needs a grant there. Routers check that themselves; this check also
// prevents that naming somebody else's key gets it copied.
func granted(from string, secret Source, grants []ReferenceGrant) bool {
	if from == secret.Namespace {
		return true
	}
	return slices.ContainsFunc(grants, func(g ReferenceGrant) bool {
		return g.Namespace == secret.Namespace &&
			slices.ContainsFunc(g.Spec.From, func(f Reference) bool {
				return f.Group == GatewayGroup && f.Kind == "Gateway" && f.Namespace == from
			}) &&
			slices.ContainsFunc(g.Spec.To, func(t Reference) bool {
				return t.Group == "" && t.Kind == KindSecret && (t.Name == "" || t.Name == secret.Name)
			})
	})
}

// GatewayGroup is the group of the Gateway API.
const GatewayGroup = "gateway.networking.k8s.io"

func (n *needs) policy(p *BackendTLSPolicy) {
	for _, ref := range p.Spec.Validation.CACertificateRefs {
		if ref.Group == "" && (ref.Kind == KindSecret || ref.Kind == KindConfigMap) {
			n.add(Route{"BackendTLSPolicy", p.Namespace, p.Name}, Needed{Source: Source{ref.Kind, p.Namespace, ref.Name}, Authority: true})
		}
	}
}

// Content returns the part of a source's data that goes into its copy, or the
// reason why there is nothing to copy. It takes only the keys that routers
// read, and a private key only with its certificate. So a Secret of another
// kind is never copied, whoever names it.
func (n Needed) Content(data map[string][]byte) (content map[string][]byte, problem string) {
	content = map[string][]byte{}
	if n.Pair {
		cert, key := data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]
		if _, err := ParsePair(cert, key); err != nil {
			return nil, fmt.Sprintf("%s: %v", n.Source, err)
		}
		content[corev1.TLSCertKey], content[corev1.TLSPrivateKeyKey] = cert, key
	}
	if n.Authority && len(data[authorityKey]) > 0 {
		content[authorityKey] = data[authorityKey]
	}
	if len(content) == 0 {
		return nil, fmt.Sprintf("%s: the key %s is missing or empty", n.Source, authorityKey)
	}
	return content, ""
}

// Made returns the annotations of a copy.
func (n Needed) Made(version string, content map[string][]byte) map[string]string {
	return map[string]string{AnnotationCopyOf: n.String(), AnnotationCopied: n.version(version), AnnotationDigest: DigestOf(content)}
}

// Stands reports whether a copy is of that version of its source and has not
// changed since it was made.
func (n Needed) Stands(annotations map[string]string, content map[string][]byte, version string) bool {
	return annotations[AnnotationCopied] == n.version(version) && annotations[AnnotationDigest] == DigestOf(content)
}

// version returns the version of a copy. It covers the parts that are copied
// too, because they may change while the source does not.
func (n Needed) version(of string) string {
	return fmt.Sprintf("%s pair=%t authority=%t", of, n.Pair, n.Authority)
}

// DigestOf returns a digest that differs for each content of a copy. It may be
// public, because nobody can guess the keys that it is made of.
func DigestOf(content map[string][]byte) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(content)) {
		_, _ = fmt.Fprintf(sum, "%s %d\n", key, len(content[key])) // it never fails
		sum.Write(content[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
