package doctor

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The certificates of a host.
var (
	certificateFiles = []string{
		"/etc/kubernetes/pki/*.crt", state.EtcdPKIDir + "/*.crt", "/etc/kubernetes/pki/holdfast/*.pem", state.AgentPair, state.SigningPair,
		"/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-server-current.pem",
	}
	kubeconfigs = "/etc/kubernetes/*.conf"
)

// ErrNoCertificates reports that a host has none, as before its installation.
var ErrNoCertificates = errors.New("no certificates found in the folders of kubeadm and kubelet")

// certificates returns the certificates that parts of the cluster on this host
// use.
func (l *observation) certificates() ([]decide.Certificate, error) {
	var out []decide.Certificate
	for _, pattern := range append(slices.Clone(certificateFiles), kubeconfigs) {
		paths, err := filepath.Glob(l.path(pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			name := "/" + strings.TrimPrefix(strings.TrimPrefix(path, l.Root), "/")
			c, found, err := l.certificate(name, pattern == kubeconfigs)
			if err != nil {
				return nil, err
			}
			if found {
				c.Lacks = l.lacks(name)
				out = append(out, c)
			}
		}
	}
	own, err := l.configAuthority()
	if err != nil {
		return nil, err
	}
	out = append(out, own...)
	if len(out) == 0 {
		return nil, ErrNoCertificates
	}
	return out, nil
}

// certificate reads the first certificate of a file. A kubeconfig may contain
// none: kubelet's names a file that is read anyway.
func (l *observation) certificate(name string, kubeconfig bool) (c decide.Certificate, found bool, err error) {
	data, err := l.read(name)
	if err != nil {
		return c, false, err
	}
	if kubeconfig {
		if data, err = kube.ClientCertificates(data); err != nil {
			return c, false, fmt.Errorf("%s: %w", name, err)
		}
		if len(data) == 0 {
			return c, false, nil
		}
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		x, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return c, false, fmt.Errorf("%s: %w", name, err)
		}
		c = decide.Certificate{Path: name, Begins: x.NotBefore, Ends: x.NotAfter, Authority: x.IsCA}
		for block, rest = pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == "CERTIFICATE" {
				c.Others++
			}
		}
		return c, true, nil
	}
	return c, false, fmt.Errorf("%s: contains no certificate", name)
}

// configAuthority returns the authority of the configuration server, which has no
// file of its own.
func (l *observation) configAuthority() ([]decide.Certificate, error) {
	data, err := l.read(site.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s struct {
		Identity struct {
			ConfigCA struct {
				Cert string `json:"cert"`
			} `json:"configCA"`
		} `json:"identity"`
	}
	if json.Unmarshal(data, &s) != nil { // what is wrong may quote the file, which holds secrets
		return nil, fmt.Errorf("%s: is not valid JSON", site.Path)
	}
	block, _ := pem.Decode([]byte(s.Identity.ConfigCA.Cert))
	if block == nil {
		return nil, nil
	}
	x, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the authority of the configuration server in %s: %w", site.Path, err)
	}
	return []decide.Certificate{{Path: site.Path + " (authority of the configuration server)", Begins: x.NotBefore, Ends: x.NotAfter, Authority: true}}, nil
}

// lacks returns the key with which the agent would renew a certificate, if it is not
// on this host.
func (l *observation) lacks(name string) string {
	leaves := leafcert.Leaves()
	i := slices.IndexFunc(leaves, func(leaf leafcert.Leaf) bool { return leaf.Path == name })
	if i < 0 {
		return ""
	}
	key := leaves[i].Authority + ".key"
	if _, err := os.Stat(l.path(key)); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return key
}

// Certificates returns the certificates that parts of the cluster use on the host below
// root. It reads files alone.
func Certificates(root string) ([]decide.Certificate, error) {
	l := observation{Observer: Observer{Root: root}}
	return l.certificates()
}
