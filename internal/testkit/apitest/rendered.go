package apitest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// Root is the root of the keys with which a rendered API server encrypts
// secrets.
var Root = []byte("0123456789abcdef0123456789abcdef")

// AsRendered returns the arguments of an API server from an approved
// configuration of kubeadm. It writes the files that they name below a folder.
func AsRendered(folder, approved string) ([]string, error) {
	s := &site.Site{Identity: site.Identity{EncryptionRoot: Root, EncryptionKeys: []int{1}}}
	files, err := apiserver.Files(s)
	if err != nil {
		return nil, err
	}
	if _, err := host.WriteFiles(folder, files); err != nil {
		return nil, err
	}
	init, err := os.ReadFile(approved)
	if err != nil {
		return nil, err
	}
	var out []string
	for document := range bytes.SplitSeq(init, []byte("---\n")) {
		var c struct {
			APIServer struct {
				ExtraArgs []apiserver.Flag `json:"extraArgs"`
			} `json:"apiServer"`
		}
		if err := yaml.Unmarshal(document, &c); err != nil {
			return nil, err
		}
		for _, a := range c.APIServer.ExtraArgs {
			if a.Name == "kubelet-certificate-authority" {
				continue // it has no kubelets, and the file is kubeadm's
			}
			if strings.HasPrefix(a.Value, "/") {
				a.Value = filepath.Join(folder, a.Value)
			}
			out = append(out, "--"+a.Name+"="+a.Value)
		}
	}
	return out, nil
}

// Audit returns the audit log of a rendered API server so far. A line may come
// later than the answer to its request.
func (a *API) Audit() ([]byte, error) {
	return os.ReadFile(filepath.Join(a.Folder, apiserver.AuditPath))
}
