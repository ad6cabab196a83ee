package twonode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/render/etcdpod"
	"github.com/holdfast/holdfast/internal/state"
)

// Where kubeadm's manifest of etcd lies, and where it is kept afterwards.
const (
	staticPod = "/etc/kubernetes/manifests/etcd.yaml"
	keptPod   = "/etc/kubernetes/static-pod-resources/etcd-static-pod.yaml"
	etcdDB    = etcdpod.DataDir + "/member/snap/db"
	fileLocks = "/proc/locks"
)

// manifest writes the pod that etcd is run from. Where podman runs it already
// the step ends only when it runs by this manifest and votes: the other host's
// turn comes then.
func (h *Host) manifest(ctx context.Context, in twonode.Input) error {
	if err := h.write(etcdpod.Path, []byte(in.Manifest), 0o600); err != nil {
		return err
	}
	if kubelets, err := h.exists(staticPod); err != nil || kubelets {
		return err
	}
	written := h.Now()
	return h.until(ctx, "etcd of "+in.Self+" runs by this manifest and votes", func(ctx context.Context) (string, error) {
		r, err := h.Report(ctx)
		switch {
		case err != nil:
			return "", err
		case !r.At.After(written):
			return "the agent has not looked since", nil
		case !state.Is(r.Outdated, false):
			return "etcd does not run by it yet" + verdict(r), nil
		}
		return voting(r), nil
	})
}

// handOver takes etcd from kubelet, once the agents of both hosts wait to take
// it over: from then on it is one restart of one of two voters.
func (h *Host) handOver(ctx context.Context, in twonode.Input) error {
	if _, err := os.Stat(h.path(etcdpod.Path)); err != nil {
		return fmt.Errorf("%w: run the step manifest first", err)
	}
	if there, err := h.exists(staticPod); err != nil {
		return err
	} else if there {
		if err := h.until(ctx, "the agents of both hosts wait to take etcd over", h.ready); err != nil {
			return err
		}
		if err := h.move(staticPod, keptPod); err != nil {
			return err
		}
	}
	return h.until(ctx, "etcd of "+in.Self+" runs in podman and votes", h.runs)
}

func (h *Host) exists(path string) (bool, error) {
	_, err := os.Lstat(h.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// move is durable: after a power cut the manifest is in one of the two places.
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

// ready says what keeps the hand-over: each host must be able to go on without
// the other while the other's etcd restarts.
func (h *Host) ready(ctx context.Context) (string, error) {
	r, err := h.Report(ctx)
	if err != nil {
		return "", err
	}
	s := r.Snapshot
	switch {
	case r.Wish != state.EtcdStarted:
		return "Pacemaker has not asked for etcd on this host yet", nil
	case !s.Record.Known || s.Record.Value.State != state.EtcdPair:
		return "the record of this host says " + recordState(s.Record) + verdict(r), nil
	case !s.Statement.Known:
		return "nothing was heard of " + s.Peer + verdict(r), nil
	case s.Statement.Value.Record.State != state.EtcdPair:
		return fmt.Sprintf("the record of %s says %s", s.Peer, s.Statement.Value.Record.State), nil
	}
	return voting(r), nil
}

func recordState(r state.Fact[state.EtcdRecord]) string {
	if !r.Known {
		return "nothing that can be read"
	}
	return string(r.Value.State)
}

func verdict(r state.EtcdReport) string {
	words := ": " + r.Verdict.Reason
	if r.Problem != "" {
		words += " (" + r.Problem + ")"
	}
	return words
}

// voting says what the local etcd lacks to be one of two voters with a leader.
func voting(r state.EtcdReport) string {
	local := r.Snapshot.Local
	switch {
	case !state.Is(local.Running, true):
		return "etcd of this host does not run" + verdict(r)
	case !local.Leader.Known || local.Leader.Value == 0:
		return "etcd of this host knows no leader" + verdict(r)
	case !local.Members.Known:
		return "etcd of this host does not tell its members" + verdict(r)
	}
	voters := slices.DeleteFunc(slices.Clone(local.Members.Value), func(m state.EtcdMember) bool { return m.Learner })
	if len(voters) != twoVoters {
		return fmt.Sprintf("etcd has %d voters of two%s", len(voters), verdict(r))
	}
	return ""
}

const twoVoters = 2

// runs says what is missing until etcd runs in podman and votes.
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
		return "podman does not run etcd" + verdict(r), nil
	}
	held, err := h.holds(p.PID)
	if err != nil || !held {
		return "kubelet's etcd still holds the data", err
	}
	return voting(r), nil
}

// holds reports whether a process has the lock of etcd's database.
func (h *Host) holds(pid int) (bool, error) {
	info, err := os.Stat(h.path(etcdDB))
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, errors.New("the file system does not number its files")
	}
	locks, err := os.ReadFile(h.path(fileLocks))
	if err != nil {
		return false, err
	}
	return lockedBy(string(locks), pid, stat.Ino), nil
}

// lockedBy looks in /proc/locks: "1: FLOCK ADVISORY WRITE pid major:minor:inode ...".
func lockedBy(locks string, pid int, inode uint64) bool {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[4] != strconv.Itoa(pid) {
			continue
		}
		if strings.HasSuffix(f[5], ":"+strconv.FormatUint(inode, 10)) {
			return true
		}
	}
	return false
}
