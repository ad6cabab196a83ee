package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Launcher returns the command line of a lab's daemon: of a process that calls
// RunDaemon for the lab of that directory.
type Launcher func(b *Lab) host.Cmd

// SelfLauncher starts the daemon as `holdfast-lab daemon`, from the running
// holdfast-lab: this is the same build even if the file was replaced.
func SelfLauncher(b *Lab) host.Cmd {
	return host.Command("/proc/self/exe", "daemon", "--name", b.Layout.Spec.Name)
}

// daemonPatience bounds the time until a daemon answers after its start.
const daemonPatience = 30 * time.Second

// rivalPatience is the time that another daemon gets that was quicker.
const rivalPatience = 2 * time.Second

// EnsureDaemon returns a client to the lab's daemon, which it starts if none
// answers.
func (b *Lab) EnsureDaemon(ctx context.Context, launch Launcher) (*Client, error) {
	c := NewClient(b)
	if _, err := c.Status(ctx); err == nil {
		return c, nil
	}
	if !namespace(b.Layout.Switch()).exists() {
		name := b.Layout.Spec.Name
		return nil, fmt.Errorf("lab %s is incomplete, or this machine was restarted: run 'holdfast lab up --name %[1]s' with the same flags to finish it, or 'holdfast lab down --name %[1]s' to remove it", name)
	}
	if answers, err := b.awaitEnd(ctx, c); answers || err != nil {
		return c, err
	}
	pid, err := host.StartDetached(launch(b), b.file(daemonLog))
	if err != nil {
		return nil, fmt.Errorf("start the lab daemon: %w", err)
	}
	started, err := identify(pid)
	if err != nil {
		started = processID{} // it ended at once
	}
	return c, b.awaitDaemon(ctx, c, started)
}

// awaitEnd waits until no daemon holds the lab's lock: one that ends first waits
// for a host that it boots. It reports true if a daemon answers instead.
func (b *Lab) awaitEnd(ctx context.Context, c *Client) (answers bool, err error) {
	for end := time.Now().Add(daemonPatience); time.Now().Before(end); {
		if free, err := b.daemonLockFree(); free || err != nil {
			return false, err
		}
		if _, err := c.Status(ctx); err == nil {
			return true, nil
		}
		if err := host.Sleep(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, nil // awaitDaemon says what is wrong
}

// awaitDaemon waits for an answer. If the daemon ended at once, another one may
// be starting, so awaitDaemon gives that one a moment.
func (b *Lab) awaitDaemon(ctx context.Context, c *Client, started processID) error {
	end := time.Now().Add(daemonPatience)
	for dead := false; time.Now().Before(end); {
		if _, err := c.Status(ctx); err == nil {
			return nil
		}
		if !dead && !started.running() {
			dead, end = true, time.Now().Add(rivalPatience)
		}
		if err := host.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the lab daemon does not answer; the end of its log: %s", b.daemonWords())
}

// daemonWords returns the last lines of the daemon's log.
func (b *Lab) daemonWords() string {
	data, err := os.ReadFile(b.file(daemonLog))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// endDaemon ends the lab's daemon, if one runs, and waits until it is gone.
// Only a process that is proven to be that daemon gets a signal. If a daemon
// has just been started, endDaemon waits until it has recorded its identity: it
// holds the daemon's lock, and would go on in a lab that is gone.
func (b *Lab) endDaemon(ctx context.Context) error {
	for try := range 100 {
		sig := syscall.SIGTERM
		if try > 50 {
			sig = syscall.SIGKILL
		}
		if gone, err := b.signalDaemon(sig); gone || err != nil {
			return err
		}
		if err := host.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the lab daemon does not stop; the end of its log: %s", b.daemonWords())
}

// signalDaemon sends a signal to the daemon that has recorded its identity. It
// reports true if none runs or is starting.
func (b *Lab) signalDaemon(sig syscall.Signal) (gone bool, err error) {
	var id processID
	if err := readJSON(b.file(daemonFile), &id); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if !id.running() {
		return b.daemonLockFree()
	}
	if err := syscall.Kill(id.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, fmt.Errorf("stop the lab daemon (process %d): %w", id.PID, err)
	}
	return false, nil
}

// daemonLockFree reports whether no daemon of the lab runs or is starting.
func (b *Lab) daemonLockFree() (bool, error) {
	path := b.file(daemonLock)
	if !exists(path) {
		return true, nil
	}
	release, err := lock(path)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	release()
	return true, nil
}
