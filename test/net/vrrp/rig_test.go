// Package vrrp shows with real keepalived, in network namespaces on one bridge,
// that virtual IPs are in the right place whatever happens to hosts, links,
// daemons and the agent. The tests are named after docs/facts/network.md#cases.
package vrrp

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

var (
	vip4, vip6         = addr("10.98.0.5"), addr("fd98::5")
	ingress4, ingress6 = addr("10.98.0.6"), addr("fd98::6")
	// far is the ingress VIP in a second network.
	far = addr("10.99.0.6")
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// rig holds hosts on one bridge.
type rig struct {
	t      *testing.T
	prefix string
	sw     netns.NsHandle
	hosts  []*testHost

	mu     sync.Mutex
	events []event
}

// event records that a VIP came to a host or left it.
type event struct {
	at    time.Time
	host  int
	vip   netip.Addr
	there bool
}

// testHost is one host of a rig.
type testHost struct {
	r      *rig
	n      int
	name   string
	ns     netns.NsHandle
	nsName string
	root   string
	port   string
	view   state.NetworkView
	agent  *exec.Cmd
	daemon *exec.Cmd
}

var rigs atomic.Int32

// newRig makes hosts 1 to n. Each has keepalived's files, but nothing is
// started.
func newRig(t *testing.T, n int) *rig {
	t.Helper()
	netnstest.NeedRoot(t)
	if _, err := exec.LookPath("/usr/sbin/keepalived"); err != nil {
		t.Skip("NOT TESTED: keepalived is not installed, run hack/setup")
	}
	r := &rig{t: t, prefix: fmt.Sprintf("hfvrrp%d-%d", os.Getpid(), rigs.Add(1))}
	r.sw = netnstest.New(t, r.prefix+"sw")
	netnstest.Switch(t, r.sw)
	for i := 1; i <= n; i++ {
		r.addHost(i)
	}
	for _, h := range r.hosts {
		h.view = r.viewOf(h, n)
		h.tell(func(*state.NetworkView) {})
	}
	t.Cleanup(r.report) // last, so that it runs while the hosts' files still exist
	return r
}

// in runs a function in a namespace.
func in(t testing.TB, ns netns.NsHandle, do func()) { t.Helper(); netnstest.In(t, ns, do) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l
}

// addHost makes a host with eth0 on the bridge, 10.98.0.1<n> and fd98::1<n>.
func (r *rig) addHost(n int) {
	t := r.t
	h := &testHost{r: r, n: n, name: fmt.Sprint("h", n), port: fmt.Sprint("p", n), root: t.TempDir(), nsName: r.prefix + fmt.Sprint("h", n)}
	h.ns = netnstest.New(t, h.nsName)
	netnstest.Plug(t, r.sw, h.port, h.ns, "eth0")
	netnstest.Give(t, h.ns, "eth0", fmt.Sprintf("10.98.0.1%d/24", n), fmt.Sprintf("fd98::1%d/64", n))
	in(t, h.ns, func() { must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0)) }) // as hosts are set up
	r.hosts = append(r.hosts, h)
	r.follow(h)
}

// follow records each VIP that comes and goes.
func (r *rig) follow(h *testHost) {
	changes, done := make(chan netlink.AddrUpdate, 256), make(chan struct{})
	must(r.t, netlink.AddrSubscribeWithOptions(changes, done, netlink.AddrSubscribeOptions{Namespace: &h.ns}))
	r.t.Cleanup(func() { close(done) })
	go func() {
		for c := range changes {
			ip, _ := netip.AddrFromSlice(c.LinkAddress.IP)
			if ip = ip.Unmap(); c.LinkIndex != loopback && slices.Contains([]netip.Addr{vip4, vip6, ingress4, ingress6, far}, ip) {
				r.mu.Lock()
				r.events = append(r.events, event{time.Now(), h.n, ip, c.NewAddr})
				r.mu.Unlock()
			}
		}
	}()
}

// viewOf returns the view of a healthy host among n control planes of an
// installed cluster.
func (r *rig) viewOf(h *testHost, n int) state.NetworkView {
	v := state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "shop", Domain: "shop.example", ManagedVIPs: true, ControlPlanes: n,
			APIVIPs: []netip.Addr{vip4, vip6},
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host:     state.HostFacts{NodeName: h.name, Interface: "eth0", Addresses: nodeOf(h.n).Addresses},
		LocalAPI: state.Known(true), Redirected: true,
		Router: state.Known(state.Router{Healthy: true, Ready: true, Default: true}),
	}
	b := state.Balancer{Backends: map[string]bool{}}
	var nodes []state.Node
	for i := 1; i <= n; i++ {
		nodes = append(nodes, nodeOf(i))
		b.Backends[fmt.Sprint("h", i)] = true
	}
	v.Nodes, v.Balancer = state.Known(nodes), state.Known(b)
	return v
}

func nodeOf(i int) state.Node {
	return state.Node{
		Name: fmt.Sprint("h", i), Ready: true, Labels: map[string]string{state.LabelControlPlane: "", state.LabelMaster: ""},
		Addresses: []netip.Addr{addr(fmt.Sprintf("10.98.0.1%d", i)), addr(fmt.Sprintf("fd98::1%d", i))},
	}
}

// tell changes the facts that a host's agent gets.
func (h *testHost) tell(change func(*state.NetworkView)) {
	h.r.t.Helper()
	change(&h.view)
	data, err := json.Marshal(h.view)
	must(h.r.t, err)
	tmp := filepath.Join(filepath.Dir(h.root), fmt.Sprintf("view-%d", h.n))
	must(h.r.t, os.WriteFile(tmp, data, 0o600))
	must(h.r.t, os.Rename(tmp, filepath.Join(h.root, "view.json")))
}

func (r *rig) tellAll(change func(*state.NetworkView)) {
	for _, h := range r.hosts {
		h.tell(change)
	}
}

// command returns a program in a host's namespace, with its output in a file.
func (h *testHost) command(log string, env []string, name string, args ...string) *exec.Cmd {
	h.r.t.Helper()
	out, err := os.OpenFile(filepath.Join(h.root, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(h.r.t, err)
	defer func() { _ = out.Close() }()
	cmd := exec.Command("/usr/sbin/ip", append([]string{"netns", "exec", h.nsName, name}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), env...)
	must(h.r.t, cmd.Start())
	return cmd
}

// startAgent starts a host's agent. Its log is shown if the test fails.
func (h *testHost) startAgent(env ...string) {
	h.r.t.Helper()
	self, err := os.Executable()
	must(h.r.t, err)
	h.agent = h.command("agent.log", append(env, agentDir+"="+h.root), self)
	cmd := h.agent
	h.r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func (h *testHost) path(p string) string { return filepath.Join(h.root, p) }

// startDaemon starts keepalived as the static pod does.
func (h *testHost) startDaemon() {
	h.r.t.Helper()
	h.r.eventually("the configuration of "+h.name, 5*time.Second, func() bool {
		_, err := os.Stat(h.path(render.ConfigPath))
		return err == nil
	})
	h.startDaemonWith(h.path(render.ConfigPath))
}

func (h *testHost) startDaemonWith(config string) {
	h.r.t.Helper()
	must(h.r.t, os.MkdirAll(filepath.Dir(h.path(render.PIDFile)), 0o755))
	h.daemon = h.command("keepalived.log", nil, "/usr/sbin/keepalived", "--dont-fork", "--log-console", "--log-detail", "--vrrp",
		"--use-file", config, "--pid", h.path(render.PIDFile), "--vrrp_pid", h.path(render.VRRPPIDFile))
	cmd := h.daemon
	h.r.t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGCONT); h.killDaemon(); _ = cmd.Wait() })
}

// killDaemon kills both processes, as the end of a container does.
func (h *testHost) killDaemon() {
	child := h.pid(render.VRRPPIDFile)
	if child > 1 {
		_ = syscall.Kill(child, syscall.SIGSTOP) // otherwise the end of its parent would make it end cleanly
	}
	_ = h.daemon.Process.Kill()
	if child > 1 {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
}

// pid returns the content of a pid file, 0 if there is none.
func (h *testHost) pid(file string) int {
	data, _ := os.ReadFile(h.path(file))
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
}

// start starts agents and daemons on all hosts and waits until each VIP is
// held, if possible by the first host.
func (r *rig) start(vips ...netip.Addr) {
	r.t.Helper()
	for i, h := range r.hosts {
		h.startAgent()
		h.startDaemon()
		for began := time.Now(); i == 0 && time.Since(began) < 3*time.Second && (!h.has(vips[0]) || !h.has(vips[1])); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, h := range r.hosts { // keepalived knows now that no foreign host has them
		r.eventually(h.name+" takes part", 10*time.Second, func() bool {
			return strings.Contains(h.log("keepalived.log"), "Startup complete") && strings.Contains(h.log("agent.log"), "nothing bars it")
		})
	}
	time.Sleep(200 * time.Millisecond)
	for _, vip := range vips {
		r.eventually("a holder of "+vip.String(), 10*time.Second, func() bool { return len(r.holders(vip)) == 1 })
	}
	r.settle(vips...)
}
