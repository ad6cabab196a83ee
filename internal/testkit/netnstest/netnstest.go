// Package netnstest makes networks for tests from namespaces of the kernel:
// hosts that are joined by a cable or by a switch. All of it ends with the
// test.
package netnstest

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/lab/namednetns"
)

// NeedRoot skips the test where no namespaces can be made, or with -short.
func NeedRoot(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED, since -short makes no network namespaces")
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED, since this is not root: it needs network namespaces")
	}
}

// New makes a namespace whose loopback is up. Other programs can find one with
// a name; one without ends with its last user.
func New(t testing.TB, name string) netns.NsHandle {
	t.Helper()
	NeedRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	must(t, err)
	defer func() { _ = here.Close() }()
	var ns netns.NsHandle
	if name == "" {
		ns, err = netns.New()
	} else {
		ns, err = namednetns.New(name)
	}
	must(t, err)
	t.Cleanup(func() {
		_ = ns.Close()
		if name != "" {
			_ = netns.DeleteNamed(name)
		}
	})
	must(t, netns.Set(here))
	Up(t, ns, "lo")
	return ns
}

// Enter puts the test into a namespace until the test ends.
func Enter(t testing.TB, ns netns.NsHandle) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	must(t, netns.Set(ns))
}

// In runs a function in a namespace, on the thread of the test.
func In(t testing.TB, ns netns.NsHandle, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	must(t, err)
	defer func() { _ = here.Close() }()
	must(t, netns.Set(ns))
	defer func() { must(t, netns.Set(here)) }()
	do()
}

// Do runs a function in a namespace, on a thread of its own, so that goroutines
// other than the test's may call it. Sockets that it opens stay in the
// namespace.
func Do(ns netns.NsHandle, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := netns.Set(ns)
		if err == nil {
			err = do()
		}
		result <- err
	}()
	return <-result
}

// Pair puts the test into a namespace of its own. The NIC eth0 of that one is
// joined with the NIC eth0 of another namespace, which Pair returns.
func Pair(t testing.TB, own, theirs []string) (there netns.NsHandle) {
	t.Helper()
	here := New(t, "")
	there = New(t, "")
	Join(t, here, "eth0", there, "eth0")
	Give(t, here, "eth0", own...)
	Give(t, there, "eth0", theirs...)
	Enter(t, here)
	return there
}

// Join joins two namespaces by a cable, and brings both ends up.
func Join(t testing.TB, a netns.NsHandle, nicA string, b netns.NsHandle, nicB string) {
	t.Helper()
	at(t, a, func(h *netlink.Handle) error {
		return h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nicA}, PeerName: nicB, PeerNamespace: netlink.NsFd(b)})
	})
	Up(t, a, nicA)
	Up(t, b, nicB)
}

// Switch turns a namespace into a switch: a bridge with the name br0 that sends
// multicast to all.
func Switch(t testing.TB, ns netns.NsHandle) {
	t.Helper()
	snooping := false
	at(t, ns, func(h *netlink.Handle) error {
		return h.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}, MulticastSnooping: &snooping})
	})
	Up(t, ns, bridge)
}

const bridge = "br0"

// Plug joins a namespace's new NIC with a new port of a switch.
func Plug(t testing.TB, sw netns.NsHandle, port string, ns netns.NsHandle, nic string) {
	t.Helper()
	Join(t, ns, nic, sw, port)
	at(t, sw, func(h *netlink.Handle) error {
		p, err := h.LinkByName(port)
		if err != nil {
			return err
		}
		master, err := h.LinkByName(bridge)
		if err != nil {
			return err
		}
		return h.LinkSetMaster(p, master)
	})
}

// Up brings a NIC up.
func Up(t testing.TB, ns netns.NsHandle, nic string) {
	t.Helper()
	at(t, ns, func(h *netlink.Handle) error {
		link, err := h.LinkByName(nic)
		if err != nil {
			return err
		}
		return h.LinkSetUp(link)
	})
}

// Give gives a NIC addresses that work at once, without duplicate address
// detection.
func Give(t testing.TB, ns netns.NsHandle, nic string, addresses ...string) {
	t.Helper()
	at(t, ns, func(h *netlink.Handle) error {
		link, err := h.LinkByName(nic)
		if err != nil {
			return err
		}
		for _, text := range addresses {
			a, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			a.Flags = unix.IFA_F_NODAD
			if err := h.AddrAdd(link, a); err != nil {
				return errors.New(text + ": " + err.Error())
			}
		}
		return nil
	})
}

// at runs a function with a handle on a namespace.
func at(t testing.TB, ns netns.NsHandle, do func(*netlink.Handle) error) {
	t.Helper()
	h, err := netlink.NewHandleAt(ns)
	must(t, err)
	defer h.Close()
	must(t, do(h))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
