package state

// The files of etcd on a host. Certificates and data are where kubeadm put them.
const (
	// EtcdPodManifest describes how etcd runs on one of two hosts.
	EtcdPodManifest = "/etc/kubernetes/static-pod-resources/etcd-certs/configmaps/external-etcd-pod/pod.yaml"
	EtcdDataDir     = "/var/lib/etcd"
	EtcdPKIDir      = "/etc/kubernetes/pki/etcd"
	// EtcdLogFile is the file to which etcd itself writes its log. A process of
	// podman's reads what etcd writes to standard output, and if it stops reading,
	// etcd hangs. The file is on the disk of etcd's data, without which etcd hangs
	// anyway, and outlives a reboot.
	EtcdLogFile = EtcdDataDir + "/log/etcd.log"
)
