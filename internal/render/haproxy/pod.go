package haproxy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/volume"
)

// PodPath is the path of the static pod for kubelet.
const PodPath = "/etc/kubernetes/manifests/haproxy.yaml"

// The ports of haproxy's health and statistics.
const (
	readyPort   = 9444
	MonitorPort = 9454
	StatsPort   = 29445
)

// stopGrace is the time that haproxy gets to end its connections, in seconds:
// more than its grace and hard-stop-after together.
const stopGrace = 25

// Restarted is the annotation with the time at which the agent last had the pod start anew.
// kubelet takes a static pod that changed for another one.
const Restarted = state.AnnotationDomain + "haproxy-restarted"

// Pod renders the static pod of haproxy. The image's stop signal is SIGUSR1:
// haproxy then ends after its last connection. restarted is the value of the
// annotation, empty for none.
func Pod(image, restarted string) ([]byte, error) {
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "haproxy", Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"component": "haproxy", "tier": "control-plane"},
		},
		Spec: corev1.PodSpec{
			HostNetwork:                   true,
			SecurityContext:               &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			PriorityClassName:             "system-node-critical",
			TerminationGracePeriodSeconds: new(int64(stopGrace)),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:                    []corev1.Container{container(image)},
			Volumes: []corev1.Volume{
				volume.HostPath("config", configDir, corev1.HostPathDirectoryOrCreate),
				volume.HostPath("run", runDir, corev1.HostPathDirectoryOrCreate),
			},
		},
	}
	if restarted != "" {
		pod.Annotations = map[string]string{Restarted: restarted}
	}
	out, err := yaml.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("render haproxy pod: %w", err)
	}
	return out, nil
}

// container runs haproxy under its own master, so that a reload takes over the
// listening sockets. It needs no capability, because root owns its files.
func container(image string) corev1.Container {
	return corev1.Container{
		Name: "haproxy", Image: image, ImagePullPolicy: corev1.PullNever,
		Command: []string{"/usr/sbin/haproxy", "-W", "-S", HostPaths.Socket + ",mode,600", "-f", HostPaths.Config},
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Host: "127.0.0.1", Port: intstr.FromInt32(readyPort), Path: "/haproxy_ready",
			}},
			PeriodSeconds: 5, TimeoutSeconds: 3, FailureThreshold: 3,
		},
		Resources: corev1.ResourceRequirements{Requests: share()},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: configDir, ReadOnly: true},
			{Name: "run", MountPath: runDir},
		},
	}
}

// share requests a share of a busy host. Without it, haproxy would get the least
// of all.
func share() corev1.ResourceList {
	out := make(corev1.ResourceList, 2)
	out[corev1.ResourceCPU] = resource.MustParse("100m")
	out[corev1.ResourceMemory] = resource.MustParse("64Mi")
	return out
}

// Files renders certificates, configuration and static pod, in the order in
// which they must be written: kubelet starts the pod as soon as it sees it.
// restarted is as for Pod.
func Files(s Site, image, restarted string) ([]state.File, error) {
	conf, err := Config(s)
	if err != nil {
		return nil, err
	}
	pod, err := Pod(image, restarted)
	if err != nil {
		return nil, err
	}
	return []state.File{
		{Path: s.Paths.CA, Data: s.CA}, {Path: s.Paths.Config, Data: conf}, {Path: PodPath, Data: pod, Mode: state.SecretFileMode},
	}, nil
}
