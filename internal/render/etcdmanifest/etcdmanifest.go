// Package etcdmanifest renders the pod manifest of etcd on one of two hosts. It
// is a pod's manifest because administrators and the cluster's own tools can
// read that. But podman runs it, because etcd must run without kubelet. Package
// etcdpod reads the manifest.
package etcdmanifest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/render/volume"
)

// logRotation bounds the log: four files of 16 MiB.
const logRotation = `{"maxsize":16,"maxage":0,"maxbackups":3,"localtime":false,"compress":false}`

// authorities is the annotation with a hash of the authorities' bundle: etcd
// reads that file only when it starts.
const authorities = "holdfast.internal/etcd-ca-sha256"

// Node is one of the two hosts.
type Node struct {
	Name    string
	Address netip.Addr
}

// NodeOf reads the address of a node.
func NodeOf(name, address string) (Node, error) {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return Node{}, fmt.Errorf("address of node %s: %w", name, err)
	}
	return Node{Name: name, Address: a}, nil
}

// Spec holds the inputs of a manifest.
type Spec struct {
	// Name is the node for which the manifest is.
	Name  string
	Nodes [2]Node
	Image string
	// CABundle is the file of the authorities that sign etcd's certificates.
	CABundle []byte
	// Digest is the digest of the node's own bundle, if the node has reported it
	// (etcdpod.DigestOf). So etcd on a node restarts only for a change of that
	// node's bundle.
	Digest string
	// Quota is that of the site, zero for etcd's own.
	Quota etcdpod.Quota
}

// Pod renders the manifest of etcd for one node.
func Pod(s Spec) ([]byte, error) {
	self, err := s.self()
	if err != nil {
		return nil, fmt.Errorf("render etcd's pod: %w", err)
	}
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "etcd", Namespace: metav1.NamespaceSystem,
			Labels:      map[string]string{"component": "etcd", "tier": "control-plane"},
			Annotations: map[string]string{authorities: cmp.Or(s.Digest, etcdpod.DigestOf(s.CABundle))},
		},
		Spec: corev1.PodSpec{
			HostNetwork:       true,
			PriorityClassName: "system-node-critical",
			RestartPolicy:     corev1.RestartPolicyNever,
			Containers:        []corev1.Container{s.container(self)},
			Volumes: []corev1.Volume{
				volume.HostPath("etcd-certs", state.EtcdPKIDir, corev1.HostPathDirectory),
				volume.HostPath("etcd-data", state.EtcdDataDir, corev1.HostPathDirectoryOrCreate),
			},
		},
	}
	out, err := document.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("render etcd's pod: %w", err)
	}
	return out, nil
}

// self checks the spec and returns its node.
func (s Spec) self() (Node, error) {
	var errs []error
	for i, n := range s.Nodes {
		if n.Name == "" || !n.Address.IsValid() {
			errs = append(errs, fmt.Errorf("node %d has no name or no address", i+1))
		}
	}
	if s.Nodes[0].Name == s.Nodes[1].Name || s.Nodes[0].Address == s.Nodes[1].Address {
		errs = append(errs, errors.New("both nodes have the same name or address"))
	}
	if s.Image == "" {
		errs = append(errs, errors.New("no image is given"))
	}
	if len(s.CABundle) == 0 {
		errs = append(errs, errors.New("no bundle of authorities is given"))
	}
	i := slices.IndexFunc(s.Nodes[:], func(n Node) bool { return n.Name == s.Name })
	if i < 0 {
		errs = append(errs, fmt.Errorf("%q is neither %s nor %s", s.Name, s.Nodes[0].Name, s.Nodes[1].Name))
	}
	if err := errors.Join(errs...); err != nil {
		return Node{}, err
	}
	return s.Nodes[i], nil
}

func (s Spec) container(self Node) corev1.Container {
	return corev1.Container{
		Name: "etcd", Image: s.Image, ImagePullPolicy: corev1.PullNever,
		Command: append([]string{"etcd"}, s.flags(self)...),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "etcd-certs", MountPath: state.EtcdPKIDir, ReadOnly: true},
			{Name: "etcd-data", MountPath: state.EtcdDataDir},
		},
	}
}

// flags returns kubeadm's flags, with two changes: both nodes are members, and
// etcd does not check for corruption before it starts. That check asks the
// peer, and takes seconds if the peer is dead.
func (s Spec) flags(self Node) []string {
	return slices.Concat([]string{
		"--name=" + self.Name,
		"--data-dir=" + state.EtcdDataDir,
		"--initial-cluster=" + s.members(),
		"--initial-cluster-state=existing",
		etcdpod.Advertised + etcdpod.PeerURL(self.Address),
		"--listen-peer-urls=" + etcdpod.PeerURL(self.Address),
		"--advertise-client-urls=" + etcdpod.ClientURL(self.Address),
		"--listen-client-urls=" + strings.Join(etcdpod.ListenURLs(self.Address), ","),
		"--listen-metrics-urls=" + strings.Join(etcdpod.MetricsURLs(self.Address), ","),
		"--client-cert-auth=true",
		"--trusted-ca-file=" + state.EtcdPKIDir + "/ca.crt",
		"--cert-file=" + state.EtcdPKIDir + "/server.crt",
		"--key-file=" + state.EtcdPKIDir + "/server.key",
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + state.EtcdPKIDir + "/ca.crt",
		"--peer-cert-file=" + state.EtcdPKIDir + "/peer.crt",
		"--peer-key-file=" + state.EtcdPKIDir + "/peer.key",
	}, s.Quota.Args(), []string{
		"--snapshot-count=10000",
		"--watch-progress-notify-interval=5s",
	}, LogFlags(state.EtcdLogFile))
}

// LogFlags makes etcd write its log to a file, and bounds the log.
func LogFlags(file string) []string {
	return []string{"--log-outputs=" + file, "--enable-log-rotation=true", "--log-rotation-config-json=" + logRotation}
}

// members lists both nodes sorted by name, so that both manifests have the same
// list.
func (s Spec) members() string {
	nodes := s.Nodes
	slices.SortFunc(nodes[:], func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes[0].Name + "=" + etcdpod.PeerURL(nodes[0].Address) + "," + nodes[1].Name + "=" + etcdpod.PeerURL(nodes[1].Address)
}
