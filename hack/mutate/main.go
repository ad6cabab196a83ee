// Command mutate changes the decision of the two-node protocol in one place at
// a time, and lists the changes that no test of the package notices. A change
// takes out a condition, a state of a list or an assignment, or moves a limit
// by one.
//
//	go run ./hack/mutate
//
// All changes are built into one test program and switched on one by one, so a
// change costs as long as the package's own tests. equivalent.txt lists, each
// with its reason, the changes that have no visible effect.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutate:", err)
		code = 2
	}
	os.Exit(code) //nolint:forbidigo // this is a main
}

// options holds the flags.
type options struct {
	dir, match string
	workers    int
}

func run(ctx context.Context, args []string, out io.Writer) (int, error) {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(out)
	var o options
	flags.StringVar(&o.dir, "dir", "internal/decide/etcdmember", "the package")
	flags.StringVar(&o.match, "match", "", "make only the changes whose line contains this")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "test programs at once")
	if err := flags.Parse(args); err != nil {
		return 2, nil
	}
	accepted, err := equivalents("hack/mutate/equivalent.txt")
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	mutants, err := build(ctx, o.dir, tmp)
	if err != nil {
		return 0, err
	}
	if o.match != "" {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !strings.Contains(m.line(), o.match) })
		accepted = map[string]string{}
	}
	p := program{filepath.Join(tmp, "test"), o.dir}
	if err := p.try(ctx, 0); err != nil {
		return 0, fmt.Errorf("the tests fail without a change: %w", err)
	}
	started := time.Now()
	alive, err := p.all(ctx, mutants, o.workers)
	if err != nil {
		return 0, err
	}
	return report(out, len(mutants), alive, accepted, time.Since(started)), nil
}

// build writes the changed sources beside the real ones and compiles the tests
// of the package with them.
func build(ctx context.Context, dir, tmp string) ([]mutant, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	replace := make(map[string]string)
	var mutants []mutant
	var pkg string
	put := func(name, text string) error {
		replace[filepath.Join(dir, name)] = filepath.Join(tmp, name)
		return os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o600)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		changed, name, err := rewrite(filepath.Base(path), string(src), &mutants)
		if err != nil {
			return nil, err
		}
		pkg = name
		if err := put(filepath.Base(path), changed); err != nil {
			return nil, err
		}
	}
	if err := put("zz_mutants.go", "package "+pkg+"\n"+support); err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(tmp, "overlay.json"), overlay, 0o600); err != nil {
		return nil, err
	}
	number(mutants)
	_, err = host.Run(ctx, host.Command("go", "test", "-c", "-overlay", filepath.Join(tmp, "overlay.json"), "-o", filepath.Join(tmp, "test"), dir))
	return mutants, err
}

// program is the compiled test program.
type program struct{ path, dir string }

// try runs the tests with one change; nil means that they noticed nothing.
func (p program) try(ctx context.Context, id int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := host.Command(p.path, "-test.short", "-test.failfast")
	c.Dir, c.Env = p.dir, []string{fmt.Sprintf("%s=%d", variable, id)}
	_, err := host.Run(ctx, c)
	return err
}

// all tries each change and returns those that no test noticed.
func (p program) all(ctx context.Context, mutants []mutant, workers int) ([]mutant, error) {
	var mu sync.Mutex
	var alive []mutant
	todo := make(chan mutant)
	var group sync.WaitGroup
	for range max(workers, 1) {
		group.Go(func() {
			for m := range todo {
				if p.try(ctx, m.id) == nil {
					mu.Lock()
					alive = append(alive, m)
					mu.Unlock()
				}
			}
		})
	}
	for _, m := range mutants {
		todo <- m
	}
	close(todo)
	group.Wait()
	slices.SortFunc(alive, func(a, b mutant) int { return a.id - b.id })
	return alive, ctx.Err()
}

// report lists the mutants that no test noticed and that are not accepted, and
// the accepted ones that a test notices or that are gone. It returns the exit
// status.
func report(out io.Writer, all int, alive []mutant, accepted map[string]string, took time.Duration) int {
	stale := maps.Clone(accepted)
	var wrong int
	for _, m := range alive {
		if _, ok := accepted[m.line()]; ok {
			delete(stale, m.line())
			continue
		}
		wrong++
		_, _ = fmt.Fprintln(out, m.line())
	}
	for _, line := range slices.Sorted(maps.Keys(stale)) {
		wrong++
		_, _ = fmt.Fprintf(out, "equivalent.txt lists changes that the tests notice, or that no longer exist: %s\n", line)
	}
	_, _ = fmt.Fprintf(out, "%d changes in %s: %d noticed, %d accepted as equivalent, %d to review\n",
		all, took.Round(time.Second), all-len(alive), len(accepted)-len(stale), wrong)
	if wrong > 0 {
		return 1
	}
	return 0
}

// equivalents reads the accepted changes: one on each line, below a line with
// "#" and the reason.
func equivalents(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out, why := make(map[string]string), ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			why = line
		case line == "":
			why = ""
		case why == "":
			return nil, fmt.Errorf("%s: no reason given above %q", path, line)
		default:
			out[line] = why
		}
	}
	return out, nil
}
