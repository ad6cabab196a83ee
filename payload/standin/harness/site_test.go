package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// addrs holds the addresses of the two hosts.
var addrs = [2]string{"10.77.0.1", "10.77.0.2"}

// host is one of the two hosts, with an etcd.
type host struct {
	address, dir string
	tls          takeover.TLS
	client       *clientv3.Client
	cmd          *exec.Cmd
	ended        chan struct{}
}

func (h *host) peerURL() string   { return "https://" + h.address + ":2380" }
func (h *host) clientURL() string { return "https://" + h.address + ":2379" }
func (h *host) name() string      { return "host-" + h.address[len(h.address)-1:] }

// site is a cluster of two hosts.
type site struct {
	t     *testing.T
	ca    *authority
	hosts [2]*host
}

// newSite starts a cluster of two voters.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, ca: newAuthority(t)}
	mend(t)
	var initial []string
	for i := range s.hosts {
		h := &host{address: addrs[i], dir: filepath.Join(t.TempDir(), "data")}
		h.tls = s.ca.identity(t, fmt.Sprint("peer", i), h.address)
		h.client = connect(t, h)
		s.hosts[i] = h
		initial = append(initial, h.name()+"="+h.peerURL())
	}
	for _, h := range s.hosts {
		h.start(t, "--initial-cluster", strings.Join(initial, ","))
	}
	t.Cleanup(func() {
		for _, h := range s.hosts {
			h.kill()
		}
		mend(t)
	})
	for _, h := range s.hosts {
		h.ready(t)
	}
	return s
}

// connect returns a client of one host that reconnects quickly.
func connect(t *testing.T, h *host) *clientv3.Client {
	t.Helper()
	cfg, err := transport.TLSInfo{CertFile: h.tls.Cert, KeyFile: h.tls.Key, TrustedCAFile: h.tls.CA}.ClientConfig()
	must(t, err)
	quick := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.1, MaxDelay: 20 * time.Millisecond}, MinConnectTimeout: time.Second}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{h.clientURL()}, TLS: cfg, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(quick)},
	})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// start starts etcd with the timers that kubeadm gives it.
func (h *host) start(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{
		"--name", h.name(), "--data-dir", h.dir, "--log-level", "info",
		"--listen-peer-urls", h.peerURL(), "--initial-advertise-peer-urls", h.peerURL(),
		"--listen-client-urls", h.clientURL(), "--advertise-client-urls", h.clientURL(),
		"--client-cert-auth", "--trusted-ca-file", h.tls.CA, "--cert-file", h.tls.Cert, "--key-file", h.tls.Key,
		"--peer-client-cert-auth", "--peer-trusted-ca-file", h.tls.CA, "--peer-cert-file", h.tls.Cert, "--peer-key-file", h.tls.Key,
		"--heartbeat-interval", "100", "--election-timeout", "1000",
		// Two hosts on one machine: the source address tells their links apart.
		"--feature-gates", "SetMemberLocalAddr=true",
	}, args...)
	h.cmd = exec.Command(bin.etcd, args...)
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if *keepLogs != "" {
		f, err := os.OpenFile(filepath.Join(*keepLogs, h.name()+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(t, err)
		defer func() { _ = f.Close() }()
		h.cmd.Stderr = f
	}
	must(t, h.cmd.Start())
	ended, cmd := make(chan struct{}), h.cmd
	h.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
}

func (h *host) signal(sig syscall.Signal) {
	if h.cmd != nil && h.cmd.Process != nil {
		_ = h.cmd.Process.Signal(sig)
	}
}

// kill ends etcd as a power cut does, and waits.
func (h *host) kill() { h.end(syscall.SIGKILL) }

func (h *host) end(sig syscall.Signal) {
	if h.cmd != nil {
		h.signal(sig)
		<-h.ended
	}
}

// ready waits until the host takes writes.
func (h *host) ready(t *testing.T) {
	t.Helper()
	eventually(t, h.name()+" takes writes", func(ctx context.Context) error {
		_, err := h.client.Put(ctx, "ready", h.name())
		return err
	})
}

// id returns the host's member id.
func (h *host) id(t *testing.T) uint64 {
	t.Helper()
	return h.status(t).Header.MemberId
}

func (h *host) status(t *testing.T) *clientv3.StatusResponse {
	t.Helper()
	var st *clientv3.StatusResponse
	eventually(t, h.name()+" answers", func(ctx context.Context) (err error) {
		st, err = h.client.Status(ctx, h.clientURL())
		return err
	})
	return st
}

// eventually tries until it succeeds, for at most 20 s.
func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	within(t, what, time.Second, try)
}

// within is eventually for slow actions, such as a change of many keys on a
// busy machine.
func within(t *testing.T, what string, limit time.Duration, try func(context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(20*time.Second + 4*limit)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// lead makes a host the leader.
func (s *site) lead(h *host) {
	s.t.Helper()
	eventually(s.t, h.name()+" leads", func(ctx context.Context) error {
		st, err := h.client.Status(ctx, h.clientURL())
		if err != nil || st.Leader == st.Header.MemberId {
			return err
		}
		_, err = s.other(h).client.MoveLeader(ctx, st.Header.MemberId)
		if err == nil {
			err = fmt.Errorf("asked to")
		}
		return err
	})
}

func (s *site) other(h *host) *host {
	if h == s.hosts[0] {
		return s.hosts[1]
	}
	return s.hosts[0]
}

// cut drops all packets between the two hosts.
func cut(t *testing.T) {
	t.Helper()
	nft(t, "add table inet cut; add chain inet cut o { type filter hook output priority 0; }; "+
		"add rule inet cut o ip saddr "+addrs[0]+" ip daddr "+addrs[1]+" drop; "+
		"add rule inet cut o ip saddr "+addrs[1]+" ip daddr "+addrs[0]+" drop")
}

// mend lets the packets through again.
func mend(t *testing.T) {
	t.Helper()
	nft(t, "add table inet cut; delete table inet cut")
}

func nft(t *testing.T, rules string) {
	t.Helper()
	if out, err := exec.Command("nft", rules).CombinedOutput(); err != nil {
		t.Fatalf("nft %s: %v: %s", rules, err, out)
	}
}

// rejoin gives a removed host an empty data directory under a new member ID, as
// a voter, and returns the time that it took.
func (s *site) rejoin(back *host) time.Duration {
	t := s.t
	t.Helper()
	stays, begun := s.other(back), time.Now()
	must(t, os.RemoveAll(back.dir))
	var added *clientv3.MemberAddResponse
	eventually(t, "add a learner", func(ctx context.Context) (err error) {
		added, err = stays.client.MemberAddAsLearner(ctx, []string{back.peerURL()})
		return err
	})
	back.start(t, "--initial-cluster-state", "existing",
		"--initial-cluster", stays.name()+"="+stays.peerURL()+","+back.name()+"="+back.peerURL())
	eventually(t, "promote it", func(ctx context.Context) error {
		_, err := stays.client.MemberPromote(ctx, added.Member.ID)
		return err
	})
	took := time.Since(begun)
	back.hurry(t)
	return took
}

// hurry starts a new voter once more if it does not serve at once. etcd often
// loses the first message with its name if the leader's snapshot comes in
// between, and repeats it only after seven seconds.
func (h *host) hurry(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := h.client.Put(ctx, "ready", h.name()); err != nil {
		h.end(syscall.SIGTERM)
		h.start(t)
	}
	h.ready(t)
}

// same checks that both data directories are equal, byte for byte as etcd
// counts them.
func (s *site) same() {
	t := s.t
	t.Helper()
	var revision int64
	for i := range 5 {
		eventually(t, "write after the rejoin", func(ctx context.Context) error {
			r, err := s.hosts[i%2].client.Put(ctx, "after", fmt.Sprint(i))
			if err == nil {
				revision = r.Header.Revision
			}
			return err
		})
	}
	var hashes [2]uint32
	for i, h := range s.hosts {
		eventually(t, "hash", func(ctx context.Context) error {
			r, err := h.client.HashKV(ctx, h.clientURL(), revision)
			if err == nil {
				hashes[i] = r.Hash
			}
			return err
		})
	}
	if hashes[0] != hashes[1] {
		t.Errorf("the copies differ at revision %d: %v", revision, hashes)
	}
}
