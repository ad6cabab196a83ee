package apiserver

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	podsecurityv1 "k8s.io/pod-security-admission/admission/api/v1"
	podsecurity "k8s.io/pod-security-admission/api"
)

// exempt lists the namespaces whose pods may use the host, each with the
// reason. The list contains names instead of selecting by a label. Kubelets
// report the pods of a control plane to the API before anybody could label
// their namespace, and a lost label would keep the next router from starting.
// In any other namespace a label may lift the default.
var exempt = map[string]string{
	metav1.NamespaceSystem: "the control plane's own pods, kube-proxy, keepalived, haproxy and the host's name server",
	"kube-flannel":         "the pod network's daemon: the host's network",
	"openshift-etcd":       "the operator and the Jobs that set two hosts up: the host's network, processes and files",
	"openshift-ingress":    "routers on the host's ports",
}

// Exempt returns the names of these namespaces, sorted.
func Exempt() []string {
	var out []string
	for name := range exempt {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// admission enforces the level baseline wherever no label says otherwise.
// Without it, whoever may create a pod is root on a host, and on small sites
// that host is a control plane. Pods that the level restricted would refuse
// cause a warning to the client, and a record.
func admission() apiserverv1.AdmissionConfiguration {
	standards := podsecurityv1.PodSecurityConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: podsecurityv1.SchemeGroupVersion.String(), Kind: "PodSecurityConfiguration"},
		Defaults: podsecurityv1.PodSecurityDefaults{
			Enforce: string(podsecurity.LevelBaseline), EnforceVersion: podsecurity.VersionLatest,
			Audit: string(podsecurity.LevelRestricted), AuditVersion: podsecurity.VersionLatest,
			Warn: string(podsecurity.LevelRestricted), WarnVersion: podsecurity.VersionLatest,
		},
		Exemptions: podsecurityv1.PodSecurityExemptions{Usernames: []string{}, RuntimeClasses: []string{}, Namespaces: Exempt()},
	}
	raw, err := json.Marshal(standards)
	if err != nil {
		panic(err) // a typed value that consists of texts
	}
	return apiserverv1.AdmissionConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AdmissionConfiguration"},
		Plugins: []apiserverv1.AdmissionPluginConfiguration{{
			Name: "PodSecurity", Configuration: &runtime.Unknown{Raw: raw},
		}},
	}
}
