package netnstest

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// reach connects from one namespace to a listener in another.
func reach(t *testing.T, from, to netns.NsHandle, address string) error {
	t.Helper()
	var listener net.Listener
	if err := Do(to, func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return Do(from, func() error {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

func TestAddressesWorkAtOnceBehindACableAndBehindASwitch(t *testing.T) {
	a, b, sw := New(t, ""), New(t, ""), New(t, "")
	Join(t, a, "cable", b, "cable")
	Switch(t, sw)
	Plug(t, sw, "p1", a, "eth0")
	Plug(t, sw, "p2", b, "eth0")
	Give(t, a, "cable", "10.98.0.1/24")
	Give(t, b, "cable", "10.98.0.2/24")
	Give(t, a, "eth0", "fd98::1/64")
	Give(t, b, "eth0", "fd98::2/64")
	for _, address := range []string{"10.98.0.2", "fd98::2"} {
		if err := reach(t, a, b, address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAPairIsWhereTheTestGoesOn(t *testing.T) {
	there := Pair(t, []string{"10.98.0.1/24"}, []string{"10.98.0.2/24"})
	list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil || len(list) != 2 { // the other is the loopback's
		t.Errorf("the test has %v, %v", list, err)
	}
	In(t, there, func() {
		if _, err := net.InterfaceByName("eth0"); err != nil {
			t.Error(err)
		}
	})
}

func TestANamedNamespaceEndsWithItsTest(t *testing.T) {
	name := fmt.Sprintf("hf-netnstest-%d", os.Getpid())
	t.Run("in it", func(t *testing.T) {
		New(t, name)
		if found, err := netns.GetFromName(name); err != nil {
			t.Error(err)
		} else {
			_ = found.Close()
		}
	})
	if _, err := netns.GetFromName(name); err == nil {
		t.Error("it is there after the test")
	}
}
