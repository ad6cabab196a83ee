// Package operator renders the operator's objects in the cluster: its
// Deployment and its rights, the Jobs that it creates on hosts, and the policy
// that keeps people from reversing decisions that cannot be reversed.
package operator

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/volume"
)

const (
	// Name is the operator's name in all its objects.
	Name = "holdfast-operator"
	// Namespace is the namespace of the operator and its Jobs.
	Namespace = "openshift-etcd"
	// Image is the name of its image in the release.
	Image = "holdfast-operator"
	// EtcdFolder contains the files with which the operator asks etcd for its
	// members: etcd's authorities, and its own certificate with its key. Each
	// control plane's agent keeps them.
	EtcdFolder = "/etc/kubernetes/pki/holdfast"
	// FormerEtcdFolder is the folder that pods of earlier releases use instead: it
	// contains the key of etcd's authority.
	FormerEtcdFolder = state.EtcdPKIDir
	// EtcdAuthorities is the file of etcd's authorities in EtcdFolder.
	EtcdAuthorities = "ca.crt"
	// EtcdPair is the file of the certificate and its key there.
	EtcdPair = "operator.pem"
	// HealthPort is the port of its health check, on the host's loopback address.
	HealthPort = 10270
	// NodeName is the variable in the operator's environment with the name of its
	// node.
	NodeName = "NODE_NAME"
	// MetricsPort is the port of its metrics, on the same address.
	MetricsPort = 10272
)

// User is the operator's user, on its host too: it can read its own key and no
// other.
const User = nobody

// program is the path of the operator in its image.
const program = "/usr/local/bin/holdfast-operator"

// lostAfter is the time that the operator's pod stays on a lost host, in
// seconds.
const lostAfter = 10

// Objects returns the operator's objects in every cluster, ordered so that each
// finds the objects that it names.
func Objects() []Object { return slices.Concat(Access(), Deployment(), Rules()) }

// Access returns the operator's account and its rights.
func Access() []Object {
	return slices.Concat(access(), ingressAccess(), guardAccess(), machineConfigAccess(), drainAccess(), upgradeAccess())
}

// Deployment returns the operator itself.
func Deployment() []Object { return []Object{{"deployment", deployment()}} }

// Rules returns the policies of what it decides, and the dashboard.
func Rules() []Object {
	return slices.Concat(placementStays(), renderedStay(), turnsAreGiven(), versionIsSound(), dashboard())
}

// TwoNodeObjects returns the additional objects for two control planes.
func TwoNodeObjects() []Object { return twoNodeAccess() }

// Object is an object of the API with the name of its file.
type Object struct {
	File  string
	Value any
}

func labels() map[string]string { return map[string]string{"app.kubernetes.io/name": Name} }

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: labels()},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			// Two of them would use the same port of a host.
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}, Spec: pod()},
		},
	}
}

// pod uses the host's network: the operator reaches the API server of its own
// host, whatever happens to the pod network and the virtual IP.
func pod() corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName: Name,
		HostNetwork:        true,
		DNSPolicy:          corev1.DNSDefault,
		PriorityClassName:  "system-cluster-critical",
		Affinity:           &corev1.Affinity{NodeAffinity: controlPlanes()},
		Tolerations:        ownTolerations(),
		Containers:         []corev1.Container{container()},
		Volumes:            []corev1.Volume{volume.HostPath("etcd", EtcdFolder, corev1.HostPathDirectoryOrCreate)},
	}
}

func controlPlanes() *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: state.LabelControlPlane, Operator: corev1.NodeSelectorOpExists},
		}}},
	}}
}

// ownTolerations let the operator start on a host that it has cordoned itself: where the other
// control plane dies meanwhile there is no other place, and nobody else takes the cordon away.
// A drain leaves the operator's own pod where it is.
func ownTolerations() []corev1.Toleration {
	return append(tolerations(), corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
}

func tolerations() []corev1.Toleration {
	out := []corev1.Toleration{
		{Key: state.LabelControlPlane, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: state.LabelMaster, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
	for _, lost := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		out = append(out, corev1.Toleration{
			Key: lost, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(lostAfter)),
		})
	}
	return out
}

func container() corev1.Container {
	return corev1.Container{
		Name: "operator", Image: payload.Image(Image), ImagePullPolicy: corev1.PullNever,
		Command:                  []string{program, "run"},
		Env:                      []corev1.EnvVar{{Name: NodeName, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
		Resources:                corev1.ResourceRequirements{Requests: requests()},
		LivenessProbe:            probe("/healthz"),
		ReadinessProbe:           probe("/readyz"),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(User)), RunAsGroup: new(int64(User)), ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "etcd", MountPath: EtcdFolder, ReadOnly: true}},
	}
}

func requests() corev1.ResourceList {
	out := make(corev1.ResourceList)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = resource.MustParse("10m"), resource.MustParse("64Mi")
	return out
}

func probe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Host: "127.0.0.1", Port: intstr.FromInt32(HealthPort), Path: path,
		}},
		InitialDelaySeconds: 1, PeriodSeconds: 5, TimeoutSeconds: 3, FailureThreshold: 6,
	}
}
