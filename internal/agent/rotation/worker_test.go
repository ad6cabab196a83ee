package rotation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// worker is a host without keys: files, its kubelet, and the Follower.
type worker struct {
	*Follower
	cluster *cluster
	root    string
	cut     powercut.Cut
	pid     int
	// reads is what its kubelet has read at its start.
	reads client
	// serves is the certificate by which its kubelet serves, as it read it.
	serves string
	// signed holds the certificates of its requests, by name.
	signed map[string][]byte
	// last is the latest of its errors.
	last error
}

// addWorker joins a worker to a cluster whose authority is that of its first control
// plane.
func (c *cluster) addWorker(name string) *worker {
	c.t.Helper()
	w := &worker{cluster: c, root: c.t.TempDir(), signed: map[string][]byte{}}
	first := c.hosts[0]
	ca := site.KeyPair{Cert: first.text(places[rotation.KubernetesCA].trusts), Key: first.text(places[rotation.KubernetesCA].key)}
	w.put(places[rotation.KubernetesCA].trusts, ca.Cert, 0o644)
	w.put(state.KubeletKubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://api:6443", certificate-authority-data: %s}}]
users: [{name: u, user: {client-certificate: %s, client-key: %[2]s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, base64.StdEncoding.EncodeToString([]byte(ca.Cert)), kubeadm.KubeletCertificate), 0o600)
	cert, key := kubeletsOf(c.t, ca, name)
	w.link(kubeadm.KubeletCertificate, "kubelet-client-1.pem", cert+key)
	cert, key = kubeletsOf(c.t, ca, name, net.IPv4(10, 98, 0, 21))
	w.link(kubeadm.ServingCertificate, "kubelet-server-1.pem", cert+key)
	c.nodes = append(c.nodes, state.Node{Name: name, Ready: true})
	w.begin(name)
	w.start()
	c.workers = append(c.workers, w)
	return w
}

// kubeletsOf makes the certificate of a kubelet and its key: of a client, or of one that
// serves at addresses.
func kubeletsOf(t *testing.T, ca site.KeyPair, name string, serves ...net.IP) (cert, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}
	return string(issue(t, ca, subject, &own.PublicKey, serves...)), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
}

func issue(t *testing.T, ca site.KeyPair, subject pkix.Name, public any, serves ...net.IP) []byte {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(ca.Cert), []byte(ca.Key))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IPAddresses: serves,
	}, pair.Leaf, public, pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// link writes a certificate of kubelet's to a file, to which a link leads.
func (w *worker) link(path, name, pair string) {
	w.put(filepath.Dir(path)+"/"+name, pair, 0o600)
	if err := os.Symlink(name, w.root+path); err != nil {
		w.cluster.t.Fatal(err)
	}
}

func (w *worker) put(path, text string, mode fs.FileMode) {
	path = w.root + path
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
		w.cluster.t.Fatal(err)
	}
}

func (w *worker) text(path string) string {
	data, err := os.ReadFile(w.root + path)
	if err != nil {
		w.cluster.t.Fatal(err)
	}
	return string(data)
}

// begin starts an agent, which remembers nothing of an earlier one.
func (w *worker) begin(name string) {
	w.Follower = NewFollower(WorkerOptions{
		Root: w.root, Node: name, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Try: func(ctx context.Context, kubeconfig string, do func(context.Context, WorkerAPI) error) error {
			if err := w.connects(kubeconfig); err != nil {
				return fmt.Errorf("10.98.0.5: %w", err)
			}
			return do(ctx, account{w})
		},
	})
	k := w.files
	k.write = func(path string, data []byte, mode fs.FileMode) error {
		return w.effect(func() error { return powercut.WriteFile(path, data, mode) })
	}
	k.remove = func(path string) error { return w.effect(func() error { return os.Remove(path) }) }
	k.accepts = func(context.Context, string) ([]string, error) {
		return subjectsOf(w.cluster.t, w.text(places[rotation.KubernetesCA].trusts)), nil
	}
	k.kubernetes = effects{
		kubelet: func() (string, error) { return fmt.Sprint(w.pid), nil },
		restart: func(context.Context) error { return w.effect(func() error { w.start(); return nil }) },
		shown:   func(context.Context, string) ([]byte, error) { return rawOf(w.serves) },
	}
}

func (w *worker) effect(do func() error) error {
	err := w.cut.Effect(do)
	w.cluster.check()
	return err
}

// start starts kubelet, which then has the present files.
func (w *worker) start() {
	w.pid++
	w.reads = client{w.trusts(w.root + state.KubeletKubeconfig), w.text(kubeadm.KubeletCertificate)}
	w.serves = ""
	if data, err := os.ReadFile(w.root + kubeadm.ServingCertificate); err == nil {
		w.serves = string(data)
	}
}

func (w *worker) trusts(kubeconfig string) string {
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		w.cluster.t.Fatal(err)
	}
	out, err := kube.Authorities(data)
	if err != nil {
		w.cluster.t.Fatal(err)
	}
	return string(out)
}

// connects returns nil if each API server and this host know each other.
func (w *worker) connects(kubeconfig string) error {
	for _, h := range w.cluster.hosts {
		if !w.cluster.trusts(w.trusts(kubeconfig), h.text(leafcert.APIServer)) {
			return x509.UnknownAuthorityError{}
		}
		if cert, _ := keys.SplitPair(w.text(kubeadm.KubeletCertificate)); !w.cluster.trusts(h.text(places[rotation.KubernetesCA].trusts), cert) {
			return errors.New("Unauthorized")
		}
	}
	return nil
}

// check fails a test if kubelet and an API server do not know each other, or a client of
// kubelet is not known to it.
func (w *worker) check() {
	c := w.cluster
	c.t.Helper()
	for _, h := range c.hosts {
		if c.broken {
			return
		}
		if !c.trusts(w.reads.bundle, h.text(leafcert.APIServer)) {
			c.t.Fatalf("kubelet of %s does not trust the API server of %s", w.Node, h.Node)
		}
		if cert, _ := keys.SplitPair(w.reads.cert); !c.trusts(h.text(places[rotation.KubernetesCA].trusts), cert) {
			c.t.Fatalf("%s does not take kubelet of %s", h.Node, w.Node)
		}
		if w.serves != "" && !c.trusts(h.text(places[rotation.KubernetesCA].trusts), w.serves) {
			c.t.Fatalf("the API server of %s does not trust the kubelet of %s that serves", h.Node, w.Node)
		}
		if !c.trusts(w.text(places[rotation.KubernetesCA].trusts), h.text(places[rotation.KubernetesCA].leaves[0]+".crt")) {
			c.t.Fatalf("kubelet of %s does not take the API server of %s", w.Node, h.Node)
		}
	}
}

// look lets the agent look once. After a power cut the host boots.
func (w *worker) look() {
	w.Nodes(slices.Clone(w.cluster.nodes))
	ctx, stop := context.WithTimeout(w.cluster.t.Context(), limit)
	_, w.last = w.step(ctx)
	stop()
	switch {
	case w.cut.Dead:
		w.cut = powercut.Cut{}
		w.begin(w.Node)
		w.start()
	case w.last != nil && !w.cluster.broken:
		w.cluster.t.Errorf("%s: %v", w.Node, w.last)
	}
	w.cluster.check()
}

// account is what kubelet's account may do.
type account struct{ w *worker }

func (a account) ConfigMap(_ context.Context, namespace, name string) (map[string]string, error) {
	if namespace != "kube-flannel" || name != "kube-root-ca.crt" {
		a.w.cluster.t.Errorf("the ConfigMap %s/%s is read", namespace, name)
	}
	return map[string]string{"ca.crt": a.w.cluster.pods}, nil
}

func (a account) Annotate(ctx context.Context, node, name, value string) error {
	if node != a.w.Node {
		a.w.cluster.t.Errorf("%s writes to the Node %s", a.w.Node, node)
	}
	return a.w.cluster.Annotate(ctx, node, name, value)
}

// CreateRequest has the last control plane sign, which is the last to have the new key.
func (a account) CreateRequest(_ context.Context, r joining.Request, _ time.Duration) error {
	t := a.w.cluster.t
	if a.w.signed[r.Name] != nil {
		return nil
	}
	block, _ := pem.Decode(r.PEM)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	usages := map[string][]string{joining.KubeletSigner: joining.ClientUsages, joining.ServingSigner: joining.ServingUsages}[r.Signer]
	if serves := r.Signer == joining.ServingSigner; serves != (len(request.IPAddresses) == 1) {
		t.Errorf("%s: a request for %v", r.Signer, request.IPAddresses)
	}
	if err != nil || request.CheckSignature() != nil || usages == nil || !slices.Equal(r.Usages, usages) || request.Subject.CommonName != "system:node:"+a.w.Node {
		t.Errorf("%+v of %s, %v", r, request.Subject, err)
	}
	signs := a.w.cluster.hosts[len(a.w.cluster.hosts)-1]
	cert, key := keys.SplitPair(signs.text(state.SigningPair))
	a.w.signed[r.Name] = issue(t, site.KeyPair{Cert: cert, Key: key}, request.Subject, request.PublicKey, request.IPAddresses...)
	return nil
}

func (a account) IssuedCertificate(_ context.Context, name string) ([]byte, error) {
	return a.w.signed[name], nil
}
