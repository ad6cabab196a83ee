package kube

import (
	"errors"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// errKubeconfig is all that is told of a kubeconfig that cannot be read: the
// parser's own error may quote a key.
var errKubeconfig = errors.New("it is not a valid kubeconfig")

// ClientPair returns the certificate and the key of a kubeconfig's current user,
// both PEM. Both are empty if it contains none, as one that names files.
func ClientPair(kubeconfig []byte) (cert, key []byte, err error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, nil, errKubeconfig
	}
	user := currentUser(cfg)
	return user.ClientCertificateData, user.ClientKeyData, nil
}

// Usable reports whether the current context of a kubeconfig has a cluster and a user.
func Usable(kubeconfig []byte) bool {
	cfg, err := clientcmd.Load(kubeconfig)
	return err == nil && clientcmd.ConfirmUsable(*cfg, "") == nil
}

// WithClientCertificate returns a kubeconfig with another certificate of its
// current user, for the key that it contains. Everything else stays.
func WithClientCertificate(kubeconfig, cert []byte) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errKubeconfig
	}
	currentUser(cfg).ClientCertificateData = cert
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, errors.New("it cannot be written as a kubeconfig")
	}
	return out, nil
}

// Authorities returns the authorities by which a kubeconfig's current context knows
// the API, PEM. It is empty if the kubeconfig contains none, as one that names a
// file.
func Authorities(kubeconfig []byte) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errKubeconfig
	}
	cluster := currentCluster(cfg)
	if cluster == nil {
		return nil, nil
	}
	return cluster.CertificateAuthorityData, nil
}

// WithAuthorities returns a kubeconfig whose current context knows the API by
// other authorities, PEM. Everything else stays.
func WithAuthorities(kubeconfig, bundle []byte) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errKubeconfig
	}
	cluster := currentCluster(cfg)
	if cluster == nil {
		return nil, errors.New("it names no cluster whose authorities could be changed")
	}
	cluster.CertificateAuthority, cluster.CertificateAuthorityData = "", bundle
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, errors.New("it cannot be written as a kubeconfig")
	}
	return out, nil
}

// currentCluster returns the cluster of the current context, nil if there is none. A
// kubeconfig without contexts, as kubeadm writes it for hosts that join (ConfigMap
// kube-public/cluster-info), has a cluster without a name.
func currentCluster(cfg *clientcmdapi.Config) *clientcmdapi.Cluster {
	if context, has := cfg.Contexts[cfg.CurrentContext]; has {
		return cfg.Clusters[context.Cluster]
	}
	return cfg.Clusters[""]
}

// currentUser returns the user of the current context, one without anything if
// there is none.
func currentUser(cfg *clientcmdapi.Config) *clientcmdapi.AuthInfo {
	if context, has := cfg.Contexts[cfg.CurrentContext]; has {
		if user, has := cfg.AuthInfos[context.AuthInfo]; has {
			return user
		}
	}
	return &clientcmdapi.AuthInfo{}
}
