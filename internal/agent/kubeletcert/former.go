package kubeletcert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// damagedError says why a file of kubelet's that is there has no certificate with its key.
type damagedError struct {
	path string
	err  error
}

func (e damagedError) Error() string { return e.path + ": " + e.err.Error() }

func (e damagedError) Unwrap() error { return e.err }

// errLeadsNowhere says of a link that the file behind it is gone.
var errLeadsNowhere = errors.New("the file to which it leads is not there")

// readPair reads a certificate and its key, which are in one file. The error is a
// damagedError if they cannot be read whatever is tried.
func readPair(path string) (*tls.Certificate, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := os.Lstat(path); there == nil {
			return nil, damagedError{path, errLeadsNowhere}
		}
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, damagedError{path, err}
	}
	return &pair, nil
}

// restore gives kubelet its former certificate back in the place of one that cannot be
// read. kubelet reads it when it starts; one that runs still has the lost one, and renews
// that by itself. One of an authority that was replaced since would open nothing.
func (k *Keeper) restore(lost damagedError) (did string, err error) {
	text, err := os.ReadFile(k.Root + state.KubernetesCA)
	if err != nil {
		return "", fmt.Errorf("%w; and whether the API takes a former one is not known: %w", lost, err)
	}
	known, err := keys.Publics(string(text))
	if err != nil {
		return "", fmt.Errorf("%w; and whether the API takes a former one is not known: %s: %w", lost, state.KubernetesCA, err)
	}
	return k.toFormer("cannot be read: "+lost.Error(), func(c *x509.Certificate) bool {
		return slices.ContainsFunc(known, func(p keys.Public) bool { return p.Cert != nil && c.CheckSignatureFrom(p.Cert) == nil })
	})
}

// toFormer makes kubelet's link lead to the newest of its former certificates that are like
// a wanted one. was says what is wrong with its last one.
func (k *Keeper) toFormer(was string, like func(*x509.Certificate) bool) (did string, err error) {
	link := k.Root + kubeadm.KubeletCertificate
	all, err := formers(filepath.Dir(link))
	if err != nil {
		return "", err
	}
	to, ok := newest(all, like, k.Now())
	if !ok {
		return "", fmt.Errorf("the certificate of kubelet %s, and %s has no former one to go back to: install this host anew, by holdfast host replace (docs/runbook/expired-worker.md)",
			was, filepath.Dir(link))
	}
	if err := relink(link, to.path); err != nil {
		return "", fmt.Errorf("certificate of kubelet: %w", err)
	}
	return fmt.Sprintf("kubelet has its former certificate again, until %s: its last one %s", stamp(to.cert.NotAfter), was), nil
}

// former is a file in which kubelet had its certificate once, with its key.
type former struct {
	path string
	cert *x509.Certificate
}

// formers returns the files of a folder that contain a certificate of kubelet's and its key.
// kubelet removes none. One that is damaged, or lacks the key, is left out.
func formers(dir string) ([]former, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []former
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.HasPrefix(name, clientFiles) || filepath.Ext(name) != ".pem" {
			continue
		}
		path := filepath.Join(dir, name)
		if pair, err := readPair(path); err == nil {
			out = append(out, former{path, pair.Leaf})
		}
	}
	return out, nil
}

// newest returns the file to go back to: the one that ends last of those like a wanted one
// which are not from a later day.
func newest(all []former, like func(*x509.Certificate) bool, now time.Time) (out former, ok bool) {
	for _, f := range all {
		if like(f.cert) && validity(f.cert, now) != later && (!ok || f.cert.NotAfter.After(out.cert.NotAfter)) {
			out, ok = f, true
		}
	}
	return out, ok
}
