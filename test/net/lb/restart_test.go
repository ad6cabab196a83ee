package lb

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/haproxy"
)

// B43: a stopped haproxy first stops taking new connections, and cuts old ones
// only after a time.
func TestB43_AnOrderlyStopLosesNoRequestAndDrains(t *testing.T) {
	s := newSite(t, onlyV4, 2)
	s.up()
	h := s.hosts[0]
	s.hold(h)
	w := s.watchOf(s.client, api(s.vips[0]), "cp-2")
	l := s.start(s.client, api(s.vips[0]), 100)
	time.Sleep(500 * time.Millisecond)
	fault := time.Now()
	h.signal(syscall.SIGUSR1)
	within(t, time.Second, "the redirect goes while haproxy still accepts", func() bool { return !h.redirected() })
	time.Sleep(3 * time.Second)
	if got := l.loss(fault); got.failed > 0 {
		t.Error(got)
	}
	if w.ended.Load() || !w.moves(t) {
		t.Error("the watch was cut at once")
	}
	within(t, 25*time.Second, "the watch ends when its time is over", w.ended.Load)
	h.runHaproxy(h.paths.Config, h.paths.Socket)
	within(t, 3*time.Second, "redirect on after a start", h.redirected)
}

// A new authority needs a reload, because haproxy reads certificates only once.
func TestANewAuthorityIsReloadedOnceAndNobodyNotices(t *testing.T) {
	s := newSite(t, onlyV4, 2)
	s.up()
	h := s.hosts[0]
	s.hold(h)
	w := s.watchOf(s.client, api(s.vips[0]), "cp-2")
	l := s.start(s.client, api(s.vips[0]), 40)
	start, before := time.Now(), h.pid()
	bundle := s.ca
	bundle.pem = append(append([]byte(nil), s.ca.pem...), newAuthority(t).pem...)
	h.trust(bundle)
	h.knows(nodes(s.hosts[1], s.hosts[0])) // any change wakes the reconciler; otherwise it looks every 30 s
	within(t, 5*time.Second, "reloaded", func() bool { pid := h.pid(); return pid != 0 && pid != before })
	after := h.pid()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !h.redirected() || h.live() != 2 {
			t.Fatalf("a reload is no loss: %d live, redirected %v", h.live(), h.redirected())
		}
	}
	h.knows(nodes(s.hosts...))
	l.stop()
	if got := l.loss(start); got.failed > 0 {
		t.Error(got)
	}
	if w.ended.Load() || !w.moves(t) {
		t.Error("the watch was cut")
	}
	if h.pid() != after {
		t.Error("reloaded again")
	}
}

// A server without a certificate of the cluster's authority is no API server.
func TestABackendWithAForeignCertificateGetsNothing(t *testing.T) {
	s := newSite(t, onlyV4, 3)
	s.hosts[2].api.stop()
	s.hosts[2].api.cert = newAuthority(t).issue(t, apilb.VerifyName)
	s.hosts[2].api.start()
	s.hosts[1].api.stop()
	s.hosts[1].api.cert = s.ca.issue(t, "kubelet.example") // the right authority for another purpose
	s.hosts[1].api.start()
	h := s.hosts[0]
	h.knows(nodes(s.hosts...))
	h.startAgent()
	h.startHaproxy()
	within(t, 5*time.Second, "one is left", func() bool { return h.live() == 1 && h.redirected() })
	time.Sleep(2 * time.Second)
	if v := h.board.View().Balancer.Value; v.Live() != 1 || !v.Backends["cp-1"] {
		t.Error(v)
	}
}

// A starting haproxy must get the changes that were made while it was away. A
// process that starts with old data must be brought up to date.
func TestARestartedHaproxyHasWhatChangedMeanwhile(t *testing.T) {
	s := newSite(t, onlyV4, 3)
	s.up()
	h := s.hosts[0]
	old, err := os.ReadFile(h.paths.Config)
	if err != nil {
		t.Fatal(err)
	}
	h.signal(syscall.SIGKILL)
	within(t, 2*time.Second, "gone", func() bool { return !h.board.View().Balancer.Known })
	h.knows(nodes(s.hosts[:2]...))
	within(t, 2*time.Second, "written", func() bool {
		now, err := os.ReadFile(h.paths.Config)
		return err == nil && len(now) < len(old)
	})
	h.runHaproxy(h.paths.Config, h.paths.Socket)
	within(t, 5*time.Second, "two backends", func() bool { return h.names() == "cp-1 cp-2" && h.live() == 2 })

	// This process read its file a moment too early.
	h.signal(syscall.SIGKILL)
	within(t, 2*time.Second, "gone", func() bool { return !h.board.View().Balancer.Known })
	stale := filepath.Join(filepath.Dir(h.paths.Config), "stale.cfg")
	if err := os.WriteFile(stale, old, 0o600); err != nil {
		t.Fatal(err)
	}
	h.runHaproxy(stale, h.paths.Socket)
	within(t, 5*time.Second, "two backends again", func() bool { return h.names() == "cp-1 cp-2" })
}

// B32: without any backend, nothing redirects the VIP to haproxy.
func TestB32_WithoutAnyAPIServerNothingLeadsToHaproxy(t *testing.T) {
	s := newSite(t, onlyV4, 2)
	s.up()
	for _, h := range s.hosts {
		h.api.stop()
	}
	for _, h := range s.hosts {
		within(t, apilb.Fruitless+3*time.Second, h.short+": redirect off", func() bool { return !h.redirected() })
	}
	s.hosts[1].api.start()
	for _, h := range s.hosts {
		within(t, 2*time.Second, h.short+": redirect on", h.redirected)
	}
}

// Hard case 41: a full disk must not keep a removed server in a running
// haproxy.
func TestHardCase41_OnAFullDiskARunningHaproxyStillFollows(t *testing.T) {
	s := newSite(t, onlyV4, 3)
	h := s.hosts[0]
	dir := filepath.Dir(h.paths.Config)
	must(t, "mount", "-t", "tmpfs", "-o", "size=64k", "hflb", dir)
	t.Cleanup(func() { must(t, "umount", "-l", dir) })
	h.knows(nodes(s.hosts...))
	h.startAgent()
	h.startHaproxy()
	within(t, 5*time.Second, "balances over all", func() bool { return h.live() == 3 })
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	h.knows(nodes(s.hosts[:2]...))
	within(t, time.Second, "a node is gone", func() bool { return h.names() == "cp-1 cp-2" })
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "the file follows when there is room", func() bool {
		text, err := os.ReadFile(h.paths.Config)
		return err == nil && !strings.Contains(string(text), "server cp-3")
	})
}

// A second haproxy takes the file of the first one's socket, and ends: kubelet ran two pods at once
// after an upgrade that went back (lab, 2026-11-27). The first one serves, and nobody can ask it.
func TestAHaproxyThatNobodyCanAskCountsAsUnknownAndStartsAnew(t *testing.T) {
	s := newSite(t, onlyV4, 2)
	s.up()
	h := s.hosts[0]
	second := startHaproxy(t, h.namespace, h.paths.Config, h.paths.Socket)
	within(t, 5*time.Second, "the second one answers at the socket", func() bool {
		info, err := h.client.Info(t.Context())
		return err == nil && h.accepts(t.Context()) && info.Fingerprint != "" && socketOf(t, h.paths.Socket) == second.Process.Pid
	})
	if err := syscall.Kill(-second.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "what it knew of API servers counts no more", func() bool { return !h.board.View().Balancer.Known })
	if !h.accepts(t.Context()) {
		t.Error("the first one does not serve any more")
	}
	within(t, 90*time.Second, "the pod is asked to start anew", func() bool {
		pod, err := os.ReadFile(h.root + render.PodPath)
		return err == nil && strings.Contains(string(pod), render.Restarted)
	})
	h.signal(syscall.SIGKILL)
	h.runHaproxy(h.paths.Config, h.paths.Socket)
	within(t, 10*time.Second, "balances over all again", func() bool { return h.live() == 2 })
}

// socketOf returns the process that listens at a socket, 0 if nobody does.
func socketOf(t *testing.T, path string) int {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	err = raw.Control(func(fd uintptr) {
		peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil {
			t.Error(err)
			return
		}
		pid = int(peer.Pid)
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// H7: the agent does not wait for a haproxy that accepts requests and does not
// answer.
func TestH7_AQuestionHasADeadline(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mute.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	start := time.Now()
	if _, err := (haproxy.Client{Socket: socket}).Servers(t.Context()); err == nil {
		t.Error("a mute one answers")
	}
	if took := time.Since(start); took > haproxy.Answer+500*time.Millisecond {
		t.Errorf("waited %v", took)
	}
}

// Hard case 22: the second family comes to a running cluster. haproxy must
// listen on it, which needs a reload; the first family must notice nothing.
func TestHardCase22_ASecondFamilyComesWithoutALostRequest(t *testing.T) {
	s := newSite(t, dual, 2)
	onlyFirst := func(list []netip.Addr) []netip.Addr { return list[:1] } // IPv4 comes first in the list
	small := nodes(s.hosts...)
	for i := range small {
		small[i].Addresses = onlyFirst(small[i].Addresses)
	}
	for _, h := range s.hosts {
		h.board.Update(func(v *state.NetworkView) {
			v.Settings.APIVIPs, v.Host.Addresses = onlyFirst(s.vips), onlyFirst(h.addresses)
		})
		h.knows(small)
		h.startAgent()
		h.startHaproxy()
		within(t, 5*time.Second, "balances", func() bool { return h.live() == 2 && h.redirected() })
	}
	h := s.hosts[0]
	s.hold(h)
	w := s.watchOf(s.client, api(s.vips[0]), "cp-2")
	l := s.start(s.client, api(s.vips[0]), 100)
	socket := h.listens4()
	start, before := time.Now(), h.pid()
	for _, host := range s.hosts {
		host.board.Update(func(v *state.NetworkView) {
			v.Settings.APIVIPs, v.Host.Addresses = s.vips, host.addresses
			v.Nodes = state.Known(nodes(s.hosts...))
		})
	}
	within(t, 5*time.Second, "the second VIP leads to every API server", func() bool {
		_, err := s.ask(s.client, api(s.vips[1]))
		return err == nil && h.pid() != before
	})
	balanced(t, s, s.client, s.vips[1], "cp-1", "cp-2")
	time.Sleep(3 * time.Second)
	l.stop()
	if got := l.loss(start); got.failed > 0 {
		t.Error("on the first VIP:", got)
	}
	if w.ended.Load() || !w.moves(t) {
		t.Error("a watch on the first VIP was cut")
	}
	// Requests tell a closed socket only sometimes: it takes one that waits in it
	// at that moment.
	if now := h.listens4(); now != socket {
		t.Errorf("haproxy closed its socket for IPv4: before %q, now %q", socket, now)
	}
}

// listens4 returns the socket with which haproxy listens on IPv4 for the API. The
// kernel's number of the socket tells it from another on the same port.
func (n *node) listens4() string {
	n.t.Helper()
	for line := range strings.Lines(n.run("ss", "-Hltne", "sport", "=", ":9445")) {
		fields := strings.Fields(line)
		if i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "ino:") }); i > 3 && fields[3] == "0.0.0.0:9445" {
			return fields[i]
		}
	}
	n.t.Fatal("nobody listens on 0.0.0.0:9445")
	return ""
}
