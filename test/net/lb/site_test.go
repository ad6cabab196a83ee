package lb

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/test/net/promise"
)

// site is a switch, hosts on it, and an external client.
type site struct {
	t      *testing.T
	prefix string
	sw     netns.NsHandle
	ca     authority
	// v4 and v6 tell which families it has.
	v4, v6 bool
	vips   []netip.Addr
	hosts  []*node
	client *namespace
}

// families selects the families of a site.
type families struct{ v4, v6 bool }

var (
	onlyV4 = families{v4: true}
	onlyV6 = families{v6: true}
	dual   = families{v4: true, v6: true}
)

func (f families) String() string {
	switch f {
	case onlyV4:
		return "v4"
	case onlyV6:
		return "v6"
	default:
		return "dual"
	}
}

var sites atomic.Int32

// newSite makes a site of control planes, on which no haproxy runs yet.
func newSite(t *testing.T, f families, controlPlanes int) *site {
	t.Helper()
	netnstest.NeedRoot(t)
	for _, program := range []string{"haproxy", "nft", "iptables", "ip"} {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
			t.Fatalf("%s is not installed: run hack/setup", program)
		}
		t.Skipf("%s is not installed: run hack/setup", program)
	}
	s := &site{t: t, prefix: fmt.Sprintf("hflb%d-%d", os.Getpid(), sites.Add(1)), v4: f.v4, v6: f.v6, ca: newAuthority(t)}
	s.sw = netnstest.New(t, s.prefix+"-sw")
	netnstest.Switch(t, s.sw)
	if f.v4 {
		s.vips = append(s.vips, netip.MustParseAddr("10.97.0.5"))
	}
	if f.v6 {
		s.vips = append(s.vips, netip.MustParseAddr("fd97::5"))
	}
	s.client = s.attach("client", 99)
	for i := range controlPlanes {
		s.hosts = append(s.hosts, s.addHost(fmt.Sprintf("cp-%d", i+1), 11+i))
	}
	return s
}

// namespace is the network of a host.
type namespace struct {
	t         *testing.T
	name      string
	handle    netns.NsHandle
	addresses []netip.Addr
}

// attach makes a namespace with one NIC on the switch.
func (s *site) attach(name string, number int) *namespace {
	s.t.Helper()
	n := &namespace{t: s.t, name: s.prefix + "-" + name}
	n.handle = netnstest.New(s.t, n.name)
	netnstest.Plug(s.t, s.sw, name, n.handle, "eth0")
	if s.v4 {
		n.add(fmt.Sprintf("10.97.0.%d/24", number))
	}
	if s.v6 {
		n.add(fmt.Sprintf("fd97::%d/64", number))
	}
	return n
}

// add gives the namespace an address that works at once.
func (n *namespace) add(prefix string) {
	n.t.Helper()
	netnstest.Give(n.t, n.handle, "eth0", prefix)
	n.addresses = append(n.addresses, netip.MustParsePrefix(prefix).Addr())
}

// hold gives a host the VIPs and takes them from all others, as keepalived
// does.
func (s *site) hold(holder *node) {
	s.t.Helper()
	for _, h := range s.hosts {
		for _, vip := range s.vips {
			verb := "del"
			if h == holder {
				verb = "replace"
			}
			args := []string{"-n", h.name, "addr", verb, netip.PrefixFrom(vip, vip.BitLen()).String(), "dev", "eth0"}
			if vip.Is6() && h == holder {
				args = append(args, "nodad", "preferred_lft", "0")
			}
			_ = exec.Command("ip", args...).Run()
		}
	}
	for _, n := range []*namespace{s.client} {
		must(s.t, "ip", "-n", n.name, "neigh", "flush", "all")
	}
	for _, h := range s.hosts {
		must(s.t, "ip", "-n", h.name, "neigh", "flush", "all")
	}
}

// do runs f on a thread in the namespace. Sockets that f opens stay there.
func (n *namespace) do(f func() error) error { return netnstest.Do(n.handle, f) }

// dial connects from the namespace.
func (n *namespace) dial(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	var conn net.Conn
	err := n.do(func() (err error) {
		conn, err = net.DialTimeout("tcp", to.String(), timeout)
		return err
	})
	return conn, err
}

// listen listens in the namespace, on all addresses.
func (n *namespace) listen(port int) (net.Listener, error) {
	var l net.Listener
	err := n.do(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	})
	return l, err
}

// run runs a program in the namespace.
func (n *namespace) run(program string, args ...string) string {
	n.t.Helper()
	return must(n.t, "ip", append([]string{"netns", "exec", n.name, program}, args...)...)
}

// nft runs a script with nft.
func (n *namespace) nft(script string) {
	n.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", n.name, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("nft: %v\n%s\n%s", err, out, script)
	}
}

func must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out)
}

// nodes returns the nodes of a list of hosts.
func nodes(hosts ...*node) []state.Node {
	var out []state.Node
	for _, h := range hosts {
		out = append(out, state.Node{
			Name: h.short, Labels: map[string]string{state.LabelControlPlane: ""}, Addresses: h.addresses, Ready: true,
		})
	}
	return out
}

// within waits for a condition that is promised within a time, and returns the
// time that it took.
func within(t *testing.T, promised time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	for start := time.Now(); time.Since(start) < promise.Allowed(promised); time.Sleep(10 * time.Millisecond) {
		if holds() {
			took := time.Since(start)
			t.Logf("%s: %v", what, took.Round(time.Millisecond))
			return took
		}
	}
	t.Fatalf("%s: not within %v", what, promise.Allowed(promised))
	return 0
}
