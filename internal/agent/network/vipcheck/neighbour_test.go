package vipcheck

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/observe"
)

// stranger puts this test's thread into a network namespace of its own, whose
// eth0 leads to a machine that has some addresses.
func stranger(t *testing.T, own, theirs []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED, since this is not root: it needs network namespaces")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and the namespaces with it
	there, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	here, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = there.Close(), here.Close() })
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer", PeerNamespace: netlink.NsFd(there)}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	give(t, here, "eth0", own)
	give(t, there, "peer", theirs)
}

func give(t *testing.T, ns netns.NsHandle, name string, addresses []string) {
	t.Helper()
	nl, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	link, err := nl.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		a.Flags = 0x02 // IFA_F_NODAD: it is there at once
		if err := nl.AddrAdd(link, a); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhoAnswersIsFoundByARPAndByNeighbourDiscovery(t *testing.T) {
	stranger(t, []string{"10.98.0.11/24", "fd98::11/64"}, []string{"10.98.0.6/24", "fd98::6/64"})
	c := &cluster{annotations: map[string]string{}}
	p := New(Options{Annotate: c.annotate, Holders: observe.Holders})
	c.ask("operator", "1", "fd98::5", "fd98::6", "10.98.0.6", "10.98.0.7")
	v := c.view("10.98.0.5")
	v.Addresses = v.Addresses[:2]
	reconcile(t, p, v)
	got := c.answer("operator")
	if !strings.HasPrefix(got, `{"id":"1","free":["10.98.0.7","fd98::5"],"held":{"10.98.0.6":"`) || strings.Contains(got, "unknown") ||
		strings.Count(got, ":\"") != 3 {
		t.Errorf("it answers %s", got)
	}
}
