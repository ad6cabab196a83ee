// Package links shows with the kernel itself, in network namespaces, what
// happens to a host's IPv6 default route when the host begins to forward.
package links

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/internal/adapter/nic"
	reconciler "github.com/holdfast/holdfast/internal/agent/network/links"
	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/lab/router"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// heardFor is the lifetime of the router's advertisements.
const heardFor = 6 * time.Second

// kernel is the namespace's kernel interface; sysfs shows another namespace.
type kernel struct{ nic.Kernel }

func (k kernel) Links() ([]uplink.Link, error) {
	data, err := os.ReadFile("/proc/sys/net/ipv6/conf/eth0/accept_ra")
	if err != nil {
		return nil, err
	}
	return []uplink.Link{{Name: "eth0", AcceptRA: state.Known(int(data[0] - '0'))}}, nil
}

func set(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// routed reports whether a default route comes from a router's advertisement.
func routed(t *testing.T) bool {
	t.Helper()
	list, err := netlink.RouteList(nil, netlink.FAMILY_V6)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if (r.Dst == nil || r.Dst.IP.IsUnspecified()) && r.Gw.IsLinkLocalUnicast() {
			return true
		}
	}
	return false
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

// host makes a namespace beside a router that advertises itself, and returns
// its view.
func host(t *testing.T) state.NetworkView {
	t.Helper()
	there := netnstest.Pair(t, []string{"10.98.0.11/24"}, nil)
	set(t, "all/forwarding", "0")
	set(t, "eth0/accept_ra", "1")
	r := router.Router{NIC: "eth0", Prefix: netip.MustParsePrefix("fd98::/64"), Lifetime: heardFor, Every: time.Second}
	ctx, stop := context.WithCancel(t.Context())
	var conn *router.Conn
	netnstest.In(t, there, func() {
		var err error
		if conn, err = r.Open(ctx); err != nil {
			t.Error(err)
		}
	})
	if conn == nil {
		stop()
		t.FailNow()
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, conn) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the host hears its router", func() bool { return routed(t) })
	own := netip.MustParsePrefix("10.98.0.11/24")
	return state.NetworkView{
		Host:      state.HostFacts{Addresses: []netip.Addr{own.Addr()}},
		Addresses: []state.HostAddress{{Interface: "eth0", Prefix: own, Usable: true}},
	}
}

// This shows that the test below proves something: it is the kernel's own
// behaviour.
func TestAHostThatForwardsLosesItsRoute(t *testing.T) {
	host(t)
	set(t, "all/forwarding", "1")
	eventually(t, "the route is gone", func() bool { return !routed(t) })
}

func TestAHostThatForwardsHearsItsRouter(t *testing.T) {
	view := host(t)
	set(t, "all/forwarding", "1")
	p := &reconciler.Reconciler{Kernel: kernel{nic.Kernel{Root: "/"}}, Solicit: nic.Solicit}
	said, err := p.Reconcile(t.Context(), view)
	if err != nil || said == "" {
		t.Fatalf("it says %q, %v", said, err)
	}
	eventually(t, "the route is there", func() bool { return routed(t) })
	for end := time.Now().Add(heardFor + heardFor/2); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !routed(t) {
			t.Fatal("the route is gone")
		}
	}
	if said, err := p.Reconcile(t.Context(), view); err != nil || said != "" {
		t.Errorf("again it says %q, %v", said, err)
	}
}
