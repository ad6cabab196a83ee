package router

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// Account is the routers' account.
const Account = "router"

// Folder is the folder of a router's files: below it, dynamic/ contains those
// of Config, and tls/ the default certificate.
const Folder = "/etc/router"

// nobody is the user of a router that needs no port of a host.
const nobody = 65532

// GoneFromDeployment lists the fields that must be exactly as rendered. Other
// fields that people add to a Deployment stay, for example the mark of a
// restart.
var GoneFromDeployment = []string{
	"spec.template.spec.nodeSelector", "spec.template.spec.tolerations", "spec.template.spec.affinity",
	"spec.template.spec.hostNetwork", "spec.template.spec.hostPID", "spec.template.spec.securityContext",
	"spec.template.spec.initContainers", "spec.template.spec.nodeName", "spec.paused",
	"spec.template.spec.containers.securityContext", "spec.template.spec.containers.args",
	"spec.template.spec.containers.env", "spec.template.spec.containers.ports.hostPort", "spec.template.spec.containers.lifecycle",
	"spec.template.spec.containers.livenessProbe.httpGet.host", "spec.template.spec.containers.readinessProbe.httpGet.host",
	"spec.template.spec.containers.startupProbe.httpGet.host",
}

func deployment(r *ingress.Router, plane DataPlane) *appsv1.Deployment {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: ingress.PodLabels(r.Name)},
		Spec:       pod(r, plane),
	}
	version := hash(template)
	template.Labels[ingress.LabelHash] = version
	template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{ingress.LabelHash: version}},
	}}
	template.Spec.Affinity = affinity(r, version)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: meta(r, ingress.RouterName(r.Name)),
		Spec: appsv1.DeploymentSpec{
			Replicas:                new(r.Replicas),
			Selector:                &metav1.LabelSelector{MatchLabels: ingress.PodLabels(r.Name)},
			MinReadySeconds:         r.Rollout.MinReadySeconds,
			ProgressDeadlineSeconds: new(int32(600)),
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(r.Rollout.MaxUnavailable), MaxSurge: new(r.Rollout.MaxSurge),
				},
			},
			Template: template,
		},
	}
}

// hash identifies a version: two routers of the same version never share a
// host, but one each of two versions may.
func hash(template corev1.PodTemplateSpec) string {
	data, err := json.Marshal(template)
	if err != nil {
		panic(err) // a typed value of the API
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:10]
}

func affinity(r *ingress.Router, version string) *corev1.Affinity {
	out := &corev1.Affinity{}
	if r.AvoidRemote {
		out.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: ingress.LabelRemoteWorker, Operator: corev1.NodeSelectorOpNotIn, Values: []string{""}},
			}}},
		}}
	}
	if r.Rollout.Spread {
		same := term(r, metav1.LabelSelectorRequirement{Key: ingress.LabelHash, Operator: metav1.LabelSelectorOpIn, Values: []string{version}})
		other := term(r, metav1.LabelSelectorRequirement{Key: ingress.LabelHash, Operator: metav1.LabelSelectorOpNotIn, Values: []string{version}})
		out.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{same}}
		out.PodAffinity = &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: other}},
		}
	}
	if out.NodeAffinity == nil && out.PodAffinity == nil {
		return nil
	}
	return out
}

// term selects routers of this IngressController by their version.
func term(r *ingress.Router, version metav1.LabelSelectorRequirement) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		TopologyKey: corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: ingress.LabelDeployment, Operator: metav1.LabelSelectorOpIn, Values: []string{r.Name}}, version,
		}},
	}
}

func pod(r *ingress.Router, plane DataPlane) corev1.PodSpec {
	out := corev1.PodSpec{
		ServiceAccountName:            Account,
		PriorityClassName:             "system-cluster-critical",
		DNSPolicy:                     corev1.DNSClusterFirst,
		NodeSelector:                  r.NodeSelector,
		Tolerations:                   r.Tolerations,
		TerminationGracePeriodSeconds: new(int64(r.Drain.Grace().Seconds())),
		EnableServiceLinks:            new(false),
		Containers:                    []corev1.Container{container(r, plane)},
		Volumes:                       []corev1.Volume{files(r)},
		SecurityContext: &corev1.PodSecurityContext{
			RunAsUser: new(int64(nobody)), RunAsGroup: new(int64(nobody)), RunAsNonRoot: new(true), FSGroup: new(int64(nobody)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			// Lets programs without rights use ports 80 and 443; it applies to this pod
			// only and is harmless.
			Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
		},
	}
	if r.HostNetwork() {
		out.HostNetwork = true
		out.DNSPolicy = corev1.DNSClusterFirstWithHostNet
		// A pod must not change a host's own setting, so these ports need root with
		// that one capability.
		out.SecurityContext = &corev1.PodSecurityContext{
			RunAsUser: new(int64(0)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	}
	return out
}

func container(r *ingress.Router, plane DataPlane) corev1.Container {
	out := plane.Container(r)
	paths := plane.Paths(r)
	out.ImagePullPolicy = corev1.PullNever
	out.Ports = []corev1.ContainerPort{port(r, PortHTTP, r.HTTP), port(r, portHTTPS, r.HTTPS), port(r, ingress.MetricsPort, r.Stats)}
	out.StartupProbe = probe(r, paths.Started, 1, 120)
	out.LivenessProbe = probe(r, paths.Alive, 10, 3)
	out.ReadinessProbe = probe(r, paths.Ready, 10, 3)
	out.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	out.VolumeMounts = []corev1.VolumeMount{{Name: volumeName, MountPath: Folder, ReadOnly: true}}
	out.Resources = corev1.ResourceRequirements{Requests: requests()}
	out.SecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if r.HostNetwork() {
		out.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
	}
	return out
}

// requests are what a router is promised, in processor time as much as OpenShift's
// router and as the balancer of the API. With half of that it stood behind an API
// server that all clients had just come to: its queue was 4 s long while the other
// host went to another release (docs/facts/upgrades.md).
func requests() corev1.ResourceList {
	out := make(corev1.ResourceList)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = resource.MustParse("100m"), resource.MustParse("96Mi")
	return out
}

func port(r *ingress.Router, name string, number int32) corev1.ContainerPort {
	out := corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
	if r.HostNetwork() {
		out.HostPort = number
	}
	return out
}

func probe(r *ingress.Router, path string, period, failures int32) *corev1.Probe {
	get := &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(r.Stats), Scheme: corev1.URISchemeHTTP}
	if r.HostNetwork() {
		get.Host = "localhost"
	}
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: get},
		PeriodSeconds: period, FailureThreshold: failures, SuccessThreshold: 1, TimeoutSeconds: 3,
	}
}

const volumeName = "router"

// files returns all files as one volume: it changes as a whole, so that a
// certificate and the file that names it always match. A router that reads while
// kubelet changes it may still get a certificate of before and a key of after; it
// reads again when kubelet removes the old folder, some milliseconds later.
func files(r *ingress.Router) corev1.Volume {
	sources := []corev1.VolumeProjection{
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: ingress.ConfigName(r.Name)}, Items: configItems(r),
		}},
		{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: r.Certificate},
			Items: []corev1.KeyToPath{
				{Key: corev1.TLSCertKey, Path: "tls/" + corev1.TLSCertKey}, {Key: corev1.TLSPrivateKeyKey, Path: "tls/" + corev1.TLSPrivateKeyKey},
			},
		}},
	}
	return corev1.Volume{Name: volumeName, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: new(int32(0o440))},
	}}
}

func configItems(r *ingress.Router) []corev1.KeyToPath {
	out := []corev1.KeyToPath{{Key: configKey, Path: "dynamic/" + configKey}}
	if r.ClientCA != "" {
		out = append(out, corev1.KeyToPath{Key: clientCAKey, Path: "client-ca/" + clientCAKey})
	}
	return out
}

// Keys of the ConfigMap with the configuration.
const (
	configKey   = "router.yaml"
	clientCAKey = "client-ca.pem"
)
