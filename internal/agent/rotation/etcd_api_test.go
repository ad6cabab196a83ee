package rotation

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/operatorkey"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// realMember is a control plane's files with a real etcd, a member of three, that
// reads them. A kubelet of the test starts it again whenever it ends. The first host
// has a real API server too, which uses that etcd.
type realMember struct {
	*controlPlane
	client, peer string // HOST:PORT
	api          *realHost
	kept         *etcd.Client
}

// newRealMembers starts the etcds, and an API server on the first host.
func newRealMembers(t *testing.T) (*cluster, []*realMember) {
	t.Helper()
	apitest.Need(t, real)
	program, server := builttest.Program(t, "etcd"), builttest.Program(t, "kube-apiserver")
	c := newCluster(t, 3)
	c.broken = true // real servers answer, not the simulated ones
	var members []*realMember
	var initial []string
	for _, h := range c.hosts {
		m := &realMember{controlPlane: h, client: takeAddress(t), peer: takeAddress(t)}
		initial = append(initial, h.Node+"=https://"+m.peer)
		members = append(members, m)
	}
	ctx, stop := context.WithCancel(t.Context())
	var kubelets sync.WaitGroup
	t.Cleanup(func() { stop(); kubelets.Wait() })
	for _, m := range members {
		kubelets.Go(func() { again(ctx, filepath.Join(m.root, "etcd.log"), program, m.arguments(initial)) })
		m.act(t, members)
	}
	first := members[0]
	first.api = &realHost{controlPlane: first.controlPlane, address: takeAddress(t)}
	first.api.use(t)
	first.put("/tokens", realToken+`,admin,admin,"system:masters"`+"\n", 0o600)
	first.Endpoint = first.api.address
	kubelets.Go(func() { again(ctx, filepath.Join(first.root, "apiserver.log"), server, first.apiArguments()) })
	first.api.ready(t)
	return c, members
}

func takeAddress(t *testing.T) string {
	t.Helper()
	port, err := porttest.Take()
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + strconv.Itoa(int(port))
}

// again runs a program until the context ends, as kubelet does.
func again(ctx context.Context, logPath, program string, arguments []string) {
	for ctx.Err() == nil {
		log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		cmd := exec.CommandContext(ctx, "setpriv", append([]string{"--pdeathsig", "KILL", "--", program}, arguments...)...)
		cmd.Stdout, cmd.Stderr = log, log
		_ = cmd.Run() // it is started again
		_ = log.Close()
		_ = host.Sleep(ctx, 100*time.Millisecond)
	}
}

func (m *realMember) arguments(initial []string) []string {
	pki, own := m.root+state.EtcdPKIDir, m.root+places[rotation.EtcdCA].trusts
	return []string{
		"--name=" + m.Node, "--data-dir=" + m.root + "/etcd", "--unsafe-no-fsync", "--initial-cluster=" + strings.Join(initial, ","),
		"--listen-client-urls=https://" + m.client, "--advertise-client-urls=https://" + m.client,
		"--listen-peer-urls=https://" + m.peer, "--initial-advertise-peer-urls=https://" + m.peer,
		"--client-cert-auth=true", "--trusted-ca-file=" + own, "--cert-file=" + pki + "/server.crt", "--key-file=" + pki + "/server.key",
		"--peer-client-cert-auth=true", "--peer-trusted-ca-file=" + own, "--peer-cert-file=" + pki + "/peer.crt", "--peer-key-file=" + pki + "/peer.key",
	}
}

func (m *realMember) apiArguments() []string {
	_, port, _ := strings.Cut(m.api.address, ":")
	client, sa := m.root+"/etc/kubernetes/pki/apiserver-etcd-client", places[rotation.ServiceAccountKey]
	return []string{
		"--etcd-servers=https://" + m.client, "--etcd-cafile=" + m.root + places[rotation.EtcdCA].trusts,
		"--etcd-certfile=" + client + ".crt", "--etcd-keyfile=" + client + ".key",
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + m.root + "/certs", "--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--token-auth-file=" + m.root + "/tokens",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + m.root + sa.trusts, "--service-account-signing-key-file=" + m.root + sa.key,
	}
}

// stands answers for an API server that is ready as long as its etcd is.
type stands struct {
	server
	kept *etcd.Client
}

func (s stands) APIReady(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	return s.kept.Confirm(ctx)
}

// act has the agent of a host act on the real programs.
func (m *realMember) act(t *testing.T, members []*realMember) {
	t.Helper()
	h := m.controlPlane
	var err error
	if m.kept, err = etcd.Open(etcd.Config{ClientURL: "https://" + m.client, Identity: m.identity("healthcheck-client")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.kept.Close() })
	h.Etcd = m.client
	h.OpenAt = func(address string) (Server, error) {
		for i, other := range members {
			if address != other.Endpoint && address != fmt.Sprintf("10.98.0.%d:6443", 11+i) {
				continue
			}
			if other.api != nil {
				return kube.Open(other.root + "/kubeconfig")
			}
			return stands{server{other.controlPlane}, other.kept}, nil
		}
		return nil, errors.New("nobody is at " + address)
	}
	operator := operatorkey.Keeper{Root: h.root, Owner: os.Geteuid(), Now: time.Now}
	if _, err := operator.Keep(); err != nil {
		t.Fatal(err)
	}
	h.write, h.remove, h.end, h.accepts, h.running, h.operator = host.WriteFileAtomic, os.Remove, host.EndProcess, accepted, h.processes, func() (bool, error) {
		follows, err := operator.Follows()
		_, failed := operator.Keep() // another loop of the agent does this
		return follows, errors.Join(err, failed)
	}
}

func (m *realMember) identity(name string) etcd.Identity {
	pki := m.root + state.EtcdPKIDir
	return etcd.Identity{CA: pki + "/ca.crt", Cert: pki + "/" + name + ".crt", Key: pki + "/" + name + ".key"}
}

// TestRealEtcdsGoThroughARotationOfTheirCA replaces the CA of three real etcds, on
// hosts whose etcd runs under kubelet, with a real API server at one of them. A
// writer that may turn to any etcd writes all the time.
func TestRealEtcdsGoThroughARotationOfTheirCA(t *testing.T) {
	c, members := newRealMembers(t)
	a := rotation.EtcdCA
	before := members[0].files(a).Key
	oldBundle, old := members[0].text(places[a].trusts), members[0].files(a).leaves[2]
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	defer writer.Wait()
	defer stop()
	var written, failed int
	var longest time.Duration
	writer.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if err := writeAnywhere(ctx, members); err != nil && ctx.Err() == nil {
				failed++
				t.Logf("a write failed: %v", err)
				continue
			}
			written++
			longest = max(longest, time.Since(began))
			_ = host.Sleep(ctx, 20*time.Millisecond)
		}
	})
	rotateForReal(t, c, a)
	stop()
	writer.Wait()
	t.Logf("%d writes, the longest took %s", written, longest)
	if failed > 0 || written < 50 {
		t.Errorf("%d of %d writes failed", failed, written)
	}
	c.same(a, before)
	for _, m := range members {
		if err := m.handshake(old.cert, old.key, m.text(places[a].trusts)); err == nil {
			t.Errorf("the etcd of %s still takes a certificate of the old CA", m.Node)
		}
		own := m.files(a).leaves[2]
		if err := m.handshake(own.cert, own.key, m.text(places[a].trusts)); err != nil {
			t.Errorf("the etcd of %s: %v", m.Node, err)
		}
		if err := m.handshake(own.cert, own.key, oldBundle); err == nil {
			t.Errorf("the etcd of %s shows a certificate of the old CA", m.Node)
		}
	}
	writesThrough(t, members[0].api)
}

// writeAnywhere writes to any of the etcds.
func writeAnywhere(ctx context.Context, members []*realMember) error {
	var errs []error
	for range 3 { // an etcd that begins to lead takes a moment
		for _, m := range members {
			ask, stop := context.WithTimeout(ctx, 2*time.Second)
			err := m.kept.Pulse(ask)
			stop()
			if err == nil {
				return nil
			}
			errs = append(errs, fmt.Errorf("%s: %w", m.Node, err))
		}
	}
	return errors.Join(errs...)
}

// handshake returns nil if the host's etcd takes a client certificate, and itself
// shows one of a bundle.
func (m *realMember) handshake(cert, key, bundle string) error {
	folder, err := os.MkdirTemp(m.root, "client")
	if err != nil {
		return err
	}
	id := etcd.Identity{CA: folder + "/ca", Cert: folder + "/cert", Key: folder + "/key"}
	err = errors.Join(os.WriteFile(id.CA, []byte(bundle), 0o600), os.WriteFile(id.Cert, []byte(cert), 0o600), os.WriteFile(id.Key, []byte(key), 0o600))
	if err != nil {
		return err
	}
	conf, err := id.Config()
	if err != nil {
		return err
	}
	conn, err := tls.Dial("tcp", m.client, conf)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// In TLS 1.3 a server says that it refuses a client only after the handshake.
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err = conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// writesThrough fails the test unless the API server writes to its etcd.
func writesThrough(t *testing.T, r *realHost) {
	t.Helper()
	set, err := kubernetes.NewForConfig(r.as(realToken))
	if err != nil {
		t.Fatal(err)
	}
	r.set = set
	if err := makeAccount(t, r, robot); err != nil {
		t.Error(err)
	}
}

// A real etcd that has not read another CA says so, and one that has was restarted
// for it: what the agent's whole part is built on.
func TestARealEtcdReadsItsCAOnlyAtItsStart(t *testing.T) {
	_, members := newRealMembers(t)
	m, a := members[2], rotation.EtcdCA
	if err := m.etcdTakes(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := rotation.Wish{Phase: rotation.Trust, Salt: []byte(strings.Repeat("s", 32)), Began: time.Now().Add(-time.Minute).UTC().Truncate(time.Second), Turn: m.Node}
	fresh, err := m.derive(m.files(a), w)
	if err != nil {
		t.Fatal(err)
	}
	m.put(places[a].trusts, m.text(places[a].trusts)+fresh.cert, 0o644)
	leaf, key := leafOf(t, site.KeyPair{Cert: fresh.cert, Key: fresh.key})
	for range 3 {
		if err := m.etcdTakes(t.Context()); !errors.Is(err, errAccepts) {
			t.Fatal(err)
		}
	}
	if err := m.handshake(leaf, key, m.text(places[a].trusts)); err == nil {
		t.Error("it takes a certificate of the CA that it has not read")
	}
	pids, err := m.processes(etcdPod)
	if err != nil || len(pids) != 1 {
		t.Fatalf("processes %v: %v", pids, err)
	}
	if err := m.restart(t.Context(), etcdPod); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := m.await(ctx, m.etcdTakes); err != nil {
		t.Fatal(err)
	}
	if err := m.handshake(leaf, key, m.text(places[a].trusts)); err != nil {
		t.Error(err)
	}
	if now, err := m.processes(etcdPod); err != nil || slices.Equal(now, pids) {
		t.Errorf("processes %v, %v before: %v", now, pids, err)
	}
	// Its own certificate it reads at each handshake.
	server, serverKey := leafOf(t, site.KeyPair{Cert: fresh.cert, Key: fresh.key})
	m.put(state.EtcdPKIDir+"/server.key", serverKey, 0o600)
	m.put(state.EtcdPKIDir+"/server.crt", server, 0o644)
	if err := m.handshake(leaf, key, fresh.cert); err != nil {
		t.Errorf("it does not show the new certificate: %v", err)
	}
}
