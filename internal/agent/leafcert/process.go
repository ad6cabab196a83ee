package leafcert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
)

// former returns the processes of a static pod that still have the former file.
// kubelet mounts the kubeconfig as one file: a container keeps the file that it
// was started with until it is started anew. No clock takes part in that.
func (k *Keeper) former(l leafcert.Leaf) ([]int, error) {
	_, former, err := k.readers(l)
	return former, err
}

// readers returns the processes of a leaf's static pod, those with the present
// file and those with a former one.
func (k *Keeper) readers(l leafcert.Leaf) (present, former []int, err error) {
	now, err := os.Stat(k.Root + l.Path)
	if err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(k.Root + "/proc")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.New("/proc is not mounted") // the file itself is there
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !k.reads(pid, l) {
			continue
		}
		has, err := os.Stat(filepath.Join(k.Root, "proc", e.Name(), "root", l.Path))
		switch {
		case err != nil: // it ends now, or it has not begun
		case os.SameFile(now, has):
			present = append(present, pid)
		default:
			former = append(former, pid)
		}
	}
	return present, former, nil
}

// reads reports whether a process is the program of a leaf's static pod, started
// with the leaf's kubeconfig.
func (k *Keeper) reads(pid int, l leafcert.Leaf) bool {
	data, err := os.ReadFile(filepath.Join(k.Root, "proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return false // it has ended
	}
	args := strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00")
	return path.Base(args[0]) == l.Restart && slices.Contains(args[1:], "--kubeconfig="+l.Path)
}

// Restart ends a static pod's processes that have a former kubeconfig, and waits
// until kubelet has started one that has the present one. name is one of
// leafcert.ControllerManager and leafcert.Scheduler.
func (k *Keeper) Restart(ctx context.Context, name string) error {
	ctx, stop := context.WithTimeout(ctx, restartLimit)
	defer stop()
	leaves := leafcert.Leaves()
	l := leaves[slices.IndexFunc(leaves, func(l leafcert.Leaf) bool { return l.Restart == name })]
	for ended := false; ; {
		present, former, err := k.readers(l)
		if err != nil {
			return err
		}
		if len(former) == 0 && (len(present) > 0 || !ended) {
			return nil // one that does not run reads the file when it starts
		}
		for _, pid := range former {
			if err := k.end(ctx, pid, func() bool { return k.reads(pid, l) }); err != nil {
				return err
			}
			ended = true
		}
		if host.Sleep(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("kubelet has not started it anew within %s", restartLimit)
		}
	}
}
