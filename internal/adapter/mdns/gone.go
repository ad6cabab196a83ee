package mdns

import (
	"errors"
	"syscall"
)

// gone reports whether a farewell could not be sent because its address or
// interface is gone, so that nobody is left to send it.
func gone(err error) bool {
	for _, why := range []error{syscall.EADDRNOTAVAIL, syscall.EINVAL, syscall.ENODEV, syscall.ENETUNREACH, syscall.ENXIO, syscall.ENETDOWN, syscall.EPERM} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}
