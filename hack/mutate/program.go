package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// program is a package's compiled tests, and those of others.
type program struct {
	dirs []string // where each of them runs
	tmp  string
	// limit is the processor time that a change may cost. Its double is the limit
	// by the clock, which also runs while a shared machine does something else.
	limit time.Duration
}

// measure runs the tests without a change, and sets the limit by their time.
func (p *program) measure(ctx context.Context) error {
	p.limit = 5 * time.Minute
	started := time.Now()
	_, err := p.try(ctx, 0)
	p.limit = 5*time.Second + 10*time.Since(started).Truncate(time.Second)
	return err
}

// try runs the tests with one change. An error is what noticed it; late says
// that this was the clock.
func (p *program) try(ctx context.Context, id int) (late bool, err error) {
	for i, dir := range p.dirs {
		path := testProgram(p.tmp, i)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue // a package without tests
		}
		if late, err := p.start(ctx, path, dir, id); err != nil {
			return late, err
		}
	}
	return false, nil
}

func (p *program) start(ctx context.Context, path, dir string, id int) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*p.limit)
	defer cancel()
	files := filepath.Join(p.tmp, fmt.Sprint(id))
	if err := os.Mkdir(files, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return false, err
	}
	defer func() { _ = os.RemoveAll(files) }()
	c := host.Command(path, "-test.short", "-test.failfast")
	c.Dir = dir
	c.Env = []string{fmt.Sprintf("%s=%d", variable, id), fmt.Sprintf("%s=%d", seconds, int(p.limit.Seconds())), "TMPDIR=" + files}
	_, err = host.Run(ctx, c)
	return err != nil && ctx.Err() != nil, err
}

// noticed reports whether a test notices a change. A change that is noticed by
// the clock alone gets a second chance: the machine may have been busy.
func (p *program) noticed(ctx context.Context, m mutant) bool {
	late, err := p.try(ctx, m.id)
	if late && ctx.Err() == nil {
		_, err = p.try(ctx, m.id)
	}
	return err != nil
}

// all tries each change until the end, if there is one, and returns those that
// it tried and those that no test noticed.
func (p *program) all(ctx context.Context, mutants []mutant, workers int, end time.Time) (tried, alive []mutant, err error) {
	var mu sync.Mutex
	todo := make(chan mutant)
	var group sync.WaitGroup
	for range max(workers, 1) {
		group.Go(func() {
			for m := range todo {
				if !p.noticed(ctx, m) {
					mu.Lock()
					alive = append(alive, m)
					mu.Unlock()
				}
			}
		})
	}
	for _, m := range mutants {
		if ctx.Err() != nil || !end.IsZero() && time.Now().After(end) {
			break
		}
		todo <- m
		tried = append(tried, m)
	}
	close(todo)
	group.Wait()
	slices.SortFunc(alive, func(a, b mutant) int { return a.id - b.id })
	return tried, alive, ctx.Err()
}
