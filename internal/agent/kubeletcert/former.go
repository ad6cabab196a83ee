package kubeletcert

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
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

// errNoFormer says that kubelet has no former certificate to go back to.
var errNoFormer = errors.New("no former one to go back to")

// restore gives kubelet its former certificate back in the place of one that cannot be
// read. kubelet reads it when it starts; one that runs still has the lost one, and renews
// that by itself. One of an authority that was replaced since would open nothing. Without a
// former one a control plane signs another, since the key of the authority is there.
func (k *Keeper) restore(ctx context.Context, lost damagedError) (did string, err error) {
	did, err = k.afterLoss(ctx, lost)
	runs, unknown := k.Running()
	switch {
	case unknown != nil || runs == "":
	case did != "":
		did += "; the kubelet that runs has the lost one in memory, and renews it by itself"
	case errors.Is(err, errNoFormer):
		err = fmt.Errorf("%w. While its Node is ready, leave it running: kubelet has the lost one in memory, and renews it by itself", err)
	}
	return did, err
}

func (k *Keeper) afterLoss(ctx context.Context, lost damagedError) (did string, err error) {
	text, err := os.ReadFile(k.Root + state.KubernetesCA)
	if err != nil {
		return "", fmt.Errorf("%w; and whether the API takes a former one is not known: %w", lost, err)
	}
	known, err := keys.Publics(string(text))
	if err != nil {
		return "", fmt.Errorf("%w; and whether the API takes a former one is not known: %s: %w", lost, state.KubernetesCA, err)
	}
	was := "cannot be read: " + lost.Error()
	did, err = k.toFormer(was, func(c *x509.Certificate) bool {
		return slices.ContainsFunc(known, func(p keys.Public) bool { return p.Cert != nil && c.CheckSignatureFrom(p.Cert) == nil })
	})
	if k.Sign == nil || !errors.Is(err, errNoFormer) {
		return did, err
	}
	like, err := k.likeLost()
	if err != nil {
		return "", fmt.Errorf("the certificate of kubelet %s, and another one cannot be signed: %w", was, err)
	}
	return k.renew(ctx, like, was, ", and there is "+errNoFormer.Error())
}

// likeLost returns a certificate that is like the lost one, which nothing trusts: the new one
// is signed after it. The name of the node is that for which kubeadm made the certificate of
// etcd's member: the host may be called otherwise by now.
func (k *Keeper) likeLost() (*tls.Certificate, error) {
	path := k.Root + state.EtcdPKIDir + "/peer.crt"
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the name of this node: %s", err) //nolint:errorlint // this host is set up
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("the name of this node: %s holds no certificate", path)
	}
	member, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the name of this node: %s: %w", path, err)
	}
	if member.Subject.CommonName == "" {
		return nil, fmt.Errorf("the name of this node: %s has none", path)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	like := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "system:node:" + member.Subject.CommonName, Organization: []string{"system:nodes"}},
		KeyUsage:     x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, like, like, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Leaf: leaf}, err
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
		return "", fmt.Errorf("the certificate of kubelet %s, and %s has %w: install this host anew, by holdfast host replace NAME --is-gone NAME --join-file NAME.ign, once it is off (docs/runbook/expired-worker.md)",
			was, filepath.Dir(link), errNoFormer)
	}
	if err := relink(link, to.path); err != nil {
		return "", fmt.Errorf("certificate of kubelet: %w", err)
	}
	did = fmt.Sprintf("kubelet has its former certificate again, until %s: its last one %s", stamp(to.cert.NotAfter), was)
	if k.Sign == nil && validity(to.cert, k.Now()) == expired {
		did += "; a control plane gives another for it only if this host was last alive before that end"
	}
	return did, nil
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
