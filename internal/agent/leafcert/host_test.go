package leafcert

import (
	"bytes"
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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// controlPlane is a control plane's files, with the static pods that read some of
// them, and the Keeper of these files.
type controlPlane struct {
	*Keeper
	t    testing.TB
	root string
	log  *bytes.Buffer

	mu       sync.Mutex
	lastPID  int
	restarts map[string]int
	// ending is called when a static pod ends, with its name.
	ending func(name string)
}

// restartTakes is the time that kubelet takes to start a static pod anew.
const restartTakes = 3 * time.Second

// newControlPlane makes the files as kubeadm does, with certificates of a life.
func newControlPlane(t testing.TB, id site.Identity, api API, name string, of int, life time.Duration) *controlPlane {
	t.Helper()
	h := &controlPlane{t: t, root: t.TempDir(), log: &bytes.Buffer{}, restarts: map[string]int{}, ending: func(string) {}}
	for path, pair := range map[string]site.KeyPair{
		"/etc/kubernetes/pki/ca": id.KubernetesCA, "/etc/kubernetes/pki/front-proxy-ca": id.FrontProxyCA, state.EtcdPKIDir + "/ca": id.EtcdCA,
	} {
		h.put(path+".crt", pair.Cert, 0o644)
		h.put(path+".key", pair.Key, 0o600)
	}
	for _, l := range leafcert.Leaves() {
		if l.Path == state.KubeletKubeconfig {
			h.put(l.Path, "apiVersion: v1\nkind: Config\nusers: [{name: default-auth, user: {client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem}}]\n", 0o600)
			continue
		}
		h.issue(l, time.Now(), life)
	}
	h.Keeper = New(Options{
		Root: h.root, Node: name, ControlPlanes: of, Life: life, Endpoint: "127.0.0.1:1", Now: time.Now,
		Log: slog.New(slog.NewTextHandler(h.log, nil)),
		Open: func() (API, error) {
			if api == nil {
				return nil, errors.New("no API")
			}
			return api, nil
		},
	})
	h.end = h.endPod
	for _, l := range leafcert.Leaves() {
		if l.Restart != "" {
			h.start(l)
		}
	}
	return h
}

func (h *controlPlane) put(path, text string, mode fs.FileMode) {
	h.t.Helper()
	path = h.root + path
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *controlPlane) read(path string) string {
	h.t.Helper()
	data, err := os.ReadFile(h.root + path)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

// issue makes a leaf as kubeadm does, with a new key.
func (h *controlPlane) issue(l leafcert.Leaf, from time.Time, life time.Duration) {
	h.t.Helper()
	ca, err := tls.X509KeyPair([]byte(h.read(l.Authority+".crt")), []byte(h.read(l.Authority+".key")))
	if err != nil {
		h.t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	name := strings.TrimSuffix(filepath.Base(l.Path), filepath.Ext(l.Path))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"group of " + name}},
		DNSNames: []string{"cp-1", "localhost"}, IPAddresses: []net.IP{net.ParseIP("10.98.0.11"), net.ParseIP("fd98::11")},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
		NotBefore: from, NotAfter: from.Add(life),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, &key.PublicKey, ca.PrivateKey)
	if err != nil {
		h.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		h.t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	h.keep(l, string(cert), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
}

// keep writes a certificate and its key where kubeadm has them.
func (h *controlPlane) keep(l leafcert.Leaf, cert, key string) {
	h.t.Helper()
	if l.Key != "" {
		h.put(l.Path, cert, 0o644)
		h.put(l.Key, key, 0o600)
		return
	}
	encoded := base64.StdEncoding.EncodeToString
	h.put(l.Path, `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: `+encoded([]byte("one CA\nand another one\n"))+`
    server: https://api-int.shop.example.test:6443
  name: c
contexts:
- context:
    cluster: c
    user: u
  name: a
current-context: a
kind: Config
users:
- name: u
  user:
    client-certificate-data: `+encoded([]byte(cert))+`
    client-key-data: `+encoded([]byte(key))+`
`, 0o600)
}

// present returns a leaf's certificate with its key, and fails the test if they do
// not belong together, or to the leaf's authority.
func (h *controlPlane) present(l leafcert.Leaf) (*x509.Certificate, string) {
	h.t.Helper()
	p, err := h.pair(l)
	if err != nil {
		h.t.Fatalf("%s: %v", l.Path, err)
	}
	pair, err := tls.X509KeyPair([]byte(p.cert), []byte(p.key))
	if err != nil {
		h.t.Fatalf("%s: %v", l.Path, err)
	}
	ca, err := site.KeyPair{Cert: h.read(l.Authority + ".crt")}.Parse()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := pair.Leaf.CheckSignatureFrom(ca); err != nil {
		h.t.Fatalf("%s: %v", l.Path, err)
	}
	return pair.Leaf, p.key
}

// leaves returns the leaves that contain a certificate on this host.
func (h *controlPlane) leaves() []leafcert.Leaf {
	var out []leafcert.Leaf
	for _, l := range leafcert.Leaves() {
		if l.Path != state.KubeletKubeconfig {
			out = append(out, l)
		}
	}
	return out
}

// valid fails the test if a certificate is not valid now.
func (h *controlPlane) valid() {
	h.t.Helper()
	for _, l := range h.leaves() {
		if c, _ := h.present(l); time.Now().Before(c.NotBefore) || time.Now().After(c.NotAfter) {
			h.t.Errorf("%s is valid from %s to %s, and it is %s", l.Path, c.NotBefore, c.NotAfter, time.Now())
		}
	}
}

// start makes a static pod's process, which has the present file.
func (h *controlPlane) start(l leafcert.Leaf) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastPID++
	proc := filepath.Join(h.root, "proc", strconv.Itoa(h.lastPID))
	file := filepath.Join(proc, "root", l.Path)
	err := errors.Join(
		os.MkdirAll(filepath.Dir(file), 0o755), os.Link(h.root+l.Path, file),
		os.WriteFile(filepath.Join(proc, "cmdline"), []byte("/usr/local/bin/"+l.Restart+"\x00--kubeconfig="+l.Path+"\x00--leader-elect=true\x00"), 0o600),
	)
	if err != nil {
		h.t.Error(err)
	}
}

// endPod ends a static pod's process, and kubelet starts another one.
func (h *controlPlane) endPod(_ context.Context, pid int, is func() bool) error {
	if !is() {
		return fmt.Errorf("process %d is another one", pid)
	}
	proc := filepath.Join(h.root, "proc", strconv.Itoa(pid))
	cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(proc); err != nil {
		return err
	}
	for _, l := range leafcert.Leaves() {
		if l.Restart != "" && bytes.Contains(cmdline, []byte(l.Restart)) {
			h.restarts[l.Restart]++
			h.ending(l.Restart)
			time.AfterFunc(restartTakes, func() { h.start(l) })
		}
	}
	return nil
}

// age makes all certificates anew, so that they ended some time ago.
func (h *controlPlane) age(life, ago time.Duration) {
	for _, l := range h.leaves() {
		h.issue(l, time.Now().Add(-ago-life), life)
	}
}

// identity makes the authorities of a site, at the present time.
func identity(t testing.TB) site.Identity {
	t.Helper()
	id, err := keys.Generate(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// apiServer is the API of a site, as far as it matters here.
type apiServer struct {
	mu     sync.Mutex
	nodes  []state.Node
	status *etcdv1.PacemakerCluster
	err    error
	asked  int
}

func newAPI(names ...string) *apiServer {
	a := &apiServer{}
	for _, n := range names {
		a.nodes = append(a.nodes, state.Node{Name: n, Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{}})
	}
	return a
}

func (a *apiServer) Nodes(context.Context) ([]state.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	var out []state.Node
	for _, n := range a.nodes {
		n.Annotations = map[string]string{state.AnnotationRenewal: n.Annotations[state.AnnotationRenewal]}
		out = append(out, n)
	}
	return out, a.err
}

func (a *apiServer) PacemakerCluster(context.Context) (*etcdv1.PacemakerCluster, error) {
	return a.status, a.err
}

func (a *apiServer) Annotate(_ context.Context, node, name, value string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if n.Name == node && a.err == nil {
			n.Annotations[name] = value
		}
	}
	return a.err
}

// said returns what a node says of the renewal.
func (a *apiServer) said(node string) state.CertificateRenewal {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if n.Name == node {
			return state.ParseAnnotation[state.CertificateRenewal](n.Annotations[state.AnnotationRenewal]).Value
		}
	}
	return state.CertificateRenewal{}
}

// workAlone notes that a host works in its turn, and tells which other host has worked in a turn that
// it still has.
func (a *apiServer) workAlone(node string, atWork map[string]time.Time, wrong func(who string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		since := state.ParseAnnotation[state.CertificateRenewal](n.Annotations[state.AnnotationRenewal]).Value.Since
		switch {
		case n.Name == node && since.IsZero():
			wrong("nobody")
		case n.Name == node:
			atWork[node] = since
		case !since.IsZero() && since.Equal(atWork[n.Name]):
			wrong(n.Name)
		}
	}
}

// renewing names the hosts that have published that they renew.
func (a *apiServer) renewing() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.nodes {
		if leafcert.Renews(n.Name, a.nodes) {
			out = append(out, n.Name)
		}
	}
	return out
}
