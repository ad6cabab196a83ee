package kubeadm

import (
	"cmp"
	"fmt"

	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/site"
)

// AccessPath is the file with a joining host's access to the cluster while
// kubeadm works.
const AccessPath = "/etc/holdfast/join.kubeconfig"

// KubeletCertificate is the file with kubelet's own certificate and key, once it
// has one.
const KubeletCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// ServingCertificate is the certificate by which kubelet serves, with its key.
const ServingCertificate = "/var/lib/kubelet/pki/kubelet-server-current.pem"

// Access renders a kubeconfig with which kubeadm finds the cluster, with a
// bootstrap token. If the token is empty, it uses kubelet's certificate, which a
// host has whose join was cut off late. That certificate proves better than any
// token that the Node with its name is its own. The authority verifies the cluster
// from the first request on; if it is empty, that is the site's.
func Access(s *site.Site, token, authority string) ([]byte, error) {
	const user = "joining"
	account := clientcmd.AuthInfo{Token: token}
	if token == "" {
		account = clientcmd.AuthInfo{ClientCertificate: KubeletCertificate, ClientKey: KubeletCertificate}
	}
	name := s.Config.Metadata.Name
	out, err := yaml.Marshal(clientcmd.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: user,
		Clusters: []clientcmd.NamedCluster{{Name: name, Cluster: clientcmd.Cluster{
			Server: "https://" + s.APIEndpoint(), CertificateAuthorityData: []byte(cmp.Or(authority, s.Identity.KubernetesCA.Cert)),
		}}},
		AuthInfos: []clientcmd.NamedAuthInfo{{Name: user, AuthInfo: account}},
		Contexts:  []clientcmd.NamedContext{{Name: user, Context: clientcmd.Context{Cluster: name, AuthInfo: user}}},
	})
	if err != nil {
		return nil, fmt.Errorf("render access of a joining host: %w", err)
	}
	return out, nil
}
