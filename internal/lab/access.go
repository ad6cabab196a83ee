package lab

import (
	"context"
	"fmt"
	"net"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Dial connects to a literal address of the lab's networks, as a client on the
// other side of their gateway does. It depends on no host but the one it calls.
func (b *Lab) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return namespace(b.Layout.Switch()).dial(ctx, network, address)
}

// Listen listens at a literal address that the lab itself has in its networks, as a server
// of the site does that is no host of it.
func (b *Lab) Listen(ctx context.Context, address string) (net.Listener, error) {
	return namespace(b.Layout.Switch()).listen(ctx, address)
}

// Process identifies one process on the machine forever: a pid is used again, a
// pid with its start time is not.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // in clock ticks since the machine's boot
}

// Processes returns the processes of a name on a host, including those in the
// host's own containers.
func (b *Lab) Processes(ctx context.Context, h Host, name string) ([]Process, error) {
	id, err := containerID(ctx, h)
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, pid := range processesOf(id, name) {
		if p, err := identify(pid); err == nil && !p.zombie {
			list = append(list, Process{PID: p.PID, Start: p.Start})
		}
	}
	return list, nil
}

// Output runs a short command on a running host and returns what it prints. It
// enters the host's namespaces but not its control group, so it must not leave
// anything running.
func (b *Lab) Output(ctx context.Context, c *Client, hostName string, line ...string) ([]byte, error) {
	pid, err := b.pid(ctx, c, hostName)
	if err != nil {
		return nil, err
	}
	return output(ctx, pid, line...)
}

// Enter is like Output, but the command uses the given streams. It returns an
// *ExitError if the command fails.
func (b *Lab) Enter(ctx context.Context, c *Client, hostName string, line []string, s ExecStreams) error {
	pid, err := b.pid(ctx, c, hostName)
	if err != nil {
		return err
	}
	cmd := entering(pid, line)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	return exitError(host.Run(ctx, cmd))
}

// Root returns the directory on the machine that leads to the files of a
// running host. It is valid for one boot of the host.
func (b *Lab) Root(ctx context.Context, c *Client, hostName string) (string, error) {
	pid, err := b.pid(ctx, c, hostName)
	return fmt.Sprintf("/proc/%d/root", pid), err
}

// pid returns the pid of a running host's init.
func (b *Lab) pid(ctx context.Context, c *Client, hostName string) (int, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return 0, err
	}
	for _, h := range st.Hosts {
		if h.Name == hostName && h.PID != 0 {
			return h.PID, nil
		}
	}
	return 0, fmt.Errorf("host %s of lab %s is off", hostName, b.Layout.Spec.Name)
}

// LogPath returns the path of the log of the lab's daemon. The log has a line
// for each reset that a BMC was asked for.
func (b *Lab) LogPath() string { return b.file(daemonLog) }
