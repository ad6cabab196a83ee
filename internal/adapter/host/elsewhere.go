package host

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Elsewhere returns the addresses without those that an interface of this host has: there the host would
// ask itself.
func Elsewhere(addresses []netip.Addr) ([]netip.Addr, error) {
	have, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool {
		return slices.ContainsFunc(have, func(h net.Addr) bool {
			p, err := netip.ParsePrefix(h.String())
			return err == nil && p.Addr() == a
		})
	}), nil
}
