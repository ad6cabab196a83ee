package rotation

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/rotation"
)

// program is a static pod that reads a file only when it starts: its name, and the
// flag that names the file.
type program struct{ name, flag, file string }

var (
	apiServer         = program{"kube-apiserver", "--service-account-key-file", places[rotation.ServiceAccountKey].trusts}
	controllerManager = program{"kube-controller-manager", "--service-account-private-key-file", places[rotation.ServiceAccountKey].key}
	// The same API server knows etcd by the authorities that it read at its start.
	etcdsClient = program{"kube-apiserver", "--etcd-cafile", places[rotation.EtcdCA].trusts}
	etcdPod     = program{"etcd", "--trusted-ca-file", places[rotation.EtcdCA].trusts}
)

// pollEvery is the pause between two looks at a program that starts.
const pollEvery = 500 * time.Millisecond

// restart ends the processes of programs, one after the other, and then waits until
// kubelet has started others, which read the present files. What does not run reads
// them when it starts.
func (k *Keeper) restart(ctx context.Context, programs ...program) error {
	former := make([][]int, len(programs))
	for i, p := range programs {
		var err error
		if former[i], err = k.stop(ctx, p); err != nil {
			return err
		}
	}
	for i, p := range programs {
		if err := k.started(ctx, p, former[i]); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the processes of a program and returns which these were.
func (k *Keeper) stop(ctx context.Context, p program) ([]int, error) {
	former, err := k.running(p)
	if err != nil {
		return nil, err
	}
	for _, pid := range former {
		k.Log.Info("restarting a program, which reads an authority only when it starts", "program", p.name, "pid", pid, "file", p.file)
		if err := k.end(ctx, pid, func() bool { return k.runs(pid, p) }); err != nil {
			return nil, err
		}
	}
	return former, nil
}

// started waits until a program that had these processes has another one.
func (k *Keeper) started(ctx context.Context, p program, former []int) error {
	if len(former) == 0 {
		return nil
	}
	return k.await(ctx, func(context.Context) error {
		now, err := k.running(p)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(now, func(pid int) bool { return !slices.Contains(former, pid) }) {
			return fmt.Errorf("kubelet has not started %s again", p.name)
		}
		return nil
	})
}

// await asks again and again until there is no error, or returns the last one at
// the end of the run.
func (k *Keeper) await(ctx context.Context, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if host.Sleep(ctx, pollEvery) != nil {
			return err
		}
	}
}

// processes returns the processes of a program that read this host's file.
func (k *Keeper) processes(p program) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && k.runs(pid, p) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// runs reports whether a process is a program that reads this host's file. Another
// cluster's API server in a container has another file there.
func (k *Keeper) runs(pid int, p program) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	data, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return false // it has ended
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimRight(data, "\x00"), []byte{0}) {
		args = append(args, string(arg))
	}
	if path.Base(args[0]) != p.name || !slices.Contains(args[1:], p.flag+"="+k.Root+p.file) {
		return false
	}
	own, err := os.Stat(k.Root + p.file)
	if err != nil {
		return false
	}
	has, err := os.Stat(filepath.Join(proc, "root", k.Root+p.file))
	return err == nil && os.SameFile(own, has)
}
