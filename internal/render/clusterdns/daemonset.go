package clusterdns

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/render/volume"
)

// daemonSet runs one CoreDNS on every host, whatever taints that has: a host
// that is closed for workloads still runs pods that use DNS.
func daemonSet() appsv1.DaemonSet {
	return appsv1.DaemonSet{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"}, ObjectMeta: meta(Name),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			// On each host, the new pod is ready before the old one leaves. So a host
			// that is away does not delay the others, and a version that never gets
			// ready replaces nothing.
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{
					MaxSurge: new(intstr.FromString("100%")), MaxUnavailable: new(intstr.FromInt32(0)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{Label: ServiceName, state.LabelHostNames: ""}}, Spec: pod(),
			},
		},
	}
}

// hostNames is the volume with the zone file of the host's own name server.
const hostNames = "host-names"

func pod() corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName: Name, PriorityClassName: "system-node-critical",
		Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		NodeSelector: map[string]string{corev1.LabelOSStable: "linux"},
		// The host's own name server answers other names.
		DNSPolicy:       corev1.DNSDefault,
		SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers:      []corev1.Container{server()},
		Volumes: []corev1.Volume{
			{Name: "config-volume", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: Name},
					Items:                []corev1.KeyToPath{{Key: "Corefile", Path: "Corefile"}},
				},
			}},
			// Mount the folder, because its files are replaced. At a site whose own DNS
			// has the cluster's names, the folder stays empty.
			volume.HostPath(hostNames, coredns.ConfigFolder, corev1.HostPathDirectoryOrCreate),
		},
	}
}

func server() corev1.Container {
	want, most := make(corev1.ResourceList), make(corev1.ResourceList)
	want[corev1.ResourceCPU], want[corev1.ResourceMemory] = resource.MustParse("100m"), resource.MustParse("70Mi")
	most[corev1.ResourceMemory] = resource.MustParse("170Mi")
	return corev1.Container{
		Name: Name, Image: payload.Image("coredns"), ImagePullPolicy: corev1.PullNever,
		Args:      []string{"-conf", "/etc/coredns/Corefile"},
		Resources: corev1.ResourceRequirements{Requests: want, Limits: most},
		Ports: []corev1.ContainerPort{
			{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP},
			{Name: "dns-tcp", ContainerPort: 53, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: 9153, Protocol: corev1.ProtocolTCP},
		},
		// The start may take a minute. After that, five misses of 5 s count as a
		// hang.
		LivenessProbe: probe("/health", 8080, corev1.Probe{InitialDelaySeconds: 60, PeriodSeconds: 5, TimeoutSeconds: 5, FailureThreshold: 5}),
		// Check every second: until the pod is ready again, the pods of its host use
		// another one. A hung one is skipped after five misses.
		ReadinessProbe: probe("/ready", 8181, corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 5}),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{
				Add: []corev1.Capability{"NET_BIND_SERVICE"}, Drop: []corev1.Capability{"ALL"},
			},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config-volume", MountPath: "/etc/coredns", ReadOnly: true},
			{Name: hostNames, MountPath: coredns.ConfigFolder, ReadOnly: true},
		},
	}
}

func probe(path string, port int32, p corev1.Probe) *corev1.Probe {
	p.HTTPGet = &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port)}
	return &p
}
