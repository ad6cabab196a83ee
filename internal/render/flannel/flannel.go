// Package flannel renders the pod network that Holdfast brings: the flannel
// daemon on every node, dual-stack, over VXLAN, so that it needs nothing from
// the site's routers.
package flannel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/render/volume"
)

// Namespace is flannel's, and DaemonSet that of its daemons. Selector names their pods by a label.
const (
	Namespace = "kube-flannel"
	DaemonSet = "kube-flannel"
	Selector  = "app=" + name
)

const (
	namespace = Namespace
	name      = "flannel"
	netConf   = "net-conf.json"
)

// network is flannel's own configuration, net-conf.json.
type network struct {
	EnableIPv4     bool              `json:"EnableIPv4"`
	Network        string            `json:"Network,omitempty"`
	EnableIPv6     bool              `json:"EnableIPv6"`
	IPv6Network    string            `json:"IPv6Network,omitempty"`
	EnableNFTables bool              `json:"EnableNFTables"`
	Backend        map[string]string `json:"Backend"`
}

// Manifests renders all objects of flannel in the cluster, as one file.
func Manifests(s *site.Site) (state.File, error) {
	conf, err := networkOf(s)
	if err != nil {
		return state.File{}, err
	}
	var out bytes.Buffer
	guard := guards.PodNetwork()
	objects := []any{
		// The guard exists before the account gets a right, and so before a daemon
		// runs.
		guard.Policy, guard.Binding,
		namespaceObject(), serviceAccount(), clusterRole(), clusterRoleBinding(), configMap(conf), daemonSet(s),
	}
	for _, object := range append(objects, refusal()...) {
		data, err := document.Marshal(object)
		if err != nil {
			return state.File{}, fmt.Errorf("render flannel: %w", err)
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return state.File{Path: "network/flannel.yaml", Data: out.Bytes()}, nil
}

func networkOf(s *site.Site) (string, error) {
	conf := network{EnableNFTables: true, Backend: map[string]string{"Type": "vxlan"}}
	for _, entry := range s.Config.Networking.ClusterNetwork {
		prefix, err := netip.ParsePrefix(entry.CIDR)
		if err != nil {
			return "", fmt.Errorf("render flannel: %w", err)
		}
		if prefix.Addr().Is4() {
			conf.EnableIPv4, conf.Network = true, entry.CIDR
		} else {
			conf.EnableIPv6, conf.IPv6Network = true, entry.CIDR
		}
	}
	data, err := json.Marshal(conf)
	return string(data), err
}

func meta(n string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: n, Labels: map[string]string{"app": name}}
}

func namespaced(n string) metav1.ObjectMeta {
	m := meta(n)
	m.Namespace = namespace
	return m
}

func namespaceObject() corev1.Namespace {
	return corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: meta(namespace)}
}

func serviceAccount() corev1.ServiceAccount {
	return corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: namespaced(name),
	}
}

// clusterRole contains one right that is wider than the daemon needs:
// "nodes/status". Kubernetes has no narrower one; the guard of the pod network
// limits it to the daemon's own node.
func clusterRole() rbacv1.ClusterRole {
	return rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, ObjectMeta: meta(name),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		},
	}
}

func clusterRoleBinding() rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: meta(name),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}
}

func configMap(conf string) corev1.ConfigMap {
	return corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: namespaced("kube-flannel-cfg"),
		Data: map[string]string{netConf: conf},
	}
}

func daemonSet(s *site.Site) appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return appsv1.DaemonSet{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "DaemonSet"}, ObjectMeta: namespaced(DaemonSet),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{
					MaxUnavailable: new(intstr.FromInt32(1)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					HostNetwork: true, ServiceAccountName: name, PriorityClassName: "system-node-critical",
					Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers:      []corev1.Container{daemon(s)},
					Volumes: []corev1.Volume{
						volume.HostPath("run", "/run/flannel", corev1.HostPathDirectoryOrCreate),
						volume.HostPath("xtables-lock", "/run/xtables.lock", corev1.HostPathFileOrCreate),
						{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
							LocalObjectReference: corev1.LocalObjectReference{Name: "kube-flannel-cfg"},
						}}},
					},
				},
			},
		},
	}
}

func daemon(s *site.Site) corev1.Container {
	return corev1.Container{
		Name: name, Image: payload.Image("flannel"), ImagePullPolicy: corev1.PullNever,
		Command:   []string{"/usr/local/bin/flanneld", "--ip-masq", "--kube-subnet-mgr"},
		Resources: corev1.ResourceRequirements{Requests: share()},
		SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"},
		}},
		Env: []corev1.EnvVar{
			// The daemon starts before Service addresses work, so it needs the address
			// of the API.
			{Name: "KUBERNETES_SERVICE_HOST", Value: s.APIHost()},
			{Name: "KUBERNETES_SERVICE_PORT", Value: strconv.Itoa(site.APIPort)},
			fromField("POD_NAME", "metadata.name"),
			fromField("POD_NAMESPACE", "metadata.namespace"),
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "run", MountPath: "/run/flannel"},
			{Name: "xtables-lock", MountPath: "/run/xtables.lock"},
			{Name: "conf", MountPath: "/etc/kube-flannel", ReadOnly: true},
		},
	}
}

// share requests a share of a busy host, on which routes to new hosts must not come
// after everything else.
func share() corev1.ResourceList {
	out := make(corev1.ResourceList, 2)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = resource.MustParse("50m"), resource.MustParse("50Mi")
	return out
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: path},
	}}
}
