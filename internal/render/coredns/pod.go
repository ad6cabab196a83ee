package coredns

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/volume"
)

// Paths on the host. The pod shares the host's process ids, so that the agent
// can signal the pid in PIDFile from outside.
const (
	ConfigFolder = "/etc/holdfast/coredns"
	ConfigPath   = ConfigFolder + "/Corefile"
	ZonePath     = ConfigFolder + "/cluster.zone"
	PodPath      = "/etc/kubernetes/manifests/coredns.yaml"
	RunFolder    = "/run/holdfast/coredns"
	PIDFile      = RunFolder + "/coredns.pid"
)

// PodName distinguishes the host's name server from the cluster's own.
const PodName = "holdfast-coredns"

// Pod renders the static pod of the host's name server. The pod mounts the
// folder instead of the files, because the files are replaced.
func Pod(image string) ([]byte, error) {
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: PodName, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"component": PodName, "tier": "node"},
		},
		Spec: corev1.PodSpec{
			HostNetwork: true, HostPID: true, DNSPolicy: corev1.DNSDefault,
			SecurityContext:               &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			PriorityClassName:             "system-node-critical",
			TerminationGracePeriodSeconds: new(int64(5)),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:                    []corev1.Container{container(image)},
			Volumes: []corev1.Volume{
				volume.HostPath("config", ConfigFolder, corev1.HostPathDirectoryOrCreate),
				volume.HostPath("run", RunFolder, corev1.HostPathDirectoryOrCreate),
			},
		},
	}
	out, err := yaml.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("render coredns pod: %w", err)
	}
	return out, nil
}

func container(image string) corev1.Container {
	return corev1.Container{
		Name: "coredns", Image: image, ImagePullPolicy: corev1.PullNever,
		Command: []string{"/usr/local/bin/coredns", "-conf", ConfigPath, "-pidfile", PIDFile},
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Host: "127.0.0.1", Path: "/health", Port: intstr.FromInt32(HealthPort),
			}},
			PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3,
		},
		Resources: corev1.ResourceRequirements{Requests: share()},
		SecurityContext: &corev1.SecurityContext{
			ReadOnlyRootFilesystem:   new(true),
			AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_BIND_SERVICE"},
			},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: ConfigFolder, ReadOnly: true},
			{Name: "run", MountPath: RunFolder},
		},
	}
}

// share requests a share of a busy host. Without it, the host's names would be
// answered after everything else that runs there.
func share() corev1.ResourceList {
	out := make(corev1.ResourceList, 2)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = resource.MustParse("50m"), resource.MustParse("32Mi")
	return out
}
