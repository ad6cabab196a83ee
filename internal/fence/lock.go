package fence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// lockTime is the longest time that a change of a device waits for another
	// one. It is longer than the test of the slowest BMC.
	lockTime = 5 * time.Minute
	// lockInterval is the time between two attempts.
	lockInterval = 50 * time.Millisecond
)

// errBusy reports a change of a device that waited in vain for the lock.
var errBusy = errors.New("another change of it is in progress: wait until 'holdfast fencing rotate', or the cluster's Job, is over, then run this again")

// lock keeps others from a target's device until release is called. An
// administrator's rotation and the cluster's Job both read the device, try the
// new one for seconds, and write. Without a lock, the one that read first would
// restore the old account. The kernel drops the lock when the process ends.
func (s Store) lock(ctx context.Context, target string) (release func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockTime, errBusy)
	defer cancel()
	dir := s.Files.Path(state.FencingDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("fencing device of %s: %w", target, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "."+target+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("fencing device of %s: %w", target, err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if errors.Is(err, unix.EWOULDBLOCK) && host.Sleep(ctx, lockInterval) == nil {
			continue
		}
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("fencing device of %s: %w", target, err)
	}
}
