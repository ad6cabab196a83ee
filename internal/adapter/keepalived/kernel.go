package keepalived

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// unresolved is the number of bytes that the kernel keeps for a neighbour that it
// does not know yet: enough for three adverts, as many packets as Linux kept before
// 3.3. They count against the socket of all adverts. With the kernel's own 208
// KiB for each neighbour, and as much for the socket, a dozen hosts that are
// off fill it: a holder's adverts then reach nobody, and every other host takes
// the VIP (seen with 200).
const unresolved = 2560

// LimitUnresolved limits what the kernel keeps for an unknown neighbour on an
// interface to unresolved. It reports whether it changed the limit.
func LimitUnresolved(nic string) (changed bool, err error) {
	want := strconv.AppendInt(nil, unresolved, 10)
	for _, family := range []string{"ipv4", "ipv6"} {
		path := filepath.Join("/proc/sys/net", family, "neigh", nic, "unres_qlen_bytes")
		now, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it lacks this family, or is gone
		}
		if err != nil {
			return changed, err
		}
		// The kernel counts in packets of its own size, and rounds down.
		if n, err := strconv.Atoi(string(bytes.TrimSpace(now))); err == nil && n <= unresolved {
			continue
		}
		if err := os.WriteFile(path, want, 0); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// instancesPath limits how many inotify instances root may have, and
// mostInstances is the highest value that is set here.
const (
	instancesPath = "/proc/sys/fs/inotify/max_user_instances"
	mostInstances = 1 << 16
)

// RaiseInotify doubles the number of inotify instances of root, and returns the
// new number.
func RaiseInotify() (int, error) {
	data, err := os.ReadFile(instancesPath)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", instancesPath, err)
	}
	if n >= mostInstances {
		return 0, fmt.Errorf("%s is %d already", instancesPath, n)
	}
	n = max(2*n, 1024)
	return n, os.WriteFile(instancesPath, strconv.AppendInt(nil, int64(n), 10), 0)
}
