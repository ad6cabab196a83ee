package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

// nameless lists the paths that the API serves to everybody: its health, for
// kubelet, the balancer and other hosts, and the data against which a joining
// host checks the cluster's authority before it has a certificate.
var nameless = []string{
	"/healthz", "/livez", "/readyz", "/api/v1/namespaces/kube-public/configmaps/cluster-info",
}

// authentication requires a name for everything else. So a role that somebody
// binds to everybody by mistake is not open to the whole network.
func authentication() apiserverv1.AuthenticationConfiguration {
	anonymous := &apiserverv1.AnonymousAuthConfig{Enabled: true}
	for _, path := range nameless {
		anonymous.Conditions = append(anonymous.Conditions, apiserverv1.AnonymousAuthCondition{Path: path})
	}
	return apiserverv1.AuthenticationConfiguration{
		TypeMeta:  metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AuthenticationConfiguration"},
		JWT:       []apiserverv1.JWTAuthenticator{},
		Anonymous: anonymous,
	}
}
