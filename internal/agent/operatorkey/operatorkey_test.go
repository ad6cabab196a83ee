package operatorkey

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// hostFiles holds a control plane's files.
type hostFiles struct {
	t    *testing.T
	root string
	now  time.Time
}

func (h *hostFiles) put(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.root, operator.FormerEtcdFolder, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hostFiles) own(name string) string {
	h.t.Helper()
	data, err := os.ReadFile(filepath.Join(h.root, operator.EtcdFolder, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

func (h *hostFiles) keep(want bool) {
	h.t.Helper()
	k := Keeper{Root: h.root, Owner: owner(), Now: func() time.Time { return h.now }}
	renewed, err := k.Keep()
	if err != nil || renewed != want {
		h.t.Errorf("renewed %t, %v; want %t", renewed, err, want)
	}
}

// owner returns the operator's user if the test may give files away, else the
// test's own.
func owner() int {
	if os.Geteuid() == 0 {
		return operator.User
	}
	return os.Geteuid()
}

func authority(t *testing.T, now time.Time) site.KeyPair {
	t.Helper()
	id, err := keys.Generate(now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.EtcdCA
}

func newHost(t *testing.T) (*hostFiles, site.KeyPair) {
	h := &hostFiles{t: t, root: t.TempDir(), now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	return h, authority(t, h.now)
}

// verifies returns nil if etcd would accept the client.
func (h *hostFiles) verifies(bundle string) error {
	pair, err := tls.X509KeyPair([]byte(h.own(operator.EtcdPair)), []byte(h.own(operator.EtcdPair)))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	if name := pair.Leaf.Subject.String(); name != "CN=holdfast-operator" {
		return errors.New("it is " + name)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: h.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}

func TestTheOperatorHasACertificateOfItsOwnWhichIsRenewedInTime(t *testing.T) {
	h, ca := newHost(t)
	h.put("ca.crt", ca.Cert)
	h.put("ca.key", ca.Key)
	h.keep(true)
	if err := h.verifies(ca.Cert); err != nil {
		t.Error(err)
	}
	if left := keys.ClientLifetime / 3; left <= 30*24*time.Hour {
		t.Errorf("doctor warns of every pair: it is renewed with %s left", left)
	}
	first := h.own(operator.EtcdPair)
	for range 3 {
		h.keep(false)
	}
	h.now = h.now.Add(keys.ClientLifetime*2/3 - 2*time.Hour)
	h.keep(false)
	h.now = h.now.Add(3 * time.Hour)
	h.keep(true)
	if h.own(operator.EtcdPair) == first {
		t.Error("it is the same")
	}
	h.now = h.now.Add(2 * 365 * 24 * time.Hour)
	h.keep(true)
	if err := h.verifies(ca.Cert); err != nil {
		t.Errorf("after two years without a host: %v", err)
	}
}

// TestTheOperatorsCertificateFollowsTheSitesPeriod: it lives no longer, and a rotation does not take
// one that does for what Keep would leave.
func TestTheOperatorsCertificateFollowsTheSitesPeriod(t *testing.T) {
	h, ca := newHost(t)
	h.put("ca.crt", ca.Cert)
	h.put("ca.key", ca.Key)
	h.keep(true)
	k := Keeper{Root: h.root, Owner: owner(), Period: 10 * time.Minute, Now: func() time.Time { return h.now }}
	if follows, err := k.Follows(); err != nil || follows {
		t.Errorf("one of 120 days follows: %t, %v", follows, err)
	}
	for i := range 6 {
		if renewed, err := k.Keep(); err != nil || !renewed {
			t.Errorf("renewal %d: %t, %v", i, renewed, err)
		}
		if follows, err := k.Follows(); err != nil || !follows {
			t.Errorf("renewal %d: %t, %v", i, follows, err)
		}
		if err := h.verifies(ca.Cert); err != nil {
			t.Error(err)
		}
		h.now = h.now.Add(7 * time.Minute)
	}
}

func TestTheOperatorReadsItsOwnFilesAndNobodyElseDoes(t *testing.T) {
	h, ca := newHost(t)
	h.put("ca.crt", ca.Cert)
	h.put("ca.key", ca.Key)
	h.put("peer.key", "hush")
	h.keep(true)
	entries, err := os.ReadDir(filepath.Join(h.root, operator.EtcdFolder))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		var s unix.Stat_t
		if err := unix.Lstat(filepath.Join(h.root, operator.EtcdFolder, e.Name()), &s); err != nil || s.Mode != unix.S_IFREG|0o600 || int(s.Uid) != owner() {
			t.Errorf("%s: mode %o of %d, %v", e.Name(), s.Mode, s.Uid, err)
		}
	}
	if got := strings.Join(names, " "); got != "ca.crt operator.pem" {
		t.Errorf("its folder has %s", got)
	}
	if text := h.own(operator.EtcdPair) + h.own(operator.EtcdAuthorities); strings.Contains(text, strings.Split(ca.Key, "\n")[1]) {
		t.Error("the authority's key is in it")
	}
	path := filepath.Join(h.root, operator.EtcdFolder, operator.EtcdPair)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	h.keep(false)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestTheCertificateFollowsItsAuthority(t *testing.T) {
	h, before := newHost(t)
	after := authority(t, h.now)
	h.put("ca.crt", before.Cert)
	h.put("ca.key", before.Key)
	h.keep(true)
	h.put("ca.crt", before.Cert+after.Cert) // both are trusted while they change
	h.keep(false)
	if h.own(operator.EtcdAuthorities) != before.Cert+after.Cert {
		t.Error("the operator does not know the next authority")
	}
	h.put("ca.key", after.Key)
	h.keep(true)
	if err := h.verifies(after.Cert); err != nil {
		t.Error(err)
	}
	for _, broken := range []string{"", "nonsense", before.Cert, after.Cert} {
		if err := os.WriteFile(filepath.Join(h.root, operator.EtcdFolder, operator.EtcdPair), []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		h.keep(true)
		if err := h.verifies(after.Cert); err != nil {
			t.Errorf("in place of %.20q: %v", broken, err)
		}
	}
}

func TestWhatKeepsTheOperatorFromHavingOneIsTold(t *testing.T) {
	h, ca := newHost(t)
	k := Keeper{Root: h.root, Owner: owner(), Now: func() time.Time { return h.now }}
	if _, err := k.Keep(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a host that is not set up: %v", err)
	}
	h.put("ca.crt", ca.Cert)
	if _, err := k.Keep(); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "without the key of etcd's authority") {
		t.Errorf("without the key: %v", err)
	}
	h.put("ca.key", ca.Key)
	h.keep(true)
	before := h.own(operator.EtcdPair)
	h.put("ca.key", authority(t, h.now).Key)
	if _, err := k.Keep(); err == nil || !strings.Contains(err.Error(), "belongs to their key") {
		t.Errorf("with another one's key: %v", err)
	}
	if h.own(operator.EtcdPair) != before {
		t.Error("what served is gone")
	}
}

// A rotation of etcd's CA waits until the operator has the bundle, and a pair that
// the present key signed.
func TestWhetherTheOperatorsFilesFollowThoseOfEtcd(t *testing.T) {
	h, old := newHost(t)
	fresh := authority(t, h.now)
	follows := func(want bool, when string) {
		t.Helper()
		if got, err := (Keeper{Root: h.root, Now: func() time.Time { return h.now }}).Follows(); err != nil || got != want {
			t.Errorf("%s: %t, %v", when, got, err)
		}
	}
	h.put("ca.crt", old.Cert)
	h.put("ca.key", old.Key)
	if _, err := (Keeper{Root: h.root, Now: time.Now}).Follows(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
	h.keep(true)
	follows(true, "after the first look")
	h.put("ca.crt", old.Cert+fresh.Cert)
	follows(false, "with a CA more")
	h.keep(false)
	follows(true, "after the next look")
	h.put("ca.key", fresh.Key)
	follows(false, "with the new CA's key")
	h.keep(true)
	follows(true, "with a new pair")
	h.put("ca.crt", fresh.Cert)
	follows(false, "with the new CA alone")
	h.keep(false)
	follows(true, "at the end")
}
