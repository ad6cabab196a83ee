package ports

import (
	"fmt"
	"net/netip"
	"strings"
)

// ReadAlso reads a person's additions to the rules of a host, one word a line:
// an address or a network that is let in like a control plane, or "off" for no
// rules at all. A comment begins with #. Other lines are listed as problems, and
// the valid ones still count.
func ReadAlso(text string) (also []netip.Prefix, off bool, problems []string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		word := strings.TrimSpace(line)
		network, err := netip.ParsePrefix(word)
		if a, err2 := netip.ParseAddr(word); err2 == nil && a.Zone() == "" {
			a = a.Unmap()
			network, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		switch {
		case word == "":
		case word == "off":
			off = true
		case err != nil || network.Addr().Is4In6():
			problems = append(problems, fmt.Sprintf("line %d: %.60q is not an address, a network such as 192.0.2.0/24, or off", number, word))
		default:
			also = append(also, network.Masked())
		}
	}
	return also, off, problems
}
