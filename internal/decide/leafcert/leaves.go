// Package leafcert decides when a control plane renews the leaf certificates that
// kubeadm signed: at two thirds of their life, one control plane after the other,
// and who has to be restarted for a new one. It signs nothing and writes nothing.
package leafcert

import (
	"path"

	"github.com/holdfast/holdfast/internal/model/state"
)

// The static pods that read their kubeconfig only when they start: client-go
// follows files with certificates, and never what a kubeconfig itself contains.
const (
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// pki is the folder of kubeadm's certificates.
const pki = "/etc/kubernetes/pki"

// APIServer is the certificate with which the API server serves.
const APIServer = pki + "/apiserver.crt"

// KubernetesCA is the path of the files of the API's authority, without .crt and
// .key.
const KubernetesCA = pki + "/ca"

// Leaf is one leaf certificate of a control plane.
type Leaf struct {
	// Path is the file of the certificate, or a kubeconfig that contains it.
	Path string
	// Key is the file of its key; empty for a kubeconfig, which contains both.
	Key string
	// Authority is the path of the files of its authority, without .crt and .key.
	Authority string
	// Restart names the static pod that has to be started anew to read the file. It
	// is empty where all readers notice the change: the API server and its clients
	// follow their files, etcd and the keeper read them for each connection, and
	// commands read them when they start.
	Restart string
}

// Leaves returns all leaf certificates that kubeadm signs on a control plane, in
// the order in which they are renewed. A host may lack some: only the first one
// has super-admin.conf, and kubelet.conf as a rule names kubelet's own file.
func Leaves() []Leaf {
	var out []Leaf
	pair := func(authority, name string) {
		out = append(out, Leaf{Path: name + ".crt", Key: name + ".key", Authority: authority})
	}
	kubeconfig := func(file, restart string) {
		out = append(out, Leaf{Path: file, Authority: KubernetesCA, Restart: restart})
	}
	for _, name := range []string{"server", "peer", "healthcheck-client"} {
		pair(state.EtcdPKIDir+"/ca", state.EtcdPKIDir+"/"+name)
	}
	pair(state.EtcdPKIDir+"/ca", pki+"/apiserver-etcd-client")
	pair(KubernetesCA, pki+"/apiserver-kubelet-client")
	pair(pki+"/front-proxy-ca", pki+"/front-proxy-client")
	pair(KubernetesCA, pki+"/apiserver")
	kubeconfig(path.Join(path.Dir(state.AdminKubeconfig), "super-admin.conf"), "")
	kubeconfig(state.AdminKubeconfig, "")
	kubeconfig(state.KubeletKubeconfig, "")
	kubeconfig("/etc/kubernetes/controller-manager.conf", ControllerManager)
	kubeconfig("/etc/kubernetes/scheduler.conf", Scheduler)
	return out
}
