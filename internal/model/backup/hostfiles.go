package backup

import (
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
)

// HostPath is a file of a control plane that a restore needs and a snapshot of etcd lacks,
// or a folder with all its files.
type HostPath struct {
	Path   string
	Folder bool
	// Required is true for a file without which no restore works: if one is missing, no backup
	// is good. If another file is missing, the entry names it.
	Required bool
	// Quiet is true for a file that only some hosts have: if it is missing, nobody is told.
	Quiet bool
}

// HostPaths lists the files of an archive besides the snapshot. It is a list and no search:
// a developer who adds a file to Holdfast adds it here, too.
func HostPaths() []HostPath {
	return []HostPath{
		// Authorities and keys of the site. Without them nothing that exists is trusted.
		{Path: "/etc/kubernetes/pki/ca.crt", Required: true},
		{Path: "/etc/kubernetes/pki/ca.key", Required: true},
		{Path: "/etc/kubernetes/pki/front-proxy-ca.crt", Required: true},
		{Path: "/etc/kubernetes/pki/front-proxy-ca.key", Required: true},
		{Path: "/etc/kubernetes/pki/sa.pub", Required: true},
		{Path: "/etc/kubernetes/pki/sa.key", Required: true},
		{Path: "/etc/kubernetes/pki/etcd/ca.crt", Required: true},
		{Path: "/etc/kubernetes/pki/etcd/ca.key", Required: true},
		// The site and its keys of encryption and of joins.
		{Path: "/etc/holdfast/site.json", Required: true},
		{Path: "/etc/holdfast/apiserver", Folder: true},
		{Path: "/etc/holdfast/join-key", Quiet: true},
		{Path: "/etc/holdfast/kubeadm.yaml"},
		{Path: "/etc/holdfast/packages.json", Quiet: true},
		{Path: "/etc/holdfast/proxy.env", Quiet: true},
		{Path: "/etc/holdfast/trust-bundle.pem", Quiet: true},
		{Path: "/etc/holdfast/registry/config.json", Quiet: true},
		{Path: "/etc/holdfast/firewall", Folder: true, Quiet: true},
		{Path: "/etc/holdfast/manifests", Folder: true, Quiet: true},
		// Accounts and certificates of BMCs, and facts that were learned about them.
		{Path: state.FencingDir, Folder: true, Quiet: true},
		// The other authorities, and leaf certificates. A restore makes leaf certificates anew; the
		// old ones show for which names they were.
		{Path: "/etc/kubernetes/pki", Folder: true},
		{Path: "/etc/kubernetes/controller-manager.conf"},
		{Path: "/etc/kubernetes/scheduler.conf"},
		{Path: "/etc/kubernetes/kubelet.conf"},
		{Path: "/etc/kubernetes/holdfast-agent.conf", Quiet: true},
		{Path: "/etc/kubernetes/manifests", Folder: true},
		{Path: "/etc/kubernetes/static-pod-resources", Folder: true, Quiet: true},
		{Path: "/var/lib/kubelet/config.yaml"},
		{Path: "/var/lib/kubelet/kubeadm-flags.env"},
		{Path: "/etc/containerd/config.toml"},
		{Path: "/etc/cni/net.d", Folder: true},
		// Records and state of Holdfast.
		{Path: state.EtcdRecordPath, Quiet: true},
		{Path: state.EtcdParametersPath, Quiet: true},
		{Path: "/var/lib/holdfast/authorities", Folder: true, Quiet: true},
		{Path: "/var/lib/holdfast/network", Folder: true, Quiet: true},
		{Path: "/var/lib/holdfast/fencing", Folder: true, Quiet: true},
		{Path: "/var/lib/holdfast/release", Quiet: true},
		// Two control planes: Corosync and Pacemaker.
		{Path: corosync.Path, Quiet: true},
		{Path: "/etc/corosync/authkey", Quiet: true},
		{Path: "/var/lib/pacemaker/cib/cib.xml", Quiet: true},
		{Path: "/var/lib/pcsd/known-hosts", Quiet: true},
		// The identity of the host.
		{Path: "/etc/hostname"},
		{Path: "/etc/machine-id"},
		{Path: "/etc/hosts"},
	}
}

// AuthorityPaths lists the files of which an entry has the fingerprints.
func AuthorityPaths() []string {
	return []string{
		"/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/front-proxy-ca.crt", "/etc/kubernetes/pki/etcd/ca.crt", "/etc/kubernetes/pki/sa.pub",
	}
}
