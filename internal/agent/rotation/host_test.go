package rotation

import (
	"bytes"
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
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

var root = bytes.Repeat([]byte{7}, 32)

// cluster is an API with the hosts of a site behind it.
type cluster struct {
	t      *testing.T
	secret map[string][]byte
	nodes  []state.Node
	hosts  []*controlPlane
	// workers follow the hosts.
	workers []*worker
	err     error
	waited  []string
	signed  map[string]bool
	// broken is true while a test has a host show what others do not trust.
	broken bool
	// pods is what pods trust: a controller manager writes it when it starts.
	pods string
	// ended lists the programs that agents ended, each after its host.
	ended []string
}

func (c *cluster) Nodes(context.Context) ([]state.Node, error) { return slices.Clone(c.nodes), c.err }

func (c *cluster) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if namespace != "kube-system" || name != "holdfast-authorities" {
		c.t.Errorf("the Secret %s/%s is read", namespace, name)
	}
	return maps.Clone(c.secret), c.err
}

func (c *cluster) Annotate(ctx context.Context, node, name, value string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range c.nodes {
		if c.nodes[i].Name == node {
			c.nodes[i].Annotations = map[string]string{name: value}
		}
	}
	return c.err
}

// loaded is what the API server of a host has read.
type loaded struct {
	verifies, accepts []string
	signs             string
	// etcds is the bundle by which it knows etcd.
	etcds string
}

// controlPlane is a host: files, the programs that read them, and the Keeper.
type controlPlane struct {
	*Keeper
	cluster *cluster
	root    string
	cut     powercut.Cut
	api     loaded
	pids    map[string]int
	lastPID int
	starts  map[string]int
	// etcds is the bundle that its etcd has read.
	etcds string
	// operators are the files with which the operator reaches etcd from here.
	operators struct{ bundle, cert string }
	// signedBefore is the pair by which it signed at the beginning of a test.
	signedBefore string
	// down is true while its API server does not answer.
	down bool
	// clients are what clients of the API have read: the Kubernetes CA alone is about
	// them.
	clients map[string]client
	// serves is the certificate by which its kubelet serves, as it read it.
	serves string
}

func newCluster(t *testing.T, hosts int) *cluster {
	t.Helper()
	id, err := keys.Generate(time.Now().Add(-time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, secret: map[string][]byte{}, signed: map[string]bool{}}
	for i := range hosts {
		name := fmt.Sprintf("cp-%d", i+1)
		c.nodes = append(c.nodes, state.Node{
			Name: name, Ready: true, Labels: map[string]string{state.LabelControlPlane: ""},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 98, 0, byte(11 + i)})},
		})
		h := &controlPlane{cluster: c, root: t.TempDir(), pids: map[string]int{}, starts: map[string]int{}, clients: map[string]client{}}
		h.install(id)
		h.begin(name, hosts)
		h.boot()
		c.hosts = append(c.hosts, h)
	}
	return c
}

// install writes the files as kubeadm does.
func (h *controlPlane) install(id site.Identity) {
	for a, pair := range map[rotation.Authority]site.KeyPair{
		rotation.ServiceAccountKey: id.ServiceSigner, rotation.FrontProxyCA: id.FrontProxyCA, rotation.EtcdCA: id.EtcdCA, rotation.KubernetesCA: id.KubernetesCA,
	} {
		h.put(places[a].trusts, pair.Cert, 0o644)
		h.put(places[a].key, pair.Key, 0o600)
		for _, path := range places[a].leaves {
			cert, key := leafOf(h.cluster.t, pair)
			h.put(path+".crt", cert, 0o644)
			h.put(path+".key", key, 0o600)
		}
	}
	h.installKubernetes(id)
	h.operators.bundle = id.EtcdCA.Cert
	h.operators.cert, _ = leafOf(h.cluster.t, id.EtcdCA)
}

func leafOf(t *testing.T, ca site.KeyPair) (cert, key string) {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(ca.Cert), []byte(ca.Key))
	if err != nil {
		t.Fatal(err)
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy-client"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, pair.Leaf, &own.PublicKey, pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}))
}

func (h *controlPlane) put(path, text string, mode fs.FileMode) {
	path = h.root + path
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
		h.cluster.t.Fatal(err)
	}
}

// begin starts an agent, which remembers nothing of an earlier one.
func (h *controlPlane) begin(name string, of int) {
	h.Keeper = New(Options{
		Root: h.root, Node: name, ControlPlanes: of, Secret: root, Life: 24 * time.Hour, Endpoint: name, Etcd: "etcd of " + name, Kept: of == 2, Now: time.Now,
		Log:  slog.New(slog.DiscardHandler),
		Open: func() (Cluster, error) { return h.cluster, nil },
		OpenAt: func(address string) (Server, error) {
			for i, other := range h.cluster.hosts {
				if address == other.Node || address == fmt.Sprintf("10.98.0.%d:6443", 11+i) {
					return server{other}, nil
				}
			}
			return nil, errors.New("nobody is at " + address)
		},
	})
	h.rest = 0 // files change between two looks
	h.write = func(path string, data []byte, mode fs.FileMode) error {
		return h.effect(func() error { return powercut.WriteFile(path, data, mode) })
	}
	h.remove = func(path string) error { return h.effect(func() error { return os.Remove(path) }) }
	h.running = func(p host.PodProgram) ([]int, error) { return []int{h.pids[p.Name]}, nil }
	h.end = func(_ context.Context, pid int, _ func() bool) error {
		return h.effect(func() error {
			for name, own := range h.pids {
				if own == pid {
					h.cluster.ended = append(h.cluster.ended, h.Node+" "+name)
					h.start(name)
				}
			}
			return nil
		})
	}
	h.accepts = func(_ context.Context, address string) ([]string, error) {
		switch address {
		case h.Etcd:
			return subjectsOf(h.cluster.t, h.etcds), nil
		case kubeletEndpoint:
			return subjectsOf(h.cluster.t, h.text(places[rotation.KubernetesCA].trusts)), nil
		}
		h.follow() // it follows these files
		return h.api.accepts, nil
	}
	h.kubernetes = h.played()
	h.operator = func() (bool, error) {
		now := h.files(rotation.EtcdCA)
		return h.operators.bundle == h.text(places[rotation.EtcdCA].trusts) && h.cluster.trusts(bundle([]rotation.ID{now.Key}, now, authority{}), h.operators.cert), nil
	}
}

func subjectsOf(t *testing.T, text string) (out []string) {
	t.Helper()
	publics, err := keys.Publics(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range publics {
		out = append(out, string(p.Cert.RawSubject))
	}
	return out
}

// keepOperator does what another loop of the agent does: the operator's files follow
// those of etcd.
func (h *controlPlane) keepOperator() {
	if follows, _ := h.operator(); follows {
		return
	}
	now := h.files(rotation.EtcdCA)
	h.operators.bundle = h.text(places[rotation.EtcdCA].trusts)
	h.operators.cert, _ = leafOf(h.cluster.t, site.KeyPair{Cert: bundle([]rotation.ID{now.Key}, now, authority{}), Key: now.key})
}

// operate does what operator and etcd keeper do on two control planes: one etcd whose
// host has another set of authorities than it has read is restarted.
func (c *cluster) operate() {
	for _, h := range c.hosts {
		if h.Kept && etcdpod.DigestOf([]byte(h.etcds)) != etcdpod.DigestOf([]byte(h.text(places[rotation.EtcdCA].trusts))) {
			h.start(etcdPod.Name)
			return
		}
	}
}

// effect has an effect on the host, unless the power is cut there.
func (h *controlPlane) effect(do func() error) error {
	err := h.cut.Effect(do)
	h.cluster.check()
	return err
}

// boot starts all programs.
func (h *controlPlane) boot() {
	h.start(apiServer.Name)
	h.start(controllerManager.Name)
	h.start(etcdPod.Name)
	h.start(leafcert.Scheduler)
	h.start(kubelet)
	h.follow()
}

func (h *controlPlane) start(name string) {
	h.lastPID++
	h.pids[name] = h.lastPID
	h.starts[name]++
	switch name {
	case etcdPod.Name:
		h.etcds = h.text(places[rotation.EtcdCA].trusts)
		return
	case leafcert.ControllerManager, leafcert.Scheduler, kubelet:
		h.startClient(name)
		return
	}
	h.api.etcds = h.text(places[rotation.EtcdCA].trusts)
	now := h.files(rotation.ServiceAccountKey)
	h.api.verifies, h.api.signs = nil, string(now.Key)
	for _, id := range now.Trusts {
		h.api.verifies = append(h.api.verifies, string(id))
	}
}

// follow reads what an API server reads while it runs.
func (h *controlPlane) follow() {
	want, err := h.subjects(places[rotation.KubernetesCA].trusts, places[rotation.FrontProxyCA].trusts)
	if err != nil {
		h.cluster.t.Fatal(err)
	}
	h.api.accepts = slices.Sorted(maps.Keys(want))
}

func (h *controlPlane) files(a rotation.Authority) files {
	now, err := h.read(a)
	if err != nil {
		h.cluster.t.Fatal(err)
	}
	return now
}

// server is the API server of a host.
type server struct{ *controlPlane }

func (s server) VerifyingKeys(context.Context) ([]string, error) { return s.api.verifies, nil }

func (s server) APIReady(context.Context) error {
	if s.down {
		return errors.New("connection refused")
	}
	return nil
}

// check fails a test if somebody shows what another one does not trust.
func (c *cluster) check() {
	c.t.Helper()
	for _, w := range c.workers {
		w.check()
	}
	for _, shows := range c.hosts {
		if c.broken {
			return
		}
		for _, trusts := range c.hosts {
			if !slices.Contains(trusts.api.verifies, shows.api.signs) {
				c.t.Fatalf("%s signs tokens by %.8s, %s verifies by %.8s", shows.Node, shows.api.signs, trusts.Node, trusts.api.verifies)
			}
			if !c.trusts(trusts.text(places[rotation.FrontProxyCA].trusts), shows.text(places[rotation.FrontProxyCA].leaves[0]+".crt")) {
				c.t.Fatalf("%s shows a certificate of a CA that %s does not trust", shows.Node, trusts.Node)
			}
			c.checkEtcd(shows, trusts)
			c.checkKubernetes(shows, trusts)
		}
	}
}

// checkEtcd fails a test if two hosts do not know each other in etcd, or do not know
// each other's operator. An API server uses the etcd of its host.
func (c *cluster) checkEtcd(shows, trusts *controlPlane) {
	c.t.Helper()
	for _, path := range places[rotation.EtcdCA].leaves {
		if !c.trusts(trusts.etcds, shows.text(path+".crt")) {
			c.t.Fatalf("the etcd of %s does not trust %s.crt of %s", trusts.Node, path, shows.Node)
		}
	}
	server := shows.text(state.EtcdPKIDir + "/server.crt")
	if shows == trusts && !c.trusts(trusts.api.etcds, server) {
		c.t.Fatalf("the API server of %s does not trust its etcd", trusts.Node)
	}
	if !c.trusts(trusts.operators.bundle, server) || !c.trusts(trusts.etcds, shows.operators.cert) {
		c.t.Fatalf("an operator on %s or %s and the etcd of the other do not trust each other", trusts.Node, shows.Node)
	}
}

func (h *controlPlane) text(path string) string {
	data, err := os.ReadFile(h.root + path)
	if err != nil {
		h.cluster.t.Fatal(err)
	}
	return string(data)
}

// trusts reports whether one of the CAs of a bundle signed a certificate. It
// remembers the answer: the same files are asked for again and again.
func (c *cluster) trusts(bundle, leaf string) bool {
	answer, known := c.signed[bundle+leaf]
	if !known {
		publics, err := keys.Publics(bundle)
		if err != nil {
			c.t.Fatal(err)
		}
		answer = slices.ContainsFunc(publics, func(p keys.Public) bool { return keys.SignedBy(leaf, p.Cert) })
		c.signed[bundle+leaf] = answer
	}
	return answer
}

// command takes one step of `holdfast ca rotate`, and reports whether the rotation
// is complete.
func (c *cluster) command(a rotation.Authority, begin bool) rotation.Step {
	w, err := rotation.ParseWish(c.secret[string(a)])
	if err != nil {
		c.t.Fatal(err)
	}
	hosts, absent := rotation.HostsOf(c.nodes, a)
	var stale []string
	if a == rotation.KubernetesCA {
		stale = rotation.Stale(map[string][]rotation.ID{"pods": idsOf(c.t, c.pods)}, hosts)
	}
	step := rotation.Next(rotation.Seen{
		Followers: rotation.FollowersOf(c.nodes, a),
		Stale:     stale, Authority: a, Wish: w, Hosts: hosts, Absent: absent, Now: time.Now(), TokenLife: time.Minute, Salt: bytes.Repeat([]byte{byte(len(c.waited) + 1)}, 32),
	}, begin)
	c.waited = append(c.waited, step.Why)
	if step.Kind == rotation.Ask {
		c.secret[string(a)] = []byte(step.Wish.String())
	}
	c.person(step, w.Turn)
	return step
}

// look lets each agent look once. An agent whose host lost its power starts anew.
func (c *cluster) look() {
	for _, h := range c.hosts {
		ctx, stop := context.WithTimeout(c.t.Context(), limit)
		_, err := h.step(ctx)
		stop()
		switch {
		case h.cut.Dead:
			h.cut = powercut.Cut{}
			h.begin(h.Node, h.ControlPlanes)
			h.boot()
		case err != nil && c.err == nil:
			c.t.Errorf("%s: %v", h.Node, err)
		}
		c.check()
		h.keepOperator()
		h.keepAgent()
		c.check()
	}
	c.operate()
	for _, w := range c.workers {
		w.look()
	}
	c.check()
}

// rotate plays a rotation to its end.
func (c *cluster) rotate(a rotation.Authority) {
	c.t.Helper()
	for i := range 300 {
		c.look()
		if step := c.command(a, i == 0); i > 0 && step.Kind == rotation.Settled {
			return
		}
		time.Sleep(reloadTime / 2)
	}
	c.t.Fatalf("the rotation does not end: %s", strings.Join(slices.Compact(c.waited), "\n"))
}
