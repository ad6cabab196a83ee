package keepalived

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/volume"
)

// Paths on the host. The pod shares the host's process ids, so that the agent
// can signal the pid in PIDFile from outside.
const (
	ConfigPath = "/etc/holdfast/keepalived/keepalived.conf"
	PodPath    = "/etc/kubernetes/manifests/keepalived.yaml"
	PIDFile    = "/run/holdfast/keepalived/keepalived.pid"
)

// stopGrace is the time that keepalived gets to send its farewell advert, in
// seconds.
const stopGrace = 10

// Pod renders the static pod of keepalived.
func Pod(image string) ([]byte, error) {
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "keepalived", Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"component": "keepalived", "tier": "control-plane"},
		},
		Spec: corev1.PodSpec{
			HostNetwork: true, HostPID: true,
			SecurityContext:               &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			PriorityClassName:             "system-node-critical",
			TerminationGracePeriodSeconds: new(int64(stopGrace)),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:                    []corev1.Container{container(image)},
			Volumes: []corev1.Volume{
				volume.HostPath("config", "/etc/holdfast/keepalived", corev1.HostPathDirectoryOrCreate),
				volume.HostPath("run", "/run/holdfast/keepalived", corev1.HostPathDirectoryOrCreate),
				// keepalived watches this folder from its start on. At a boot that may be
				// before the agent's start.
				volume.HostPath("track", TrackDir, corev1.HostPathDirectoryOrCreate),
			},
		},
	}
	out, err := yaml.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("render keepalived pod: %w", err)
	}
	return out, nil
}

func container(image string) corev1.Container {
	return corev1.Container{
		Name: "keepalived", Image: image, ImagePullPolicy: corev1.PullNever,
		Command: []string{
			"/usr/sbin/keepalived", "--dont-fork", "--log-console", "--log-detail", "--vrrp",
			"--use-file", ConfigPath, "--pid", PIDFile, "--vrrp_pid", "/run/holdfast/keepalived/vrrp.pid",
		},
		Resources: corev1.ResourceRequirements{Requests: requests()},
		SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{
			Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "NET_BROADCAST", "NET_RAW", "IPC_LOCK"},
		}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/holdfast/keepalived", ReadOnly: true},
			{Name: "run", MountPath: "/run/holdfast/keepalived"},
			{Name: "track", MountPath: TrackDir},
		},
	}
}

// requests returns a share of a busy host. Without it, a keepalived that was
// refused real-time scheduling would be the last to get a processor.
func requests() corev1.ResourceList {
	out := make(corev1.ResourceList, 2)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = resource.MustParse("100m"), resource.MustParse("32Mi")
	return out
}
