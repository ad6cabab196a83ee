package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
)

// disk takes the events of a test in place of a disk.
type disk struct {
	mu     sync.Mutex
	fails  error
	hangs  chan struct{}
	writes int
	events []state.Event
	heard  []error
}

func (d *disk) write(events []state.Event) error {
	d.mu.Lock()
	hangs := d.hangs
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.fails == nil {
		d.events = append(d.events, events...)
	}
	return d.fails
}

func (d *disk) is(fails error, hangs chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails, d.hangs = fails, hangs
}

func (d *disk) has() ([]state.Event, []error, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events), slices.Clone(d.heard), d.writes
}

func (d *disk) told() string {
	events, _, _ := d.has()
	var out []string
	for _, e := range events {
		if e.Kind == state.EventMissed {
			out = append(out, fmt.Sprintf("missed %d", e.Count))
		} else {
			out = append(out, fmt.Sprint(e.Seq))
		}
	}
	return fmt.Sprint(out)
}

// begin runs a log until the test ends.
func begin(t *testing.T, d *disk) (l *Log, stop func()) {
	t.Helper()
	origin := time.Now()
	l = New(Options{
		Write: d.write, Now: time.Now,
		Boot: func() (string, time.Duration, error) { return "boot", time.Since(origin), nil },
		Hear: func(err error) { d.mu.Lock(); defer d.mu.Unlock(); d.heard = append(d.heard, err) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return l, stop
}

func note(l *Log, from, to int) {
	for seq := from; seq <= to; seq++ {
		l.Append(state.Event{Kind: state.EventRecord, Seq: uint64(seq)})
	}
}

func TestAnEventIsWrittenAtOnceAndABurstInFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l, _ := begin(t, d)
		note(l, 1, 1)
		synctest.Wait()
		if got := d.told(); got != "[1]" {
			t.Fatalf("%s", got)
		}
		for i := range 20 {
			note(l, 2+i, 2+i)
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(spacing)
		synctest.Wait()
		_, _, writes := d.has()
		if got := d.told(); got != "[1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21]" || writes > 6 {
			t.Errorf("%s in %d writes", got, writes)
		}
	})
}

func TestAnEventHasTheTimeAtWhichItHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l, _ := begin(t, d)
		hang := make(chan struct{})
		d.is(nil, hang)
		at := time.Now().Add(time.Second)
		time.Sleep(time.Second)
		note(l, 1, 1)
		time.Sleep(time.Minute)
		close(hang)
		synctest.Wait()
		events, _, _ := d.has()
		if e := events[0]; !e.At.Equal(at) || e.Up != time.Second || e.Boot != "boot" {
			t.Errorf("%+v, it happened at %s", e, at)
		}
	})
}

// TestNobodyWaitsForADiskThatHangs appends for a minute, and far more than is kept.
func TestNobodyWaitsForADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l, stop := begin(t, d)
		hang := make(chan struct{})
		d.is(nil, hang)
		began := time.Now()
		note(l, 1, 1)
		synctest.Wait() // the log hangs in the first write
		note(l, 2, 1001)
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %s", took)
		}
		close(hang)
		d.is(nil, nil)
		time.Sleep(spacing)
		synctest.Wait()
		events, _, _ := d.has()
		if len(events) != most+2 || events[1].Kind != state.EventMissed || events[1].Count != 1000-most || events[2].Seq != 1001-most+1 || events[most+1].Seq != 1001 {
			t.Errorf("%s", d.told())
		}
		again := make(chan struct{})
		d.is(nil, again)
		note(l, 2000, 2000)
		began = time.Now()
		stop()
		if took := time.Since(began); took > farewell {
			t.Errorf("the program ended after %s", took)
		}
		close(again)
	})
}

func TestWhatCouldNotBeWrittenIsTriedAgainInItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{fails: errors.New("no space left on device")}
		l, _ := begin(t, d)
		note(l, 1, 2)
		time.Sleep(3 * time.Second)
		note(l, 3, 4)
		time.Sleep(time.Minute)
		if _, _, writes := d.has(); writes > 15 {
			t.Errorf("%d attempts in a minute", writes)
		}
		d.is(nil, nil)
		time.Sleep(retry)
		synctest.Wait()
		_, heard, _ := d.has()
		if got := d.told(); got != "[1 2 3 4]" || heard[0] == nil || heard[len(heard)-1] != nil {
			t.Errorf("%s, heard %v", got, heard)
		}
		note(l, 5, 5)
		time.Sleep(spacing)
		synctest.Wait()
		if got := d.told(); got != "[1 2 3 4 5]" {
			t.Errorf("%s", got)
		}
	})
}

func TestWhatWasDroppedWhileTheDiskWasFullIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{fails: errors.New("no space left on device")}
		l, _ := begin(t, d)
		for i := range 4 {
			note(l, 100*i+1, 100*i+100)
			time.Sleep(2 * retry)
		}
		d.is(nil, nil)
		time.Sleep(retry)
		synctest.Wait()
		note(l, 401, 401)
		time.Sleep(spacing)
		synctest.Wait()
		missed, first := 0, 0
		events, _, _ := d.has()
		for _, e := range events {
			missed += e.Count
			if first == 0 && e.Kind == state.EventRecord {
				first = int(e.Seq)
			}
		}
		if missed != 400-most || first != 400-most+1 || events[0].Kind != state.EventMissed {
			t.Errorf("%d missed, the first is %d: %s", missed, first, d.told())
		}
	})
}

func TestAProgramThatEndsWritesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l, stop := begin(t, d)
		note(l, 1, 1)
		synctest.Wait()
		note(l, 2, 3)
		stop()
		if got := d.told(); got != "[1 2 3]" {
			t.Errorf("%s", got)
		}
	})
}

func TestWhatAProgramNotesWhileItEndsIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := New(Options{Write: d.write, Now: time.Now, Boot: func() (string, time.Duration, error) { return "boot", 1, nil }, Hear: func(error) {}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		failed := errors.New("the parameters changed")
		err := l.During(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			note(l, 1, 1)
			return failed
		})
		if got := d.told(); got != "[1]" || !errors.Is(err, failed) {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func TestEventsOfManyAreWrittenToOneFile(t *testing.T) {
	files := records.Files{Root: t.TempDir()}
	l := New(Options{
		Write: func(events []state.Event) error { return files.AppendEvents(state.AgentEvents, events) },
		Boot:  func() (string, time.Duration, error) { return "", 0, errors.New("no kernel") },
		Now:   time.Now, Hear: func(err error) {
			if err != nil {
				t.Error(err)
			}
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var writers, log sync.WaitGroup
	log.Go(func() { l.Run(ctx) })
	for i := range 10 {
		writers.Go(func() { note(l, i*10+1, i*10+10) })
	}
	writers.Wait()
	cancel()
	log.Wait()
	events, err := files.Events(state.AgentEvents)
	seen := map[uint64]bool{}
	for _, e := range events {
		seen[e.Seq] = e.Boot == "" && e.Up == 0 && !e.At.IsZero()
	}
	if err != nil || len(events) != 100 || len(seen) != 100 || !seen[1] || !seen[100] {
		t.Errorf("%d events, %d different, %v", len(events), len(seen), err)
	}
}
