package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

// nameless are what the API answers to whoever asks: its health, for kubelet, the
// load balancer and other hosts, and what a joining host checks the cluster's
// authority against before it has a certificate.
var nameless = []string{
	"/healthz", "/livez", "/readyz", "/api/v1/namespaces/kube-public/configmaps/cluster-info",
}

// authentication has everything else ask for a name first: a role that somebody
// binds to everybody, by mistake, is then not everybody's on the network.
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
