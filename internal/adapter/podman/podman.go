// Package podman runs the one container that a host runs without a cluster:
// etcd. podman itself is asked only to make and to start it; whether it runs is
// read from /proc, and it is ended by signals, so that neither a monitor nor a
// stop waits for podman's locks, its disk or its monitor process.
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

// program is podman.
var program = "podman"

// Limits of podman's own work. A start takes 0.15 s, making a container anew
// 0.2 s; where podman hangs, the rest of the caller's time is for another way.
const (
	startLimit = 5 * time.Second
	lookLimit  = 2 * time.Second
)

// label holds the hash of the spec that a container was made from.
const label = "holdfast.spec"

// ErrNoImage is returned where podman does not have the image. Ensure loads it.
var ErrNoImage = errors.New("the image is not on this host")

// Spec is a container and what the host allows it.
type Spec struct {
	state.Container
	// OOMScore is what the kernel adds where it has to end a process; nil leaves
	// it as it is. A negative one needs a host that may lower it
	// (state.HostFacts.RestrictOOM is false).
	OOMScore *int `json:"oomScore,omitempty"`
}

// Hash names what a container is made from.
func (s Spec) Hash() string {
	data, err := json.Marshal(s)
	if err != nil { // it holds strings and numbers alone
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Run makes sure that the container runs as the spec says. One that runs so is
// left alone, one that was made so is started, all else is made anew; whatever
// is left over of an earlier one is removed.
func Run(ctx context.Context, s Spec) error { return onHost.run(ctx, s) }

func (m machine) run(ctx context.Context, s Spec) error {
	if len(s.Command) == 0 || s.Name == "" || s.Image == "" {
		return errors.New("run a container: it has no name, no image or no command")
	}
	now, err := m.state()
	if err != nil {
		return fmt.Errorf("run container %s: %w", s.Name, err)
	}
	if now.Running && (now.Spec == s.Hash() || now.Spec == "" && m.adopt(ctx, s, now)) {
		return nil
	}
	// podman would wait for it to end by itself.
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

// restart starts the container that is there, if it was made from the same
// spec. That works on a full disk, where none can be made.
func (m machine) restart(ctx context.Context, s Spec) bool {
	if made(ctx, s) != s.Hash() {
		return false
	}
	err := apart(ctx, "start", s.Name)
	return err == nil && m.started(s) == nil
}

// adopt reports whether a process that nobody noted is one of this spec: we
// ended between its start and the note.
func (m machine) adopt(ctx context.Context, s Spec, p Process) bool {
	if made(ctx, s) != s.Hash() {
		return false
	}
	m.remember(p, s.Hash())
	return true
}

// made returns the spec that the container there is was made from, or nothing.
func made(ctx context.Context, s Spec) string {
	out, err := podman(ctx, lookLimit, "container", "inspect", "--format", `{{index .Config.Labels "`+label+`"}}`, s.Name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// make replaces the container. What a power cut left may be known to podman's
// storage alone, or be in a state that podman does not know how to leave: it is
// removed by force, and making it is tried once more.
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
		_, _ = podman(ctx, startLimit, remove...) // the second attempt tells what matters
	}
	if again := apart(ctx, args...); again != nil {
		return again
	}
	return m.started(s)
}

// runArgs are the arguments of podman run.
//   - cgroupfs, and the monitor process where it is: systemd would otherwise get
//     a scope that it stops at a shutdown before the agent could leave.
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

// started checks that a process came of it, which podman does not always say,
// and notes what it was made from.
func (m machine) started(s Spec) error {
	now, err := m.state()
	if err != nil {
		return err
	}
	if !now.Running {
		return errors.New("podman says that it started the container, and no process of it runs: look with podman logs " + s.Name)
	}
	m.remember(now, s.Hash())
	return nil
}

// explained says what to do where podman's words do not.
func explained(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "no space left on device"), errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("a disk is full; make room in /var/lib/containers, /var/lib/etcd and /run: %w", err)
	case strings.Contains(text, "image not known"):
		return fmt.Errorf("%w; load it from the release: %w", ErrNoImage, err)
	case strings.Contains(text, "invalid database"):
		return fmt.Errorf("podman's own list of containers is damaged; move the file away, podman makes another: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("podman did not answer in time; look for a hung podman process: %w", err)
	default:
		return err
	}
}

// podman runs one command of podman's, for a limited time.
func podman(ctx context.Context, limit time.Duration, args ...string) ([]byte, error) {
	return podmanFrom(ctx, nil, limit, args...)
}

// apart runs a command of podman's whose processes must outlive the caller's
// unit, whatever happens to that: etcd ends with its monitor process. Where
// systemd is the host's init they get a scope of their own. It has no default
// dependencies, so a shutdown does not end it before Pacemaker had the agent
// leave in order.
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

// systemdRuns is there where systemd is the init (sd_booted(3)).
const systemdRuns = "/run/systemd/system"

// command is a call of podman that does what systemd's own units would not let
// it do.
func command(args []string) host.Cmd {
	return host.Cmd{
		Name: program, Args: append([]string{"--cgroup-manager=cgroupfs"}, args...),
		Env: []string{"NOTIFY_SOCKET="}, Grace: 500 * time.Millisecond,
	}
}

func podmanFrom(ctx context.Context, in io.Reader, limit time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := command(args)
	c.Stdin = in
	return host.Run(ctx, c)
}
