package observe

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// twoHosts puts this test into a network namespace of its own, whose interface
// leads to another one, and returns the other's end.
func twoHosts(t *testing.T, own, peer []string) {
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
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there", PeerNamespace: netlink.NsFd(there)}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	for name, side := range map[string]struct {
		ns        netns.NsHandle
		addresses []string
	}{"here": {here, own}, "there": {there, peer}} {
		nl, err := netlink.NewHandleAt(side.ns)
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
		for _, a := range side.addresses {
			address, err := netlink.ParseAddr(a)
			if err != nil {
				t.Fatal(err)
			}
			address.Flags = 0x02 // IFA_F_NODAD: it is there at once
			if err := nl.AddrAdd(link, address); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestHoldersAreThoseWhoAnswerForAnAddress(t *testing.T) {
	twoHosts(t,
		[]string{"10.98.0.11/24", "fd98::11/64", "10.98.0.7/32"},
		[]string{"10.98.0.12/24", "fd98::12/64", "10.98.0.5/32", "fd98::5/128"})
	var asked []netip.Addr
	for _, a := range []string{"10.98.0.5", "fd98::5", "10.98.0.6", "fd98::6", "10.98.0.7", "192.0.2.5"} {
		asked = append(asked, netip.MustParseAddr(a))
	}
	found, err := Holders(t.Context(), "here", asked)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range asked[:2] {
		if len(found[a]) != 6 {
			t.Errorf("nobody is found to hold %s", a)
		}
	}
	for _, a := range asked[2:] {
		if mac, held := found[a]; held {
			t.Errorf("%s is found to be held by %s", a, mac)
		}
	}
}

func TestAnInterfaceThatIsNotIsNamed(t *testing.T) {
	if _, err := Holders(t.Context(), "no-such-nic", nil); err == nil {
		t.Error("no error")
	}
}
