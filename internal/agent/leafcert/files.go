package leafcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// dialLimit bounds one look at the API server.
const dialLimit = 2 * time.Second

// files returns the leaf certificates of this host. An error is about files that
// cannot be read, which unread names; the others are returned beside it.
func (k *Keeper) files() (out []leafcert.File, unread []string, err error) {
	var errs []error
	for _, l := range leafcert.Leaves() {
		f, err := k.file(l)
		switch {
		case errors.Is(err, fs.ErrNotExist): // not every host has every file
		case err != nil:
			unread, errs = append(unread, l.Path), append(errs, fmt.Errorf("%s: %w", l.Path, err))
		default:
			out = append(out, f)
		}
	}
	return out, unread, errors.Join(errs...)
}

func (k *Keeper) file(l leafcert.Leaf) (leafcert.File, error) {
	f := leafcert.File{Leaf: l}
	p, err := k.pair(l)
	if err != nil {
		return f, err
	}
	info, err := os.Stat(k.Root + l.Path)
	if err != nil {
		return f, err
	}
	leaf, err := keys.ReadLeaf(p.cert, p.key)
	if err != nil {
		return f, err
	}
	f.From, f.Ends, f.Torn, f.Written = leaf.From, leaf.Ends, !leaf.Matches, info.ModTime()
	f.Issuer = k.authority(l.Authority)
	if l.Restart != "" {
		pids, err := k.former(l)
		if err != nil {
			return f, err
		}
		f.Replaced = len(pids) > 0
	}
	return f, nil
}

// authority looks at an authority as the one that signs.
func (k *Keeper) authority(path string) leafcert.Authority {
	bundle, key, err := k.signer(path)
	if err != nil {
		return leafcert.Authority{Problem: err.Error()}
	}
	cert, err := keys.Signer(bundle, key)
	if err != nil {
		return leafcert.Authority{Problem: err.Error()}
	}
	return leafcert.Authority{From: cert.NotBefore, Ends: cert.NotAfter}
}

func (k *Keeper) signer(path string) (bundle, key string, err error) {
	cert, err := os.ReadFile(k.Root + path + ".crt")
	if err != nil {
		return "", "", err
	}
	secret, err := os.ReadFile(k.Root + path + ".key")
	return string(cert), string(secret), err
}

// pair is a certificate and its key, both in PEM, and the kubeconfig that contains
// both, nil where each has a file.
type pair struct {
	cert, key  string
	kubeconfig []byte
}

// pair reads a leaf. A kubeconfig that contains no certificate is none:
// fs.ErrNotExist.
func (k *Keeper) pair(l leafcert.Leaf) (pair, error) {
	data, err := os.ReadFile(k.Root + l.Path)
	if err != nil {
		return pair{}, err
	}
	if l.Key != "" {
		key, err := os.ReadFile(k.Root + l.Key)
		if errors.Is(err, fs.ErrNotExist) {
			return pair{}, fmt.Errorf("its key %s is not there", l.Key) // that is no file that some hosts lack
		}
		return pair{cert: string(data), key: string(key)}, err
	}
	cert, key, err := kube.ClientPair(data)
	if err == nil && len(cert) == 0 {
		err = fs.ErrNotExist
	}
	return pair{cert: string(cert), key: string(key), kubeconfig: data}, err
}

// renew replaces the certificate of a leaf and returns the end of the new one. It
// reads all files again: somebody else, or the reconciler of the API server's
// addresses, may have replaced one since the decision.
func (k *Keeper) renew(l leafcert.Leaf) (ends time.Time, err error) {
	p, err := k.pair(l)
	if err != nil {
		return ends, err
	}
	info, err := os.Stat(k.Root + l.Path)
	if err != nil {
		return ends, err
	}
	bundle, authorityKey, err := k.signer(l.Authority)
	if err != nil {
		return ends, err
	}
	fresh, err := keys.Renew(p.cert, p.key, bundle, authorityKey, k.Life, k.Now())
	if err != nil {
		return ends, err
	}
	leaf, err := keys.ReadLeaf(fresh, p.key)
	if err != nil {
		return ends, err
	}
	data := []byte(fresh)
	if p.kubeconfig != nil {
		if data, err = kube.WithClientCertificate(p.kubeconfig, data); err != nil {
			return ends, err
		}
	}
	return leaf.Ends, host.WriteFileAtomic(k.Root+l.Path, data, info.Mode().Perm())
}

// SignKubelet makes a certificate for this host's kubelet like an old one, for
// another key.
func (k *Keeper) SignKubelet(old, key string) (string, error) {
	bundle, authorityKey, err := k.signer(leafcert.KubernetesCA)
	if err != nil {
		return "", fmt.Errorf("kubelet gets no certificate without the key of the cluster's authority: %s", err) //nolint:errorlint // this host is set up
	}
	return keys.Renew(old, key, bundle, authorityKey, k.Life, k.Now())
}

// shows reports whether the host's API server shows the certificate in its file.
// It is unknown while that server does not answer.
func (k *Keeper) shows(ctx context.Context) state.Fact[bool] {
	data, err := os.ReadFile(k.Root + leafcert.APIServer)
	if err != nil {
		return state.Fact[bool]{}
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return state.Fact[bool]{}
	}
	ctx, stop := context.WithTimeout(ctx, dialLimit)
	defer stop()
	var shown [][]byte
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // it is compared, not trusted
		VerifyConnection: func(c tls.ConnectionState) error {
			shown = append(shown, c.PeerCertificates[0].Raw)
			return nil
		},
	}}
	conn, err := dialer.DialContext(ctx, "tcp", k.Endpoint)
	if err != nil {
		return state.Fact[bool]{}
	}
	defer func() { _ = conn.Close() }() // nothing was sent
	return state.Known(slices.ContainsFunc(shown, func(raw []byte) bool { return bytes.Equal(raw, block.Bytes) }))
}
