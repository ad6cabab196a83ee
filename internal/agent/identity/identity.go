// Package identity keeps the account of the API that the agent of a control plane
// uses: a certificate with a name and a group of its own, and the kubeconfig that
// leads to it. The key is made on the host and never leaves it. Package
// render/manifests renders the group's rights, which are far from all. The agent
// reads an administrator's file only to make what nobody else may make.
package identity

import (
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The files of the cluster's authority, where kubeadm keeps them on each control
// plane.
const (
	authorities  = state.KubernetesCA
	authorityKey = "/etc/kubernetes/pki/ca.key"
)

// Keeper keeps the identity of one host's agent.
type Keeper struct {
	// Root is empty except in tests.
	Root string
	// Host is the name of the host's node, Server the API's URL.
	Host, Server string
	// Period is the site's certificateValidityPeriod; zero if nobody knows it.
	Period time.Duration
	Now    func() time.Time
}

// Has reports whether the agent of this host has an identity already.
func (k Keeper) Has() bool {
	_, err := os.Lstat(k.path(state.AgentKubeconfig))
	return err == nil
}

// Keep makes the certificate if none is still valid, and then the kubeconfig,
// which shows everybody that both exist. On a host without an authority it
// returns fs.ErrNotExist.
func (k Keeper) Keep() (renewed bool, err error) {
	bundle, err := os.ReadFile(k.path(authorities))
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(k.path(authorityKey))
	if err != nil {
		return false, fmt.Errorf("the agent gets no certificate without the key of the cluster's authority: %s", err) //nolint:errorlint // this host is set up
	}
	pair, err := os.ReadFile(k.path(state.AgentPair))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	fresh, now, name := string(pair), k.Now(), pkix.Name{CommonName: site.AgentUser(k.Host), Organization: []string{site.AgentsGroup}}
	life := keys.ClientLife(k.Period)
	if !keys.ClientServes(fresh, name, string(bundle), string(key), life, now) {
		if fresh, err = keys.Client(name, string(bundle), string(key), life, now); err != nil {
			return false, fmt.Errorf("the agent's certificate: %w", err)
		}
		renewed = true
	}
	conf, err := k.kubeconfig()
	if err != nil {
		return false, err
	}
	_, err = host.WriteFiles(k.Root, []state.File{
		{Path: state.AgentPair, Data: []byte(fresh), Mode: state.SecretFileMode},
		{Path: state.AgentKubeconfig, Data: conf, Mode: state.SecretFileMode},
	})
	return renewed && err == nil, err
}

// kubeconfig returns a kubeconfig that names files and holds none of them:
// client-go then reads a renewed certificate again, even for an existing
// connection.
func (k Keeper) kubeconfig() ([]byte, error) {
	const cluster, user = "cluster", "agent"
	out, err := yaml.Marshal(clientcmd.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: user,
		Clusters: []clientcmd.NamedCluster{{Name: cluster, Cluster: clientcmd.Cluster{Server: k.Server, CertificateAuthority: k.path(authorities)}}},
		AuthInfos: []clientcmd.NamedAuthInfo{{Name: user, AuthInfo: clientcmd.AuthInfo{
			ClientCertificate: k.path(state.AgentPair), ClientKey: k.path(state.AgentPair),
		}}},
		Contexts: []clientcmd.NamedContext{{Name: user, Context: clientcmd.Context{Cluster: cluster, AuthInfo: user}}},
	})
	if err != nil {
		return nil, fmt.Errorf("render the agent's kubeconfig: %w", err)
	}
	return out, nil
}

func (k Keeper) path(name string) string { return k.Root + name }
