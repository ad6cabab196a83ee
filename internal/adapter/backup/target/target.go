// Package target writes backups to places outside of the host, and reads them back: a
// directory, an S3 bucket, a server with SFTP. It writes under a temporary name where the
// place can rename, so that a file there is whole or not there.
//
// Each operation ends with its context and when no byte moves for a while. An operation on
// a directory whose server is gone hangs in the kernel, where nothing ends it: it is left
// behind, which is why a process of its own sends backups.
package target

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// Target is a place. Names are paths with slashes below the target's own path or prefix.
type Target interface {
	// Put writes a file of a size. Another one of the name is replaced.
	Put(ctx context.Context, name string, from io.ReadSeeker, size int64) error
	// Get reads a file.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove removes a file; one that is not there is no error.
	Remove(ctx context.Context, name string) error
	Close() error
}

// Open opens a target. It connects where it has to.
func Open(ctx context.Context, t backup.Target) (Target, error) {
	var out Target
	var err error
	switch {
	case t.Directory != nil:
		out = openDirectory(*t.Directory)
	case t.S3 != nil:
		out, err = openBucket(*t.S3)
	case t.SFTP != nil:
		out, err = openSFTP(ctx, *t.SFTP)
	default:
		err = errors.New("it has no kind")
	}
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", t, err)
	}
	return out, nil
}

// Limits bound how a file is sent.
type Limits struct {
	// Idle is for how long no byte may move.
	Idle time.Duration
	// BytesPerSecond bounds writes; zero does not.
	BytesPerSecond int64
}

// Errors of a file that was sent.
var (
	// ErrIdle is returned if no byte moved for too long.
	ErrIdle = errors.New("no byte moved for too long")
	// ErrOther is returned if something else was read back than was written.
	ErrOther = errors.New("what was read back is not what was written")
)

// Send writes a file to a target, reads it back and compares. The digest is the one that
// the file had when it was made: a bit that has flipped on this host's disk since then is
// found too.
func Send(ctx context.Context, t Target, name, file string, want backup.File, l Limits) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return SendFrom(ctx, t, name, f, want, l)
}

// SendFrom is Send of something that can be read again.
func SendFrom(ctx context.Context, t Target, name string, f io.ReadSeeker, want backup.File, l Limits) error {
	if err := guard(ctx, l, func(ctx context.Context, m *meter) error {
		return t.Put(ctx, name, &metered{Seeker: f, r: f, m: m, ctx: ctx, rate: l.BytesPerSecond}, want.Size)
	}); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	got, err := ReadBack(ctx, t, name, l)
	if err != nil {
		return fmt.Errorf("read %s back: %w", name, err)
	}
	if got.Size != want.Size || got.SHA256 != want.SHA256 {
		// It must not be taken for a backup.
		return errors.Join(fmt.Errorf("%s: %w: %d bytes with digest %s, want %d with %s", name, ErrOther, got.Size, got.SHA256, want.Size, want.SHA256),
			Remove(context.WithoutCancel(ctx), t, name))
	}
	return nil
}

// removeLimit is the time for removing a file.
const removeLimit = time.Minute

// Remove removes a file within a minute.
func Remove(ctx context.Context, t Target, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	return leaving(ctx, func() error { return t.Remove(ctx, name) })
}

// ReadBack reads a file of a target and returns its size and digest.
func ReadBack(ctx context.Context, t Target, name string, l Limits) (backup.File, error) {
	out := backup.File{Name: name}
	err := guard(ctx, l, func(ctx context.Context, m *meter) error {
		r, err := t.Get(ctx, name)
		if err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.Copy(h, &metered{r: r, m: m, ctx: ctx})
		if ctx.Err() == nil { // else nobody waits for the answer any more
			out.Size, out.SHA256 = n, hex.EncodeToString(h.Sum(nil))
		}
		return errors.Join(err, r.Close())
	})
	return out, err
}

// guard runs an operation that moves bytes, and leaves it behind when the context ends or
// nothing has moved for too long.
func guard(ctx context.Context, l Limits, do func(context.Context, *meter) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &meter{}
	done := make(chan struct{})
	defer close(done)
	go m.watch(done, l.Idle, func() { cancel(ErrIdle) })
	return leaving(ctx, func() error { return do(ctx, m) })
}

// grace is how long an operation gets to notice that its context has ended.
const grace = 2 * time.Second

// leaving runs do, and returns soon after the context has ended even if do does not.
func leaving(ctx context.Context, do func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	select {
	case err := <-ended:
		return causeOf(ctx, err)
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		return causeOf(ctx, err)
	case <-timer.C:
		return context.Cause(ctx)
	}
}

// causeOf says why an operation ended if its context did.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// meter counts the bytes of one operation.
type meter struct{ moved atomic.Int64 }

// watch calls idle once nothing has moved for a time.
func (m *meter) watch(done <-chan struct{}, limit time.Duration, idle func()) {
	if limit <= 0 {
		return
	}
	ticks := time.NewTicker(max(limit/4, time.Millisecond))
	defer ticks.Stop()
	last, since := int64(-1), time.Now()
	for {
		select {
		case <-done:
			return
		case now := <-ticks.C:
			if moved := m.moved.Load(); moved != last {
				last, since = moved, now
			} else if now.Sub(since) >= limit {
				idle()
				return
			}
		}
	}
}

// metered counts, slows down, and ends with its context.
type metered struct {
	io.Seeker
	r    io.Reader
	m    *meter
	ctx  context.Context //nolint:containedctx // it lives as long as one operation
	rate int64
}

// most is the most that one read takes while there is a rate.
const most = 1 << 20

func (r *metered) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	if r.rate > 0 && len(p) > most {
		p = p[:most]
	}
	n, err := r.r.Read(p)
	r.m.moved.Add(int64(n))
	if slow := Slow(r.ctx, int64(n), r.rate); slow != nil {
		return n, slow
	}
	return n, err
}

// Slow waits for as long as some bytes take at a rate.
func Slow(ctx context.Context, n, rate int64) error {
	if rate <= 0 || n <= 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
