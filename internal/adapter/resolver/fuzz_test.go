package resolver

import (
	"slices"
	"testing"
)

// FuzzNetworkdServers checks that no state of systemd-networkd yields a name
// server that cannot be asked, or the same one twice.
func FuzzNetworkdServers(f *testing.F) {
	f.Add("DNS=192.0.2.1 2001:db8::1#dns.test [2001:db8::2]:5353 192.0.2.1\nDNS=\n")
	f.Add("DNS=%eth0 fe80::1%eth0 1.2.3.4:0 :53")
	f.Fuzz(func(t *testing.T, state string) {
		found := networkdServers(state)
		for i, s := range found {
			if !s.IsValid() || s.Port() == 0 || slices.Contains(found[:i], s) {
				t.Fatalf("%q gives %v", state, found)
			}
		}
	})
}
