package deleted

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// goodFor returns the check of Keep for a path, nil for any content. A copy of a damaged file would
// take the place of the last good one, just when that is needed: an agent that starts after a power cut
// has seen no file yet, and compares each with its copy.
func (s *Store) goodFor(p string) func([]byte) bool {
	switch {
	case strings.HasPrefix(p, "/etc/kubernetes/manifests/"):
		return isPod
	case p == apiserver.EncryptionPath:
		return s.isEncryption
	case p == "/etc/holdfast/site.json":
		return json.Valid
	case p == "/var/lib/kubelet/config.yaml":
		return func(data []byte) bool { return kind(data).Kind == "KubeletConfiguration" }
	case strings.HasPrefix(p, "/etc/kubernetes/") && strings.HasSuffix(p, ".conf"):
		return isKubeconfig
	case strings.HasPrefix(p, "/etc/kubernetes/pki/") && strings.HasSuffix(p, ".crt"):
		return func(cert []byte) bool {
			key, err := os.ReadFile(s.path(strings.TrimSuffix(p, ".crt") + ".key"))
			return err == nil && isPair(cert, key)
		}
	case strings.HasPrefix(p, "/etc/kubernetes/pki/") && strings.HasSuffix(p, ".key"):
		return func(key []byte) bool {
			cert, err := os.ReadFile(s.path(strings.TrimSuffix(p, ".key") + ".crt"))
			return err == nil && isPair(cert, key)
		}
	}
	return nil
}

// object is what all objects of Kubernetes begin with.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

// kind reads what an object is; nothing if it cannot be read.
func kind(data []byte) object {
	var o object
	if yaml.Unmarshal(data, &o) != nil {
		return object{}
	}
	return o
}

func isPod(data []byte) bool {
	o := kind(data)
	return o.Kind == "Pod" && o.Metadata.Name != ""
}

// isPair reports whether a certificate and a key can be read and belong together. Otherwise one of the
// two is damaged, and nobody knows which.
func isPair(cert, key []byte) bool {
	leaf, err := keys.ReadLeaf(string(cert), string(key))
	return err == nil && leaf.Matches
}

// isKubeconfig reports whether a kubeconfig leads to a cluster. It may name a certificate by its file.
func isKubeconfig(data []byte) bool {
	cert, key, err := kube.ClientPair(data)
	return err == nil && kube.Usable(data) && (len(cert) == 0 || isPair(cert, key))
}

// isEncryption reports whether a file has keys of this site. All of it follows from their numbers, so a
// key that is damaged shows.
func (s *Store) isEncryption(data []byte) bool {
	numbers, err := apiserver.Numbers(data)
	if err != nil {
		return false
	}
	file, err := apiserver.Encryption(s.EncryptionRoot, numbers)
	if err == nil && apiserver.Keeps(data) {
		file = apiserver.Keeping(file)
	}
	return err == nil && bytes.Equal(file.Data, data)
}
