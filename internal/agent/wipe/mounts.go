package wipe

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mounts returns the mount points of this host.
func Mounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(data)), nil
}

// parseMounts reads the kernel's table, which has numbers in place of blanks.
func parseMounts(text string) []string {
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 {
			out = append(out, plain.Replace(fields[1]))
		}
	}
	return out
}

// Unmount detaches a mounted file system, even one that does not answer.
func Unmount(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("unmount: %w", err)
	}
	return nil
}
