package host

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// awaitStep bounds one wait for a process, in milliseconds; after it the
// context is checked.
const awaitStep = 1000

// AwaitEnd returns nil as soon as a process has ended, or if there is none with
// this pid, or otherwise the cause of the context's end. The process need not
// be a child.
func AwaitEnd(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, awaitStep) //nolint:gosec // a descriptor is small
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
	}
	return context.Cause(ctx)
}

// EndProcess asks a process to end, and waits until it has. is reports whether the
// process of that pid is still the one that is meant.
func EndProcess(ctx context.Context, pid int, is func() bool) error {
	sent, err := send(pid, unix.SIGTERM, is)
	if err != nil || !sent {
		return err
	}
	if err := AwaitEnd(ctx, pid); err != nil {
		return fmt.Errorf("process %d does not end: %w", pid, err)
	}
	return nil
}

// KillProcess ends a process at once, whatever it does, and does not wait. is is that of
// EndProcess.
func KillProcess(pid int, is func() bool) error {
	_, err := send(pid, unix.SIGKILL, is)
	return err
}

// send sends a signal to the process that is meant, and reports whether there was one.
func send(pid int, signal unix.Signal, is func() bool) (sent bool, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("end process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !is() { // asked once the descriptor holds the pid
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("end process %d: %w", pid, err)
	}
	return true, nil
}
