package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// maxEvents bounds a file of events, in bytes: about a thousand events. A full file is
// kept until the next one is full.
const maxEvents = 256 << 10

// AppendEvents adds events to those of a program and makes them durable, or leaves the
// file unchanged. Only that program may call it, one call at a time.
func (f Files) AppendEvents(program string, events []state.Event) error {
	path := f.eventsPath(program)
	err := renewEvents(path, f.oldEventsPath(program))
	if err == nil {
		err = appendEvents(path, events)
	}
	if err != nil {
		return fmt.Errorf("events of %s: %w", program, err)
	}
	return nil
}

// renewEvents begins a new file if the present one is full. Each name refers to a
// complete file at every moment, even in a power cut: only the oldest events are lost.
func renewEvents(path, old string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < maxEvents {
		return nil
	}
	if err == nil {
		err = os.Rename(path, old)
	}
	return err
}

func appendEvents(path string, events []state.Event) error {
	var lines bytes.Buffer
	for _, e := range events {
		data, err := json.Marshal(e.Bounded())
		if err != nil {
			return err
		}
		lines.Write(append(data, '\n'))
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if _, err = file.Write(append(unfinished(file), lines.Bytes()...)); err == nil {
		err = file.Sync()
	}
	if err != nil {
		// A full disk takes only a part of them. The next attempt must not fill it
		// further.
		err = errors.Join(err, file.Truncate(info.Size()))
	}
	if err := errors.Join(err, file.Close()); err != nil || info.Size() > 0 {
		return err
	}
	return host.SyncDir(dir) // the file is new, or may be
}

// Events returns the events of a program, oldest first. It skips a line that cannot be
// decoded, as a power cut leaves one.
func (f Files) Events(program string) ([]state.Event, error) {
	// Read the present file first. If it is renamed to the old one meanwhile, its events
	// appear twice and those of the former old file are missing, but nothing else is.
	now, err := readLines[state.Event](f.eventsPath(program))
	old, oldErr := readLines[state.Event](f.oldEventsPath(program))
	if err := errors.Join(err, oldErr); err != nil {
		return nil, fmt.Errorf("events of %s: %w", program, err)
	}
	return append(old, now...), nil
}

func (f Files) eventsPath(program string) string {
	return f.Path(filepath.Join(state.EventsDir, program+".jsonl"))
}

func (f Files) oldEventsPath(program string) string {
	return f.Path(filepath.Join(state.EventsDir, program+".old.jsonl"))
}
