package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReserveSize is the size of a reserve in bytes: what is written in its place has some
// hundred, and a file system may need blocks for its directory and its journal.
const ReserveSize = 256 << 10

// WriteFileReserved writes a file as WriteFileAtomic does, on a file system that others
// may have filled. The file reserve keeps room there: it is given up for a write that
// finds none, and is made again by the next write that does.
func WriteFileReserved(path, reserve string, data []byte, mode fs.FileMode) error {
	err := WriteFileAtomic(path, data, mode)
	if errors.Is(err, unix.ENOSPC) && os.Remove(reserve) == nil {
		err = WriteFileAtomic(path, data, mode)
	}
	if errors.Is(err, unix.ENOSPC) {
		dir := filepath.Dir(path)
		return fmt.Errorf("%w; make room there: df -h %s; df -i %s", err, dir, dir)
	}
	if err == nil && !Exists(reserve) {
		_ = WriteFileAtomic(reserve, make([]byte, ReserveSize), 0o600) // where there is no room, a later write makes it
	}
	return err
}
