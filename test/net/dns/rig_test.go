package dns

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netns"

	decide "github.com/holdfast/holdfast/internal/decide/names"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/test/net/promise"
)

// site is a link with hosts on it, each a network namespace.
type site struct {
	t    *testing.T
	name string
	sw   netns.NsHandle
	n    int
}

var sites atomic.Int32

// newSite makes a link, which is removed after the test.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, name: fmt.Sprintf("hfdns%d-%d", os.Getpid(), sites.Add(1))}
	s.sw = netnstest.New(t, s.name)
	netnstest.Switch(t, s.sw)
	return s
}

func (s *site) ip(args ...string) {
	s.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// node is one host of a site.
type node struct {
	*site
	ns     string
	space  netns.NsHandle
	root   string
	number int
}

// host adds a host with addresses on eth0.
func (s *site) host(addrs ...string) *node {
	s.t.Helper()
	s.n++
	n := &node{site: s, ns: fmt.Sprintf("%s-%d", s.name, s.n), root: s.t.TempDir(), number: s.n}
	n.space = netnstest.New(s.t, n.ns)
	n.nic("eth0", addrs...)
	return n
}

// nic connects a NIC of a host to the link.
func (n *node) nic(name string, addrs ...string) {
	n.t.Helper()
	netnstest.Plug(n.t, n.sw, fmt.Sprintf("p%d%s", n.number, name), n.space, name)
	n.address(name, addrs...)
}

func (n *node) address(nic string, addrs ...string) {
	n.t.Helper()
	netnstest.Give(n.t, n.space, nic, addrs...)
}

// in runs a function in a host's network. Sockets that it opens stay there.
func (n *node) in(do func() error) error { return netnstest.Do(n.space, do) }

func (n *node) must(do func() error) {
	n.t.Helper()
	if err := n.in(do); err != nil {
		n.t.Fatal(err)
	}
}

// server is a running CoreDNS.
type server struct {
	*node
	cmd   *exec.Cmd
	log   *logBuffer
	ended chan struct{}
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// config writes a host's Corefile and zone for a view, with paths below its
// own folder.
func (n *node) config(v state.NetworkView) {
	n.t.Helper()
	z, ok := decide.Decide(v)
	s, enough := decide.DecideServer(v)
	if !ok || !enough {
		n.t.Fatal("the view is not enough for a server")
	}
	conf := coredns.Config(s, n.path(coredns.ZonePath))
	n.write(coredns.ZonePath, string(coredns.Zone(z)))
	n.write(coredns.ConfigPath, string(conf))
}

func (n *node) path(file string) string { return filepath.Join(n.root, file) }

// write replaces a file as the agent does.
func (n *node) write(file, text string) {
	n.t.Helper()
	path := n.path(file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		n.t.Fatal(err)
	}
}

// launch starts the server with the files on disk.
func (n *node) launch() *server {
	n.t.Helper()
	if err := os.MkdirAll(n.path(coredns.RunFolder), 0o755); err != nil {
		n.t.Fatal(err)
	}
	s := &server{node: n, log: &logBuffer{}, ended: make(chan struct{})}
	s.cmd = exec.Command("ip", "netns", "exec", n.ns, *program, "-conf", n.path(coredns.ConfigPath), "-pidfile", n.path(coredns.PIDFile))
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig refers to the end of this thread
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
			close(s.ended)
		}
	}()
	if err := <-started; err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		if n.t.Failed() {
			n.t.Logf("CoreDNS on %s:\n%s", n.ns, s.log)
		}
	})
	return s
}

// serve starts the server for a view and waits until it answers.
func (n *node) serve(v state.NetworkView) *server {
	n.t.Helper()
	n.config(v)
	s := n.launch()
	at := v.Host.Addresses[0]
	eventually(n.t, 15*time.Second, "the server answers", func() bool {
		select {
		case <-s.ended:
			n.t.Fatalf("CoreDNS has ended:\n%s", s.log)
		default:
		}
		_, err := n.ask(at, "api."+v.Settings.Domain+".", dns.TypeA)
		pid, unread := os.ReadFile(n.path(coredns.PIDFile)) // it writes that once it serves, and not at once
		return err == nil && unread == nil && len(pid) > 0
	})
	return s
}

// lives fails the test if the server has ended.
func (s *server) lives() {
	s.t.Helper()
	select {
	case <-s.ended:
		s.t.Fatalf("CoreDNS has ended:\n%s", s.log)
	default:
	}
}

// dial opens a connection from a host.
func (n *node) dial(network string, at netip.Addr) (*dns.Conn, error) {
	var conn net.Conn
	err := n.in(func() (err error) {
		conn, err = net.DialTimeout(network, net.JoinHostPort(at.String(), "53"), time.Second)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &dns.Conn{Conn: conn}, nil
}

// patience is the time that a client waits for an answer, as with glibc.
const patience = 5 * time.Second

// exchange sends a query from this host to a server of the site.
func (n *node) exchange(network string, at netip.Addr, q *dns.Msg) (*dns.Msg, error) {
	conn, err := n.dial(network, at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	client := &dns.Client{Net: network, Timeout: patience}
	if opt := q.IsEdns0(); opt != nil {
		client.UDPSize = opt.UDPSize()
	}
	m, _, err := client.ExchangeWithConn(q, conn)
	return m, err
}

func (n *node) ask(at netip.Addr, name string, qtype uint16) (*dns.Msg, error) {
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	return n.exchange("udp", at, q)
}

// addresses describes the records of an answer, or its code if it has none.
func addresses(m *dns.Msg) string {
	var out []string
	for _, rr := range m.Answer {
		out = append(out, strings.Join(strings.Fields(rr.String())[4:], " "))
	}
	if len(out) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return strings.Join(out, " ")
}

// want sends one query and compares the answer.
func (s *server) want(at netip.Addr, name string, qtype uint16, want string) {
	s.t.Helper()
	m, err := s.ask(at, name, qtype)
	if err != nil {
		s.t.Errorf("%s %s: %v", name, dns.TypeToString[qtype], err)
	} else if got := addresses(m); got != want {
		s.t.Errorf("%s %s: %s, want %s", name, dns.TypeToString[qtype], got, want)
	}
}

// until sends queries until the answer is the wanted one, and returns the time
// that it took.
func (s *server) until(limit time.Duration, at netip.Addr, name string, qtype uint16, want string) time.Duration {
	s.t.Helper()
	start, got := time.Now(), ""
	for time.Since(start) < promise.Allowed(limit) {
		if m, err := s.ask(at, name, qtype); err != nil {
			got = err.Error()
		} else if got = addresses(m); got == want {
			return time.Since(start)
		}
		time.Sleep(2 * time.Millisecond)
	}
	s.t.Fatalf("%s %s is %q after %s, want %q", name, dns.TypeToString[qtype], got, limit, want)
	return 0
}

func eventually(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > promise.Allowed(limit) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// upstream is a name server of the site.
type upstream struct {
	addr  netip.AddrPort
	asked atomic.Int64
	// answers is the current handler of queries.
	answers atomic.Pointer[func(dns.ResponseWriter, *dns.Msg)]
}

// upstream starts a name server on a host's address.
func (n *node) upstream(at string) *upstream {
	n.t.Helper()
	u := &upstream{addr: netip.AddrPortFrom(netip.MustParseAddr(at), 53)}
	u.does(says("198.51.100.1"))
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if q.Question[0].Qtype != dns.TypeNS {
			u.asked.Add(1)
		}
		(*u.answers.Load())(w, q)
	})
	n.must(func() error {
		packets, err := net.ListenPacket("udp", u.addr.String())
		if err != nil {
			return err
		}
		streams, err := net.Listen("tcp", u.addr.String())
		if err != nil {
			return err
		}
		for _, s := range []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: streams, Handler: handler}} {
			go func() { _ = s.ActivateAndServe() }()
			n.t.Cleanup(func() { _ = s.ShutdownContext(context.Background()) })
		}
		return nil
	})
	return u
}

func (u *upstream) does(f func(dns.ResponseWriter, *dns.Msg)) { u.answers.Store(&f) }

// says answers every query for an address with the given one.
func says(addr string) func(dns.ResponseWriter, *dns.Msg) {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(addr).To4()}}
		}
		_ = w.WriteMsg(m)
	}
}

// code answers every query with a code.
func code(rcode int) func(dns.ResponseWriter, *dns.Msg) {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		_ = w.WriteMsg(m.SetRcode(q, rcode))
	}
}

// silent answers nothing, not even a probe.
func silent(dns.ResponseWriter, *dns.Msg) {}

// view returns what a host sees of a cluster with two nodes.
func view(self string, addrs []string, upstreams ...*upstream) state.NetworkView {
	parse := func(list ...string) []netip.Addr {
		var out []netip.Addr
		for _, a := range list {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	v := state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "demo", Domain: "demo.example.com", ManagedVIPs: true,
			MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd09::/64")},
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host: state.HostFacts{NodeName: self, Addresses: parse(addrs...), Interface: "eth0"},
	}
	for _, a := range v.Host.Addresses {
		if a.Is4() {
			v.Settings.APIVIPs, v.Settings.IngressVIPs = append(v.Settings.APIVIPs, parse("10.9.0.5")...), append(v.Settings.IngressVIPs, parse("10.9.0.6")...)
		} else {
			v.Settings.APIVIPs, v.Settings.IngressVIPs = append(v.Settings.APIVIPs, parse("fd09::5")...), append(v.Settings.IngressVIPs, parse("fd09::6")...)
		}
	}
	v.Nodes = state.Known([]state.Node{{Name: self, Addresses: v.Host.Addresses}, {Name: "host-1", Addresses: parse("10.9.0.21")}})
	for _, u := range upstreams {
		v.Upstreams = append(v.Upstreams, u.addr)
	}
	return v
}

var (
	own4 = netip.MustParseAddr("10.9.0.20")
	own6 = netip.MustParseAddr("fd09::20")
)
