// Package observe reads the state of the host and returns it as state values.
// It reports an unreadable fact as an error or an explicit unknown, never as "no".
package observe

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Boot returns an id of this boot of the host, and the time since the boot. The
// kernel's own boot id is not enough: hosts may share a kernel, as containers
// do, and each of their boots begins with a new first process. Times of one
// boot can be compared; the clock neither jumps nor stops while the machine
// sleeps.
func Boot() (id string, uptime time.Duration, err error) {
	kernel, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", 0, fmt.Errorf("name of this boot: %w", err)
	}
	stat, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		return "", 0, fmt.Errorf("name of this boot: %w", err)
	}
	first, err := host.ParseStat(stat)
	if err != nil {
		return "", 0, fmt.Errorf("name of this boot: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return "", 0, fmt.Errorf("uptime: %w", err)
	}
	return strings.TrimSpace(string(kernel)) + "-" + strconv.FormatUint(first.Started, 10), time.Duration(now.Nano()), nil
}

// RestrictOOM reports whether this process lacks CAP_SYS_RESOURCE, without
// which it cannot lower any OOM score.
func RestrictOOM() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("read capabilities: %w", err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0, nil
}
