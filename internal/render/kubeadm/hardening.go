package kubeadm

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// These settings deviate from Kubernetes' defaults, so that a hole in one place
// is none in the next. docs/cis.md contains them as a table, with those that were
// left out and why.

// minTLS is the oldest TLS version that anything here speaks. ciphers lists the
// ciphers for 1.2; in 1.3 all are good. The cluster's keys are ECDSA; RSA is for
// an administrator's own certificate.
const minTLS = "VersionTLS12"

var ciphers = []string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// servers returns the arguments for every program of a control plane.
func servers() []arg {
	return []arg{
		{Name: "profiling", Value: "false"},
		{Name: "tls-cipher-suites", Value: strings.Join(ciphers, ",")},
		{Name: "tls-min-version", Value: minTLS},
	}
}

// plugins lists kubeadm's plugins and one more: a tenant's Service with an
// external address takes that address's packets on every host, even those for a
// virtual IP.
var plugins = arg{Name: "enable-admission-plugins", Value: "NodeRestriction,DenyServiceExternalIPs"}

// podsKept is the number of ended pods that the API keeps. The default of 12500
// fills etcd before anybody looks; weeks of a site's Jobs are fewer than this.
var podsKept = arg{Name: "terminated-pod-gc-threshold", Value: "1000"}

// files returns the arguments and mounts for an API server's files
// (render/apiserver).
func files(s *site.Site) ([]arg, []hostPathMount) {
	var args []arg
	for _, f := range apiserver.Flags(s) {
		args = append(args, arg(f))
	}
	var mounts []hostPathMount
	for _, m := range apiserver.Mounts() {
		// The installation creates both. Kubelet creates the log's folder again if
		// somebody empties /var/log: no API server waits for it.
		kind := corev1.HostPathDirectory
		if m.Log {
			kind = corev1.HostPathDirectoryOrCreate
		}
		mounts = append(mounts, hostPathMount{Name: m.Name, HostPath: m.Path, MountPath: m.Path, ReadOnly: !m.Log, PathType: kind})
	}
	return args, mounts
}

// podPIDs bounds the processes of one pod, so that no pod uses up those of its
// host. It is CRI-O's limit for a container; a host has at least 32768.
const podPIDs int64 = 4096

// verifiesKubelets makes the API server verify the certificate of a kubelet before it
// sends there what an administrator types. It needs kubelets that serve by a
// certificate of the Kubernetes CA, so both settings come with the installation, and no
// site ever has one without the other (docs/adr/0087).
var verifiesKubelets = arg{Name: "kubelet-certificate-authority", Value: "/etc/kubernetes/pki/ca.crt"}

// harden makes kubelet give a filter of system calls to every container that does
// not ask for one, and bound its processes. It keeps the host's /var/log, which
// contains the audit log, from everybody who may talk to kubelet. It makes kubelet
// request a certificate to serve by, which the agents of control planes approve.
func harden(c *kubelet.KubeletConfiguration) {
	c.SeccompDefault, c.ServerTLSBootstrap = new(true), true
	c.PodPidsLimit = new(podPIDs)
	c.TLSCipherSuites, c.TLSMinVersion = ciphers, minTLS
	c.EnableProfilingHandler, c.EnableSystemLogHandler = new(false), new(false)
}
