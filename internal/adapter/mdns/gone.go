package mdns

import (
	"errors"
	"syscall"
)

// gone reports whether a farewell could not be sent since there is nobody left
// to say it: the address or its interface is not there any more.
func gone(err error) bool {
	for _, why := range []error{syscall.EADDRNOTAVAIL, syscall.EINVAL, syscall.ENODEV, syscall.ENETUNREACH, syscall.ENXIO, syscall.ENETDOWN, syscall.EPERM} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}
