package cluster

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/render/flannel"
)

// unenforced lists the NetworkPolicies that nobody enforces: all except the
// operator's own, as long as the policy that refuses new ones exists. Whoever
// installs an enforcer removes that policy. In clusters of earlier releases a
// policy with the same name only warns.
func (c *Cluster) unenforced(ctx context.Context) ([]string, error) {
	err := c.reader.Get(ctx, client.ObjectKey{Name: flannel.RefusalName}, &admissionv1.ValidatingAdmissionPolicy{})
	if apierrors.IsNotFound(err) {
		return []string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the policy about NetworkPolicies: %w", err)
	}
	var list networkingv1.NetworkPolicyList
	if err := c.reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list NetworkPolicies: %w", err)
	}
	out := []string{}
	for _, p := range list.Items {
		if p.Namespace != ingress.OperandNamespace {
			out = append(out, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}
