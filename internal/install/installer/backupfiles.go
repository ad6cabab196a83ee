package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// pki is the folder of a control plane's authorities.
const pki = "/etc/kubernetes/pki/"

// AddPasswords adds BMC passwords that the cluster keeps, by the names of their hosts. The file of a
// host wins, because the cluster's Secret follows it.
func (b *Backup) AddPasswords(passwords map[string]secret.Text) {
	for name, password := range passwords {
		if b.Passwords[name] == "" {
			b.Passwords[name] = password
		}
	}
}

// OfHost returns the parts of a Backup that are in the files of a host, given by their paths.
// The error names everything that is missing at once.
func OfHost(files map[string][]byte) (Backup, error) {
	var missing []error
	need := func(path string) string {
		data, found := files[path]
		if !found {
			missing = append(missing, fmt.Errorf("the backup has no %s", path))
		}
		return string(data)
	}
	pair := func(name string) site.KeyPair {
		return site.KeyPair{Cert: need(pki + name + ".crt"), Key: need(pki + name + ".key")}
	}
	b := Backup{
		Site: []byte(need(site.Path)),
		Authorities: keys.Authorities{
			Kubernetes: pair("ca"), Etcd: pair("etcd/ca"), FrontProxy: pair("front-proxy-ca"),
			ServiceSigner: site.KeyPair{Cert: need(pki + "sa.pub"), Key: need(pki + "sa.key")},
		},
		Passwords: map[string]secret.Text{},
	}
	if data, found := files[apiserver.EncryptionPath]; found {
		numbers, err := apiserver.Numbers(data)
		if err != nil {
			missing = append(missing, err)
		}
		b.EncryptionKeys = numbers
	}
	for name, data := range files {
		if path.Dir(name) != state.FencingDir || !strings.HasSuffix(name, ".json") {
			continue
		}
		var d state.FencingDevice
		if err := json.Unmarshal(data, &d); err != nil || d.Target == "" {
			missing = append(missing, fmt.Errorf("%s of the backup is not readable", name))
			continue
		}
		b.Passwords[d.Target] = secret.Text(d.Password)
	}
	return b, errors.Join(missing...)
}
