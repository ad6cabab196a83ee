package config

import (
	"strconv"
	"strings"
)

// canonicalMAC writes a 48-bit hardware address as 02:00:00:aa:bb:cc. It returns
// false for anything else, and for addresses that no single NIC has.
func canonicalMAC(s string) (string, bool) {
	sep := ":"
	if strings.Contains(s, "-") {
		sep = "-"
	}
	octets := strings.Split(s, sep)
	if len(octets) != 6 {
		return "", false
	}
	zero := true
	for _, o := range octets {
		n, err := strconv.ParseUint(o, 16, 8)
		if err != nil || len(o) != 2 {
			return "", false
		}
		zero = zero && n == 0
	}
	first, _ := strconv.ParseUint(octets[0], 16, 8) // parsed above
	if zero || first&1 != 0 {
		return "", false
	}
	return strings.ToLower(strings.Join(octets, ":")), true
}
