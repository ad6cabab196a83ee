package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/ingress"
	identity "github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Ends adds what is valid until a time and has no file on a host. It reads Secrets of
// routers, and keeps nothing of them but the ends of their certificates.
func (c *Cluster) Ends(ctx context.Context, f *decide.Facts) {
	f.Cluster.Ends = ask(ctx, f, func(ctx context.Context) ([]decide.Ending, error) {
		routers, err := c.routers(ctx)
		if err != nil {
			return nil, err
		}
		people, err := c.administrators(ctx)
		return append(routers, people...), err
	})
}

// routers returns the certificates of routers and their authority, and those of the
// site in the same place, which nobody renews.
func (c *Cluster) routers(ctx context.Context) ([]decide.Ending, error) {
	out := []decide.Ending{}
	for _, namespace := range []string{ingress.OperandNamespace, ingress.Namespace} {
		var list corev1.SecretList
		if err := c.reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list the Secrets of %s: %w", namespace, err)
		}
		for i := range list.Items {
			s := &list.Items[i]
			end, is := endOf(s.Data[corev1.TLSCertKey])
			if s.Type != corev1.SecretTypeTLS || !is {
				continue
			}
			e := decide.Ending{What: "the certificate in Secret " + namespace + "/" + s.Name, Ends: end}
			if _, owned := s.Labels[ingress.LabelOwner]; owned || namespace == ingress.Namespace && s.Name == ingress.AuthoritySecret {
				e.Renewer = "holdfast-operator"
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// endOf returns the end of the first certificate in PEM text.
func endOf(text []byte) (time.Time, bool) {
	block, _ := pem.Decode(text)
	if block == nil {
		return time.Time{}, false
	}
	x, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return x.NotAfter, true
}

// administrators returns the kubeconfigs that `holdfast kubeconfig` made, as far as
// their bindings say when they end.
func (c *Cluster) administrators(ctx context.Context) ([]decide.Ending, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBindingList"))
	if err := c.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	var out []decide.Ending
	for _, b := range list.Items {
		name, is := strings.CutPrefix(b.Name, identity.AdministratorBinding)
		if !is {
			continue
		}
		if at, err := time.Parse(time.RFC3339, b.Annotations[state.AnnotationExpires]); err == nil {
			out = append(out, decide.Ending{What: "the kubeconfig of administrator " + name + " (clusterrolebinding " + b.Name + ")", Ends: at, Personal: true})
		}
	}
	return out, nil
}
