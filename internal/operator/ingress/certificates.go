package ingress

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// trustName is the ConfigMap in which clients find the authorities of the
// default certificate.
const trustName = "default-ingress-cert"

// keepCertificates carries out what was decided about authority and certificate,
// and publishes the authorities.
func (r *Reconciler) keepCertificates(ctx context.Context, g *gathered, w decide.CertificateWork) error {
	if err := r.keepAuthority(ctx, g, w); err != nil {
		return err
	}
	var err error
	switch {
	case w.Copy:
		err = r.serve(ctx, g, g.given.Data[corev1.TLSCertKey], g.given.Data[corev1.TLSPrivateKeyKey])
	case w.NewLeaf:
		err = r.serveOwn(ctx, g)
	}
	return errors.Join(err, r.publish(ctx, g))
}

// keepAuthority makes, announces or promotes the signer. It replaces in g what it
// read by what it wrote.
func (r *Reconciler) keepAuthority(ctx context.Context, g *gathered, w decide.CertificateWork) error {
	if !w.NewAuthority && !w.NewNext && !w.Promote {
		return nil
	}
	after := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: decide.Namespace, Name: decide.AuthoritySecret},
		Type:       corev1.SecretTypeTLS, Data: map[string][]byte{},
	}
	if g.authority != nil {
		after = g.authority.DeepCopy()
	}
	if err := r.changeAuthority(after.Data, w); err != nil {
		return err
	}
	if err := r.putSecret(ctx, g.authority, after); err != nil {
		return err
	}
	g.authority = after
	r.event(g.controller, corev1.EventTypeNormal, "Certificates", "the authority of default certificates was renewed")
	return nil
}

func (r *Reconciler) changeAuthority(data map[string][]byte, w decide.CertificateWork) error {
	if w.Promote {
		data[decide.PreviousCert] = data[corev1.TLSCertKey]
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = data[decide.NextCert], data[decide.NextKey]
		delete(data, decide.NextCert)
		delete(data, decide.NextKey)
		return nil
	}
	var former *x509.Certificate
	if w.NewAuthority {
		former = decide.Former(data)
	}
	made, err := newAuthority(r.Random, r.Now(), former)
	if err != nil {
		return fmt.Errorf("create the authority of default certificates: %w", err)
	}
	if w.NewNext {
		data[decide.NextCert], data[decide.NextKey] = made.cert, made.key
		return nil
	}
	clear(data)
	data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = made.cert, made.key
	if former != nil { // it has ended by this clock, which may be ahead
		data[decide.PreviousCert] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: former.Raw})
	}
	return nil
}

func (r *Reconciler) serveOwn(ctx context.Context, g *gathered) error {
	made, err := newLeaf(r.Random, g.authority.Data, g.domain(), g.certificates().Life(), r.Now())
	if err != nil {
		return fmt.Errorf("create the default certificate of %s: %w", g.name, err)
	}
	r.event(g.controller, corev1.EventTypeNormal, "Certificates", "created a new default certificate for *."+g.domain())
	return r.serve(ctx, g, made.cert, made.key)
}

// serve writes the certificate that the routers serve, unless the Secret is
// somebody else's.
func (r *Reconciler) serve(ctx context.Context, g *gathered, cert, key []byte) error {
	after := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: decide.OperandNamespace, Name: decide.CertificateName(g.name), Labels: decide.OwnerLabels(g.name),
		},
		Type: corev1.SecretTypeTLS,
	}
	if g.served != nil {
		if !decide.Owned(g.name, g.served.Labels) {
			return nil
		}
		after = g.served.DeepCopy()
	}
	after.Data = map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}
	return r.putSecret(ctx, g.served, after)
}

func (r *Reconciler) putSecret(ctx context.Context, before, after *corev1.Secret) error {
	err := error(nil)
	if before == nil {
		err = r.Client.Create(ctx, after)
	} else {
		err = r.Client.Patch(ctx, after, lockedMerge(before))
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", after.Namespace, after.Name, err)
	}
	return nil
}

// publish tells clients in the cluster whom to trust: every authority whose
// certificates the default routers served, serve or will serve.
func (r *Reconciler) publish(ctx context.Context, g *gathered) error {
	if g.name != decide.DefaultName || g.authority == nil {
		return nil
	}
	var bundle []byte
	for _, key := range []string{corev1.TLSCertKey, decide.NextCert, decide.PreviousCert} {
		bundle = append(bundle, g.authority.Data[key]...)
	}
	if g.controller.Spec.DefaultCertificate != nil && g.served != nil {
		bundle = append(bundle, g.served.Data[corev1.TLSCertKey]...)
	}
	const key = "ca-bundle.crt"
	if g.trust == nil {
		return client.IgnoreAlreadyExists(r.Client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: NamespaceManaged, Name: trustName}, Data: map[string]string{key: string(bundle)},
		}))
	}
	if g.trust.Data[key] == string(bundle) {
		return nil
	}
	after := g.trust.DeepCopy()
	if after.Data == nil {
		after.Data = map[string]string{}
	}
	after.Data[key] = string(bundle)
	if err := r.Client.Patch(ctx, after, lockedMerge(g.trust)); err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", types.NamespacedName{Namespace: NamespaceManaged, Name: trustName}, err)
	}
	return nil
}
