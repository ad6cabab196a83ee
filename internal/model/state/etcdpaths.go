package state

// What a host keeps of etcd. Certificates and data are where kubeadm put them.
const (
	// EtcdPodManifest says how etcd of one of two hosts runs.
	EtcdPodManifest = "/etc/kubernetes/static-pod-resources/etcd-certs/configmaps/external-etcd-pod/pod.yaml"
	EtcdDataDir     = "/var/lib/etcd"
	EtcdPKIDir      = "/etc/kubernetes/pki/etcd"
	// EtcdLogFile is where etcd writes its log itself. A log to its standard output
	// is read by a process of podman's, and etcd hangs as soon as that does not
	// read on. The file lies on the disk of its data, without which etcd hangs
	// anyway, and outlives a reboot.
	EtcdLogFile = EtcdDataDir + "/log/etcd.log"
)
