package vrrp

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/holdfast/holdfast/test/net/promise"
)

// settle waits for a second in which nothing about VIPs changes. A host's VIP
// may be visible a moment before the kernel's event is recorded, so a second
// that is already over proves nothing.
func (r *rig) settle(vips ...netip.Addr) {
	r.t.Helper()
	began := time.Now()
	r.eventually("quiet", 15*time.Second, func() bool {
		if time.Since(began) < time.Second {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, vip := range vips {
			if !slices.ContainsFunc(r.events, func(e event) bool { return e.vip == vip && e.there }) {
				return false
			}
		}
		return len(r.events) > 0 && time.Since(r.events[len(r.events)-1].at) > time.Second
	})
	for _, vip := range vips {
		if n := r.holders(vip); len(n) != 1 {
			r.t.Fatalf("%s is held by %v", vip, n)
		}
	}
}

// holders returns the hosts that have a VIP now.
func (r *rig) holders(vip netip.Addr) []int {
	r.t.Helper()
	var out []int
	for _, h := range r.hosts {
		if h.has(vip) {
			out = append(out, h.n)
		}
	}
	return out
}

func (h *testHost) has(vip netip.Addr) bool {
	return h.hasOn(vip, func(index int) bool { return index != loopback })
}

// lingers reports whether a VIP is on a host's loopback interface.
func (h *testHost) lingers(vip netip.Addr) bool {
	return h.hasOn(vip, func(index int) bool { return index == loopback })
}

func (h *testHost) hasOn(vip netip.Addr, link func(index int) bool) bool {
	nl, err := netlink.NewHandleAt(h.ns)
	must(h.r.t, err)
	defer nl.Close()
	list, err := nl.AddrList(nil, netlink.FAMILY_ALL)
	must(h.r.t, err)
	return slices.ContainsFunc(list, func(a netlink.Addr) bool {
		ip, _ := netip.AddrFromSlice(a.IP)
		return ip.Unmap() == vip && link(a.LinkIndex)
	})
}

// loopback is the number of lo in each namespace. A VIP there is not held: it
// lingers.
const loopback = 1

// holder returns the only host that has a VIP.
func (r *rig) holder(vip netip.Addr) *testHost {
	r.t.Helper()
	n := r.holders(vip)
	if len(n) != 1 {
		r.t.Fatalf("%s is held by %v", vip, n)
	}
	return r.hosts[n[0]-1]
}

// others returns all hosts but one.
func (r *rig) others(h *testHost) []*testHost {
	return slices.DeleteFunc(slices.Clone(r.hosts), func(o *testHost) bool { return o == h })
}

// eventually waits for a condition that is promised within a time.
func (r *rig) eventually(what string, promised time.Duration, holds func() bool) time.Duration {
	r.t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > promise.Allowed(promised) {
			r.t.Fatalf("not within %s: %s", promise.Allowed(promised), what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
}

// never fails the test if a condition holds at any moment of a time.
func (r *rig) never(what string, during time.Duration, holds func() bool) {
	r.t.Helper()
	for began := time.Now(); time.Since(began) < during; time.Sleep(5 * time.Millisecond) {
		if holds() {
			r.t.Fatalf("after %s: %s", time.Since(began), what)
		}
	}
}

// unplug takes a host off the bridge without its notice.
func (h *testHost) unplug() {
	in(h.r.t, h.r.sw, func() { must(h.r.t, netlink.LinkSetNoMaster(link(h.r.t, h.port))) })
}

func (h *testHost) plug() {
	in(h.r.t, h.r.sw, func() { must(h.r.t, netlink.LinkSetMaster(link(h.r.t, h.port), link(h.r.t, "br0"))) })
}

// run runs a program in a host's namespace and returns its output.
func (h *testHost) run(name string, args ...string) string {
	h.r.t.Helper()
	out, err := exec.Command("/usr/sbin/ip", append([]string{"netns", "exec", h.nsName, name}, args...)...).CombinedOutput()
	if err != nil {
		h.r.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// log returns the log of a host's agent or daemon.
func (h *testHost) log(name string) string {
	data, _ := os.ReadFile(filepath.Join(h.root, name))
	return string(data)
}

// mark returns the number of changes so far.
func (r *rig) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// since returns the changes of a VIP after a mark.
func (r *rig) since(mark int, vip netip.Addr) []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []event
	for _, e := range r.events[mark:] {
		if e.vip == vip {
			out = append(out, e)
		}
	}
	return out
}

// overlap returns the longest time during which a VIP was on two hosts.
func (r *rig) overlap(vip netip.Addr) time.Duration { return r.overlapSince(0, vip) }

// overlapSince is the same after a mark, at which the hosts in had had it.
func (r *rig) overlapSince(mark int, vip netip.Addr, had ...int) time.Duration {
	var longest time.Duration
	var two time.Time
	on := map[int]bool{}
	for _, h := range had {
		on[h] = true
	}
	for _, e := range append(r.since(mark, vip), event{at: time.Now(), host: -1}) {
		if !two.IsZero() {
			longest = max(longest, e.at.Sub(two))
		}
		if on[e.host] = e.there; !e.there {
			delete(on, e.host)
		}
		if len(on) < 2 {
			two = time.Time{}
		} else if two.IsZero() {
			two = e.at
		}
	}
	return longest
}

// oneHolder fails the test if a VIP was on two hosts for more than a second.
func (r *rig) oneHolder(vips ...netip.Addr) {
	r.t.Helper()
	for _, vip := range vips {
		if d := r.overlap(vip); d > time.Second {
			r.t.Errorf("%s was on two hosts for %s", vip, d)
		}
	}
}

// report logs the events if the test failed.
func (r *rig) report() {
	if !r.t.Failed() {
		return
	}
	for _, e := range r.events {
		r.t.Logf("%s h%d %s there=%v", e.at.Format("15:04:05.000"), e.host, e.vip, e.there)
	}
	for _, h := range r.hosts {
		for _, name := range []string{"agent.log", "keepalived.log"} {
			lines := strings.Split(strings.TrimSpace(h.log(name)), "\n")
			lines = slices.DeleteFunc(lines, func(l string) bool {
				return strings.Contains(l, "ending gratuitous") || strings.Contains(l, "ending unsolicited")
			})
			r.t.Logf("%s %s:\n%s", h.name, name, strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
	}
}

func linkDown(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetDown(l)
}

func linkUp(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}
