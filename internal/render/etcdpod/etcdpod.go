// Package etcdpod renders the pod manifest of etcd on one of two hosts, and
// reads it back. It is a pod's manifest, because that is what a person and the
// cluster's own tools know how to read; what runs it is podman, since it has to
// run while there is no kubelet.
package etcdpod

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/render/volume"
)

// Paths on the host. Certificates and data are where kubeadm put them.
const (
	// Path is where the manifest of a host lies.
	Path     = "/etc/kubernetes/static-pod-resources/etcd-certs/configmaps/external-etcd-pod/pod.yaml"
	DataDir  = "/var/lib/etcd"
	CertsDir = "/etc/kubernetes/pki/etcd"
	// LogFile is where etcd writes its log itself. A log to its standard output
	// is read by a process of podman's, and etcd hangs as soon as that does not
	// read on. The file lies on the disk of its data, without which etcd hangs
	// anyway, and outlives a reboot.
	LogFile = DataDir + "/log/etcd.log"
)

// logRotation bounds the log: four files of 16 MiB.
const logRotation = `{"maxsize":16,"maxage":0,"maxbackups":3,"localtime":false,"compress":false}`

// authorities is the annotation that holds a hash of the authorities' bundle:
// etcd reads that file only when it starts.
const authorities = "holdfast.internal/etcd-ca-sha256"

// advertised is the flag by which peers are told where a member is.
const advertised = "--initial-advertise-peer-urls="

// Node is one of the two hosts.
type Node struct {
	Name    string
	Address netip.Addr
}

// Spec is what a manifest depends on.
type Spec struct {
	// Name is the node that the manifest is for.
	Name  string
	Nodes [2]Node
	Image string
	// CABundle is the file of the authorities that sign etcd's certificates.
	CABundle []byte
	// Digest is that of the bundle which the node itself has, where it has said so
	// (DigestOf). What etcd there is restarted for is a change of its own.
	Digest string
}

// DigestOf tells one bundle of authorities from another.
func DigestOf(bundle []byte) string {
	hash := sha256.Sum256(bundle)
	return hex.EncodeToString(hash[:])
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
			Annotations: map[string]string{authorities: cmp.Or(s.Digest, DigestOf(s.CABundle))},
		},
		Spec: corev1.PodSpec{
			HostNetwork:       true,
			PriorityClassName: "system-node-critical",
			RestartPolicy:     corev1.RestartPolicyNever,
			Containers:        []corev1.Container{s.container(self)},
			Volumes: []corev1.Volume{
				volume.HostPath("etcd-certs", CertsDir, corev1.HostPathDirectory),
				volume.HostPath("etcd-data", DataDir, corev1.HostPathDirectoryOrCreate),
			},
		},
	}
	out, err := document.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("render etcd's pod: %w", err)
	}
	return out, nil
}

// self checks the spec and returns the node that it is for.
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
			{Name: "etcd-certs", MountPath: CertsDir, ReadOnly: true},
			{Name: "etcd-data", MountPath: DataDir},
		},
	}
}

// flags are kubeadm's, but for the members, which are both, and the check for
// corruption before the start: it asks the peer and takes seconds where that is
// dead.
func (s Spec) flags(self Node) []string {
	return append([]string{
		"--name=" + self.Name,
		"--data-dir=" + DataDir,
		"--initial-cluster=" + s.members(),
		"--initial-cluster-state=existing",
		advertised + PeerURL(self.Address),
		"--listen-peer-urls=" + PeerURL(self.Address),
		"--advertise-client-urls=" + ClientURL(self.Address),
		"--listen-client-urls=" + strings.Join(append(local("https", 2379, self.Address), ClientURL(self.Address)), ","),
		"--listen-metrics-urls=" + strings.Join(local("http", 2381, self.Address), ","),
		"--client-cert-auth=true",
		"--trusted-ca-file=" + CertsDir + "/ca.crt",
		"--cert-file=" + CertsDir + "/server.crt",
		"--key-file=" + CertsDir + "/server.key",
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + CertsDir + "/ca.crt",
		"--peer-cert-file=" + CertsDir + "/peer.crt",
		"--peer-key-file=" + CertsDir + "/peer.key",
		"--snapshot-count=10000",
		"--watch-progress-notify-interval=5s",
	}, LogFlags(LogFile)...)
}

// LogFlags have etcd write its log to a file, and bound it.
func LogFlags(file string) []string {
	return []string{"--log-outputs=" + file, "--enable-log-rotation=true", "--log-rotation-config-json=" + logRotation}
}

// members lists both nodes by name, so that both manifests say the same.
func (s Spec) members() string {
	nodes := s.Nodes
	slices.SortFunc(nodes[:], func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes[0].Name + "=" + PeerURL(nodes[0].Address) + "," + nodes[1].Name + "=" + PeerURL(nodes[1].Address)
}

// PeerURL is where a member's peer finds it.
func PeerURL(a netip.Addr) string { return url("https", a, 2380) }

// ClientURL is where clients on other hosts find it.
func ClientURL(a netip.Addr) string { return url("https", a, 2379) }

// LocalURL is where clients on the host itself find etcd. It is where kubeadm's
// API server asks, which is ::1 on a host with an IPv6 address.
func LocalURL(a netip.Addr) string { return url("https", loopback(a), 2379) }

func loopback(a netip.Addr) netip.Addr {
	if a.Unmap().Is6() {
		return netip.IPv6Loopback()
	}
	return loopback4
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// local are the addresses of the host alone: 127.0.0.1 on every host, so that a
// person need not know the family.
func local(scheme string, port uint16, a netip.Addr) []string {
	return slices.Compact([]string{url(scheme, loopback4, port), url(scheme, loopback(a), port)})
}

func url(scheme string, a netip.Addr, port uint16) string {
	return scheme + "://" + netip.AddrPortFrom(a.Unmap(), port).String()
}
