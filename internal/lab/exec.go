package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// ExecStreams are the streams of an interactive command.
type ExecStreams struct {
	In       io.Reader
	Out, Err io.Writer
	// TTY is set if both In and Out are a terminal.
	TTY bool
}

// ExitError reports a command that ran and failed. The command has already
// written its messages to its own streams.
type ExitError struct{ Code int }

func (e *ExitError) Error() string {
	return fmt.Sprintf("the command ended with exit status %d", e.Code)
}

// ExitCode returns the command's exit status, which becomes that of `lab exec`.
func (e *ExitError) ExitCode() int { return e.Code }

// Exec runs a command on a host, in the host's own control group. It returns
// an *ExitError if the command fails.
func (b *Lab) Exec(ctx context.Context, h Host, line []string, s ExecStreams) error {
	st, err := inspect(ctx, h)
	if err != nil {
		return err
	}
	if !st.Running {
		return fmt.Errorf("host %s is off: switch it on with 'holdfast lab power --name %s %[1]s on'", h.Name, b.Layout.Spec.Name)
	}
	args := []string{"exec", "--interactive"}
	if s.TTY {
		args = append(args, "--tty", "--env", "TERM=xterm-256color")
	}
	cmd := podmanCommand(append(append(args, h.Container), line...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	return exitError(host.Run(ctx, cmd))
}

func exitError(_ []byte, err error) error {
	if code := host.ExitCode(err); code > 0 {
		return &ExitError{Code: code}
	}
	return err
}

// output runs a command on a running host and returns what it prints. It enters
// the host's namespaces directly, which is faster than podman exec and suits
// short commands.
func output(ctx context.Context, pid int, line ...string) ([]byte, error) {
	return host.Run(ctx, entering(pid, line))
}

// A host that shuts down stops all its processes for a moment. nsenter would stop itself with
// its child, nobody would have it go on, and the host's first process would wait for ever for that
// child. So a shell outside of the host's process namespace waits for it.
func entering(pid int, line []string) host.Cmd {
	args := []string{"--target", fmt.Sprint(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--no-fork"}
	const shell = `"$@"; exit $?` // not the shell's last command: that would run outside, too
	return host.Command("nsenter", append(append(args, "sh", "-c", shell, "sh"), line...)...)
}

// errNoKubectl reports that no kubectl was found, and where the lab looked.
var errNoKubectl = errors.New("kubectl not found: it is not in PATH, and no running host has it")

// Kubectl runs kubectl on this machine against the lab's cluster, through the
// lab's door to its API address. It takes the machine's kubectl, or else the
// one of a host.
func (b *Lab) Kubectl(ctx context.Context, c *Client, args []string, s ExecStreams) error {
	kubeconfig, err := b.WriteKubeconfig(ctx, c)
	if err != nil {
		return err
	}
	program, err := b.findKubectl(ctx, c)
	if err != nil {
		return err
	}
	cmd := host.Command(program, args...)
	cmd.Env = []string{"KUBECONFIG=" + kubeconfig}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	return exitError(host.Run(ctx, cmd))
}

func (b *Lab) findKubectl(ctx context.Context, c *Client) (string, error) {
	if path, err := host.LookPath("kubectl"); err == nil {
		return path, nil
	}
	st, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	for _, h := range st.Hosts {
		// A host has a link at the second path, which from here leads to this machine's
		// own /opt; one of an earlier release has the program.
		for _, dir := range []string{payload.CurrentRelease, "/"} {
			path := filepath.Join("/proc", fmt.Sprint(h.PID), "root", dir, "usr/local/bin/kubectl")
			if h.PID != 0 && exists(path) {
				return path, nil
			}
		}
	}
	return "", errNoKubectl
}
