// Package kubeletcert gets a host another kubelet certificate when its own has
// expired: then kubelet, which renews it while it can, does not even start. To a
// worker, the configuration server of a control plane gives one if the worker has
// the old key (docs/adr/0050-expired-workers.md). A control plane signs its own
// (docs/adr/0052-leaf-certificates.md).
//
// A certificate from a later day is replaced once an administrator says that the clock
// is right (docs/adr/0073-accepted-clock.md). kubelet runs with such a one, and renews it
// only years later.
//
// kubelet does not start with a file that a disk has lost or damaged either: it gets its
// former certificate back. On a control plane without a former one, another is signed.
//
// It writes kubelet's files only while the certificate in them has expired, is from a
// later day or cannot be read, and kubelet writes them only in between. Package
// agent/rotation writes them by Put, while the authority that signs is replaced.
package kubeletcert

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// The pauses between two looks at the certificate, and between requests that
// failed: a person may have to decide about one that is refused.
const (
	every    = time.Minute
	retry    = 10 * time.Second
	maxRetry = 5 * time.Minute
	limit    = 2 * time.Minute
)

// Keeper keeps the certificate of one host's kubelet.
type Keeper struct {
	// Root is empty except in tests.
	Root string
	// Sign makes a certificate like an old one for another key, all as PEM, on a
	// control plane. It is nil on a worker, which asks for one.
	Sign func(old, key string) (string, error)
	// Servers returns the addresses of configuration servers, HOST:PORT, in the
	// order in which they are asked. Name and CA are as in configserver.Client.
	Servers  func() []string
	Name, CA string
	Now      func() time.Time
	// Synchronised reports whether the kernel counts the clock as synchronised. It is
	// asked only about the word of an administrator.
	Synchronised func() (bool, error)
	// Running identifies the kubelet that runs, empty if none does, and Restart starts it
	// anew. Restart is nil where Pacemaker decides when kubelet may. It is called only after
	// a certificate from a later day.
	Running func() (string, error)
	Restart func(context.Context) error

	wanted request
}

// request is a request for the certificate that follows another one. It is
// repeated unchanged until it is answered, so that a worker which has to ask
// twice gets one certificate.
type request struct {
	after string // the former certificate, DER
	pem   []byte
	key   *ecdsa.PrivateKey
}

// Task returns the loop that renews.
func (k *Keeper) Task() loop.Task {
	return loop.Task{
		Name: "kubelet certificate", Every: every, Retry: retry, MaxRetry: maxRetry, Limit: limit, Step: k.step,
		NotYet: func(err error) bool { return errors.Is(err, fs.ErrNotExist) }, // the host has not joined
	}
}

// step does what is to be done now, up to the first thing that cannot be done.
func (k *Keeper) step(ctx context.Context) (loop.Result, error) {
	var did []string
	for _, part := range []func(context.Context) (string, error){k.client, k.server, k.read} {
		what, err := part(ctx)
		if what != "" {
			did = append(did, what)
		}
		if err != nil {
			return loop.Result{Changed: strings.Join(did, "; ")}, err
		}
	}
	return loop.Result{Changed: strings.Join(did, "; ")}, nil
}

// client gets kubelet another certificate if its own is not valid now.
func (k *Keeper) client(ctx context.Context) (did string, err error) {
	own, err := readPair(k.Root + kubeadm.KubeletCertificate)
	if broken, ok := errors.AsType[damagedError](err); ok {
		return k.restore(ctx, broken)
	}
	if err != nil {
		return "", err
	}
	switch validity(own.Leaf, k.Now()) {
	case later:
		return k.early(ctx, own)
	case expired:
		return k.renew(ctx, own, "expired at "+stamp(own.Leaf.NotAfter), k.unable())
	case valid:
	}
	return "", nil
}

// unable says what an expired certificate in kubelet's file keeps kubelet from. A kubelet that runs may
// have a later one, of which the file was lost: then nobody should install its host anew.
func (k *Keeper) unable() string {
	if runs, err := k.Running(); err == nil && runs != "" {
		return ", so kubelet would not start again (it runs: if its Node is ready, it has a later one in memory and renews that by itself; leave it running)"
	}
	return ", so kubelet does not start"
}

// renew gets kubelet another certificate. was says what is wrong with the old one, and so
// what comes of that.
func (k *Keeper) renew(ctx context.Context, old *tls.Certificate, was, so string) (did string, err error) {
	if err := k.prepare(old); err != nil {
		return "", err
	}
	fresh, err := k.fresh(ctx, old)
	if err != nil {
		return "", fmt.Errorf("the certificate of kubelet %s%s; another one: %w", was, so, err)
	}
	cert, err := k.put(old.Leaf, fresh)
	if err != nil {
		return "", fmt.Errorf("certificate of kubelet: %w", err)
	}
	k.wanted = request{}
	return "kubelet has another certificate, until " + stamp(cert.NotAfter) + ": its last one " + was, nil
}

// prepare makes a key and a request for the same name, once for each former
// certificate.
func (k *Keeper) prepare(old *tls.Certificate) error {
	if k.wanted.key != nil && k.wanted.after == string(old.Leaf.Raw) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{RawSubject: old.Leaf.RawSubject}, key)
	if err != nil {
		return fmt.Errorf("request another certificate: %w", err)
	}
	k.wanted = request{after: string(old.Leaf.Raw), key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}
	return nil
}

// fresh returns another certificate for the prepared key.
func (k *Keeper) fresh(ctx context.Context, old *tls.Certificate) ([]byte, error) {
	if k.Sign == nil {
		return k.ask(ctx, old)
	}
	key, err := keyPEM(k.wanted.key)
	if err != nil {
		return nil, err
	}
	cert, err := k.Sign(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: old.Leaf.Raw})), string(key))
	return []byte(cert), err
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// ask asks one server after the other, until one decides.
func (k *Keeper) ask(ctx context.Context, old *tls.Certificate) ([]byte, error) {
	var errs []error
	for _, address := range k.Servers() {
		client := configserver.Client{Addresses: []string{address}, ServerName: k.Name, CA: k.CA, Certificate: *old, Now: k.Now}
		fresh, err := client.Renew(ctx, k.wanted.pem)
		client.Close()
		if err == nil {
			return fresh, nil
		}
		if _, decided := errors.AsType[configserver.Refused](err); decided {
			return nil, fmt.Errorf("refused: %w", err)
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, k.explained(err)))
	}
	return nil, errors.Join(errs...)
}

// explained adds what a person types where the clock of this host is the reason.
func (k *Keeper) explained(err error) error {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fmt.Errorf("the clock of this host says %s, and the server's certificate is not valid at that time: "+
			"%s: %w", stamp(k.Now()), setClocks, err)
	}
	return err
}

// put gives kubelet the certificate and its key in one new file, to which
// kubelet's link leads from then on. kubelet does the same.
func (k *Keeper) put(old *x509.Certificate, fresh []byte) (*x509.Certificate, error) {
	key, err := keyPEM(k.wanted.key)
	if err != nil {
		return nil, err
	}
	data := append(append([]byte{}, fresh...), key...)
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("the answer of the configuration server: %w", err)
	}
	if string(pair.Leaf.RawSubject) != string(old.RawSubject) {
		return nil, errors.New("the answer of the configuration server is the certificate of somebody else")
	}
	if now := k.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return nil, fmt.Errorf("the new certificate is valid from %s to %s, and the clock of this host says %s: %s",
			stamp(pair.Leaf.NotBefore), stamp(pair.Leaf.NotAfter), stamp(now), setClocks)
	}
	return pair.Leaf, Put(k.Root, data, k.Now(), host.WriteFileAtomic)
}

// Put gives kubelet a certificate and its key, PEM, in one new file, which write
// writes durably. kubelet reads it when it starts.
func Put(root string, pair []byte, now time.Time, write func(path string, data []byte, mode fs.FileMode) error) error {
	return putAt(root+kubeadm.KubeletCertificate, clientFiles, pair, now, write)
}

// PutServing does the same with the certificate by which kubelet serves.
func PutServing(root string, pair []byte, now time.Time, write func(path string, data []byte, mode fs.FileMode) error) error {
	return putAt(root+kubeadm.ServingCertificate, "kubelet-server-", pair, now, write)
}

// clientFiles begins the names of the files in which kubelet has its certificate.
const clientFiles = "kubelet-client-"

func putAt(link, name string, pair []byte, now time.Time, write func(path string, data []byte, mode fs.FileMode) error) error {
	path := filepath.Join(filepath.Dir(link), name+now.UTC().Format("2006-01-02-15-04-05")+".pem")
	if err := write(path, pair, state.SecretFileMode); err != nil {
		return err
	}
	return relink(link, path)
}

// relink makes a link lead to another file of its folder. There is always one of
// that name, also after a power cut.
func relink(link, path string) error {
	next := link + ".holdfast"
	if err := host.RemoveFile(next); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Base(path), next); err != nil {
		return err
	}
	if err := os.Rename(next, link); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(link))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// setClocks is what a person does about clocks that differ.
const setClocks = "compare the clocks (date -u) and set the wrong one (chronyc makestep)"
