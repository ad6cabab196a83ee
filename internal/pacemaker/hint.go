package pacemaker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// logFile is where the attribute daemon of Pacemaker notes each change, on
// every node.
const logFile = "/var/log/pacemaker/pacemaker.log"

// Hints tells that a node may have published a new value of an attribute,
// until the context ends. It is a hint to look and no more: Pacemaker tells
// nobody of a private attribute (its alerts are for the others), so this
// follows its log, where a change stands 10 to 30 ms after the other node
// published it. Where that log is switched off no hint ever comes.
func Hints(ctx context.Context, name, node string, hint func()) error {
	return hints(ctx, logFile, []byte("Setting "+name+"["+node+"]:"), hint)
}

func hints(ctx context.Context, path string, words []byte, hint func()) (err error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("follow %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	// The directory, because the log is rotated.
	if err := w.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("follow %s: %w", path, err)
	}
	f := &follower{path: path}
	defer func() { err = errors.Join(err, f.close()) }()
	_ = f.skip() // no log yet is no log to skip
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, open := <-w.Events:
			if !open {
				return fmt.Errorf("follow %s: the watch has ended", path)
			}
			if event.Name == path && f.says(words) {
				hint()
			}
		case err := <-w.Errors: // events were lost: there may be something new
			if err == nil {
				return fmt.Errorf("follow %s: the watch has ended", path)
			}
			hint()
		}
	}
}

// maxHint bounds what is read of a log at once, in bytes; what is more is
// passed over.
const maxHint = 256 << 10

// follower reads what is appended to a file.
type follower struct {
	path string
	file *os.File
}

func (f *follower) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// skip goes to the end of the file as it is.
func (f *follower) skip() error {
	if err := f.reopen(); err != nil {
		return err
	}
	_, err := f.file.Seek(0, io.SeekEnd)
	return err
}

// reopen opens the file that has the path now, unless it is open.
func (f *follower) reopen() error {
	now, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if f.file != nil {
		if old, err := f.file.Stat(); err == nil && os.SameFile(old, now) {
			return nil
		}
		_ = f.file.Close() // it was only read
	}
	f.file, err = os.Open(f.path)
	return err
}

// says reports whether the words were appended since the last call. A
// half-written line says nothing yet; its end comes with an event of its own,
// and the words stand near the beginning, so that none is missed that matters
// to more than a hint.
func (f *follower) says(words []byte) bool {
	if f.reopen() != nil {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f.file, maxHint))
	if err != nil {
		return false
	}
	if len(text) == maxHint {
		_, _ = f.file.Seek(0, io.SeekEnd) // the reading above found the file in order
		return true
	}
	return bytes.Contains(text, words)
}
