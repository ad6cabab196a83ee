package netwatch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

// world is a network namespace with a link eth0 whose other end is up too.
type world struct {
	*netlink.Handle
	ns netns.NsHandle
	t  testing.TB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ns := netnstest.New(t, "")
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	w := &world{Handle: h, ns: ns, t: t}
	w.do(h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "port0"}))
	w.up("port0")
	w.up("eth0")
	return w
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(name string) netlink.Link {
	w.t.Helper()
	l, err := w.LinkByName(name)
	w.do(err)
	return l
}

func (w *world) up(name string) { w.t.Helper(); w.do(w.LinkSetUp(w.link(name))) }

func (w *world) addr(text string, flags int) *netlink.Addr {
	w.t.Helper()
	a, err := netlink.ParseAddr(text)
	w.do(err)
	a.Flags = flags
	return a
}

func (w *world) add(link, text string) {
	w.t.Helper()
	w.do(w.AddrAdd(w.link(link), w.addr(text, unix.IFA_F_NODAD)))
}

func (w *world) del(link, text string) {
	w.t.Helper()
	w.do(w.AddrDel(w.link(link), w.addr(text, 0)))
}

// short returns the addresses and routes as lines.
func short(s Snapshot) string {
	var out strings.Builder
	for _, a := range s.Addresses {
		fmt.Fprintf(&out, "%s %s", a.Interface, a.Prefix)
		if !a.Usable {
			out.WriteString(" unusable")
		}
		out.WriteString(strings.TrimRight(" "+a.Label, " ") + "\n")
	}
	for _, r := range s.Routes {
		fmt.Fprintf(&out, "%s via %s %s %d", r.Destination, r.Gateway, r.Interface, r.Metric)
		if r.Advertised {
			out.WriteString(" advertised")
		}
		out.WriteString("\n")
	}
	return out.String()
}

func TestReadTellsWhatTheKernelHas(t *testing.T) {
	w := newWorld(t)
	w.add("eth0", "10.98.0.11/24")
	w.add("eth0", "fd98::11/64")
	label := w.addr("10.98.0.5/32", 0)
	label.Label = "eth0:vip"
	w.do(w.AddrAdd(w.link("eth0"), label))
	deprecated := w.addr("fd98::12/64", unix.IFA_F_NODAD)
	deprecated.ValidLft, deprecated.PreferedLft = 1000, 0
	w.do(w.AddrAdd(w.link("eth0"), deprecated))
	tentative := w.addr("fd98::13/64", 0)
	w.do(w.AddrAdd(w.link("eth0"), tentative))
	eth0 := w.link("eth0").Attrs().Index
	gw := netip.MustParseAddr("10.98.0.1")
	w.do(w.RouteAdd(&netlink.Route{LinkIndex: eth0, Gw: gw.AsSlice(), Priority: 100}))
	advertised := w.addr("fd97::/64", 0)
	w.do(w.RouteAdd(&netlink.Route{LinkIndex: eth0, Dst: advertised.IPNet, Protocol: unix.RTPROT_RA, Priority: 300}))
	s, err := Read(&w.ns)
	w.do(err)
	const want = `eth0 10.98.0.11/24
eth0 10.98.0.5/32 eth0:vip
eth0 fd98::11/64
eth0 fd98::12/64 unusable
eth0 fd98::13/64 unusable
0.0.0.0/0 via 10.98.0.1 eth0 100
10.98.0.0/24 via invalid IP eth0 0
fd97::/64 via invalid IP eth0 300 advertised
fd98::/64 via invalid IP eth0 256
`
	if got := short(s); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// follower runs a source and keeps its view.
type follower struct {
	t     *testing.T
	views chan state.NetworkView
	view  state.NetworkView
}

func follow(t *testing.T, s *Source) *follower {
	t.Helper()
	f := &follower{t: t, views: make(chan state.NetworkView, 1000)}
	view := state.NetworkView{Settings: state.NetworkSettings{
		MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}, APIVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.5")}, ManagedVIPs: true,
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(change func(*state.NetworkView)) {
			before := view
			change(&view)
			if !reflect.DeepEqual(before, view) { // the agent tells nobody of a view that stays as it is
				f.views <- view
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

// until waits for a view for which good returns true, and returns how long that
// took.
func (f *follower) until(what string, good func(state.NetworkView) bool) time.Duration {
	f.t.Helper()
	start, patience := time.Now(), time.After(10*time.Second)
	for !good(f.view) {
		select {
		case f.view = <-f.views:
		case <-patience:
			f.t.Fatalf("%s: still %+v", what, f.view)
		}
	}
	return time.Since(start)
}

func on(link string, addresses ...string) func(state.NetworkView) bool {
	return func(v state.NetworkView) bool {
		return v.Host.Interface == link && strings.Join(addresses, " ") == strings.Trim(fmt.Sprint(v.Host.Addresses), "[]")
	}
}

func TestHardCase15_AnAddressThatMovesToAnotherLinkIsFollowed(t *testing.T) {
	w := newWorld(t)
	w.add("eth0", "10.98.0.11/24")
	f := follow(t, &Source{Namespace: &w.ns})
	f.until("the host's address", on("eth0", "10.98.0.11"))
	const long = "bond0.354-longer" // only 15 characters are allowed
	for _, step := range []struct{ from, to string }{{"eth0", "br0"}, {"br0", long[:15]}} {
		w.do(w.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: step.to}}))
		w.up(step.to)
		w.del(step.from, "10.98.0.11/24")
		w.add(step.to, "10.98.0.11/24")
		took := f.until("on "+step.to, on(step.to, "10.98.0.11"))
		if took > 5*time.Second { // far less than until the next read of everything
			t.Errorf("it took %s", took)
		}
		t.Logf("from %s to %s: followed after %s", step.from, step.to, took.Round(time.Millisecond))
	}
	w.do(w.LinkSetDown(w.link(long[:15])))
	w.do(w.LinkSetName(w.link(long[:15]), "renamed"))
	w.up("renamed")
	f.until("a renamed link", on("renamed", "10.98.0.11"))
}

func TestB65_AnAddressIsTheHostsOnceTheKernelHasCheckedIt(t *testing.T) {
	w := newWorld(t)
	s := &Source{Namespace: &w.ns}
	f := &follower{t: t, views: make(chan state.NetworkView, 1000)}
	view := state.NetworkView{Settings: state.NetworkSettings{MachineNetworks: []netip.Prefix{netip.MustParsePrefix("fd98::/64")}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.do(w.AddrAdd(w.link("eth0"), w.addr("fd98::11/64", 0)))
	go func() {
		_ = s.Run(ctx, func(change func(*state.NetworkView)) { change(&view); f.views <- view })
	}()
	f.until("the address is seen", func(v state.NetworkView) bool { return len(v.Addresses) == 1 })
	if !f.view.Addresses[0].Usable && len(f.view.Host.Addresses) > 0 {
		t.Errorf("chosen while it is checked: %+v", f.view)
	}
	f.until("the address is the host's", on("eth0", "fd98::11"))
	if !f.view.Addresses[0].Usable {
		t.Errorf("chosen while it is checked: %+v", f.view)
	}
}

func TestAnAddressWithoutAnotherInItsPlaceStaysTheHosts(t *testing.T) {
	w := newWorld(t)
	w.add("eth0", "10.98.0.11/24")
	f := follow(t, &Source{Namespace: &w.ns})
	f.until("the host's address", on("eth0", "10.98.0.11"))
	w.del("eth0", "10.98.0.11/24")
	f.until("it is gone", func(v state.NetworkView) bool { return len(v.Addresses) == 0 })
	if !on("eth0", "10.98.0.11")(f.view) {
		t.Errorf("the host is %+v", f.view.Host)
	}
	w.add("eth0", "10.98.0.99/24")
	f.until("another by DHCP", on("eth0", "10.98.0.99"))
}

// The site's networks come from the install configuration first and from the API
// then. A host that had no address in the first ones must not wait until its
// kernel changes something.
func TestTheChoiceFollowsTheSitesNetworks(t *testing.T) {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	s := &Source{Changed: changed}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // less than Resync
	defer cancel()
	if old, err := s.next(ctx, nil); err != nil || old {
		t.Error("a change of the view wakes nobody, or has the kernel read: ", old, err)
	}
	view := state.NetworkView{Settings: state.NetworkSettings{MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}}}
	s.apply(&view, at("10.99.0.11/24"))
	if len(view.Host.Addresses) > 0 {
		t.Fatalf("%v is in no network of the site", view.Host.Addresses)
	}
	view.Settings.MachineNetworks = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/24")}
	s.apply(&view, at("10.99.0.11/24"))
	if got := fmt.Sprint(view.Host.Addresses); got != "[10.99.0.11]" {
		t.Errorf("the same address, in the site's new network: %s", got)
	}
}

func TestNothingIsSaidWhereNothingChanges(t *testing.T) {
	w := newWorld(t)
	w.add("eth0", "10.98.0.11/24")
	f := follow(t, &Source{Namespace: &w.ns})
	f.until("the host's address", on("eth0", "10.98.0.11"))
	// These changes do not concern us: a link of its own, its link-local
	// addresses.
	for i := range 20 {
		w.do(w.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("veth", i)}, PeerName: fmt.Sprint("peer", i)}))
		w.up(fmt.Sprint("veth", i))
		w.up(fmt.Sprint("peer", i))
	}
	w.add("eth0", "10.98.0.12/24")
	f.until("the end", func(v state.NetworkView) bool { return len(v.Addresses) == 2 })
	if n := len(f.views); n > 0 {
		t.Errorf("%d more views", n)
	}
}

func TestTheSourceEndsWithAllItStarted(t *testing.T) {
	w := newWorld(t)
	before := runtime.NumGoroutine()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan struct{}, 10)
		done := make(chan error)
		go func() {
			done <- (&Source{Namespace: &w.ns}).Run(ctx, func(func(*state.NetworkView)) { seen <- struct{}{} })
		}()
		<-seen
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestABrokenSubscriptionIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	s := &Source{Namespace: &w.ns}
	ctx, cancel := context.WithCancelCause(t.Context())
	changed, err := s.subscribe(ctx, cancel)
	w.do(err)
	cancel(errors.New("no buffer space"))
	if _, err := s.next(ctx, changed); err == nil {
		t.Error("a session goes on with a broken subscription")
	}
}

// at returns a snapshot with addresses on one network.
func at(addresses ...string) (s Snapshot) {
	for _, a := range addresses {
		s.Addresses = append(s.Addresses, state.HostAddress{Interface: "eth0", Index: 2, Prefix: netip.MustParsePrefix(a), Usable: true})
	}
	return s
}

func TestAnAddressThatComesBackWithinAMinuteIsTheHostsAgain(t *testing.T) {
	now := time.Unix(0, 0)
	s := &Source{Now: func() time.Time { return now }, Path: filepath.Join(t.TempDir(), "node-address.json")}
	view := state.NetworkView{Settings: state.NetworkSettings{MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}}}
	for _, step := range []struct {
		after      time.Duration
		have       Snapshot
		want, kept string
	}{
		{0, at("10.98.0.22/24"), "[10.98.0.22]", "[10.98.0.22]"},
		{time.Hour, at("10.98.0.11/24", "10.98.0.22/24"), "[10.98.0.22]", "[10.98.0.22]"},
		{time.Second, at("10.98.0.11/24"), "[10.98.0.11]", "[10.98.0.22]"},
		{Lasting - time.Second, at("10.98.0.11/24", "10.98.0.22/24"), "[10.98.0.22]", "[10.98.0.22]"},
		{time.Second, at("10.98.0.11/24"), "[10.98.0.11]", "[10.98.0.22]"},
		{Lasting, at("10.98.0.11/24"), "[10.98.0.11]", "[10.98.0.11]"},
		{time.Second, at("10.98.0.11/24", "10.98.0.22/24"), "[10.98.0.11]", "[10.98.0.11]"},
	} {
		now = now.Add(step.after)
		s.apply(&view, step.have)
		s.last()
		kept, err := LoadChoice(s.Path)
		if got := fmt.Sprint(view.Host.Addresses); got != step.want || fmt.Sprint(kept.Addresses) != step.kept || err != nil {
			t.Errorf("at %s: %s, kept %v (%v)", now.Sub(time.Unix(0, 0)), got, kept.Addresses, err)
		}
	}
}

func TestB64_AHostKeepsTheAddressOfTheLastBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node-address.json")
	if err := StoreChoice(path, nodeaddress.Choice{Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.22")}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"", "[10.98.0.22]"}, {"damaged", "[10.98.0.11]"}} {
		text, want := c[0], c[1]
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := &Source{Path: path}
		if err := s.recall(); err != nil {
			t.Fatal(err)
		}
		view := state.NetworkView{Settings: state.NetworkSettings{MachineNetworks: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}}}
		s.apply(&view, at("10.98.0.11/24", "10.98.0.22/24"))
		if got := fmt.Sprint(view.Host.Addresses); got != want {
			t.Errorf("%q: got %s", text, got)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		flags int
		is6   bool
		want  bool
	}{
		{0, true, true},
		{unix.IFA_F_PERMANENT | unix.IFA_F_NOPREFIXROUTE, true, true},
		{unix.IFA_F_TENTATIVE, true, false},
		{unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC, true, true},
		{unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC | unix.IFA_F_DADFAILED, true, false},
		{unix.IFA_F_DEPRECATED, true, false},
		{unix.IFA_F_TEMPORARY, true, false},
		{unix.IFA_F_SECONDARY, false, true},
	} {
		if got := usable(c.flags, c.is6); got != c.want {
			t.Errorf("%#x: usable %t", c.flags, got)
		}
	}
}
