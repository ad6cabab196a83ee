package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// kubeconfigFile is the name of the kubeconfig for use on this machine.
const kubeconfigFile = "kubeconfig"

// WriteKubeconfig writes a copy of the site's kubeconfig that reaches the API
// through the lab's door on the loopback address, and returns its path. The
// server is still verified, under the name that the site knows it by.
func (b *Lab) WriteKubeconfig(ctx context.Context, c *Client) (string, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(b.Kubeconfig())
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("lab %s has no cluster: its hosts are bare, or 'holdfast lab up' has not got that far yet", b.Layout.Spec.Name)
	}
	if err != nil {
		return "", err
	}
	out, err := redirect(data, st.API, "api."+b.Layout.ClusterDomain())
	if err != nil {
		return "", fmt.Errorf("kubeconfig of lab %s: %w", b.Layout.Spec.Name, err)
	}
	// A watch calls this again and again: an unchanged file is not written
	// again.
	_, err = host.WriteFiles(b.Dir, []state.File{{Path: kubeconfigFile, Data: out, Mode: 0o600}})
	return b.file(kubeconfigFile), err
}

// redirect points every cluster of a kubeconfig to another address, whose
// certificate is verified under a name.
func redirect(kubeconfig []byte, address, name string) ([]byte, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, cluster := range cfg.Clusters {
		cluster.Server = "https://" + address
		cluster.TLSServerName = name
	}
	return clientcmd.Write(*cfg)
}
