package router

import (
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
	"time"
)

// The bytes are those of RFC 4861: header, source, and a prefix that is on the
// link and for addresses, each for a minute.
func TestAnAdvertisementIsThatOfTheRFC(t *testing.T) {
	r := Router{NIC: "machine0", Prefix: netip.MustParsePrefix("fd98::/64"), Lifetime: time.Minute}
	got, err := r.message(net.HardwareAddr{0x52, 0x54, 0x90, 0, 0, 1})
	want := "86000000" + "4000003c0000000000000000" + "0101525490000001" + "030440c0" + "0000003c" + "0000003c" + "00000000" + "fd980000000000000000000000000000"
	if err != nil || hex.EncodeToString(got) != want {
		t.Errorf("got  %x, %v\nwant %s", got, err, want)
	}
}
