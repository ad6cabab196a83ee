// Package target writes backups to places outside of the host, and reads them back: a
// directory, an S3 bucket, a server with SFTP. It writes under a temporary name if the place
// can rename, so that a file there is whole or does not exist.
//
// Each operation ends with its context, and if no byte moves for a while. An operation on a
// directory whose server is gone hangs in the kernel, where nothing ends it. It is left
// behind; for this reason a process of its own sends backups.
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

// Target is a place. Names are paths with slashes below the target's own path or prefix. The
// caller closes it.
type Target interface {
	// Put writes a file of size bytes, and replaces an earlier one of the name.
	Put(ctx context.Context, name string, from io.ReadSeeker, size int64) error
	// Get opens a file, which the caller closes.
	Get(ctx context.Context, name string) (io.ReadSeekCloser, error)
	// List calls see with each file below a folder, or whose folder it is, in any order. It is no
	// error if there is no such folder.
	List(ctx context.Context, under string, see func(name string, size int64)) error
	// Remove removes a file. It is no error if there is none.
	Remove(ctx context.Context, name string) error
	Close() error
}

// Open opens a target, and connects if it has to. The caller closes it.
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
	// Idle is the longest time in which no byte may move.
	Idle time.Duration
	// BytesPerSecond bounds writes; zero sets no bound.
	BytesPerSecond int64
}

// Errors of Send.
var (
	// ErrIdle is returned if no byte moved for longer than Limits.Idle.
	ErrIdle = errors.New("no byte moved for too long")
	// ErrOther is returned if the copy that was read back differs from the file.
	ErrOther = errors.New("the copy that was read back is not what was written")
)

// Send writes a file to a target, reads it back and compares it with want, the size and
// digest of the file when it was made. So it also finds a bit that flipped on this host's
// disk since then.
func Send(ctx context.Context, t Target, name, file string, want backup.File, l Limits) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return SendFrom(ctx, t, name, f, want, l)
}

// SendFrom does the same as Send for bytes that can be read again from their beginning.
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

// removeLimit bounds the time for removing a file.
const removeLimit = time.Minute

// Remove removes a file within a minute.
func Remove(ctx context.Context, t Target, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	return leaving(ctx, func() error { return t.Remove(ctx, name) })
}

// ReadBack reads a file of a target, and returns its name, size and SHA-256.
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

// guard runs an operation that moves bytes. It leaves the operation behind if the context ends
// or no byte moves for too long.
func guard(ctx context.Context, l Limits, do func(context.Context, *meter) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &meter{}
	done := make(chan struct{})
	defer close(done)
	go m.watch(done, l.Idle, func() { cancel(ErrIdle) })
	return leaving(ctx, func() error { return do(ctx, m) })
}

// grace is the time that an operation gets to notice the end of its context.
const grace = 2 * time.Second

// leaving runs do. Soon after the context ended it returns, even if do does not.
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

// causeOf returns the cause if the context of an operation ended, and err otherwise.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// part is how much a target synchronises at once, in bytes. Only reads of the source move the meter:
// while a slow disk synchronises a whole archive none comes for longer than Limits.Idle.
const part = 16 << 20

// inParts writes a stream part by part, and synchronises each part before it reads the next one. It
// returns how many bytes it wrote.
func inParts(from io.Reader, write func(io.Reader) (int64, error), sync func() error) (int64, error) {
	var all int64
	for {
		n, err := write(io.LimitReader(from, part))
		all += n
		if err != nil || n == 0 {
			return all, err
		}
		if err := sync(); err != nil || n < part {
			return all, err
		}
	}
}

// meter counts the bytes of one operation.
type meter struct{ moved atomic.Int64 }

// watch calls idle once no byte has moved for a time.
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

// progress counts bytes that leave. A library that reads a large part before it sends the first byte
// of it tells of them by reads: over a slow line nothing is read for minutes.
type progress struct{ m *meter }

// Read takes in that so many bytes have left.
func (p progress) Read(gone []byte) (int, error) {
	p.m.moved.Add(int64(len(gone)))
	return len(gone), nil
}

// metered is a stream that counts, slows down, and ends with its context.
type metered struct {
	io.Seeker
	r    io.Reader
	m    *meter
	ctx  context.Context //nolint:containedctx // it lives as long as one operation
	rate int64
}

// most bounds one read while there is a rate, in bytes.
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

// Slow waits for the time that n bytes take at a rate in bytes per second.
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
