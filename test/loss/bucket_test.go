package loss_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// bucketPort is that of the server with the bucket.
const bucketPort = 9443

// bucket is a server with the interface of S3, away from all hosts. What it has stays while the
// test runs; it is reached inside of a lab at one address, and on this machine at another.
type bucket struct {
	*testing.T
	handler http.Handler
	cert    tls.Certificate
	ca      string
}

func newBucket(t *testing.T, addresses ...net.IP) *bucket {
	t.Helper()
	store := s3mem.New()
	if err := store.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	b := &bucket{T: t, handler: gofakes3.New(store).Server()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: addresses,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	b.cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	b.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return b
}

// serve serves the bucket until stop is called, or the test ends.
func (b *bucket) serve(l net.Listener) (stop func()) {
	server := &http.Server{Handler: b.handler, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{b.cert}, MinVersion: tls.VersionTLS12}}
	go func() { _ = server.ServeTLS(l, "", "") }() // it ends with stop
	stop = func() { _ = server.Close() }
	b.Cleanup(stop)
	return stop
}

// config writes the configuration of backups for a server at an address, and returns its path.
func (b *bucket) config(address, recipient string) string {
	b.Helper()
	data, err := yaml.Marshal(map[string]any{
		"recipients": []string{recipient},
		"targets": []any{map[string]any{"name": "far", "s3": map[string]any{
			"endpoint": "https://" + address, "bucket": "backups", "region": "us-east-1", "accessKey": "A", "secretKey": "S3cr3t-x", "ca": b.ca,
		}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := backup.Parse(data, nil); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "backups.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// TestASiteIsRestoredFromABucket loses all hosts of a site, and with them the backups that lie on
// them. It is restored on others, from the copy that lies in a bucket of a server elsewhere, with
// the key of its owner.
func TestASiteIsRestoredFromABucket(t *testing.T) {
	s := up(t, *planes)
	dir := t.TempDir()
	gateway, here := s.Lab.Layout.Machine.Gateways[0], netip.MustParseAddr("127.0.0.1")
	b := newBucket(t, gateway.AsSlice(), here.AsSlice())
	owner, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	identity := filepath.Join(dir, "owner.key")
	if err := os.WriteFile(identity, []byte(owner.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	inside := netip.AddrPortFrom(gateway, bucketPort).String()
	stop := b.serveIn(s, inside)
	before := s.fill()
	began := time.Now()
	s.holdfast("backup", "configure", "--lab", *labName, "--yes", "-f", b.config(inside, owner.Recipient().String()))
	t.Logf("the first backup lay in the bucket after %.0f s", time.Since(began).Seconds())

	outside, err := new(net.ListenConfig).Listen(t.Context(), "tcp", here.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	b.serve(outside)
	targets := b.config(outside.Addr().String(), owner.Recipient().String())
	// Where the private key is, somebody opens a copy and tells the site: the next backup has that, too.
	first := s.newest(targets)
	s.holdfast("backup", "inspect", first, "--targets", targets, "--identity", identity)
	s.holdfast("backup", "prove", "--lab", *labName, strings.TrimSuffix(path.Base(first), backup.SentSuffix))
	s.holdfast("backup", "now", "--lab", *labName, "--reason", "the last one")
	before.late()
	if err := s.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()

	lost := time.Now()
	last := s.newest(targets)
	if last == first {
		t.Fatalf("the bucket has no other backup than %s", first)
	}
	again := filepath.Join(dir, "site")
	s.holdfast("restore", "--from", last, "--targets", targets, "--identity", identity, "--dir", again)
	before.restored(t, again, lost, func(r site) { b.serveIn(r, inside) })
}

// serveIn serves the bucket at an address of a lab.
func (b *bucket) serveIn(s site, address string) (stop func()) {
	b.Helper()
	l, err := s.Lab.Listen(b.Context(), address)
	if err != nil {
		b.Fatal(err)
	}
	return b.serve(l)
}

// newest returns the URL of the newest good backup in the bucket.
func (s site) newest(targets string) string {
	s.Helper()
	var list struct {
		Newest string `json:"newest"`
	}
	if err := json.Unmarshal([]byte(s.holdfast("backup", "list", "--from", "s3://backups", "--targets", targets, "-o", "json")), &list); err != nil || list.Newest == "" {
		s.Fatalf("the newest good backup of the bucket: %+v, %v", list, err)
	}
	return list.Newest
}

// holdfast runs a command on this machine, and returns what it prints for programs.
func (s site) holdfast(args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), *program, args...) // #nosec G204 -- a test's own words
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	s.Logf("holdfast %v: %v\n%s%s", args, err, out, said.String())
	if err != nil {
		s.FailNow()
	}
	return string(out)
}
