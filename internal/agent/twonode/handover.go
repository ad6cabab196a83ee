package twonode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Files of the hand-over: kubeadm's manifest of etcd, where it is kept
// afterwards, etcd's database, and the kernel's list of locks.
const (
	staticPod = "/etc/kubernetes/manifests/etcd.yaml"
	keptPod   = "/etc/kubernetes/static-pod-resources/etcd-static-pod.yaml"
	etcdDB    = state.EtcdDataDir + "/member/snap/db"
	fileLocks = "/proc/locks"
)

// manifest writes the pod that podman runs etcd from. If podman runs it already,
// the step ends only when etcd runs from this manifest and votes, because the other
// host's turn comes then. Before that, nobody reads the manifest but a host that is
// lost between the set-up and its hand-over (see Release). From the set-up on a
// host that is back without Pacemaker meets nobody, so this step enables it again:
// what the step auth did may not have reached the disk when the power went.
func (h *Host) manifest(ctx context.Context, in twonode.Input) error {
	if err := h.meet(ctx); err != nil {
		return err
	}
	if err := h.write(state.EtcdPodManifest, []byte(in.Manifest), 0o600); err != nil {
		return err
	}
	if kubelets, err := h.exists(staticPod); err != nil || kubelets {
		return err
	}
	written := h.Now()
	return h.until(ctx, "etcd of "+in.Self+" runs from this manifest and votes", func(ctx context.Context) (string, error) {
		r, err := h.Report(ctx)
		switch {
		case err != nil:
			return "", err
		case !r.At.After(written):
			return "the etcd keeper has not reported since", nil
		case !state.Is(r.Outdated, false):
			return "etcd does not run from it yet" + handover.Verdict(r), nil
		}
		return handover.Voting(r), nil
	})
}

// handOver takes etcd from kubelet once the etcd keepers of both hosts wait to
// take it over: then it is one restart of one of two voters.
func (h *Host) handOver(ctx context.Context, in twonode.Input) error {
	if _, err := os.Stat(h.path(state.EtcdPodManifest)); err != nil {
		return fmt.Errorf("%w: run the step manifest first", err)
	}
	if there, err := h.exists(staticPod); err != nil {
		return err
	} else if there {
		if err := h.take(ctx); err != nil {
			return err
		}
	}
	return h.until(ctx, "etcd of "+in.Self+" runs in podman and votes", h.runs)
}

// take moves kubelet's manifest away as soon as that is safe. Release may have
// done it meanwhile.
func (h *Host) take(ctx context.Context) error {
	released := false
	err := h.until(ctx, "the etcd keepers of both hosts are ready to take etcd over", func(ctx context.Context) (string, error) {
		kubelets, err := h.exists(staticPod)
		if released = err == nil && !kubelets; err != nil || released {
			return "", err
		}
		r, err := h.Report(ctx)
		if err != nil {
			return "", err
		}
		return handover.Ready(r), nil
	})
	if err != nil || released {
		return err
	}
	return h.move(staticPod, keptPod)
}

func (h *Host) exists(path string) (bool, error) {
	_, err := os.Lstat(h.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// move moves a file durably: after a power cut it is in one of the two places.
func (h *Host) move(from, to string) error {
	h.say("move %s to %s", from, to)
	if h.DryRun {
		return nil
	}
	from, to = h.path(from), h.path(to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(host.SyncDir(filepath.Dir(to)), host.SyncDir(filepath.Dir(from)))
}

// runs returns what is missing until etcd runs in podman and votes.
func (h *Host) runs(ctx context.Context) (string, error) {
	p, err := h.Container(ctx)
	if err != nil {
		return "", err
	}
	r, err := h.Report(ctx)
	if err != nil {
		return "", err
	}
	if !p.Running {
		return "podman does not run etcd" + handover.Verdict(r), nil
	}
	held, err := h.holds(p.PID)
	if err != nil || !held {
		return "kubelet's etcd still holds the data", err
	}
	return handover.Voting(r), nil
}

// anybody stands for a process of any pid.
const anybody = 0

// holds reports whether a process has the lock of etcd's database.
func (h *Host) holds(pid int) (bool, error) {
	holder, held, err := h.holder()
	return held && (pid == anybody || holder == strconv.Itoa(pid)), err
}

// holder returns the pid of the process that has the lock of etcd's database, and whether there
// is one. The pid of a process in another pid namespace is no use to anybody here.
func (h *Host) holder() (pid string, held bool, err error) {
	info, err := os.Stat(h.path(etcdDB))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false, errors.New("the file system has no inode numbers")
	}
	locks, err := os.ReadFile(h.path(fileLocks))
	if err != nil {
		return "", false, err
	}
	pid, held = lockedBy(string(locks), stat.Ino)
	return pid, held, nil
}

// lockedBy searches /proc/locks, whose lines are like
// "1: FLOCK ADVISORY WRITE pid major:minor:inode ...".
func lockedBy(locks string, inode uint64) (pid string, held bool) {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] == "FLOCK" && strings.HasSuffix(f[5], ":"+strconv.FormatUint(inode, 10)) {
			return f[4], true
		}
	}
	return "", false
}
