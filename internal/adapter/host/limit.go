package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Limited returns a function like ask that returns within the limit. A call
// that hangs in the kernel, such as a read of a failed disk, cannot be ended:
// it goes on in the background, and until it ends the function returns an error
// without asking again. Use it only for reads: an effect could come at any
// later time.
func Limited[T any](what string, limit time.Duration, ask func() (T, error)) func() (T, error) {
	var mu sync.Mutex
	var since time.Time
	return func() (T, error) {
		var none T
		mu.Lock()
		if !since.IsZero() {
			defer mu.Unlock()
			return none, fmt.Errorf("%s has hung for %s", what, time.Since(since).Round(time.Second))
		}
		since = time.Now()
		mu.Unlock()
		answer := make(chan func() (T, error), 1)
		go func() {
			value, err := ask()
			mu.Lock()
			since = time.Time{}
			mu.Unlock()
			answer <- func() (T, error) { return value, err }
		}()
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case got := <-answer:
			return got()
		case <-timer.C:
			return none, fmt.Errorf("%s did not finish within %s", what, limit)
		}
	}
}

// Watchdog says every now and then that this process works, by alive, until the
// context ends. While hung names something it stays silent, and who listens ends
// the process.
func Watchdog(ctx context.Context, every time.Duration, hung func() string, alive func() error, log *slog.Logger) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for said := ""; ; {
		what := hung()
		if what != "" && what != said {
			log.Error("hangs: the watchdog will restart this process", "what", what)
		}
		said = what
		if what == "" {
			if err := alive(); err != nil {
				log.Warn("watchdog", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
	}
}
