package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// label is the extended attribute that holds a file's SELinux label.
const label = "security.selinux"

// Label returns the SELinux label of a file, or of a link itself, nil if there is
// none.
func Label(path string) []byte {
	buf := make([]byte, 256)
	n, err := unix.Lgetxattr(path, label, buf)
	if err != nil || n <= 0 {
		return nil
	}
	return buf[:n]
}

// SetLabel gives a file, or a link itself, an SELinux label. With nil it changes
// nothing.
func SetLabel(path string, selinux []byte) error {
	if selinux == nil {
		return nil
	}
	if err := unix.Lsetxattr(path, label, selinux, 0); err != nil {
		return fmt.Errorf("set SELinux label %q of %s: %w", selinux, path, err)
	}
	return nil
}
