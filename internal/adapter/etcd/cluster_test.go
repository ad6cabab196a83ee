package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is one etcd.
type node struct {
	name, dir     string
	client, peer  string // addresses
	metrics       string
	authority     *authority
	cmd           *exec.Cmd
	ended         chan struct{}
	etcd          *Client
	serves, shows Identity
	output        *os.File // of its standard output; nil means the test's
}

// newNode prepares an etcd that has kubeadm's kinds of certificates.
func newNode(t testing.TB, name string, a *authority) *node {
	t.Helper()
	n := &node{name: name, dir: filepath.Join(t.TempDir(), "data"), authority: a, client: porttest.Address(t), peer: porttest.Address(t), metrics: porttest.Address(t)}
	n.certify(t)
	var err error
	n.etcd, err = Open(Config{ClientURL: "https://" + n.client, PeerURL: n.peerURL(), MetricsURL: "http://" + n.metrics, Identity: n.shows})
	must(t, err)
	t.Cleanup(func() { must(t, n.etcd.Close()); n.kill() })
	return n
}

// certify writes the node's certificates, and replaces older ones.
func (n *node) certify(t testing.TB) {
	t.Helper()
	n.serves = n.authority.issue(t, n.name, net.IPv4(127, 0, 0, 1))
	n.shows = n.authority.issue(t, "healthcheck-client")
}

func (n *node) peerURL() string { return "https://" + n.peer }

func (n *node) start(t testing.TB, args ...string) {
	t.Helper()
	n.cmd = exec.Command(builttest.Program(t, "etcd"), append([]string{
		"--name", n.name, "--data-dir", n.dir, "--log-level", "fatal",
		"--listen-peer-urls", n.peerURL(), "--initial-advertise-peer-urls", n.peerURL(),
		"--listen-client-urls", "https://" + n.client, "--advertise-client-urls", "https://" + n.client,
		"--listen-metrics-urls", "http://" + n.metrics, "--heartbeat-interval", "20", "--election-timeout", "200",
		"--client-cert-auth", "--trusted-ca-file", n.serves.CA, "--cert-file", n.serves.Cert, "--key-file", n.serves.Key,
		"--peer-client-cert-auth", "--peer-trusted-ca-file", n.serves.CA, "--peer-cert-file", n.serves.Cert, "--peer-key-file", n.serves.Key,
	}, args...)...)
	n.cmd.Stderr = t.Output()
	if n.output != nil {
		n.cmd.Stdout, n.cmd.Stderr = n.output, n.output
	}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, n.cmd.Start())
	n.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(n.cmd, n.ended)
}

func (n *node) signal(sig syscall.Signal) { _ = n.cmd.Process.Signal(sig) }

func (n *node) kill() {
	if n.cmd != nil {
		n.signal(syscall.SIGKILL)
		<-n.ended
	}
}

// looks waits until want accepts a look, and returns it.
func (n *node) looks(t testing.TB, what string, want func(MemberStatus) bool) MemberStatus {
	t.Helper()
	var look MemberStatus
	eventually(t, n.name+": "+what, func(ctx context.Context) (err error) {
		if look, err = n.etcd.Status(ctx); err == nil && !want(look) {
			err = fmt.Errorf("it looks so: %+v", look)
		}
		return err
	})
	return look
}

func eventually(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func serving(l MemberStatus) bool { return l.Serves && l.Leader != 0 }

// founded starts a cluster of one.
func founded(t testing.TB, a *authority) (*node, MemberStatus) {
	t.Helper()
	n := newNode(t, "alpha", a)
	n.start(t, "--initial-cluster", n.name+"="+n.peerURL())
	return n, n.looks(t, "serves", serving)
}

// joined starts a learner beside a node, promotes it, and waits until both know
// that.
func joined(t *testing.T, n *node) (*node, state.MemberID) {
	t.Helper()
	other := newNode(t, "beta", n.authority)
	id, err := n.etcd.AddLearner(t.Context(), other.peerURL())
	must(t, err)
	other.start(t, "--initial-cluster-state", "existing", "--initial-cluster", n.name+"="+n.peerURL()+","+other.name+"="+other.peerURL())
	eventually(t, "promote", func(ctx context.Context) error { return n.etcd.Promote(ctx, id) })
	other.looks(t, "is a voter", func(l MemberStatus) bool {
		return serving(l) && !l.Learner && len(l.Members) == 2 && !l.Members[0].Learner && !l.Members[1].Learner
	})
	return other, id
}

// authority signs certificates into one folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue signs a certificate; with an address it is also a server's.
func (a *authority) issue(t testing.TB, name string, addresses ...net.IP) Identity {
	t.Helper()
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(addresses) > 0 {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	a.sign(t, name, &x509.Certificate{IPAddresses: addresses, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage})
	return Identity{CA: filepath.Join(a.dir, "ca.crt"), Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key")}
}

func (a *authority) sign(t testing.TB, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c.Subject, c.SerialNumber = pkix.Name{CommonName: name}, big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		must(t, os.WriteFile(filepath.Join(a.dir, name+ext), pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert, key
}

func TestALookAtARunningEtcd(t *testing.T) {
	n, look := founded(t, newAuthority(t, t.TempDir()))
	if look.Member == 0 || look.Cluster == 0 || look.Leader != look.Member || look.RaftIndex == 0 || look.Version == "" {
		t.Errorf("got %+v", look)
	}
	if want := (state.EtcdMember{ID: look.Member, Name: "alpha"}); len(look.Members) != 1 || look.Members[0] != want {
		t.Errorf("members %+v, want %+v", look.Members, want)
	}
	must(t, n.etcd.Mark(t.Context(), look.Member, 42))
	if look, err := n.etcd.Status(t.Context()); err != nil || look.Members[0].Marked != 42 {
		t.Errorf("after the marker: %+v, %v", look.Members, err)
	}
}

func TestALookWhereNobodyAnswersIsAnErrorAndShort(t *testing.T) {
	n, _ := founded(t, newAuthority(t, t.TempDir()))
	look := func(want string) {
		t.Helper()
		began := time.Now()
		got, err := n.etcd.Status(t.Context())
		if took := time.Since(began); err == nil || took > statusLimit+200*time.Millisecond {
			t.Errorf("%s: %+v, %v after %s", want, got, err, took)
		}
	}
	n.signal(syscall.SIGSTOP)
	eventually(t, "it stands still", func(context.Context) error {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid)); err != nil || !strings.Contains(string(stat), ") T ") {
			return fmt.Errorf("it does not: %s (%w)", stat, err)
		}
		return nil
	})
	look("frozen")
	n.signal(syscall.SIGCONT)
	n.looks(t, "serves again", serving)
	n.kill()
	look("dead")
	n.start(t)
	began := time.Now()
	n.looks(t, "serves after a restart", serving)
	t.Logf("it served after %s", time.Since(began).Round(time.Millisecond))
}

// TestEtcdThatWaitsForALeaderIsSeen starts a host whose peer is dead: etcd
// serves no client, but its members, and that it has no leader, must be known
// nevertheless.
func TestEtcdThatWaitsForALeaderIsSeen(t *testing.T) {
	n, before := founded(t, newAuthority(t, t.TempDir()))
	other, _ := joined(t, n)
	other.kill()
	look := n.looks(t, "sees that the leader is gone", func(l MemberStatus) bool { return l.Leader == 0 })
	if !look.Serves {
		t.Errorf("an etcd that had a leader does not serve any more: %+v", look)
	}
	n.kill()
	n.start(t)
	// Where its last run did not write down that the peer's vote was committed, it leads
	// alone until it reads that in its log, and gives up a second later.
	look = n.looks(t, "waits", func(l MemberStatus) bool { return len(l.Members) == 2 && l.Leader == 0 })
	if look.Serves || look.Leader != 0 || look.Member != before.Member || look.Cluster != before.Cluster {
		t.Errorf("got %+v, want member %s of %s, not serving", look, before.Member, before.Cluster)
	}
	other.start(t)
	n.looks(t, "serves again", serving)
}

func TestMembersComeAndGo(t *testing.T) {
	n, first := founded(t, newAuthority(t, t.TempDir()))
	other := newNode(t, "beta", n.authority)
	ctx := t.Context()
	id, err := n.etcd.AddLearner(ctx, other.peerURL())
	must(t, err)
	if again, err := n.etcd.AddLearner(ctx, other.peerURL()); again != id || err != nil {
		t.Errorf("added twice: %s, %v; want %s", again, err, id)
	}
	if err := n.etcd.Promote(ctx, id); !NotInSync(err) {
		t.Errorf("the promotion of a learner that never started: %v", err)
	}
	other.start(t, "--initial-cluster-state", "existing", "--initial-cluster", "alpha="+n.peerURL()+",beta="+other.peerURL())
	learner := func(l MemberStatus) bool { return l.Learner && l.Leader == first.Member && len(l.Members) == 2 }
	other.looks(t, "is a learner that knows its members", learner)
	n.looks(t, "sees the learner", func(l MemberStatus) bool { m, ok := find(l, id); return ok && m.InSync && m.Name == "beta" })
	if _, err := n.etcd.AddLearner(ctx, other.peerURL()); err == nil || !strings.Contains(err.Error(), "remove it first") {
		t.Errorf("a learner that has started was added again: %v", err)
	}
	eventually(t, "promote", func(ctx context.Context) error { return n.etcd.Promote(ctx, id) })
	must(t, n.etcd.Promote(ctx, id))
	if m, ok := find(n.looks(t, "sees a voter", serving), id); !ok || m.Learner || m.InSync {
		t.Errorf("the voter is %+v", m)
	}
	eventually(t, "hand over", func(ctx context.Context) error { return n.etcd.MoveLeader(ctx, id) })
	must(t, n.etcd.MoveLeader(ctx, id))
	other.looks(t, "leads", func(l MemberStatus) bool { return l.Leader == id })
	must(t, n.etcd.Mark(ctx, id, 7))
	other.looks(t, "sees the marker", func(l MemberStatus) bool { m, _ := find(l, id); return m.Marked == 7 })
	eventually(t, "remove", func(ctx context.Context) error { return other.etcd.RemoveMember(ctx, first.Member) })
	must(t, other.etcd.RemoveMember(ctx, first.Member))
	if l := other.looks(t, "is alone", serving); len(l.Members) != 1 {
		t.Errorf("members %+v", l.Members)
	}
}

func find(l MemberStatus, id state.MemberID) (state.EtcdMember, bool) {
	for _, m := range l.Members {
		if m.ID == id {
			return m, true
		}
	}
	return state.EtcdMember{}, false
}

// TestRenewedCertificatesNeedNoNewClient replaces in place first the leaf
// certificates, then also the CA.
func TestRenewedCertificatesNeedNoNewClient(t *testing.T) {
	dir := t.TempDir()
	n, _ := founded(t, newAuthority(t, dir))
	for _, authorityToo := range []bool{false, true} {
		if authorityToo {
			n.authority = newAuthority(t, dir)
		}
		n.certify(t)
		n.kill()
		n.start(t)
		n.looks(t, "serves with renewed certificates", serving)
	}
	must(t, os.Remove(n.shows.Key))
	n.kill()
	n.start(t)
	eventually(t, "a missing key is told", func(ctx context.Context) error {
		if _, err := n.etcd.Status(ctx); err == nil || !strings.Contains(err.Error(), n.shows.Cert) {
			return errors.Join(errors.New("it is not"), err)
		}
		return nil
	})
}

// BenchmarkLook measures the daemon's cost of each look at a healthy etcd.
func BenchmarkLook(b *testing.B) {
	n, _ := founded(b, newAuthority(b, b.TempDir()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.etcd.Status(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
