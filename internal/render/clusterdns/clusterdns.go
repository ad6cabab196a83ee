// Package clusterdns renders the DNS for a cluster's Services: one CoreDNS on
// every host, which serves the pods of that host, so that they do not depend on
// another host's life (docs/adr/0028-cluster-dns.md). The name server for the
// host's own names is another one: see package coredns; it needs no cluster.
package clusterdns

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/render/document"
)

// Names of the objects. They are the upstream names, because people and tools
// look for them.
const (
	Namespace = "kube-system"
	// Name is the name of the DaemonSet, its account and its configuration.
	Name = "coredns"
	// ServiceName is the Service in resolv.conf of every pod.
	ServiceName = "kube-dns"
	// Label, with the value ServiceName, is set on the pods.
	Label = "k8s-app"
)

// roleName is the upstream name of CoreDNS's role.
const roleName = "system:coredns"

// Path is the path of the manifests' file.
const Path = "network/cluster-dns.yaml"

// Manifests renders all objects of cluster DNS, as one file.
func Manifests(s *site.Site) (state.File, error) {
	address, err := Address(s.Config.Networking.ServiceNetwork)
	if err != nil {
		return state.File{}, fmt.Errorf("render cluster DNS: %w", err)
	}
	var out bytes.Buffer
	for _, object := range []any{
		account(), clusterRole(), clusterRoleBinding(), configMap(s.APIName()), service(address), daemonSet(),
	} {
		data, err := document.Marshal(object)
		if err != nil {
			return state.File{}, fmt.Errorf("render cluster DNS: %w", err)
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return state.File{Path: Path, Data: out.Bytes()}, nil
}

// Address returns the tenth address of the first Service network. kubeadm
// configures it in every kubelet, and kubelets pass it to their pods.
func Address(serviceNetworks []string) (netip.Addr, error) {
	if len(serviceNetworks) == 0 {
		return netip.Addr{}, errors.New("no Service network")
	}
	network, err := netip.ParsePrefix(serviceNetworks[0])
	if err != nil {
		return netip.Addr{}, err
	}
	a := network.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	if !network.Contains(a) {
		return netip.Addr{}, fmt.Errorf("%s has no tenth address", network)
	}
	return a, nil
}

func labels() map[string]string { return map[string]string{Label: ServiceName} }

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: labels()}
}

func account() corev1.ServiceAccount {
	return corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta(Name)}
}

func clusterRole() rbacv1.ClusterRole {
	read := []string{"list", "watch"}
	return rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: roleName},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"endpoints", "services", "pods", "namespaces"}, Verbs: read},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		},
	}
}

func clusterRoleBinding() rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: roleName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: Name}},
	}
}

// corefile is the upstream configuration with these changes:
//
//   - The cluster's own names (api, api-int, *.apps, the nodes) come from the zone
//     file of the host's own name server. So pods have these names whether or not
//     that server runs, the site's servers answer, or a resolv.conf names it. The
//     site's servers would deny the names, and a denial is cached for half a minute.
//   - All other queries go to the host's own server, which comes first in
//     resolv.conf, and to the site's servers only while that is away. The host's
//     server keeps the answers of a site whose line is down.
//   - It gets 1.5 s for an answer. That is more than it takes when the first of the
//     site's servers is silent, and less than the 2 s that pods are promised. After
//     that, its health is checked with a name that it answers by itself. From the
//     first miss on it is skipped until it answers the check.
//
// The parameters are the path of the zone file and the name for the health check.
const corefile = `.:53 {
    errors
    health {
        lameduck 5s
    }
    ready
    cluster %s
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
        policy sequential
        read_timeout 1500ms
        max_fails 1
        health_check 500ms domain %s
        failover REFUSED
        max_concurrent 1000
    }
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

func configMap(apiName string) corev1.ConfigMap {
	return corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(Name),
		Data: map[string]string{"Corefile": fmt.Sprintf(corefile, coredns.ZonePath, apiName)},
	}
}

// service sends a query to the CoreDNS of the same host. While that one is not
// ready, the others get it: internalTrafficPolicy Local would drop it.
func service(address netip.Addr) corev1.Service {
	m := meta(ServiceName)
	m.Labels["kubernetes.io/cluster-service"], m.Labels["kubernetes.io/name"] = "true", "CoreDNS"
	m.Annotations = map[string]string{"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}
	return corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: m,
		Spec: corev1.ServiceSpec{
			ClusterIP: address.String(), Selector: labels(),
			TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferSameNode),
			Ports: []corev1.ServicePort{
				{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(53)},
				{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(53)},
				{Name: "metrics", Port: 9153, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9153)},
			},
		},
	}
}
