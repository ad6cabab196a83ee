package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
)

// bounds ends a measurement when the first of them is reached.
type bounds struct {
	time  time.Duration
	bytes int
}

// diskBounds are the bounds that the documentation states.
var diskBounds = bounds{2 * time.Second, 8 << 20}

// writeSize follows etcd's recommendation for measuring disks.
const writeSize = 2300

// measure writes to the disk of a folder as etcd writes its log: small writes,
// one after the other, each made durable before the next.
func measure(ctx context.Context, dir string, most bounds, now func() time.Time) (decide.Disk, error) {
	f, err := nameless(dir)
	if err != nil {
		return decide.Disk{}, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	took, err := write(ctx, f, most, now)
	if err := errors.Join(err, f.Close()); err != nil {
		return decide.Disk{}, fmt.Errorf("measure the disk of %s: %w", dir, err)
	}
	slices.Sort(took)
	return decide.Disk{Path: dir, Writes: len(took), P99: took[(len(took)*99+99)/100-1], Worst: took[len(took)-1]}, nil
}

// nameless opens a file without a name in the folder, which disappears however
// this process ends. The folder is etcd's, and only etcd may have files in it.
func nameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create an unnamed file: %w", err)
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// write writes until one of the bounds is reached, at least once.
func write(ctx context.Context, f *os.File, most bounds, now func() time.Time) ([]time.Duration, error) {
	block := make([]byte, writeSize)
	begin := now()
	var took []time.Duration
	for {
		before := now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, err
		}
		after := now()
		took = append(took, after.Sub(before))
		if after.Sub(begin) >= most.time || (len(took)+1)*writeSize > most.bytes || ctx.Err() != nil {
			return took, ctx.Err()
		}
	}
}
