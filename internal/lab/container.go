package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Labels of every container of a lab: the lab's name and its directory.
const (
	containerLabel = "holdfast.lab"
	dirLabel       = "holdfast.lab.dir"
)

// volumes holds the directories of a host that contain overlay stores or a
// database and so must not lie on the container's own overlay.
var volumes = map[string]string{
	"containers": "/var/lib/containers",
	"containerd": "/var/lib/containerd",
	"kubelet":    "/var/lib/kubelet",
	"etcd":       "/var/lib/etcd",
}

// podman runs podman. Events go to a file: the machine may have no journal.
func podman(ctx context.Context, args ...string) ([]byte, error) {
	return host.Run(ctx, podmanCommand(args...))
}

// podmanCommand returns a podman command line that works whatever the machine's
// own podman configuration says: crun refuses mixed cgroup hierarchies.
func podmanCommand(args ...string) host.Cmd {
	fixed := []string{"--runtime", "runc", "--events-backend", "file", "--cgroup-manager", "cgroupfs"}
	return host.Command("podman", append(fixed, args...)...)
}

// createArgs returns the arguments that make a host's container. The container
// is created once, then started and killed as the host is powered on and off.
//
// --systemd=false with tmpfs of our own gives every host a private cgroup tree;
// podman's own systemd mode mounts the machine's root of the name=systemd
// hierarchy into all of them, and two inits break each other.
func (b *Lab) createArgs(h Host, image string) []string {
	args := []string{
		"create", "--name", h.Container, "--hostname", h.Name, "--no-hosts", "--dns", "none",
		"--label", labelOf(b.Layout.Spec.Name), "--label", dirLabel + "=" + b.Dir,
		"--privileged", "--cgroupns", "private", "--systemd=false", "-e", "container=podman",
		"--stop-signal", "SIGRTMIN+3", "--restart", "no", "--log-driver", "none", "--pids-limit", "0",
		"--tmpfs", "/run:rw,exec,mode=755", "--tmpfs", "/run/lock:rw", "--tmpfs", "/tmp:rw,exec,mode=1777",
		// Each client of Corosync takes 3 MB of it. podman's 64 MB are full
		// before Pacemaker runs; a real host has half its memory.
		"--shm-size", "1g",
		"--ulimit", "nofile=10000:10000", "--ulimit", "nproc=8000:8000",
		"--network", "ns:" + namespace(h.Namespace).path(),
	}
	for name, path := range volumes {
		args = append(args, "-v", filepath.Join(b.hostDir(h), name)+":"+path)
	}
	for _, m := range b.hostMounts(h) {
		args = append(args, "-v", m)
	}
	return append(args, image, "/sbin/init")
}

// hostMounts returns the read-only mounts that the lab provides: identity, the
// Ignition file, the agent, the release and the stick.
func (b *Lab) hostMounts(h Host) []string {
	dir := b.hostDir(h)
	mounts := []string{filepath.Join(dir, "lib") + ":/usr/lib/holdfast:ro"}
	if b.Options.Release != "" && !b.Options.Spec.Pull {
		mounts = append(mounts, b.Options.Release+":/usr/share/holdfast/release:ro")
	}
	if b.Options.Stick != "" {
		mounts = append(mounts, b.Options.Stick+":"+StickPath+":ro")
	}
	return mounts
}

// createContainer makes a host's container unless it exists, and those parts of
// its directory that are missing.
func (b *Lab) createContainer(ctx context.Context, h Host, image string) error {
	if err := b.prepareHostDir(h); err != nil {
		return err
	}
	if h.Role.ControlPlane() {
		if err := b.mountEtcdDisk(ctx, h); err != nil {
			return err
		}
	}
	if !containerExists(ctx, h) {
		if _, err := podman(ctx, b.createArgs(h, image)...); err != nil {
			return fmt.Errorf("create host %s: %w", h.Name, err)
		}
	}
	st, err := inspect(ctx, h)
	if err != nil || st.Status != "created" {
		return err // it has booted before, and its resolv.conf is its own
	}
	return b.writeResolvConf(ctx, h)
}

func containerExists(ctx context.Context, h Host) bool {
	_, err := podman(ctx, "container", "exists", h.Container)
	return err == nil
}

// writeResolvConf gives a host its first resolv.conf, as DHCP would. It writes
// a plain file of the host's own, because podman's is a mount that cannot be
// replaced.
func (b *Lab) writeResolvConf(ctx context.Context, h Host) error {
	return withFiles(ctx, h, func(root string) error { return b.Layout.giveResolvConf(h, root) })
}

// withFiles lets fn read and write the files of a host that is off, below root.
func withFiles(ctx context.Context, h Host, fn func(root string) error) error {
	out, err := podman(ctx, "mount", h.Container)
	if err != nil {
		return err
	}
	err = fn(strings.TrimSpace(string(out)))
	_, umountErr := podman(ctx, "umount", h.Container)
	return errors.Join(err, umountErr)
}

// containerState is the state of a host's container, as podman reports it.
type containerState struct {
	Status    string
	Running   bool
	Pid       int
	ConmonPid int
	ExitCode  int
}

func inspect(ctx context.Context, h Host) (containerState, error) {
	out, err := podman(ctx, "container", "inspect", "--format", "{{json .State}}", h.Container)
	if err != nil {
		return containerState{}, err
	}
	var st containerState
	if err := json.Unmarshal(out, &st); err != nil {
		return containerState{}, fmt.Errorf("state of container %s: %w", h.Container, err)
	}
	return st, nil
}

// exits is where conmon leaves a container's exit status for podman.
const exits = "/run/libpod/exits"

// noteKilled tells podman that a host ended, where nobody else does: podman learns
// it from conmon alone, which was killed together with the host, as the end of a
// whole session does. It reports whether that was so.
func noteKilled(ctx context.Context, h Host, st containerState) (bool, error) {
	if !st.Running || runsIn(h, st.Pid) || isConmon(st.ConmonPid) {
		return false, nil
	}
	id, err := podman(ctx, "container", "inspect", "--format", "{{.Id}}", h.Container)
	if err != nil {
		return false, err
	}
	status := strconv.Itoa(128 + int(unix.SIGKILL))
	if err := os.WriteFile(filepath.Join(exits, strings.TrimSpace(string(id))), []byte(status), 0o600); err != nil {
		return false, fmt.Errorf("note that host %s was killed: %w", h.Name, err)
	}
	_, err = podman(ctx, "container", "cleanup", h.Container)
	return err == nil, err
}

// runsIn reports whether a process is in a host's network: another process may have
// the pid of one that ended.
func runsIn(h Host, pid int) bool {
	var process, hosts unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &process) == nil &&
		unix.Stat(namespace(h.Namespace).path(), &hosts) == nil && process.Ino == hosts.Ino
}

// isConmon reports whether a process is a conmon that lives: one that ended and that
// nobody has waited for has no program any more.
func isConmon(pid int) bool {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && filepath.Base(program) == "conmon"
}

// initProcess is the first process of a running host.
type initProcess struct {
	pid   int
	pidfd int
}

// openInit returns the init process of a running host. The pidfd keeps
// referring to it even if another process gets its pid later.
func openInit(ctx context.Context, h Host) (*initProcess, error) {
	st, err := inspect(ctx, h)
	if err != nil {
		return nil, err
	}
	if !st.Running || st.Pid == 0 {
		return nil, fmt.Errorf("host %s is not running (container is %s)", h.Name, st.Status)
	}
	fd, err := unix.PidfdOpen(st.Pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process %d of host %s: %w", st.Pid, h.Name, err)
	}
	return &initProcess{pid: st.Pid, pidfd: fd}, nil
}

// signal sends a signal to init. SIGKILL takes every process of the host with
// it: the kernel ends the whole pid namespace.
func (p *initProcess) signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// wait returns when the process has ended.
func (p *initProcess) wait() {
	poll := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(poll, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (p *initProcess) close() { _ = unix.Close(p.pidfd) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
