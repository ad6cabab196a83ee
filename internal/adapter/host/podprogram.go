package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// PodProgram is the program of a static pod of this host. Another cluster's program
// of the same name, in a container of this host, has another file.
type PodProgram struct {
	// Root is the directory of this host's files; empty for /.
	Root string
	// Name is the base name of the program.
	Name string
	// Flag is the flag, with its dashes, that names File, a file of this host.
	Flag, File string
}

// Processes returns the processes of the program.
func (p PodProgram) Processes() ([]int, error) {
	pids, err := processes()
	return slices.DeleteFunc(pids, func(pid int) bool { return !p.Is(pid) }), err
}

// Runs reports whether a process of that name names the file, whichever file it has there: the one of this
// host may be gone, or be another one by now. So another cluster's program counts too. It is for those whom a
// wrong no costs data; what cannot be looked at is an error.
func (p PodProgram) Runs() (bool, error) {
	pids, err := processes()
	errs := []error{err}
	for _, pid := range pids {
		named, err := p.named(pid)
		if named {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // else it has ended
			errs = append(errs, err)
		}
	}
	return false, errors.Join(errs...)
}

func processes() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// named reports whether the command line of a process has the program's name and flag.
func (p PodProgram) named(pid int) (bool, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return false, err
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimRight(data, "\x00"), []byte{0}) {
		args = append(args, string(arg))
	}
	return path.Base(args[0]) == p.Name && slices.Contains(args[1:], p.Flag+"="+p.Root+p.File), nil
}

// Is reports whether a process is one of the program.
func (p PodProgram) Is(pid int) bool {
	if named, err := p.named(pid); err != nil || !named {
		return false // it has ended, or is another one
	}
	own, err := os.Stat(p.Root + p.File)
	if err != nil {
		return false
	}
	has, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "root", p.Root+p.File))
	return err == nil && os.SameFile(own, has)
}
