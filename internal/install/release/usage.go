package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Usage returns how many bytes of the disk the releases of a host take, those that
// are unfinished too. A file that two of them share counts once.
func Usage(root string) (uint64, error) { return on(root).usage() }

func (d disk) usage() (uint64, error) {
	seen := map[inode]bool{}
	var sum uint64
	err := d.walk(d.at(), func(key inode, st *syscall.Stat_t) {
		if !seen[key] {
			seen[key] = true
			sum += uint64(st.Blocks) * 512 //nolint:gosec // a file has blocks
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return sum, err
}

// inode names a file of this machine, whatever its path.
type inode struct{ dev, ino uint64 }

// walk calls see for each file and folder below dir.
func (d disk) walk(dir string, see func(inode, *syscall.Stat_t)) error {
	return filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if key, st, ok := inodeOf(info); ok {
			see(key, st)
		}
		return nil
	})
}

func inodeOf(info fs.FileInfo) (inode, *syscall.Stat_t, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, nil, false
	}
	return inode{dev: st.Dev, ino: st.Ino}, st, true
}

// users returns the processes whose program is a file below dir. They are known by
// the file, because a container may have it at another path, and because a
// program may have been started at a path where a link is now.
func (d disk) users(dir string) ([]string, error) {
	ours := map[inode]bool{}
	err := d.walk(dir, func(key inode, st *syscall.Stat_t) { ours[key] = st.Mode&syscall.S_IFMT == syscall.S_IFREG })
	if err != nil {
		return nil, err
	}
	programs, err := filepath.Glob(filepath.Join(d.proc, "[0-9]*", "exe"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range programs {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended, or it is the kernel's own
		}
		if err != nil {
			return nil, err
		}
		if key, _, ok := inodeOf(info); ok && ours[key] {
			out = append(out, d.process(filepath.Dir(path)))
		}
	}
	slices.Sort(out)
	return out, nil
}

func (d disk) process(dir string) string {
	name, _ := os.ReadFile(filepath.Join(dir, "comm")) // without it the number has to do
	return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
}
