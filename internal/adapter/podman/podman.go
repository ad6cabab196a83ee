// Package podman runs the only container that a host runs outside of the
// cluster: etcd. It uses podman only to create and to start the container, and
// to learn from which spec it was made if our note of that is gone. It reads
// from /proc whether the container runs, and ends it by signals, so that
// neither a monitor action nor a stop waits for podman's locks, its disk or its
// monitor process.
package podman

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// program is the name or path of podman.
var program = "podman"

// Limits of podman's own work. A start takes 0.15 s, to create a container anew
// 0.2 s. If podman hangs, the caller needs the rest of its time for another
// way.
const (
	startLimit = 5 * time.Second
	lookLimit  = 2 * time.Second
)

// label is the container label with the hash of the spec, and hashBytes the length
// of that hash.
const (
	label     = "holdfast.spec"
	hashBytes = 8
)

// ErrNoImage is returned if podman does not have the image. Ensure loads it.
var ErrNoImage = errors.New("the image is not on this host")

// ErrEnded is returned if podman started the process, and it ended at once.
var ErrEnded = errors.New("podman reported a start, but no process of the container runs")

// Spec describes a container and what the host allows it.
type Spec struct {
	state.Container
	// OOMScore is the value that the kernel adds to the score of the process
	// when memory runs out; nil leaves it unchanged. A negative value needs a
	// host that may lower it (state.HostFacts.RestrictOOM is false).
	OOMScore *int `json:"oomScore,omitempty"`
	// CPUShares is the weight of the container where processes wait for a processor,
	// in the unit of cgroup v1: everything else beside it at the root of the host's
	// groups has 1024, and the pods together 1024 for each processor. 0 leaves podman's.
	CPUShares int `json:"cpuShares,omitempty"`
}

// Hash identifies the content of a spec.
func (s Spec) Hash() string {
	data, err := json.Marshal(s)
	if err != nil { // it holds only strings and numbers
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:hashBytes])
}

// Run makes sure that the container runs as the spec says. It leaves one alone
// that already runs so, starts one that was created so, and otherwise creates
// it anew; it removes whatever is left of an earlier one.
func Run(ctx context.Context, s Spec) error { return onHost.run(ctx, s) }

func (m machine) run(ctx context.Context, s Spec) error {
	if len(s.Command) == 0 || s.Name == "" || s.Image == "" {
		return errors.New("run a container: it has no name, no image or no command")
	}
	now, err := m.state()
	if err != nil {
		return fmt.Errorf("run container %s: %w", s.Name, err)
	}
	if now.Running && now.Spec == "" {
		now.Spec, _ = m.adopt(ctx, s.Name, now) // what nobody knows is made anew
	}
	if now.Running && now.Spec == s.Hash() {
		return nil
	}
	// Without this, podman would wait until the container ends by itself.
	if err := errors.Join(m.kill(ctx), m.forget()); err != nil {
		return fmt.Errorf("run container %s: %w", s.Name, err)
	}
	if m.restart(ctx, s) {
		return nil
	}
	if err := m.make(ctx, s); err != nil {
		return fmt.Errorf("run container %s: %w", s.Name, explained(err))
	}
	return nil
}

// restart starts the existing container, if it was made from the same spec.
// A restart works on a full disk, where no container can be created.
func (m machine) restart(ctx context.Context, s Spec) bool {
	if spec, err := made(ctx, s.Name); err != nil || spec != s.Hash() {
		return false
	}
	err := apart(ctx, "start", s.Name)
	return err == nil && m.started(s) == nil
}

// Adopt asks podman for the hash of the spec from which the running process of a
// container was started, and notes it. It is for a process that has no note: we
// ended between its start and the note, or somebody cleaned /run. It returns an
// error if podman does not say, or if it may speak of another process.
func Adopt(ctx context.Context, name string, p Process) (spec string, err error) {
	return onHost.adopt(ctx, name, p)
}

func (m machine) adopt(ctx context.Context, name string, p Process) (string, error) {
	spec, err := made(ctx, name)
	if err != nil {
		return "", fmt.Errorf("find out from which spec container %s runs: %w", name, err)
	}
	now, err := m.state()
	if err == nil && (now.PID != p.PID || now.Started != p.Started) {
		err = errors.New("it was started anew meanwhile")
	}
	if err != nil {
		return "", fmt.Errorf("find out from which spec container %s runs: %w", name, err)
	}
	m.remember(p, spec)
	return spec, nil
}

// made returns the hash of the spec of the existing container.
func made(ctx context.Context, name string) (string, error) {
	out, err := podman(ctx, lookLimit, "container", "inspect", "--format", `{{index .Config.Labels "`+label+`"}}`, name)
	if err != nil {
		return "", explained(err)
	}
	spec := strings.TrimSpace(string(out))
	if sum, err := hex.DecodeString(spec); err != nil || len(sum) != hashBytes {
		return "", fmt.Errorf("its label %s is %q and no hash; see: podman inspect %s", label, spec, name)
	}
	return spec, nil
}

// make replaces the container. After a power cut, the old one may be known only
// to podman's storage, or be in a state that podman cannot leave. In that case
// make removes it by force and tries once more.
func (m machine) make(ctx context.Context, s Spec) error {
	args := m.runArgs(s)
	err := apart(ctx, args...)
	if err == nil {
		return m.started(s)
	}
	if ctx.Err() != nil {
		return err
	}
	for _, remove := range [][]string{{"rm", "--force", "--time", "0", s.Name}, {"rm", "--storage", s.Name}} {
		_, _ = podman(ctx, startLimit, remove...) // only the result of the second attempt counts
	}
	if again := apart(ctx, args...); again != nil {
		return again
	}
	return m.started(s)
}

// runArgs returns the arguments of podman run.
//   - cgroupfs, and the monitor process stays in its cgroup: otherwise systemd
//     would get a scope that it stops at a shutdown before the agent could leave.
//   - the host's limits: podman's own may be more than the host can give.
//   - no label of SELinux: the folders are shared with the agent.
func (m machine) runArgs(s Spec) []string {
	args := []string{
		"run", "--detach", "--replace", "--name", s.Name, "--pull", "never", "--restart", "no",
		"--network", "host", "--cgroups", "no-conmon", "--pidfile", m.pidFile, "--ulimit", "host",
		"--security-opt", "label=disable", "--sdnotify", "ignore", "--label", label + "=" + s.Hash(),
	}
	if s.OOMScore != nil {
		args = append(args, "--oom-score-adj", strconv.Itoa(*s.OOMScore))
	}
	if s.CPUShares > 0 { // in podman's own parent the weight would count among podman's containers alone
		args = append(args, "--cgroup-parent", "/", "--cpu-shares", strconv.Itoa(s.CPUShares))
	}
	for _, e := range s.Env {
		args = append(args, "--env", e)
	}
	for _, v := range s.Mounts {
		mount := v.Source + ":" + v.Target
		if v.ReadOnly {
			mount += ":ro"
		}
		args = append(args, "--volume", mount)
	}
	args = append(args, "--entrypoint", s.Command[0], s.Image)
	return append(args, s.Command[1:]...)
}

// started checks that a process exists, since podman may report success without
// one, and notes from which spec it was made.
func (m machine) started(s Spec) error {
	now, err := m.state()
	if err != nil {
		return err
	}
	if !now.Running {
		return fmt.Errorf("%w; see: podman logs %s", ErrEnded, s.Name)
	}
	m.remember(now, s.Hash())
	return nil
}

// explained adds what to do where podman's message does not tell it.
func explained(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "no space left on device"), errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("a disk is full; make room in /var/lib/containers, /var/lib/etcd and /run: %w", err)
	case strings.Contains(text, "image not known"):
		return fmt.Errorf("%w; load it from the release: %w", ErrNoImage, err)
	case strings.Contains(text, "invalid database"):
		return fmt.Errorf("podman's database of containers is damaged; move the file away, podman creates a new one: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("podman did not answer in time; look for a hung podman process: %w", err)
	default:
		return err
	}
}

// podman runs one command of podman within a limit.
func podman(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	return podmanFrom(ctx, nil, limit, args...)
}

// apart runs a podman command whose processes must outlive the caller's unit,
// whatever happens to that unit: etcd ends with its monitor process. If systemd
// is the host's init, the processes get their own scope. The scope has no
// default dependencies, so that a shutdown does not end it before Pacemaker had
// the agent leave in order.
func apart(ctx context.Context, args ...string) error {
	if _, err := os.Stat(systemdRuns); err != nil {
		_, err := podman(ctx, startLimit, args...)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := command(args)
	c.Args = append([]string{
		"--scope", "--quiet", "--collect", "--property=DefaultDependencies=no",
		"--description=etcd of this host", "--", c.Name,
	}, c.Args...)
	c.Name = "systemd-run"
	_, err := host.Run(ctx, c)
	return err
}

// systemdRuns exists if systemd is the init (sd_booted(3)).
const systemdRuns = "/run/systemd/system"

// command returns a call of podman that also works where the settings of
// systemd's units would prevent it.
func command(args []string) host.Cmd {
	return host.Cmd{
		Name: program, Args: append([]string{"--cgroup-manager=cgroupfs"}, args...),
		Grace: 500 * time.Millisecond,
	}
}

func podmanFrom(ctx context.Context, in io.Reader, limit time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := command(args)
	c.Stdin = in
	return host.Run(ctx, c)
}
