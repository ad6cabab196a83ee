package ingress

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// PublishedCertificates is the Secret in which other operators of the cluster
// find the certificates that routers serve: by domain, certificate and key in one
// text. Those operators chose the name.
const PublishedCertificates = "router-certs"

// publishCertificate keeps what one IngressController serves in that Secret. It
// takes what the routers have, not what they will have: the Secret that they read
// is watched, so the next look follows.
func (r *Reconciler) publishCertificate(ctx context.Context, g *gathered) error {
	domain := g.domain()
	if g.served == nil || domain == "" {
		return nil
	}
	value := slices.Concat(g.served.Data[corev1.TLSCertKey], g.served.Data[corev1.TLSPrivateKeyKey])
	nobodys := g.nobodysDomains()
	if g.certs != nil && bytes.Equal(g.certs.Data[domain], value) && len(nobodys) == 0 {
		return nil
	}
	return r.putPublished(ctx, g, func(data map[string][]byte) {
		for _, d := range nobodys {
			delete(data, d)
		}
		data[domain] = value
	})
}

// nobodysDomains returns the published domains that no IngressController has: if
// somebody removed the finalizer of one, nobody took its domain back.
func (g *gathered) nobodysDomains() []string {
	if g.certs == nil {
		return nil
	}
	has := map[string]bool{g.domain(): true}
	for i := range g.all {
		has[g.all[i].Status.Domain], has[g.all[i].Spec.Domain] = true, true
	}
	var out []string
	for domain := range g.certs.Data {
		if !has[domain] {
			out = append(out, domain)
		}
	}
	return out
}

// unpublishCertificate takes it back when the IngressController goes. If another
// one of the same domain waited for that, its own certificate stays.
func (r *Reconciler) unpublishCertificate(ctx context.Context, g *gathered) error {
	domain := g.controller.Status.Domain
	if g.certs == nil || g.certs.Data[domain] == nil || g.othersDomain(domain) {
		return nil
	}
	return r.putPublished(ctx, g, func(data map[string][]byte) { delete(data, domain) })
}

// othersDomain reports whether another IngressController was admitted with a
// domain.
func (g *gathered) othersDomain(domain string) bool {
	return slices.ContainsFunc(g.all, func(ic operatorv1.IngressController) bool {
		return ic.Name != g.name && ic.Status.Domain == domain &&
			condition(ic.Status.Conditions, decide.Admitted).Status == operatorv1.ConditionTrue
	})
}

func (r *Reconciler) putPublished(ctx context.Context, g *gathered, change func(map[string][]byte)) error {
	after := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: NamespaceManaged, Name: PublishedCertificates}, Type: corev1.SecretTypeOpaque}
	if g.certs != nil {
		after = g.certs.DeepCopy()
	}
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	change(after.Data)
	if err := r.putSecret(ctx, g.certs, after); err != nil {
		return fmt.Errorf("publish what routers serve: %w", err)
	}
	g.certs = after
	return nil
}
