package rotation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/rotation"
)

// The static pods that read a file only when they start, each with the flag that
// names the file.
var (
	apiServer         = host.PodProgram{Name: "kube-apiserver", Flag: "--service-account-key-file", File: places[rotation.ServiceAccountKey].trusts}
	controllerManager = host.PodProgram{Name: "kube-controller-manager", Flag: "--service-account-private-key-file", File: places[rotation.ServiceAccountKey].key}
	// The same API server knows etcd by the authorities that it read at its start.
	etcdsClient = host.PodProgram{Name: "kube-apiserver", Flag: "--etcd-cafile", File: places[rotation.EtcdCA].trusts}
	etcdPod     = host.PodProgram{Name: "etcd", Flag: "--trusted-ca-file", File: places[rotation.EtcdCA].trusts}
)

// pollEvery is the pause between two looks at a program that starts.
const pollEvery = 500 * time.Millisecond

// restart ends the processes of programs, one after the other, and then waits until
// kubelet has started others, which read the present files. What does not run reads
// them when it starts.
func (k *Keeper) restart(ctx context.Context, programs ...host.PodProgram) error {
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
func (k *Keeper) stop(ctx context.Context, p host.PodProgram) ([]int, error) {
	former, err := k.running(p)
	if err != nil {
		return nil, err
	}
	for _, pid := range former {
		k.Log.Info("restarting a program, which reads an authority only when it starts", "program", p.Name, "pid", pid, "file", p.File)
		if err := k.end(ctx, pid, func() bool { return k.own(p).Is(pid) }); err != nil {
			return nil, err
		}
	}
	return former, nil
}

// started waits until a program that had these processes has another one.
func (k *Keeper) started(ctx context.Context, p host.PodProgram, former []int) error {
	if len(former) == 0 {
		return nil
	}
	return k.await(ctx, func(context.Context) error {
		now, err := k.running(p)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(now, func(pid int) bool { return !slices.Contains(former, pid) }) {
			return fmt.Errorf("kubelet has not started %s again", p.Name)
		}
		return nil
	})
}

// await asks again and again until there is no error, or returns the last one at
// the end of the work.
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
func (k *Keeper) processes(p host.PodProgram) ([]int, error) { return k.own(p).Processes() }

// own returns a program as that of this host.
func (k *Keeper) own(p host.PodProgram) host.PodProgram {
	p.Root = k.Root
	return p
}
