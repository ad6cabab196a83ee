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

// unresolved is how much the kernel keeps, in bytes, for a neighbour that it
// does not know yet: three adverts, as many packets as Linux kept before 3.3.
// They count against the socket of all adverts. With the 208 KiB for each
// neighbour that are the kernel's own value, and as much for the socket, a
// dozen hosts that are off fill it: a holder's adverts then reach nobody, and
// every other host takes the VIP (seen with 200).
const unresolved = 2560

// BoundUnresolved has the kernel keep no more than that for an unknown
// neighbour on an interface. It reports whether that was another before.
func BoundUnresolved(nic string) (changed bool, err error) {
	want := strconv.AppendInt(nil, unresolved, 10)
	for _, family := range []string{"ipv4", "ipv6"} {
		path := filepath.Join("/proc/sys/net", family, "neigh", nic, "unres_qlen_bytes")
		now, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has no such family, or is gone
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

// instancesPath is how many users of inotify root may have, and mostInstances
// how far it is raised here.
const (
	instancesPath = "/proc/sys/fs/inotify/max_user_instances"
	mostInstances = 1 << 16
)

// RaiseInotify doubles how many programs of root may follow files, and returns
// how many that is.
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
