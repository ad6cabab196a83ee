package lab_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	labs "github.com/holdfast/holdfast/internal/lab"
)

// The bounds of invariant I4: the longest time for which an address may be on
// two hosts while it moves, and on none while its holder is lost.
const (
	longestTwo  = time.Second
	longestNone = 5 * time.Second
)

// lookEvery is the pause between two readings of the holders.
const lookEvery = 20 * time.Millisecond

// held records the observations of one address.
type held struct {
	// two and none are the longest times during which more than one host, and
	// no host, had it.
	two, none time.Duration
	by        map[string]bool
	// since is the last time at which exactly one host had it.
	since time.Time
}

// watcher keeps reading the holders of the cluster's addresses.
type watcher struct {
	t    *testing.T
	lab  *labs.Lab
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	seen map[netip.Addr]*held
}

// watchVIPs reads the hosts' own interfaces, which needs no API.
func (c cluster) watchVIPs() *watcher {
	c.Helper()
	b, err := labs.Open(cmp.Or(os.Getenv("HOLDFAST_LABS"), labs.DefaultRoot), c.name)
	if err != nil {
		c.Fatal(err)
	}
	w := &watcher{t: c.T, lab: b, stop: make(chan struct{}), seen: map[netip.Addr]*held{}}
	for _, vip := range slices.Concat(b.Layout.APIVIPs, b.Layout.IngressVIPs) {
		w.seen[vip] = &held{by: map[string]bool{}, since: time.Now()}
	}
	w.done.Go(w.look)
	c.Cleanup(w.end)
	return w
}

func (w *watcher) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.done.Wait()
}

func (w *watcher) look() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		for vip := range w.seen {
			w.note(vip, w.lab.Holders(vip), time.Now())
		}
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
	}
}

func (w *watcher) note(vip netip.Addr, holders []string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.seen[vip]
	for _, host := range holders {
		h.by[host] = true
	}
	switch without := at.Sub(h.since); len(holders) {
	case 1:
		h.since = at
	case 0:
		h.none = max(h.none, without)
	default:
		h.two = max(h.two, without)
	}
}

// from drops all earlier observations, which have been judged.
func (w *watcher) from() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.seen {
		*h = held{by: map[string]bool{}, since: time.Now()}
	}
}

// judge fails the test if invariant I4 did not hold since the last from. If
// hosts are given, only they may have had an address.
func (w *watcher) judge(what string, vips []netip.Addr, hosts ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, vip := range vips {
		h := w.seen[vip]
		names := slices.Sorted(maps.Keys(h.by))
		w.t.Logf("%s: %s was on %v, on two hosts for %s, on none for %s", what, vip, names, h.two, h.none)
		if h.two > longestTwo {
			w.t.Errorf("%s: %s was on two hosts for %s", what, vip, h.two)
		}
		if h.none > longestNone {
			w.t.Errorf("%s: %s was on no host for %s", what, vip, h.none)
		}
		for _, name := range names {
			if len(hosts) > 0 && !slices.Contains(hosts, name) {
				w.t.Errorf("%s: %s had %s, and cannot serve it", what, name, vip)
			}
		}
	}
}

// all returns all addresses of the cluster.
func (w *watcher) all() []netip.Addr { return slices.Collect(maps.Keys(w.seen)) }

// everythingIsHeld waits until each address has one holder.
func (c cluster) everythingIsHeld(w *watcher) {
	c.Helper()
	c.eventually(3*time.Minute, "each address has one holder", func() error {
		for _, vip := range w.all() {
			if holders := w.lab.Holders(vip); len(holders) != 1 {
				return fmt.Errorf("%s is held by %v", vip, holders)
			}
		}
		return nil
	})
	w.from()
}

// apiHolderIsCut cuts the power of the holder of the first API address.
func (c cluster) apiHolderIsCut(w *watcher, others ...netip.Addr) {
	c.Helper()
	vip := w.lab.Layout.APIVIPs[0]
	holder := w.lab.Holders(vip)
	if len(holder) != 1 {
		c.Fatalf("%s is held by %v", vip, holder)
	}
	w.from()
	c.must("lab", "fault", "power-cut", holder[0], "--name", c.name)
	c.eventually(20*time.Second, "another host holds "+vip.String(), func() error {
		if now := w.lab.Holders(vip); len(now) != 1 || now[0] == holder[0] {
			return fmt.Errorf("it is held by %v", now)
		}
		return nil
	})
	w.judge("the holder of the API's address lost its power", append(slices.Clone(w.lab.Layout.APIVIPs), others...))
	w.from()
	c.must("lab", "fault", "clear", "--name", c.name)
	c.isWholeAgain()
	w.judge("it came back", append(slices.Clone(w.lab.Layout.APIVIPs), others...))
}

// pause lets some time pass for observations.
func (c cluster) pause(d time.Duration) {
	c.Helper()
	select {
	case <-c.Context().Done():
		c.Fatal(c.Context().Err())
	case <-time.After(d):
	}
}

// on runs a command on a host.
func (c cluster) on(host string, command ...string) (string, error) {
	return c.holdfast(append([]string{"lab", "exec", "--name", c.name, host, "--"}, command...)...)
}

// twoMachineNetworks tests ingress addresses in the network of one worker, with
// routers on a worker of each network. A host outside of an address's network
// must never have that address.
func (c cluster) twoMachineNetworks() {
	c.Helper()
	w := c.watchVIPs()
	c.everythingIsHeld(w)
	layout := w.lab.Layout
	c.pause(10 * time.Second)
	w.judge("nothing happens", layout.APIVIPs, "cp-1", "cp-2")
	w.judge("nothing happens", layout.IngressVIPs, "worker-2")
	c.apiHolderIsCut(w, layout.IngressVIPs...)
	c.must("lab", "fault", "power-cut", "worker-2", "--name", c.name)
	c.pause(time.Second) // its addresses go away with it
	w.from()
	c.pause(20 * time.Second)
	w.mu.Lock()
	for _, vip := range layout.IngressVIPs {
		if by := w.seen[vip].by; len(by) > 0 {
			c.Errorf("while the one host of its network is off %s is on %v", vip, by)
		}
	}
	w.mu.Unlock()
	w.judge("the far worker lost its power", layout.APIVIPs)
	c.must("lab", "fault", "clear", "--name", c.name)
	c.isWholeAgain()
	c.everythingIsHeld(w)
	c.pause(10 * time.Second)
	w.judge("it came back", layout.IngressVIPs, "worker-2")
}

// twoNICsInOneNetwork makes hosts learn each other's hardware addresses again
// and again; either NIC could answer.
func (c cluster) twoNICsInOneNetwork() {
	c.Helper()
	w := c.watchVIPs()
	c.everythingIsHeld(w)
	for range 10 {
		for _, h := range w.lab.Layout.Hosts {
			if _, err := c.on(h.Name, "ip", "neighbour", "flush", "dev", "eth0"); err != nil {
				c.Fatal(err)
			}
		}
		c.pause(4 * time.Second)
	}
	w.judge("neighbours are learned anew", w.all())
	c.apiHolderIsCut(w)
	for _, h := range w.lab.Layout.Hosts {
		got, err := c.on(h.Name, "cat", "/proc/sys/net/ipv4/conf/all/arp_ignore", "/proc/sys/net/ipv4/conf/all/arp_announce")
		if fields := strings.Fields(got); err != nil || len(fields) != 2 || fields[0] != "1" || fields[1] != "2" {
			c.Errorf("%s has arp_ignore and arp_announce %q, %v", h.Name, got, err)
		}
	}
}

// heardFor is the time for which a host relies on an advertisement of the lab's
// router.
const heardFor = time.Minute

// routerAdvertisements checks that a forwarding host keeps accepting its
// router's advertisements, even after a boot, for longer than the lifetime of
// one.
func (c cluster) routerAdvertisements() {
	c.Helper()
	w := c.watchVIPs()
	c.everythingIsHeld(w)
	c.routersAreHeard(w)
	c.pause(heardFor + heardFor/2)
	c.routersAreHeard(w)
	w.judge("what was heard first is long over", w.all())
	c.apiHolderIsCut(w)
	c.routersAreHeard(w)
	c.pause(heardFor + heardFor/2)
	c.routersAreHeard(w)
}

func (c cluster) routersAreHeard(w *watcher) {
	c.Helper()
	for _, h := range w.lab.Layout.Hosts {
		c.eventually(30*time.Second, h.Name+" hears its router", func() error {
			forwards, err := c.on(h.Name, "cat", "/proc/sys/net/ipv6/conf/eth0/forwarding")
			if err != nil || strings.TrimSpace(forwards) != "1" {
				return errors.Join(err, fmt.Errorf("forwarding is %q", forwards))
			}
			routes, err := c.on(h.Name, "ip", "-6", "route", "show", "default", "proto", "ra")
			if err != nil || !strings.Contains(routes, "via fe80::") {
				return errors.Join(err, fmt.Errorf("its default routes are %q", routes))
			}
			addresses, err := c.on(h.Name, "ip", "-6", "-o", "address", "show", "dev", "eth0", "mngtmpaddr")
			if err != nil || !strings.Contains(addresses, w.lab.Layout.Machine.Prefixes[len(w.lab.Layout.Machine.Prefixes)-1].Addr().String()) {
				return errors.Join(err, fmt.Errorf("its address of the router's network is %q", addresses))
			}
			return nil
		})
	}
}

func TestAWatcherTellsTwoHoldersFromNone(t *testing.T) {
	vip, at := netip.MustParseAddr("10.98.0.5"), time.Now()
	w := &watcher{t: t, seen: map[netip.Addr]*held{vip: {by: map[string]bool{}, since: at}}}
	for i, holders := range [][]string{{"a"}, {"a", "b"}, {"a", "b"}, {"b"}, {}, {"b"}} {
		w.note(vip, holders, at.Add(time.Duration(i)*time.Second))
	}
	if h := w.seen[vip]; h.two != 2*time.Second || h.none != time.Second || len(h.by) != 2 {
		t.Errorf("%+v", h)
	}
	if w.from(); len(w.seen[vip].by) != 0 || w.seen[vip].two != 0 {
		t.Errorf("%+v", w.seen[vip])
	}
}
