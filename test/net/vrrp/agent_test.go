package vrrp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/adapter/nic"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/agent/network/keepalived"
	"github.com/holdfast/holdfast/internal/agent/network/linger"
	"github.com/holdfast/holdfast/internal/agent/network/links"
	"github.com/holdfast/holdfast/internal/agent/network/relay"
	"github.com/holdfast/holdfast/internal/model/state"
)

// agentDir is set in a process that acts as the agent of one host instead of
// running tests. Its value is the host's root folder.
const agentDir = "HOLDFAST_VRRP_AGENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(agentDir); dir != "" {
		if err := runAgent(dir, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runAgent is the agent with the real loop and the real reconciler. A file that
// the test writes holds the facts of the other sources, except for the host's
// addresses.
func runAgent(dir string, log io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	logf := func(format string, args ...any) {
		_, _ = fmt.Fprintf(log, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
	}
	holder := keepalived.New(keepalived.Options{Root: dir, Now: time.Now, Logf: logf, NoProbe: os.Getenv("HOLDFAST_VRRP_NOPROBE") != ""})
	view, err := readView(dir)
	if err != nil {
		return err
	}
	a := &network.Agent{
		Views: network.NewViewStore(view), Sources: []network.Source{told{dir}, kernel{}, holder},
		Reconcilers: []network.Reconciler{
			holder, &links.Reconciler{Kernel: nic.Kernel{Root: "/"}, Solicit: nic.Solicit}, &linger.Reconciler{Kernel: linger.OfHost(), Now: time.Now},
			relay.New(time.Now),
		},
		Loops: loop.New(time.Now, slog.New(slog.NewTextHandler(log, nil))),
	}
	if err := a.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func readView(dir string) (state.NetworkView, error) {
	var v state.NetworkView
	data, err := os.ReadFile(filepath.Join(dir, "view.json"))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	return v, err
}

// told is the source of the test's facts: the view without the facts that the
// agent finds itself.
type told struct{ dir string }

func (told) Name() string { return "test" }

func (s told) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	follow, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = follow.Close() }()
	if err := follow.Add(s.dir); err != nil {
		return err
	}
	for {
		if next, err := readView(s.dir); err == nil {
			update(func(v *state.NetworkView) {
				next.Addresses, next.Reachable, next.Claims, next.Forged = v.Addresses, v.Reachable, v.Claims, v.Forged
				*v = next
			})
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-follow.Events:
		}
	}
}

// kernel follows the host's addresses.
type kernel struct{}

func (kernel) Name() string { return "kernel" }

func (kernel) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	changes := make(chan netlink.AddrUpdate, 64)
	if err := netlink.AddrSubscribe(changes, ctx.Done()); err != nil {
		return err
	}
	for {
		list, err := hostAddresses()
		if err != nil {
			return err
		}
		update(func(v *state.NetworkView) { v.Addresses = list })
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-changes:
			if !ok {
				return errors.New("no more address changes")
			}
		}
	}
}

func hostAddresses() ([]state.HostAddress, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	var out []state.HostAddress
	for _, l := range links {
		if l.Attrs().Index == loopback {
			continue
		}
		list, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			ip, _ := netip.AddrFromSlice(a.IP)
			bits, _ := a.Mask.Size()
			out = append(out, state.HostAddress{Interface: l.Attrs().Name, Index: l.Attrs().Index, Prefix: netip.PrefixFrom(ip.Unmap(), bits), Usable: true})
		}
	}
	return out, nil
}
