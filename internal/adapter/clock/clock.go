// Package clock reads what the kernel knows of its clock, and never sets it.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Synchronised reports whether the kernel counts its clock as synchronised: the
// daemon that synchronises it tells the kernel so.
func Synchronised() (bool, error) {
	kept, _, err := Read()
	return kept, err
}

// Read returns the same, and how far the clock is off by the estimate of that daemon,
// which means nothing while the clock is not synchronised.
func Read() (kept bool, off time.Duration, err error) {
	var t unix.Timex
	s, err := unix.Adjtimex(&t)
	if err != nil {
		return false, 0, fmt.Errorf("read the kernel's clock state: %w", err)
	}
	return s != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, offset(t), nil
}

// offset is the larger of what the kernel still has to correct and the estimated
// error.
func offset(t unix.Timex) time.Duration {
	unit := time.Microsecond
	if t.Status&unix.STA_NANO != 0 {
		unit = time.Nanosecond
	}
	return max((time.Duration(t.Offset) * unit).Abs(), time.Duration(t.Esterror)*time.Microsecond)
}
