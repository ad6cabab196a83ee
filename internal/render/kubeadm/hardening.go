package kubeadm

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// What is said beside Kubernetes' own defaults so that a hole in one place is
// none in the next. docs/cis.md has it as a table, with what is left out and why.

// minTLS is the oldest TLS that anything here speaks, ciphers what it speaks in
// 1.2; in 1.3 all are good. Keys of the cluster are ECDSA; RSA is for a person's
// own certificate.
const minTLS = "VersionTLS12"

var ciphers = []string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// servers is what every program of a control plane is told.
func servers() []arg {
	return []arg{
		{Name: "profiling", Value: "false"},
		{Name: "tls-cipher-suites", Value: strings.Join(ciphers, ",")},
		{Name: "tls-min-version", Value: minTLS},
	}
}

// plugins are kubeadm's, and one more: a tenant's Service with an external address
// takes that address's packets on every host, those to a virtual IP too.
var plugins = arg{Name: "enable-admission-plugins", Value: "NodeRestriction,DenyServiceExternalIPs"}

// podsKept is how many pods that have ended the API keeps. The default of 12500
// fills etcd before anybody looks; a site's Jobs of weeks are less than this.
var podsKept = arg{Name: "terminated-pod-gc-threshold", Value: "1000"}

// files tells an API server where its files are (render/apiserver).
func files(s *site.Site) ([]arg, []hostPathMount) {
	var args []arg
	for _, f := range apiserver.Flags(s) {
		args = append(args, arg(f))
	}
	var mounts []hostPathMount
	for _, m := range apiserver.Mounts() {
		// The installation makes both. Kubelet makes the log's again, where somebody
		// empties /var/log: no API server waits for it.
		kind := corev1.HostPathDirectory
		if m.Log {
			kind = corev1.HostPathDirectoryOrCreate
		}
		mounts = append(mounts, hostPathMount{Name: m.Name, HostPath: m.Path, MountPath: m.Path, ReadOnly: !m.Log, PathType: kind})
	}
	return args, mounts
}

// podPIDs bounds the processes of one pod, so that none takes those of its host.
// It is what CRI-O gives a container; a host has 32768 at the least.
const podPIDs int64 = 4096

// harden has kubelet give every container a filter of system calls that asks for
// none, bound its processes, and keep the host's /var/log, where the audit log is,
// from whoever may speak to kubelet.
func harden(c *kubelet.KubeletConfiguration) {
	c.SeccompDefault = new(true)
	c.PodPidsLimit = new(podPIDs)
	c.TLSCipherSuites, c.TLSMinVersion = ciphers, minTLS
	c.EnableProfilingHandler, c.EnableSystemLogHandler = new(false), new(false)
}
