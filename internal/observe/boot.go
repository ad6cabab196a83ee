package observe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Boot returns a name for this boot of the host and how far its clock of boots
// has come. The kernel's own name is not enough: hosts may share a kernel, as
// containers do, and each of their boots begins with a new first process.
// Instants of one boot can be compared; the clock neither jumps nor stands
// still while the machine sleeps.
func Boot() (id string, uptime time.Duration, err error) {
	kernel, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0, fmt.Errorf("name of this boot: %w", err)
	}
	stat, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		return "", 0, fmt.Errorf("name of this boot: %w", err)
	}
	started, err := startTime(stat)
	if err != nil {
		return "", 0, fmt.Errorf("name of this boot: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return "", 0, fmt.Errorf("uptime: %w", err)
	}
	return strings.TrimSpace(string(kernel)) + "-" + started, time.Duration(now.Nano()), nil
}

// startTime is the 22nd field of a process's stat; the second, its name, may
// hold blanks and brackets (proc(5)).
func startTime(stat []byte) (string, error) {
	_, rest, found := bytes.Cut(stat[max(bytes.LastIndexByte(stat, ')'), 0):], []byte(") "))
	fields := bytes.Fields(rest)
	const after = 22 - 3 // rest begins with the third field
	if !found || len(fields) <= after {
		return "", errors.New("stat of the first process is not understood")
	}
	return string(fields[after]), nil
}
