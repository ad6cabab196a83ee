package lb

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/install/release"
)

// program finds a program of the built release, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	cache, err := release.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "steps", "go-*", name))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		if os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
			t.Fatalf("no %s: run `holdfast release build` once", name)
		}
		t.Skipf("NOT TESTED: no %s (run `holdfast release build` once)", name)
	}
	return found[len(found)-1]
}

// spawn runs a program in the namespace until the test ends.
func (n *namespace) spawn(dir, program string, args ...string) *exec.Cmd {
	n.t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", n.name, program}, args...)...)
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		n.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	_ = log.Close()
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	n.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); <-done })
	return cmd
}

// identity returns a client's certificate; an API server takes O as its groups.
func (a authority) identity(t *testing.T, name, group string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name, Organization: []string{group}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// keep writes a certificate and its key, and returns the paths.
func keep(t *testing.T, dir, name string, c tls.Certificate) (cert, key string) {
	t.Helper()
	private, ok := c.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatal("not a key of ours")
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, key: {Type: "EC PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// startReal runs a real API server on a host in place of the simulated one, and
// returns its etcd.
func startReal(t *testing.T, h *node, ca authority, flags ...string) *exec.Cmd {
	t.Helper()
	server, store := program(t, "kube-apiserver"), program(t, "etcd")
	h.api.stop()
	dir := t.TempDir()
	const etcdURL = "http://127.0.0.1:12379"
	etcd := h.spawn(dir, store, "--data-dir", dir+"/etcd", "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", "http://127.0.0.1:12380", "--initial-advertise-peer-urls", "http://127.0.0.1:12380",
		"--initial-cluster", "default=http://127.0.0.1:12380")
	cert, key := keep(t, dir, "server", ca.issue(t, apilb.VerifyName))
	caFile := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(caFile, ca.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	h.spawn(dir, server, append([]string{
		"--etcd-servers", etcdURL, "--secure-port", "6443", "--tls-cert-file", cert, "--tls-private-key-file", key,
		"--client-ca-file", caFile, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.96.0.0/16",
		"--service-account-issuer", "https://test", "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--advertise-address", h.addresses[0].String(),
	}, flags...)...)
	return etcd
}

// realWatch watches the namespaces. The result is true once the watch has
// ended.
func realWatch(t *testing.T, s *site, from *namespace, me tls.Certificate) *atomic.Bool {
	t.Helper()
	conn, err := from.dial(api(s.vips[0]), clientPatience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	secure := tls.Client(conn, &tls.Config{RootCAs: s.ca.pool, ServerName: apilb.VerifyName, Certificates: []tls.Certificate{me}})
	if _, err := fmt.Fprintf(secure, "GET /api/v1/namespaces?watch=1&timeoutSeconds=300 HTTP/1.1\r\nHost: api\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(secure), nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", response, err)
	}
	ended := &atomic.Bool{}
	go func() {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		ended.Store(true)
	}()
	return ended
}

// The etcd of a control plane freezes, as while two hosts settle which one goes
// on. Its API server must keep its watches, and answers new connections because
// there is no better one. The flag is the one that render/kubeadm gives API
// servers; without it the watch is cut after two checks.
func TestARealAPIServerKeepsItsWatchesWhileItsEtcdStandsStill(t *testing.T) {
	s := newSite(t, onlyV4, 1)
	h := s.hosts[0]
	etcd := startReal(t, h, s.ca, "--etcd-readycheck-timeout", "500ms")
	h.knows(nodes(s.hosts...))
	h.startAgent()
	h.startHaproxy()
	within(t, 60*time.Second, "a real API server is ready", func() bool { return h.live() == 1 && h.redirected() })
	within(t, 5*time.Second, "its own probe says so", func() bool { v := h.board.View(); return v.LocalAPI.Known && v.LocalAPI.Value })
	s.hold(h)
	ended := realWatch(t, s, s.client, s.ca.identity(t, "admin", "system:masters"))

	if err := syscall.Kill(-etcd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	within(t, 2500*time.Millisecond, "it is not ready", func() bool { return h.live() == 0 })
	for deadline := time.Now().Add(6 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if !h.redirected() || !h.board.View().Balancer.Value.Reached["cp-1"] {
			t.Fatal("it counts as gone")
		}
		if _, err := s.ask(s.client, api(s.vips[0])); err != nil {
			t.Fatalf("a new connection: %v", err)
		}
	}
	if ended.Load() {
		t.Error("the watch was cut")
	}
	if err := syscall.Kill(-etcd.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	within(t, 5*time.Second, "it is ready again", func() bool { return h.live() == 1 })
	if ended.Load() {
		t.Error("the watch was cut")
	}
}
