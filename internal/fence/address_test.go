package fence

import (
	"net/netip"
	"net/url"
	"strconv"

	"github.com/holdfast/holdfast/internal/model/bmc"
)

// anyAddress takes loopback addresses too, where the simulators are.
func anyAddress(s string) (bmc.Address, error) {
	u, err := url.Parse(s)
	if err != nil {
		return bmc.Address{}, err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return bmc.Parse(s)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return bmc.Address{Host: addr.String(), Port: uint16(port), System: u.Path}, err
}
