// Package clock reads what the kernel knows of its clock, and never sets it.
package clock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Synchronised reports whether the kernel counts its clock as synchronised: the
// daemon that synchronises it tells the kernel so.
func Synchronised() (bool, error) {
	var t unix.Timex
	s, err := unix.Adjtimex(&t)
	if err != nil {
		return false, fmt.Errorf("read the kernel's clock state: %w", err)
	}
	return s != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, nil
}
