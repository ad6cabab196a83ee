package observe

import (
	"net/netip"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

func TestHoldersAreThoseWhoAnswerForAnAddress(t *testing.T) {
	netnstest.Pair(t,
		[]string{"10.98.0.11/24", "fd98::11/64", "10.98.0.7/32"},
		[]string{"10.98.0.12/24", "fd98::12/64", "10.98.0.5/32", "fd98::5/128"})
	var asked []netip.Addr
	for _, a := range []string{"10.98.0.5", "fd98::5", "10.98.0.6", "fd98::6", "10.98.0.7", "192.0.2.5"} {
		asked = append(asked, netip.MustParseAddr(a))
	}
	found, err := Holders(t.Context(), "eth0", asked)
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
