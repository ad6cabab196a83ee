package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// lookInterval is the interval at which the file is checked without an event:
// an event can be lost, and not every file system has them.
const lookInterval = 500 * time.Millisecond

// settleTime is the wait between an event and a look, so that a burst of events
// causes one look.
const settleTime = 10 * time.Millisecond

// file follows a zone file.
type file struct {
	path string
	zone atomic.Pointer[zone]
	// seen describes the file that was last read, good or not. Only look
	// touches it.
	seen os.FileInfo
}

func newFile(path string) *file {
	f := &file{path: path}
	f.zone.Store(empty)
	return f
}

// follows takes over the names of another reader of the same file.
func (f *file) follows(before *file) {
	if before != nil && before.path == f.path {
		f.zone.Store(before.zone.Load())
	}
}

// look reads the file if it has changed. If the file is gone or broken, the
// zone stays as it was, and look returns one error for each such file.
func (f *file) look() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return f.missing(err)
	}
	if f.seen != nil && os.SameFile(f.seen, info) && f.seen.ModTime().Equal(info.ModTime()) && f.seen.Size() == info.Size() {
		return nil
	}
	f.seen = info
	z, err := read(f.path)
	if err != nil {
		brokenCount.Inc()
		return fmt.Errorf("keeping the previous names: %w", err)
	}
	f.zone.Store(z)
	nameCount.Set(float64(len(z.names) + len(z.wildcards)))
	serial.Set(float64(z.soa.Serial))
	return nil
}

// missing returns one error for a file that went away.
func (f *file) missing(err error) error {
	if f.seen == nil {
		return nil
	}
	f.seen = nil
	return fmt.Errorf("keeping the previous names: %w", err)
}

func read(path string) (*zone, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return parseZone(r, path)
}

// follow looks at the file after each event in its folder, and also at
// intervals, until stop is closed.
func (f *file) follow(stop <-chan struct{}) {
	events, done := watch(filepath.Dir(f.path))
	defer done()
	f.lookOn(events, stop)
}

func (f *file) lookOn(events <-chan fsnotify.Event, stop <-chan struct{}) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-events:
			settle(events, stop)
		case <-tick.C:
		}
		if err := f.look(); err != nil {
			log.Error(err)
		}
	}
}

// settle waits for a burst of events to pass.
func settle(events <-chan fsnotify.Event, stop <-chan struct{}) {
	end := time.NewTimer(settleTime)
	defer end.Stop()
	for {
		select {
		case <-events:
		case <-end.C:
			return
		case <-stop:
			return
		}
	}
}

// watch returns the events of a folder. If the folder cannot be watched there
// are none, and only the looks at intervals remain.
func watch(dir string) (events <-chan fsnotify.Event, done func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warningf("cannot watch %s, reading it every %s instead: %v", dir, lookInterval, err)
		return nil, func() {}
	}
	if err := w.Add(dir); err != nil {
		log.Warningf("cannot watch %s, reading it every %s instead: %v", dir, lookInterval, err)
	}
	go func() {
		for range w.Errors {
			continue // the looks make up for a lost event
		}
	}()
	return w.Events, func() { _ = w.Close() }
}
