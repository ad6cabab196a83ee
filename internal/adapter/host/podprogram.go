package host

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
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
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && p.Is(pid) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// Is reports whether a process is one of the program.
func (p PodProgram) Is(pid int) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	data, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return false // it has ended
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimRight(data, "\x00"), []byte{0}) {
		args = append(args, string(arg))
	}
	if path.Base(args[0]) != p.Name || !slices.Contains(args[1:], p.Flag+"="+p.Root+p.File) {
		return false
	}
	own, err := os.Stat(p.Root + p.File)
	if err != nil {
		return false
	}
	has, err := os.Stat(filepath.Join(proc, "root", p.Root+p.File))
	return err == nil && os.SameFile(own, has)
}
