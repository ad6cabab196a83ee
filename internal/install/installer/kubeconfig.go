package installer

import (
	"fmt"
	"path/filepath"
	"time"

	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// AdminKubeconfig renders the administrator's kubeconfig for a server URL.
// Whatever the URL, the server's certificate must have the site's API name, so
// that a forwarder or a VIP works as well as the name itself.
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

// Kubeconfig writes auth/kubeconfig with a new certificate of the administrator,
// for the cluster that was made from this directory. The certificate that it
// replaces ends a year after it was made, and may be lost. Kubeconfig returns the
// path, and the end of the new certificate.
func (in *Installer) Kubeconfig() (string, time.Time, error) {
	release, err := in.lock()
	if err != nil {
		return "", time.Time{}, err
	}
	defer release()
	s, err := in.Made()
	if err != nil {
		return "", time.Time{}, err
	}
	st, err := in.readState()
	if err != nil {
		return "", time.Time{}, err
	}
	if err := in.replaceAdministrator(s, st); err != nil {
		return "", time.Time{}, err
	}
	cert, err := s.Identity.Admin.Parse()
	if err != nil {
		return "", time.Time{}, err
	}
	file, err := kubeconfigFile(s)
	if err != nil {
		return "", time.Time{}, err
	}
	_, err = host.WriteFiles(in.Dir, []state.File{file})
	return filepath.Join(in.Dir, file.Path), cert.NotAfter, err
}

// renewAdministrator puts a valid certificate into the kubeconfig that is made
// now: a directory is used for years, and its certificate ends after one.
func (in *Installer) renewAdministrator(s *site.Site, st *saved) error {
	if keys.AdministratorServes(s.Identity, in.Now()) {
		return nil
	}
	return in.replaceAdministrator(s, st)
}

func (in *Installer) replaceAdministrator(s *site.Site, st *saved) error {
	pair, err := keys.Administrator(s.Identity, in.Now(), in.Random)
	if err != nil {
		return err
	}
	s.Identity.Admin, st.Identity.Admin = pair, pair
	return in.writeState(st)
}

func kubeconfigFile(s *site.Site) (state.File, error) {
	data, err := AdminKubeconfig(s, "https://"+s.ExternalAPIName()+":6443")
	return state.File{Path: Kubeconfig, Data: data, Mode: state.SecretFileMode}, err
}
