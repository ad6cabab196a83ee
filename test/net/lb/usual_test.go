package lb

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/model/state"
)

// usualPort is the port of the other haproxy, beside ours.
const usualPort = 19445

// usual is a haproxy with the usual values, and its usual monitors.
type usual struct {
	t      *testing.T
	h      *node
	dir    string
	client haproxy.Client
	proc   *exec.Cmd

	mu    sync.Mutex
	nodes []state.Node
	// rule is set while its redirect would exist.
	rule bool
}

func startUsual(t *testing.T, s *site) *usual {
	dir := t.TempDir()
	u := &usual{
		t: t, h: s.hosts[0], dir: dir, nodes: nodes(s.hosts...),
		client: haproxy.Client{Socket: filepath.Join(dir, "master.sock")},
	}
	u.write(u.nodes)
	u.start()
	done := make(chan struct{})
	var monitors sync.WaitGroup
	monitors.Go(func() { u.monitor(done) })
	monitors.Go(func() { u.monitorRedirect(done) })
	t.Cleanup(func() { close(done); monitors.Wait() })
	return u
}

func (u *usual) config() string { return filepath.Join(u.dir, "haproxy.cfg") }

func (u *usual) start() { u.proc = startHaproxy(u.t, u.h.namespace, u.config(), u.client.Socket) }

func (u *usual) kill() { _ = syscall.Kill(-u.proc.Process.Pid, syscall.SIGKILL) }

func (u *usual) knows(list []state.Node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.nodes = list
}

func (u *usual) redirected() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rule
}

// write renders the usual configuration: 5 s checks, three failures, one success.
func (u *usual) write(list []state.Node) {
	var out strings.Builder
	fmt.Fprintf(&out, `global
  maxconn 4000
  no strict-limits
defaults
  mode tcp
  retries 3
  timeout connect 10s
  timeout client 1m
  timeout server 1m
  timeout tunnel 5m
  timeout queue 1m
  timeout client-fin 1s
  timeout server-fin 1s
  timeout check 10s
frontend main
  bind :%d
  default_backend api
frontend monitor
  mode http
  bind :19454
  monitor-uri /haproxy_monitor
  monitor fail if { nbsrv(api) lt 1 }
backend api
  balance roundrobin
  option httpchk GET /readyz HTTP/1.0
`, usualPort)
	for _, n := range list {
		fmt.Fprintf(&out, "  server %s:%s %s:6443 weight 1 verify none check check-ssl inter 5s fall 3 rise 1\n", n.Name, n.Addresses[0], n.Addresses[0])
	}
	if err := os.WriteFile(u.config(), []byte(out.String()), 0o600); err != nil {
		u.t.Error(err)
	}
}

// The values of the usual monitors: a poll every six seconds; a new
// configuration after three equal polls; a rule after three good polls, and
// none after eleven bad ones.
const (
	usualPoll       = 6 * time.Second
	usualStable     = 3
	usualOn         = 3
	usualOff        = 11
	usualMonitorURL = "http://127.0.0.1:19454/haproxy_monitor"
)

// monitor renders the configuration and reloads haproxy.
func (u *usual) monitor(done <-chan struct{}) {
	tick := time.NewTicker(usualPoll)
	defer tick.Stop()
	u.mu.Lock()
	applied, seen, equal := names(u.nodes), "", 0
	u.mu.Unlock()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		u.mu.Lock()
		list := u.nodes
		u.mu.Unlock()
		now := names(list)
		if now == applied {
			equal = 0
			continue
		}
		if now != seen {
			seen, equal = now, 0
		}
		if equal++; equal >= usualStable {
			u.write(list)
			_ = u.client.Reload(context.Background())
			applied, equal = now, 0
		}
	}
}

// monitorRedirect counts good and bad polls.
func (u *usual) monitorRedirect(done <-chan struct{}) {
	tick := time.NewTicker(usualPoll)
	defer tick.Stop()
	good, bad := 0, 0
	for {
		if exec.Command("ip", "netns", "exec", u.h.name, "curl", "-sf", "-m", "5", "-o", "/dev/null", usualMonitorURL).Run() == nil {
			good, bad = good+1, 0
		} else {
			good, bad = 0, bad+1
		}
		u.mu.Lock()
		u.rule = u.rule && bad < usualOff || good >= usualOn
		u.mu.Unlock()
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

func names(list []state.Node) string {
	set := map[string]bool{}
	for _, n := range list {
		set[n.Name] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(set)), " ")
}
