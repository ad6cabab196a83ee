package operator

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// access returns the operator's account and its rights in every cluster.
func access() []Object {
	return []Object{
		{"account", &corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: labels()},
		}},
		{"role", &rbacv1.Role{
			TypeMeta:   rbac("Role"),
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: labels()},
			Rules: []rbacv1.PolicyRule{
				rule("", []string{"create", "patch"}, "events"),
				rule("coordination.k8s.io", all, "leases"),
				givesAlerts("holdfast-site"),
			},
		}},
		{"role-binding", &rbacv1.RoleBinding{
			TypeMeta:   rbac("RoleBinding"),
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: labels()},
			RoleRef:    roleRef("Role"), Subjects: subjects(),
		}},
		{"cluster-role", &rbacv1.ClusterRole{
			TypeMeta:   rbac("ClusterRole"),
			ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: labels()},
			Rules: []rbacv1.PolicyRule{
				// It asks hosts who answers for an address, by an annotation of their
				// nodes. That right is no wider than that of its Jobs.
				rule("", append([]string{"patch"}, read...), "nodes"),
				rule("config.openshift.io", read, "networks"),
				rule("config.openshift.io", append([]string{"patch"}, read...), "infrastructures"),
				rule("config.openshift.io", []string{"patch"}, "infrastructures/status"),
				rule("config.openshift.io", []string{"create", "get", "patch"}, "clusteroperators"),
				rule("config.openshift.io", []string{"patch"}, "clusteroperators/status"),
				rule("events.k8s.io", []string{"create", "patch"}, "events"),
				rule("", read, "namespaces"),
				rule("config.openshift.io", read, "ingresses"),
				rule("config.openshift.io", []string{"patch"}, "ingresses/status"),
				rule("networking.k8s.io", keep, "ingressclasses"),
				rule(ingress.GatewayGroup, keep, "gatewayclasses"),
				// To know to whom a host name belongs.
				rule("networking.k8s.io", read, "ingresses"),
				rule(ingress.GatewayGroup, read, "grpcroutes", "httproutes", "tlsroutes"),
			},
		}},
		{"cluster-role-binding", &rbacv1.ClusterRoleBinding{
			TypeMeta:   rbac("ClusterRoleBinding"),
			ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: labels()},
			RoleRef:    roleRef("ClusterRole"), Subjects: subjects(),
		}},
	}
}

var (
	read = []string{"get", "list", "watch"}
	keep = []string{"create", "delete", "get", "list", "patch", "watch"}
	all  = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
)

func rule(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// givesAlerts is the right to give Prometheus' operator one object of alerts, by its name
// (package alerts).
func givesAlerts(name string) rbacv1.PolicyRule {
	out := rule("monitoring.coreos.com", []string{"create", "get", "patch"}, "prometheusrules")
	out.ResourceNames = []string{name}
	return out
}

func rbac(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func roleRef(kind string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: Name}
}

func subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: Namespace, Name: Name}}
}
