package etcdmanifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/render/volume"
)

// The probes of kubeadm's pod of etcd, on the port at which etcd tells its health.
const (
	healthPort = 2381
	probePort  = "probe-port"
)

// Static renders the manifest from which kubelet runs the only member of etcd, as kubeadm makes
// it. A host that was one of two has no such file of its present addresses and release. image is
// etcd's in the host's release, quota that of the site.
func Static(self Node, image string, quota etcdpod.Quota) ([]byte, error) {
	return static(self, image, only(self), quota)
}

// StaticOf renders it for one of several members. joins is true for one that starts for the first time,
// as kubeadm makes it. etcd reads these flags only where it finds no data. One that had data and lost
// them then refuses to start, or waits for a majority that knows it not: it neither serves an empty
// cluster of its own, nor votes again under an id whose promises it has forgotten.
func StaticOf(self string, members []Node, image string, joins bool, quota etcdpod.Quota) ([]byte, error) {
	var node Node
	var list []string
	for _, m := range members {
		if m.Name == "" || !m.Address.IsValid() {
			return nil, errors.New("render kubelet's pod of etcd: a member has no name or no address")
		}
		if m.Name == self {
			node = m
		}
		list = append(list, m.Name+"="+etcdpod.PeerURL(m.Address))
	}
	slices.Sort(list)
	cluster := []string{"--initial-cluster=" + strings.Join(list, ",")}
	if joins {
		cluster = append(cluster, "--initial-cluster-state=existing")
	}
	return static(node, image, cluster, quota)
}

// only has a member begin the cluster.
func only(self Node) []string {
	if !self.Address.IsValid() {
		return nil
	}
	return []string{"--initial-cluster=" + self.Name + "=" + etcdpod.PeerURL(self.Address)}
}

func static(self Node, image string, cluster []string, quota etcdpod.Quota) ([]byte, error) {
	if self.Name == "" || !self.Address.IsValid() || image == "" {
		return nil, errors.New("render kubelet's pod of etcd: the name, the address or the image is missing")
	}
	priority := int32(2000001000) // of system-node-critical; kubelet has no admission that fills it in
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "etcd", Namespace: metav1.NamespaceSystem,
			Labels:      map[string]string{"component": "etcd", "tier": "control-plane"},
			Annotations: map[string]string{"kubeadm.kubernetes.io/etcd.advertise-client-urls": etcdpod.ClientURL(self.Address)},
		},
		Spec: corev1.PodSpec{
			HostNetwork: true, Priority: &priority, PriorityClassName: "system-node-critical",
			SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers:      []corev1.Container{staticContainer(self, image, cluster, quota)},
			Volumes: []corev1.Volume{
				volume.HostPath("etcd-certs", state.EtcdPKIDir, corev1.HostPathDirectoryOrCreate),
				volume.HostPath("etcd-data", state.EtcdDataDir, corev1.HostPathDirectoryOrCreate),
			},
		},
	}
	out, err := document.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("render kubelet's pod of etcd: %w", err)
	}
	return out, nil
}

func staticContainer(self Node, image string, cluster []string, quota etcdpod.Quota) corev1.Container {
	probe := func(path string, wait, period, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Path: path, Port: intstr.FromString(probePort), Scheme: corev1.URISchemeHTTP}},
			InitialDelaySeconds: wait, PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 15,
		}
	}
	return corev1.Container{
		Name: "etcd", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: append([]string{"etcd"}, staticFlags(self, cluster, quota)...),
		Ports:   []corev1.ContainerPort{{Name: probePort, ContainerPort: healthPort, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{ //nolint:exhaustive // kubeadm asks for no other
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi"),
		}},
		LivenessProbe: probe("/livez", 10, 10, 8), ReadinessProbe: probe("/readyz", 0, 1, 3), StartupProbe: probe("/readyz", 10, 10, 24),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "etcd-data", MountPath: state.EtcdDataDir},
			{Name: "etcd-certs", MountPath: state.EtcdPKIDir},
		},
	}
}

// staticFlags are kubeadm's, which has those of its configuration behind its own. etcd looks at the
// member list only where it finds no data.
func staticFlags(self Node, cluster []string, quota etcdpod.Quota) []string {
	peer := etcdpod.PeerURL(self.Address)
	return slices.Concat([]string{
		"--advertise-client-urls=" + etcdpod.ClientURL(self.Address),
		"--cert-file=" + state.EtcdPKIDir + "/server.crt",
		"--client-cert-auth=true",
		"--data-dir=" + state.EtcdDataDir,
		"--feature-gates=InitialCorruptCheck=true",
		etcdpod.Advertised + peer,
	}, cluster, []string{
		"--key-file=" + state.EtcdPKIDir + "/server.key",
		"--listen-client-urls=" + strings.Join(etcdpod.ListenURLs(self.Address), ","),
		"--listen-metrics-urls=" + strings.Join(etcdpod.MetricsURLs(self.Address), ","),
		"--listen-peer-urls=" + peer,
		"--name=" + self.Name,
		"--peer-cert-file=" + state.EtcdPKIDir + "/peer.crt",
		"--peer-client-cert-auth=true",
		"--peer-key-file=" + state.EtcdPKIDir + "/peer.key",
		"--peer-trusted-ca-file=" + state.EtcdPKIDir + "/ca.crt",
		"--snapshot-count=10000",
		"--trusted-ca-file=" + state.EtcdPKIDir + "/ca.crt",
		"--watch-progress-notify-interval=5s",
	}, quota.Args())
}
