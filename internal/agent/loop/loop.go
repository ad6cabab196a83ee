// Package loop runs what the agent of a host does again and again: it waits for
// events, tries again after errors, limits each run, tells what fails once and
// then each minute, and knows how each task is doing.
//
// A Task has short runs. A Watch lasts: it hears of changes until something
// breaks it. All of them share one Loops, which the agent's watchdog asks.
package loop

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Task is something that is done again and again until the agent ends. Nothing
// that a run meets ends it; a panic ends the process, and systemd starts it anew.
type Task struct {
	// Name is for people, and for files below /run. It is given once in a part.
	Name string
	// Part groups tasks whose states one file shows; most are of none.
	Part string
	// Step does it once. No two steps of a task overlap. A step that the end of the
	// agent interrupts has not failed.
	Step func(ctx context.Context) (Result, error)

	// Wake makes it run before its time; nil if only time does. A wake during a run
	// counts for the next one.
	Wake <-chan struct{}
	// Debounce is the time from a wake to the run: further wakes meanwhile cause no
	// further run. RetryDebounce, if set, is the same after a run that failed.
	Debounce, RetryDebounce time.Duration
	// Apart is the least time between two runs, whatever wakes it.
	Apart time.Duration

	// First is the wait before its first run.
	First time.Duration
	// Every is the pause after a run that succeeded; zero waits for a wake.
	Every time.Duration
	// Retry is the pause after the first run that failed. Each further failure
	// doubles it, up to MaxRetry; without MaxRetry it stays, without Retry it is that
	// of Every.
	Retry, MaxRetry time.Duration
	// RetryAnew makes a wake begin with Retry again.
	RetryAnew bool
	// NotYet reports whether an error means only that the host is not set up yet. Such
	// an error is not logged; the run is repeated as after any other.
	NotYet func(error) bool

	// Limit ends the context of a run; a run that lasts half as long again hangs.
	// Zero is no limit.
	Limit time.Duration
	// Spared marks a task that waits for the host's disk and that the network can do
	// without. If it hangs, that is reported and does not end the process, which could
	// not be started again from that disk (docs/adr/0046-loops.md).
	Spared bool

	silent bool // no file is written because of it
}

// Result is the outcome of a run.
type Result struct {
	// Changed names the change in one line, empty for none.
	Changed string
	// Again is the pause after this run, whether it failed or not; zero leaves it to
	// the task, and a negative one is none.
	Again time.Duration
	// Soon makes it run again with the pauses of retries, though nothing failed.
	Soon bool
}

// Loops runs tasks and knows how they are doing.
type Loops struct {
	Now func() time.Time
	Log *slog.Logger

	mu        sync.Mutex
	entries   map[string]*entry
	followers map[string][]Kick // by part
}

// New returns loops that nothing runs in yet.
func New(now func() time.Time, log *slog.Logger) *Loops {
	return &Loops{Now: now, Log: log, entries: map[string]*entry{}, followers: map[string][]Kick{}}
}

// Run runs tasks, each beside the others, until the context ends.
func (l *Loops) Run(ctx context.Context, tasks ...Task) {
	var running sync.WaitGroup
	for _, t := range tasks {
		e := l.register(t)
		running.Go(func() { l.keep(ctx, e) })
	}
	running.Wait()
}

// keep runs one task.
func (l *Loops) keep(ctx context.Context, e *entry) {
	if e.First > 0 && host.Sleep(ctx, e.First) != nil {
		return
	}
	for tries := 0; ctx.Err() == nil; {
		pause, again := l.run(ctx, e, tries)
		if tries++; !again {
			tries = 0
		}
		if woken := e.wait(ctx, pause, again); woken && e.RetryAnew {
			tries = 0
		}
	}
}

// forever is the pause of a task that waits for a wake.
const forever time.Duration = 1<<63 - 1

// run does a step and returns the pause after it, and whether that is the one of
// a retry.
func (l *Loops) run(ctx context.Context, e *entry, tries int) (pause time.Duration, again bool) {
	began := l.Now()
	l.begin(e, began)
	result, err := e.step(ctx)
	if ctx.Err() != nil {
		l.interrupted(e, result.Changed)
		return 0, false
	}
	l.ended(e, began, result.Changed, err)
	switch {
	case result.Again != 0:
		return max(result.Again, 0), false
	case err != nil || result.Soon:
		return e.retryAfter(tries), true
	case e.Every == 0:
		return forever, false
	}
	return e.Every, false
}

// step does one step within its limit.
func (e *entry) step(ctx context.Context) (Result, error) {
	if e.Limit == 0 {
		return e.Step(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	result, err := e.Step(limited)
	if err != nil && limited.Err() != nil {
		err = fmt.Errorf("not done within %s: %w", e.Limit, err)
	}
	return result, err
}

// retryAfter is the pause after another try, when there were so many in a row.
func (t *Task) retryAfter(tries int) time.Duration {
	first := cmp.Or(t.Retry, t.Every, forever)
	if t.MaxRetry == 0 || first == forever {
		return first
	}
	return min(first<<min(tries, 10), t.MaxRetry)
}

// wait waits for the next run, and reports whether a wake is its reason.
func (t *Task) wait(ctx context.Context, pause time.Duration, again bool) (woken bool) {
	if t.Apart > 0 && host.Sleep(ctx, t.Apart) != nil {
		return false
	}
	timer := time.NewTimer(max(pause-t.Apart, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	case <-t.Wake:
	}
	debounce := t.Debounce
	if again {
		debounce = cmp.Or(t.RetryDebounce, t.Debounce)
	}
	if debounce > 0 && host.Sleep(ctx, debounce) == nil {
		select {
		case <-t.Wake:
		default:
		}
	}
	return true
}

// Watch is something that lasts until it breaks, and is begun again then: a watch
// of the API or of files, a server.
type Watch struct {
	// Name is as a task's.
	Name string
	// Run returns what broke it. It calls works when it has begun to work; one that
	// lasts for settled has.
	Run func(ctx context.Context, works func()) error
	// Pause is the time before it is begun again.
	Pause time.Duration
	// NotYet is as a task's.
	NotYet func(error) bool
}

// stableAfter is the time after which a watch that still lasts counts as working.
const stableAfter = 10 * time.Second

// Watch keeps something going until the context ends.
func (l *Loops) Watch(ctx context.Context, w Watch) {
	e := l.register(Task{Name: w.Name, NotYet: w.NotYet})
	works := func() { l.ended(e, l.Now(), "", nil) }
	for ctx.Err() == nil {
		timer := time.AfterFunc(stableAfter, works)
		err := w.Run(ctx, works)
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errEnded
		}
		l.ended(e, l.Now(), "", err)
		_ = host.Sleep(ctx, w.Pause) // the loop looks at the context itself
	}
}
