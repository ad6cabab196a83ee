package deleted

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// authorities are made once: a certificate and a key that belong together, and others.
var authorities = sync.OnceValues(func() (site.Identity, error) { return keys.Generate(time.Now(), rand.Reader) })

func identity(t *testing.T) site.Identity {
	t.Helper()
	id, err := authorities()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func kubeconfig(pair site.KeyPair) string {
	encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return "apiVersion: v1\nclusters: [{name: c, cluster: {server: 'https://api:6443'}}]\ncontexts: [{name: a, context: {cluster: c, user: u}}]\ncurrent-context: a\nkind: Config\n" +
		"users: [{name: u, user: {client-certificate-data: " + encoded(pair.Cert) + ", client-key-data: " + encoded(pair.Key) + "}}]\n"
}

// whole is the content of a file that is not damaged.
func whole(t *testing.T, path string) string {
	t.Helper()
	pair := identity(t).Admin
	switch name := filepath.Base(path); {
	case path == apiserver.EncryptionPath:
		file, err := apiserver.Encryption([]byte("root"), []int{2, 1})
		if err != nil {
			t.Fatal(err)
		}
		return string(file.Data)
	case name == "site.json":
		return "{}"
	case path == "/var/lib/kubelet/config.yaml":
		return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	case strings.HasPrefix(path, "/etc/kubernetes/manifests/"):
		return strings.ReplaceAll(pod, "kube-scheduler", strings.TrimSuffix(name, ".yaml"))
	case strings.HasSuffix(name, ".conf"):
		return kubeconfig(pair)
	case strings.HasSuffix(name, ".crt"):
		return pair.Cert
	case strings.HasSuffix(name, ".key"):
		return pair.Key
	}
	return "content of " + path
}

// TestADamagedFileIsNoCopy, also for an agent that starts after a power cut: it has seen no file yet.
func TestADamagedFileIsNoCopy(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	other := identity(t).EtcdCA
	for _, s := range deleted.Specs(r.Kind) {
		if !s.Back {
			continue
		}
		good := whole(t, s.Path)
		damages := map[string]string{"zeros": strings.Repeat("\x00", len(good))}
		if s.Path != "/var/lib/kubelet/kubeadm-flags.env" { // any text may be one
			damages["garbage"], damages["its first half"] = "garbage: [", good[:len(good)/2]
		}
		switch {
		case strings.HasSuffix(s.Path, ".conf"):
			damages["the key of another one"] = kubeconfig(site.KeyPair{Cert: identity(t).Admin.Cert, Key: other.Key})
			damages["without its user"] = good[:strings.Index(good, "users:")]
		case strings.HasSuffix(s.Path, ".crt"):
			damages["that of another key"] = other.Cert
		case strings.HasSuffix(s.Path, ".key"):
			damages["that of another certificate"] = other.Key
		case s.Path == apiserver.EncryptionPath:
			damages["another secret"] = strings.Replace(good, "secret: ", "secret: AAAA", 1)
		}
		for what, damage := range damages {
			r.file(s.Path, damage)
			r.Keeper = New(r.Options)
			r.now = r.now.Add(time.Hour)
			r.looks(every)
			if got, err := os.ReadFile(filepath.Join(r.Root, Dir, s.Path)); err != nil || string(got) != good {
				t.Errorf("%s of %s took the place of the copy: %v", what, s.Path, err)
			}
		}
		r.file(s.Path, good)
	}
}

// TestAFileThatWasReplacedIsCopied: by a new key with its certificate, or by other keys for Secrets.
func TestAFileThatWasReplacedIsCopied(t *testing.T) {
	r := newRig(t)
	r.looks(every)
	const crt, key = "/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/apiserver.key"
	file, err := apiserver.Encryption([]byte("root"), []int{3, 2})
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]string{crt: identity(t).EtcdCA.Cert, key: identity(t).EtcdCA.Key, apiserver.EncryptionPath: string(apiserver.Keeping(file).Data)}
	for path, text := range next {
		r.file(path, text)
	}
	r.now = r.now.Add(time.Hour)
	r.looks(every)
	for path, text := range next {
		if got, err := os.ReadFile(filepath.Join(r.Root, Dir, path)); err != nil || string(got) != text {
			t.Errorf("%s: %v", path, err)
		}
	}
}
