package operator

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/retired"
)

const (
	// Dashboard is the name of all objects of the dashboard.
	Dashboard = "holdfast-dashboard"
	// DashboardPort is the port of its pod, servicePort that of its Service.
	DashboardPort = 8017
	servicePort   = 80
	// nobody is the user of programs that need no rights on a host.
	nobody = 65532
)

// dashboard returns the objects of the page about the cluster. It is the
// operator's program in its own pod. Everybody in the cluster may request the
// page. Whoever finds a hole in it gets an account that only reads, and none of
// the operator's rights.
func dashboard() []Object {
	meta := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: Dashboard, Labels: dashboardLabels()}
	}
	whose := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: Dashboard}}
	return []Object{
		{"dashboard-account", &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta(Namespace)}},
		{"dashboard-cluster-role", &rbacv1.ClusterRole{TypeMeta: rbac("ClusterRole"), ObjectMeta: meta(""), Rules: []rbacv1.PolicyRule{
			rule("", look, "nodes"),
			rule("config.openshift.io", look, "infrastructures", "clusteroperators", "clusterversions"),
			rule("etcd.openshift.io", look, "pacemakerclusters"),
			rule("machineconfiguration.openshift.io", look, "machineconfigpools"),
			rule("operator.openshift.io", look, "etcds"),
		}}},
		{"dashboard-cluster-role-binding", &rbacv1.ClusterRoleBinding{
			TypeMeta: rbac("ClusterRoleBinding"), ObjectMeta: meta(""), RoleRef: dashboardRole("ClusterRole"), Subjects: whose,
		}},
		// For etcd's pods, and the hosts' reports of incidents.
		{"dashboard-role", &rbacv1.Role{TypeMeta: rbac("Role"), ObjectMeta: meta(metav1.NamespaceSystem), Rules: []rbacv1.PolicyRule{
			rule("", []string{"list"}, "configmaps", "pods"),
			// the record of an upgrade, the list of hosts that were taken out, the proof of backups, and
			// the numbers of the keys that encrypt secrets, which are no secret
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{annotation.RecordName, retired.ConfigMap, backup.ProofName, encryption.WishName}, Verbs: []string{"get"}},
		}}},
		{"dashboard-role-binding", &rbacv1.RoleBinding{
			TypeMeta: rbac("RoleBinding"), ObjectMeta: meta(metav1.NamespaceSystem), RoleRef: dashboardRole("Role"), Subjects: whose,
		}},
		// The dashboard tells whether the operator runs: nobody else does.
		{"dashboard-operator-role", &rbacv1.Role{TypeMeta: rbac("Role"), ObjectMeta: meta(Namespace), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{Name}, Verbs: []string{"get"}},
		}}},
		{"dashboard-operator-role-binding", &rbacv1.RoleBinding{
			TypeMeta: rbac("RoleBinding"), ObjectMeta: meta(Namespace), RoleRef: dashboardRole("Role"), Subjects: whose,
		}},
		{"dashboard-service", &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta(Namespace),
			Spec: corev1.ServiceSpec{
				Selector: dashboardLabels(), IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack),
				Ports: []corev1.ServicePort{{Name: "http", Port: servicePort, TargetPort: intstr.FromInt32(DashboardPort)}},
			},
		}},
		{"dashboard-deployment", &appsv1.Deployment{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta(Namespace),
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(1)),
				Selector: &metav1.LabelSelector{MatchLabels: dashboardLabels()},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: dashboardLabels()}, Spec: dashboardPod()},
			},
		}},
	}
}

var look = []string{"get", "list"}

func dashboardLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": Dashboard}
}

func dashboardRole(kind string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: Dashboard}
}

// dashboardPod uses nothing of its host.
func dashboardPod() corev1.PodSpec {
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(DashboardPort), Path: "/healthz"}},
		PeriodSeconds: 10, TimeoutSeconds: 3,
	}
	want, most := make(corev1.ResourceList), make(corev1.ResourceList)
	want[corev1.ResourceCPU], want[corev1.ResourceMemory] = resource.MustParse("5m"), resource.MustParse("24Mi")
	most[corev1.ResourceMemory] = resource.MustParse("128Mi")
	return corev1.PodSpec{
		ServiceAccountName: Dashboard,
		EnableServiceLinks: new(false),
		// All hosts have the image, and the place of the pod does not matter, but a
		// worker may be off at night.
		Affinity:    &corev1.Affinity{NodeAffinity: controlPlanes()},
		Tolerations: tolerations(),
		Containers: []corev1.Container{{
			Name: "dashboard", Image: payload.Image(Image), ImagePullPolicy: corev1.PullNever,
			Command:       []string{program, "dashboard"},
			Ports:         []corev1.ContainerPort{{Name: "http", ContainerPort: DashboardPort}},
			Resources:     corev1.ResourceRequirements{Requests: want, Limits: most},
			LivenessProbe: probe, ReadinessProbe: probe,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			SecurityContext: &corev1.SecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(nobody)), RunAsGroup: new(int64(nobody)),
				ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}},
	}
}
