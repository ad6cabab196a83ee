package resolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/resolver"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

var (
	_ network.Reconciler = (*Resolver)(nil)
	_ network.Source     = (*Resolver)(nil)
)

// self is the host's own address: one of the loopback, so that it needs no
// network.
var self = netip.MustParseAddr("127.0.0.1")

const site = "search office.test\nnameserver 192.0.2.1\n"

// world is a host in a folder, with an agent that runs only this reconciler.
type world struct {
	t    *testing.T
	root string
	r    *Resolver
	port uint16

	mu      sync.Mutex
	view    state.NetworkView
	updates int
	wake    chan struct{}
	fail    error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: t.TempDir(), wake: make(chan struct{}, 1), port: porttest.Free(t)}
	w.put("etc/resolv.conf", site)
	w.put(coredns.PodPath, "")
	w.put("run/x", "")
	w.view = state.NetworkView{
		Settings: state.NetworkSettings{Domain: "lab.example.test", APIVIPs: []netip.Addr{netip.MustParseAddr("192.0.2.5")}},
		Host:     state.HostFacts{Addresses: []netip.Addr{self}},
	}
	w.reboot()
	return w
}

// reboot starts the agent anew, without anything that it knew.
func (w *world) reboot() {
	run := func(context.Context, host.Cmd) ([]byte, error) { return nil, w.fail }
	w.r = New(Options{
		Host: resolver.New(resolver.Options{Root: w.root, Run: run, Hostname: func() (string, error) { return "cp-1", nil }}),
		Root: w.root, Port: w.port, Addresses: func() ([]netip.Addr, error) { return []netip.Addr{self}, nil },
	})
	w.view.LocalDNS, w.view.Upstreams = state.Fact[bool]{}, nil
}

func (w *world) put(path, text string) {
	w.t.Helper()
	at := filepath.Join(w.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) text() string {
	data, err := os.ReadFile(filepath.Join(w.root, resolvconf.Path))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *world) prepended() bool {
	first, _ := resolvconf.First([]byte(w.text()))
	return first == self
}

// start runs the source and, for each change of the view, the reconciler.
func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.r.Run(ctx, w.update); err != nil {
			w.t.Error(err)
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			w.mu.Lock()
			view := w.view
			w.mu.Unlock()
			if _, err := w.r.Reconcile(ctx, view); err != nil && ctx.Err() == nil && w.fail == nil {
				w.t.Error(err)
			}
			wait(ctx, w.wake, time.Hour)
		}
	})
	w.t.Cleanup(func() { cancel(); running.Wait() })
}

func (w *world) update(change func(*state.NetworkView)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.view)
	w.updates++
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// until waits until so is true and returns how long that took.
func (w *world) until(what string, so func() bool) time.Duration {
	w.t.Helper()
	start := time.Now()
	for !so() {
		if time.Since(start) > 20*time.Second {
			w.t.Fatalf("%s: still %s", what, w.text())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}

// serve runs the host's name server until the returned function is called. A
// silent one listens and answers nothing.
func (w *world) serve(silent bool) (stop func()) {
	w.t.Helper()
	c, err := net.ListenPacket("udp", netip.AddrPortFrom(self, w.port).String())
	if err != nil {
		w.t.Fatal(err)
	}
	s := &dns.Server{PacketConn: c, Handler: dns.HandlerFunc(func(out dns.ResponseWriter, q *dns.Msg) {
		reply := new(dns.Msg).SetReply(q)
		if q.Question[0].Name != "api-int.lab.example.test." {
			reply.Rcode = dns.RcodeServerFailure
		}
		if !silent {
			_ = out.WriteMsg(reply)
		}
	})}
	done := make(chan struct{})
	go func() { _ = s.ActivateAndServe(); close(done) }()
	return func() { _ = c.Close(); <-done }
}

func TestHardCase34_TheNameServerIsAskedFirstWhileItAnswers(t *testing.T) {
	w := newWorld(t)
	w.put("run/holdfast/resolver/ready", "") // not the first run in this boot
	w.reboot()
	w.start()
	w.until("known to be down", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.view.LocalDNS.Known })
	if w.text() != site {
		t.Errorf("without a name server: %s", w.text())
	}
	stop := w.serve(false)
	t.Logf("first %s after it answered", w.until("prepended", w.prepended).Round(time.Millisecond))
	stop()
	took := w.until("restored", func() bool { return w.text() == site })
	t.Logf("taken back %s after it was gone", took.Round(time.Millisecond))
	if took > 5*time.Second {
		t.Errorf("it took %s to take back one that is gone", took)
	}
	stop = w.serve(false)
	w.until("prepended", w.prepended)
	stop()
	defer w.serve(true)()
	took = w.until("restored", func() bool { return w.text() == site })
	t.Logf("taken back %s after it said no more", took.Round(time.Millisecond))
}

func TestB57_TheSecondBootTellsKubeletThoughNothingHadToBeWritten(t *testing.T) {
	w := newWorld(t)
	defer w.serve(false)()
	ready := filepath.Join(w.root, resolvconf.ReadyPath)
	for boot := range 2 {
		_ = os.RemoveAll(filepath.Join(w.root, "run"))
		w.put("run/x", "")
		w.reboot()
		if _, err := w.r.Reconcile(t.Context(), w.view); err != nil {
			t.Fatal(err)
		}
		if !host.Exists(ready) || !w.prepended() || !host.Exists(filepath.Join(w.root, resolvconf.ManagedPath)) {
			t.Errorf("boot %d: ready %t, prepended %t", boot, host.Exists(ready), w.prepended())
		}
	}
}

func TestKubeletIsToldAlsoWhereTheFileCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.put("run/NetworkManager/resolv.conf", site)
	w.fail = errors.New("no bus")
	if _, err := w.r.Reconcile(t.Context(), w.view); !errors.Is(err, w.fail) {
		t.Errorf("got %v", err)
	}
	if !host.Exists(filepath.Join(w.root, resolvconf.ReadyPath)) {
		t.Error("kubelet waits")
	}
}

func TestAtBootItIsFirstBeforeKubeletStartsIt(t *testing.T) {
	w := newWorld(t)
	if said, err := w.r.Reconcile(t.Context(), w.view); err != nil || !w.prepended() || said == "" {
		t.Errorf("%q %v %s", said, err, w.text())
	}
	if said, err := w.r.Reconcile(t.Context(), w.view); err != nil || said != "" {
		t.Errorf("again %q %v", said, err)
	}
	other := newWorld(t)
	if err := os.Remove(filepath.Join(other.root, coredns.PodPath)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.r.Reconcile(t.Context(), other.view); err != nil || other.prepended() {
		t.Errorf("without a name server of its own: %v %s", err, other.text())
	}
}

func TestB58_WhatAnotherToolWritesIsFollowedAtOnce(t *testing.T) {
	w := newWorld(t)
	defer w.serve(false)()
	w.start()
	w.until("prepended", w.prepended)
	upstreams := func() string { w.mu.Lock(); defer w.mu.Unlock(); return fmt.Sprint(w.view.Upstreams) }
	w.until("the site's server", func() bool { return upstreams() == "[192.0.2.1:53]" })
	w.put("etc/resolv.conf", "nameserver 192.0.2.7\nnameserver 192.0.2.5\nnameserver 127.0.0.1\n")
	if took := w.until("prepended again", w.prepended); took > 5*time.Second { // far less than network.Resync
		t.Errorf("it took %s", took)
	}
	if took := w.until("the new server, no VIP and not itself", func() bool { return upstreams() == "[192.0.2.7:53]" }); took > 5*time.Second { // far less than network.Resync
		t.Errorf("it took %s", took)
	}
	tmp := filepath.Join(w.root, "etc/new")
	if err := errors.Join(os.WriteFile(tmp, []byte("nameserver 192.0.2.7\n"), 0o644), os.Rename(tmp, filepath.Join(w.root, resolvconf.Path))); err != nil {
		t.Fatal(err)
	}
	w.until("prepended after the same servers were written", w.prepended)
}

func TestB57_OurOwnWorkWakesNobody(t *testing.T) {
	w := newWorld(t)
	defer w.serve(false)()
	w.start()
	w.until("prepended", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.prepended() && len(w.view.Upstreams) > 0 && w.view.LocalDNS.Value
	})
	file := filepath.Join(w.root, resolvconf.Path)
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	updates := w.updates
	w.mu.Unlock()
	time.Sleep(10 * debounce)
	after, err := os.Stat(file)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || !os.SameFile(before, after) || w.updates != updates {
		t.Errorf("written again (%v), or %d updates more", err, w.updates-updates)
	}
}

func TestAFileThatAppearsLaterIsFollowed(t *testing.T) {
	w := newWorld(t)
	if err := os.Remove(filepath.Join(w.root, resolvconf.Path)); err != nil {
		t.Fatal(err)
	}
	w.start()
	upstreams := func() []netip.AddrPort { w.mu.Lock(); defer w.mu.Unlock(); return w.view.Upstreams }
	w.put("run/NetworkManager/resolv.conf", "# Generated by NetworkManager\nnameserver 192.0.2.9\n")
	w.put("etc/resolv.conf", "# Generated by NetworkManager\nnameserver 192.0.2.9\n")
	w.until("NetworkManager's server", func() bool { return slices.Contains(upstreams(), netip.MustParseAddrPort("192.0.2.9:53")) })
	w.put("run/NetworkManager/resolv.conf", "# Generated by NetworkManager\nnameserver 192.0.2.10\n")
	w.until("NetworkManager's next server", func() bool { return slices.Contains(upstreams(), netip.MustParseAddrPort("192.0.2.10:53")) })
}

func TestALeavingHostIsAsBefore(t *testing.T) {
	w := newWorld(t)
	if _, err := w.r.Reconcile(t.Context(), w.view); err != nil || !w.prepended() {
		t.Fatal(err)
	}
	if err := w.r.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.text() != site || host.Exists(filepath.Join(w.root, resolvconf.ManagedPath)) || host.Exists(filepath.Join(w.root, resolvconf.ReadyPath)) {
		t.Errorf("left %s", w.text())
	}
	if err := w.r.Withdraw(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOneMissedAnswerIsNoDeathAndOneAnswerNoRevival(t *testing.T) {
	var p pulse
	for i, step := range []struct {
		answers string
		want    state.Fact[bool]
	}{
		{"--", state.Fact[bool]{}},
		{"-", state.Known(false)},
		{"+", state.Known(true)},
		{"--+--+--", state.Known(true)},
		{"-", state.Known(false)},
		{"+", state.Known(false)},
		{strings.Repeat("+", revival-2) + "-", state.Known(false)},
		{strings.Repeat("+", revival-1), state.Known(false)},
		{"+", state.Known(true)},
	} {
		for _, c := range step.answers {
			p = p.next(c == '+')
		}
		if p.said != step.want {
			t.Errorf("step %d, %s: %+v", i, step.answers, p)
		}
	}
}

// TestANameServerThatDiesOverAndOverRestartsNoServiceTooOften counts how often
// systemd-resolved would be restarted: it tolerates five starts in ten seconds.
func TestANameServerThatDiesOverAndOverRestartsNoServiceTooOften(t *testing.T) {
	var p pulse
	restarts, elapsed := 0, time.Duration(0)
	for elapsed < time.Hour {
		before := p.said
		p = p.next(!state.Is(p.said, true)) // it dies as soon as it is believed
		if p.said != before {
			restarts++
		}
		elapsed += askDown
	}
	if perTen := float64(restarts) / (elapsed.Seconds() / 10); perTen > 4 {
		t.Errorf("%.1f restarts in ten seconds", perTen)
	}
}
