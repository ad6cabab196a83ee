package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// maxHistory bounds the history of fences, in bytes. A dead BMC adds an entry
// at each attempt, for as long as its host is lost.
const maxHistory = 512 << 10

// fenceLine is a line of the history of fences: an entry, or the totals of the
// entries that were removed before it. An older release reads totals as an
// empty entry.
type fenceLine struct {
	state.FenceEntry
	Dropped state.FenceTotals `json:"dropped,omitempty"`
}

// AppendFence adds an entry to the history of fences and makes it durable.
func (f Files) AppendFence(e state.FenceEntry) error {
	if err := appendFence(f.Path(state.FencingHistoryPath), e); err != nil {
		return fmt.Errorf("history of fences: %w", err)
	}
	return nil
}

func appendFence(path string, e state.FenceEntry) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		return err
	}
	size, err := appendLine(path, e)
	if err != nil {
		return err
	}
	if size <= maxHistory || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // whoever adds a line at this moment shortens it, or the next one does
	}
	return shorten(path)
}

// shorten removes the older half of the history of fences and leaves its
// totals, so that no counter goes back.
func shorten(path string) error {
	dropped, entries, err := readFences(path)
	if err != nil {
		return err
	}
	var kept []byte
	first := len(entries)
	for first > 0 {
		data, err := json.Marshal(entries[first-1])
		if err != nil || len(kept)+len(data) > maxHistory/2 {
			break
		}
		kept = append(append(data, '\n'), kept...)
		first--
	}
	for _, e := range entries[:first] {
		dropped.Add(e)
	}
	head, err := json.Marshal(struct {
		Dropped state.FenceTotals `json:"dropped"`
	}{dropped})
	if err == nil {
		err = host.WriteFileAtomic(path, append(append(head, '\n'), kept...), 0o600)
	}
	if err != nil {
		return fmt.Errorf("shorten: %w", err)
	}
	return nil
}

// Fences returns the history of fences, oldest first.
func (f Files) Fences() ([]state.FenceEntry, error) {
	_, entries, err := readFences(f.Path(state.FencingHistoryPath))
	return entries, err
}

// FenceTotals returns the totals of each target's fences, including removed
// entries.
func (f Files) FenceTotals() (state.FenceTotals, error) {
	totals, entries, err := readFences(f.Path(state.FencingHistoryPath))
	for _, e := range entries {
		totals.Add(e)
	}
	return totals, err
}

func readFences(path string) (state.FenceTotals, []state.FenceEntry, error) {
	dropped := state.FenceTotals{}
	lines, err := readLines[fenceLine](path)
	var entries []state.FenceEntry
	for _, l := range lines {
		if l.Dropped != nil {
			dropped = l.Dropped
		} else {
			entries = append(entries, l.FenceEntry)
		}
	}
	return dropped, entries, err
}

// FenceSums caches the totals of a history for a caller that asks often: it
// reads the history again only after a change.
type FenceSums struct {
	mu     sync.Mutex
	path   string
	seen   os.FileInfo
	totals state.FenceTotals
	reads  int
}

// Of returns the totals of a host's fences. The caller must not change them.
func (s *FenceSums) Of(f Files) (state.FenceTotals, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := f.Path(state.FencingHistoryPath)
	info, err := os.Stat(path)
	if err == nil && s.seen != nil && s.path == path && os.SameFile(s.seen, info) && s.seen.Size() == info.Size() && s.seen.ModTime().Equal(info.ModTime()) {
		return s.totals, nil
	}
	totals, err := f.FenceTotals() // it may include an entry that is added meanwhile, and is then read once more
	if err != nil {
		return nil, err
	}
	s.path, s.seen, s.totals = path, info, totals
	s.reads++
	return totals, nil
}

// AppendConfirmation adds an entry to the record of confirmations and makes it
// durable.
func (f Files) AppendConfirmation(e state.ConfirmationEntry) error {
	if _, err := appendLine(f.Path(state.ConfirmationsPath), e); err != nil {
		return fmt.Errorf("record of confirmations: %w", err)
	}
	return nil
}

// Confirmations returns the record of confirmations, oldest first. It skips
// entries without a time.
func (f Files) Confirmations() ([]state.ConfirmationEntry, error) {
	entries, err := readLines[state.ConfirmationEntry](f.Path(state.ConfirmationsPath))
	return slices.DeleteFunc(entries, func(e state.ConfirmationEntry) bool { return e.Time.IsZero() }), err
}

// appendLine adds a line to a file that only its owner can read, and makes both
// durable. It first ends a line that a power cut left unfinished: otherwise the
// new line would be lost with it.
func appendLine(path string, value any) (size int64, err error) {
	data, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(append(unfinished(f), append(data, '\n')...))
	info, errStat := f.Stat()
	if err := errors.Join(err, f.Sync(), errStat, f.Close(), host.SyncDir(filepath.Dir(path))); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// unfinished returns a line break if the last line lacks it.
func unfinished(f *os.File) []byte {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return nil
	}
	return []byte{'\n'}
}

// readLines returns the value of each line of a file. It skips a line that
// cannot be decoded, as a power cut leaves one.
func readLines[T any](path string) ([]T, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []T
	for text := range bytes.Lines(data) {
		var value T
		if json.Unmarshal(text, &value) == nil {
			out = append(out, value)
		}
	}
	return out, nil
}
