package fence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/host"
)

// maxHistory bounds the history of fences, in bytes. A BMC that is dead adds a
// record at each attempt, for as long as its host is lost.
const maxHistory = 512 << 10

// Total is what all fences of a target by this host come to.
type Total struct {
	Proven int `json:"proven"`
	Failed int `json:"failed"`
	// Last is the last proven one.
	Last Record `json:"last"`
	// Worst is how long the slowest proven one took, without its delay.
	Worst time.Duration `json:"worst"`
	// Cut is when a proven one last had to cut the power.
	Cut time.Time `json:"cut"`
}

// Totals are by target.
type Totals map[string]Total

func (all Totals) add(r Record) {
	t := all[r.Target]
	if r.Off {
		t.Proven, t.Last = t.Proven+1, r
		t.Worst = max(t.Worst, r.Phases.Identify+r.Phases.PowerOff+r.Phases.Evidence)
	} else {
		t.Failed++
	}
	if r.Off && r.Requests > 0 {
		t.Cut = r.Time
	}
	all[r.Target] = t
}

// line is one of a history: a record, or what the records come to that were
// taken away before it. An older release reads that as the record of nothing.
type line struct {
	Record
	Dropped Totals `json:"dropped,omitempty"`
}

// appendHistory adds a line and makes it durable. A line that a power cut left
// unfinished is ended first.
func appendHistory(path string, r Record) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return fmt.Errorf("history of fences: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("history of fences: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		return fmt.Errorf("history of fences: %w", err)
	}
	size, err := appendLine(path, data)
	if err != nil {
		return fmt.Errorf("history of fences: %w", err)
	}
	if size <= maxHistory || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // whoever adds a line at this moment sees to it, or the next one does
	}
	return shorten(path)
}

func appendLine(path string, data []byte) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(append(unfinished(f), append(data, '\n')...))
	info, errStat := f.Stat()
	if err := errors.Join(err, f.Sync(), errStat, f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// unfinished is the line break that the last line lacks, if it does.
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

// shorten takes the older half of a history away and leaves what it comes to,
// so that no counter goes back.
func shorten(path string) error {
	dropped, records, err := readHistory(path)
	if err != nil {
		return err
	}
	var kept []byte
	first := len(records)
	for first > 0 {
		data, err := json.Marshal(records[first-1])
		if err != nil || len(kept)+len(data) > maxHistory/2 {
			break
		}
		kept = append(append(data, '\n'), kept...)
		first--
	}
	for _, r := range records[:first] {
		dropped.add(r)
	}
	head, err := json.Marshal(struct {
		Dropped Totals `json:"dropped"`
	}{dropped})
	if err == nil {
		err = host.WriteFileAtomic(path, append(append(head, '\n'), kept...), 0o600)
	}
	if err != nil {
		return fmt.Errorf("shorten the history of fences: %w", err)
	}
	return nil
}

// History returns the records of a history file, oldest first. Lines that are
// no record, as a power cut leaves them, are passed over.
func History(path string) ([]Record, error) {
	_, records, err := readHistory(path)
	return records, err
}

func readHistory(path string) (Totals, []Record, error) {
	dropped := Totals{}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return dropped, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("history of fences: %w", err)
	}
	var records []Record
	for text := range bytes.Lines(data) {
		var l line
		switch err := json.Unmarshal(text, &l); {
		case err != nil:
		case l.Dropped != nil:
			dropped = l.Dropped
		default:
			records = append(records, l.Record)
		}
	}
	return dropped, records, nil
}

// TotalsOf returns what all fences of a history come to, those that were taken
// away included.
func TotalsOf(path string) (Totals, error) {
	totals, records, err := readHistory(path)
	for _, r := range records {
		totals.add(r)
	}
	return totals, err
}

// Sums are the totals of a history for who asks again and again: it is read
// where it has changed.
type Sums struct {
	mu     sync.Mutex
	path   string
	seen   os.FileInfo
	totals Totals
	reads  int
}

// Of returns the totals of a history file, which the caller only reads.
func (s *Sums) Of(path string) (Totals, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(path)
	if err == nil && s.seen != nil && s.path == path && os.SameFile(s.seen, info) && s.seen.Size() == info.Size() && s.seen.ModTime().Equal(info.ModTime()) {
		return s.totals, nil
	}
	totals, err := TotalsOf(path) // what is added meanwhile is in it, and read once more
	if err != nil {
		return nil, err
	}
	s.path, s.seen, s.totals = path, info, totals
	s.reads++
	return totals, nil
}
