package lb

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/adapter/probe"
	"github.com/holdfast/holdfast/internal/adapter/redirect"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/agent/network/balancer"
	reconciler "github.com/holdfast/holdfast/internal/agent/network/redirect"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/haproxy"
)

// node is one control plane: API server, agent, haproxy.
type node struct {
	*namespace
	site  *site
	short string
	api   *apiServer
	board *network.ViewStore
	// paths are haproxy's paths. client asks haproxy.
	paths  render.Paths
	client haproxy.Client
	root   string

	mu   sync.Mutex
	log  []string
	proc *exec.Cmd
	stop func()
}

// addHost makes a host whose API server runs, but neither agent nor haproxy.
func (s *site) addHost(name string, number int) *node {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "hflb")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{namespace: s.attach(name, number), site: s, short: name, root: dir + "/root"}
	n.paths = render.Paths{
		Config: dir + "/etc/haproxy.cfg", CA: dir + "/etc/ca.crt",
		Socket: dir + "/run/master.sock",
	}
	// The folder that haproxy sees lies below the root to which the reconciler
	// writes.
	for _, d := range []string{filepath.Dir(n.root + dir), dir + "/etc", dir + "/run", filepath.Dir(n.root + balancer.CAPath)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, n.root+dir); err != nil {
		s.t.Fatal(err)
	}
	n.trust(s.ca)
	n.client = haproxy.Client{Socket: n.paths.Socket}
	n.api = newAPIServer(n.namespace, name, s.ca.issue(s.t, apilb.VerifyName, name))
	n.api.start()
	s.t.Cleanup(n.api.stop)
	n.board = network.NewViewStore(state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "shop", ManagedVIPs: true, APIVIPs: s.vips, ControlPlanes: 3,
		},
		Role: state.RoleMaster, Stage: state.StageInstalled,
		Host: state.HostFacts{NodeName: name, Addresses: n.addresses, Interface: "eth0"},
	})
	return n
}

// trust puts an authority on the host, as kubeadm does.
func (n *node) trust(ca authority) {
	n.t.Helper()
	if err := os.WriteFile(n.root+balancer.CAPath, ca.pem, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// knows gives the host's agent a list of nodes.
func (n *node) knows(list []state.Node) {
	n.board.Update(func(v *state.NetworkView) { v.Nodes = state.Known(list) })
}

// setVIPs gives the host's agent other settings.
func (n *node) setVIPs(settings state.NetworkSettings) {
	n.board.Update(func(v *state.NetworkView) { v.Settings = settings })
}

// startAgent runs the loop with our reconcilers and sources.
func (n *node) startAgent() {
	table := reconciler.New(redirect.Table{NetNS: int(n.handle)}, time.Now)
	agent := &network.Agent{
		Views:   n.board,
		Sources: []network.Source{haproxy.Source{Client: n.client, Accepts: n.accepts, Busy: func() bool { return false }}, table, &localAPI{n: n}},
		Reconcilers: []network.Reconciler{balancer.New(balancer.Options{
			Root: n.root, CA: balancer.CAPath, Image: "haproxy", Paths: n.paths, Client: n.client, Accepts: n.accepts, Now: time.Now,
		}), table},
		Loops: loop.New(time.Now, slog.New(slog.NewTextHandler(n, nil))),
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = agent.Run(ctx) }()
	n.stop = func() { cancel(); <-done }
	n.t.Cleanup(func() {
		n.stop()
		if n.t.Failed() {
			n.t.Logf("%s: agent:\n%s", n.short, strings.Join(n.said(), "\n"))
			if log, err := os.ReadFile(n.paths.Config + ".log"); err == nil {
				n.t.Logf("%s: haproxy:\n%s", n.short, log)
			}
		}
	})
}

// accepts reports whether haproxy accepts a connection in the host's namespace.
func (n *node) accepts(context.Context) bool {
	conn, err := n.dial(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), apilb.BalancerPort), time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// localAPI probes the host's own API server, in its namespace.
type localAPI struct{ n *node }

func (localAPI) Name() string { return "local API server" }

func (l localAPI) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	p := &probe.LocalAPI{
		CA: l.n.root + balancer.CAPath, Address: "127.0.0.1:6443",
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			return l.n.dial(netip.MustParseAddrPort(address), time.Second)
		},
	}
	return p.Run(ctx, update)
}

func (n *node) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// Write takes a line of the agent's log.
func (n *node) Write(line []byte) (int, error) {
	n.note("%s", bytes.TrimSpace(line))
	return len(line), nil
}

func (n *node) said() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.log...)
}

// startHaproxy starts haproxy once its configuration exists, as kubelet does.
func (n *node) startHaproxy() {
	n.t.Helper()
	within(n.t, 5*time.Second, n.short+": configuration written", func() bool {
		_, err := os.Stat(n.root + render.PodPath)
		return err == nil
	})
	n.runHaproxy(n.paths.Config, n.paths.Socket)
}

func (n *node) runHaproxy(config, master string) {
	n.t.Helper()
	n.proc = startHaproxy(n.t, n.namespace, config, master)
}

// startHaproxy starts a haproxy in a namespace, and ends it with the test.
func startHaproxy(t *testing.T, n *namespace, config, master string) *exec.Cmd {
	t.Helper()
	log, err := os.OpenFile(config+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", n.name, "haproxy", "-W", "-S", master+",mode,600", "-f", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = log.Close()
	go func() { _ = cmd.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	return cmd
}

// signal sends a signal to all processes of haproxy.
func (n *node) signal(sig syscall.Signal) {
	n.t.Helper()
	if err := syscall.Kill(-n.proc.Process.Pid, sig); err != nil {
		n.t.Fatal(err)
	}
}

// redirected and live return what the host's view says.
func (n *node) redirected() bool { return n.board.View().Redirected }
func (n *node) live() int        { return n.board.View().Balancer.Value.Live() }

// up starts agents and haproxies on all hosts, each with all nodes, and waits
// until every haproxy balances over all of them.
func (s *site) up() {
	s.t.Helper()
	for _, h := range s.hosts {
		h.knows(nodes(s.hosts...))
		h.startAgent()
		h.startHaproxy()
	}
	for _, h := range s.hosts {
		within(s.t, 5*time.Second, h.short+": balances over all", func() bool { return h.live() == len(s.hosts) && h.redirected() })
	}
}
