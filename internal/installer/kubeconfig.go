package installer

import (
	"fmt"

	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/site"
)

// AdminKubeconfig renders the administrator's kubeconfig for a server URL.
// Whatever the URL, the certificate presented must be that of the site's API
// name, so that a forwarder or a VIP serves as well as the name itself.
func AdminKubeconfig(s *site.Site, server string) ([]byte, error) {
	const user = "admin"
	name := s.Config.Metadata.Name
	out, err := yaml.Marshal(clientcmd.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: user,
		Clusters: []clientcmd.NamedCluster{{Name: name, Cluster: clientcmd.Cluster{
			Server: server, TLSServerName: s.ExternalAPIName(),
			CertificateAuthorityData: []byte(s.Identity.KubernetesCA.Cert),
		}}},
		AuthInfos: []clientcmd.NamedAuthInfo{{Name: user, AuthInfo: clientcmd.AuthInfo{
			ClientCertificateData: []byte(s.Identity.Admin.Cert),
			ClientKeyData:         []byte(s.Identity.Admin.Key),
		}}},
		Contexts: []clientcmd.NamedContext{{Name: user, Context: clientcmd.Context{Cluster: name, AuthInfo: user}}},
	})
	if err != nil {
		return nil, fmt.Errorf("render kubeconfig: %w", err)
	}
	return out, nil
}
