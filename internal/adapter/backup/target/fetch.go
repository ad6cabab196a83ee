package target

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// Fetch copies one file of a target into a file of this machine.
type Fetch struct {
	// Open opens the target; each try opens it anew.
	Open func(context.Context) (Target, error)
	Name string
	// File gets the bytes, with mode 0600, once they are those of Want. Until then they lie in
	// File with the suffix .part: a later Fetch goes on there.
	File   string
	Want   backup.File
	Limits Limits
	// Say is told how many bytes there are, and Broke that the connection broke and how often in a
	// row without a byte.
	Say   func(done int64)
	Broke func(try int, err error)
	// Wait waits before a try.
	Wait func(ctx context.Context, try int) error
}

// mostTries is how often in a row a connection may break before a byte has moved.
const mostTries = 5

// Pause is a Wait: a second, then twice as long each time.
func Pause(ctx context.Context, try int) error {
	timer := time.NewTimer(time.Second << min(try, mostTries))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run fetches the file. A connection that breaks after a byte has moved is opened again, and the
// copy goes on where it was. What fails before that is returned at once: it is an address, a name
// or an account that a person has to mend.
func (f Fetch) Run(ctx context.Context) error {
	info, err := os.Stat(f.Part())
	begun := err == nil && info.Size() > 0
	err = f.run(ctx)
	if begun && errors.Is(err, ErrNotTheFile) { // what an earlier try left may be of another file
		err = f.run(ctx)
	}
	return err
}

func (f Fetch) run(ctx context.Context) error {
	moved, try := false, 0
	for {
		n, err := f.try(ctx)
		if err == nil {
			return f.keep(ctx)
		}
		if moved = moved || n > 0; n > 0 {
			try = 0
		}
		if try++; !moved || try > mostTries || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("fetch %s: %w", f.Name, err)
		}
		f.Broke(try, err)
		if err := f.Wait(ctx, try); err != nil {
			return err
		}
	}
}

// Part returns the path of the bytes that are there already.
func (f Fetch) Part() string { return f.File + backup.HalfSuffix }

// try goes on with the copy, and returns how many bytes it got.
func (f Fetch) try(ctx context.Context) (n int64, err error) {
	to, err := os.OpenFile(f.Part(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	have, err := to.Seek(0, io.SeekEnd)
	if err == nil && have > f.Want.Size {
		have = 0
		_, err = to.Seek(0, io.SeekStart)
		err = errors.Join(to.Truncate(0), err)
	}
	if err != nil || have == f.Want.Size {
		return 0, err
	}
	t, err := f.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = t.Close() }()
	if n, err = f.copy(ctx, t, to, have); err != nil {
		return n, err
	}
	return n, to.Sync()
}

// copied is what one copy did. It goes through a channel, because a copy that hangs is left behind.
type copied struct{ n int64 }

// copy copies what comes after the first bytes.
func (f Fetch) copy(ctx context.Context, t Target, to io.Writer, have int64) (int64, error) {
	did := make(chan copied, 1)
	err := guard(ctx, f.Limits, func(ctx context.Context, m *meter) error {
		var n int64
		defer func() { did <- copied{n} }()
		from, err := t.Get(ctx, f.Name)
		if err != nil {
			return err
		}
		if _, err = from.Seek(have, io.SeekStart); err == nil {
			in := io.LimitReader(&metered{r: from, m: m, ctx: ctx}, f.Want.Size-have)
			n, err = io.Copy(&telling{to, have, f.Say}, in)
		}
		if err == nil && have+n < f.Want.Size {
			err = io.ErrUnexpectedEOF
		}
		return errors.Join(err, from.Close())
	})
	select {
	case c := <-did:
		return c.n, err
	default:
		return 0, err
	}
}

// telling is a writer that says how many bytes there are.
type telling struct {
	io.Writer
	done int64
	say  func(int64)
}

func (t *telling) Write(p []byte) (int, error) {
	n, err := t.Writer.Write(p)
	t.done += int64(n)
	t.say(t.done)
	return n, err
}

// keep compares what was fetched, and gives it its name. Bytes that are others go away.
func (f Fetch) keep(ctx context.Context) error {
	sum, err := sumOf(ctx, f.Part())
	if err != nil {
		return err
	}
	if sum != f.Want.SHA256 {
		return errors.Join(fmt.Errorf("%s: %w: digest %s, want %s", f.Name, ErrNotTheFile, sum, f.Want.SHA256), host.RemoveFile(f.Part()))
	}
	return os.Rename(f.Part(), f.File)
}

// ErrNotTheFile is returned if what was fetched is not what the catalogue says.
var ErrNotTheFile = errors.New("what was fetched is not what the catalogue at the target says")

// sumOf returns the SHA-256 of a file.
func sumOf(ctx context.Context, file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, &metered{r: f, m: &meter{}, ctx: ctx})
	return hex.EncodeToString(h.Sum(nil)), err
}

// Read reads a small file of a target.
func Read(ctx context.Context, t Target, name string, most int64, l Limits) (out []byte, err error) {
	err = guard(ctx, l, func(ctx context.Context, m *meter) error {
		r, err := t.Get(ctx, name)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(io.LimitReader(&metered{r: r, m: m, ctx: ctx}, most))
		if ctx.Err() == nil { // else nobody waits for the answer any more
			out = data
		}
		return errors.Join(err, r.Close())
	})
	return out, err
}

// List returns the files below a folder of a target, with their sizes. It ends if the target gives
// no name for too long.
func List(ctx context.Context, t Target, under string, l Limits) (files map[string]int64, err error) {
	err = guard(ctx, l, func(ctx context.Context, m *meter) error {
		found := map[string]int64{}
		err := t.List(ctx, under, func(name string, size int64) {
			m.moved.Add(1)
			found[name] = size
		})
		if ctx.Err() == nil { // as above
			files = found
		}
		return err
	})
	return files, err
}
