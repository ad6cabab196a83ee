package twonode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// installObject names the object with what the site was installed from.
const installObject = "ConfigMap " + machineconfig.InstallNamespace + "/" + machineconfig.InstallName

// quota returns etcd's quota by what the site was installed from. unknown says why it is not known, or
// not that of the hosts: then no manifest is rendered, since another one would restart etcd with another
// quota.
func (r *Reconciler) quota(ctx context.Context) (quota etcdpod.Quota, unknown string, err error) {
	var install, published corev1.ConfigMap
	key := client.ObjectKey{Namespace: machineconfig.InstallNamespace, Name: machineconfig.InstallName}
	if err := r.Live.Get(ctx, key, &install); client.IgnoreNotFound(err) != nil {
		return 0, "", fmt.Errorf("read etcd's quota in %s: %w", installObject, err)
	}
	if err := r.Client.Get(ctx, inNamespace(podConfigMap), &published); client.IgnoreNotFound(err) != nil {
		return 0, "", fmt.Errorf("read etcd's manifests: %w", err)
	}
	quota, unknown = quotaOf(install.Data[machineconfig.InstallKey], published.Data)
	return quota, unknown, nil
}

// quotaOf compares the quota of an installation with that of the manifests that were published.
func quotaOf(install string, manifests map[string]string) (quota etcdpod.Quota, unknown string) {
	if install == "" {
		return 0, installObject + " has no " + machineconfig.InstallKey + ", so nobody knows etcd's quota: holdfast-agent on a control plane makes the object again"
	}
	c, err := config.Made([]byte(install))
	if err != nil {
		return 0, installObject + " cannot be read, so nobody knows etcd's quota: delete the object, and holdfast-agent on a control plane makes it again"
	}
	quota = c.EtcdQuota()
	for _, file := range slices.Sorted(maps.Keys(manifests)) {
		has, err := etcdpod.QuotaOf([]byte(manifests[file]))
		if err == nil && has != quota {
			return 0, fmt.Sprintf("%s says that etcd's quota is %d GiB, and etcd of %s was set up with %d: it is fixed at the installation, and nothing is changed on the hosts. "+
				"Set etcdQuotaGiB there to %[4]d; if that is wrong, delete ConfigMap %[5]s/%[6]s",
				installObject, quota, strings.TrimSuffix(file, ".yaml"), has, operator.Namespace, podConfigMap)
		}
	}
	return quota, ""
}
