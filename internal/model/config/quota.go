package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
)

// defragmented is the largest quota at which an etcd of kubelet is always defragmented
// (decide/etcdspace.MaxInUse).
const defragmented etcdpod.Quota = 6

// etcdQuota checks the quota of etcd.
func (v *validator) etcdQuota() {
	path := field.NewPath("etcdQuotaGiB")
	given := v.c.EtcdQuotaGiB
	if given == nil {
		return
	}
	if q := etcdpod.Quota(*given); q < etcdpod.OwnQuota || q > etcdpod.LargestQuota {
		v.add(field.Invalid(path, *given, fmt.Sprintf("must be from %d, which is etcd's own, to %d, the most that etcd advises", etcdpod.OwnQuota, etcdpod.LargestQuota)))
	}
}

// EtcdQuota returns the quota of etcd on each control plane.
func (c *InstallConfig) EtcdQuota() etcdpod.Quota {
	if c.EtcdQuotaGiB == nil {
		return etcdpod.OwnQuota
	}
	return etcdpod.Quota(*c.EtcdQuotaGiB)
}
