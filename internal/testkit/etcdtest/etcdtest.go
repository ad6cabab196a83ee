// Package etcdtest starts one etcd of the release for a test, with the certificates that
// its client needs.
package etcdtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec" //nolint:depguard // a test ends this process with its own
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// Server is a running etcd.
type Server struct {
	*etcd.Client
	// URL and Identity are for other clients of this etcd.
	URL      string
	Identity etcd.Identity
}

// Start starts an etcd of one member, which ends with the test.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	id, client, peer := certify(t), porttest.Address(t), porttest.Address(t)
	cmd := exec.Command(builttest.Program(t, "etcd"), append([]string{ //nolint:noctx // it ends below
		"--data-dir", filepath.Join(t.TempDir(), "data"), "--log-level", "fatal",
		"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer, "--initial-cluster", "default=http://" + peer,
		"--listen-client-urls", "https://" + client, "--advertise-client-urls", "https://" + client,
		"--heartbeat-interval", "20", "--election-timeout", "200",
		"--client-cert-auth", "--trusted-ca-file", id.CA, "--cert-file", id.Cert, "--key-file", id.Key,
	}, args...)...)
	cmd.Stderr, cmd.SysProcAttr = t.Output(), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	c, err := etcd.Open(etcd.Config{ClientURL: "https://" + client, PeerURL: "http://" + peer, Identity: id})
	must(t, err)
	t.Cleanup(func() { _ = c.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	serves(t, c)
	return &Server{Client: c, URL: "https://" + client, Identity: id}
}

// Ctl runs etcdctl and returns what it printed.
func (s *Server) Ctl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), builttest.Program(t, "etcdctl"), append([]string{
		"--endpoints", s.URL, "--cacert", s.Identity.CA, "--cert", s.Identity.Cert, "--key", s.Identity.Key,
	}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("etcdctl %v: %v: %s", args, err, out)
	}
	return string(out)
}

// Lease grants a lease of an hour and returns its id in hex.
func (s *Server) Lease(t testing.TB) string {
	t.Helper()
	words := strings.Fields(s.Ctl(t, "lease", "grant", "3600")) // lease ID granted with TTL(3600s)
	if len(words) < 2 {
		t.Fatalf("etcdctl granted %q", words)
	}
	return words[1]
}

func serves(t testing.TB, c *etcd.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for {
		s, err := c.Status(ctx)
		if err == nil && s.Votes() {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("etcd does not serve: %+v, %v", s, err)
		case <-ticks.C:
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// certify makes one certificate that serves as authority, server and client.
func certify(t testing.TB) etcd.Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: "etcdtest-" + strconv.Itoa(os.Getpid())}, SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	dir := t.TempDir()
	id := etcd.Identity{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "ca.crt"), Key: filepath.Join(dir, "ca.key")}
	must(t, os.WriteFile(id.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(id.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return id
}
