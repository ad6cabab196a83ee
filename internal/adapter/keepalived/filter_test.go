package keepalived

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"
)

// nftables compares keys that are laid out in whole words; nft itself shows the
// same layout (nft --debug=netlink).
func TestPairsAreLaidOutAsNftablesComparesThem(t *testing.T) {
	f := Filter{Senders: map[netip.Addr][]string{
		netip.MustParseAddr("10.98.0.12"): {"02:00:00:00:00:0d", "02:00:00:00:00:0c", "02:00:00:00:00:0c", "nonsense"},
		netip.MustParseAddr("fd98::12"):   {"02:00:00:00:00:0c"},
		netip.MustParseAddr("10.98.0.13"): {"nonsense", "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01"},
	}}
	var got []string
	for _, s := range sides {
		for _, p := range f.pairs(s) {
			got = append(got, hex.EncodeToString(p))
		}
	}
	want := []string{"0a62000c02000000000c0000", "0a62000c02000000000d0000", "fd98000000000000000000000000001202000000000c0000"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// A peer without a hardware address that can be compared is not bound:
	// otherwise all its adverts would be dropped.
	if bound := of(f.bound(), sides[0]); fmt.Sprint(bound) != "[10.98.0.12]" {
		t.Errorf("bound are %v", bound)
	}
}
