// Command mutate changes packages in one place at a time, and lists the changes
// that no test notices. A change takes out a condition, an element of a list, an
// assignment, a call, a field or a returned value, or moves a limit by one.
//
//	go run ./hack/mutate
//	go run ./hack/mutate -seed 1 -sample 60 -least 90 ./internal/decide/...
//
// The first form makes every change of the decision of the two-node protocol and
// wants each noticed. The second one makes a sample of each package's changes.
//
// All changes of a package are built into one test program and switched on one
// by one, so a change costs as long as the package's own tests. equivalent.txt
// lists, each with its reason, the changes that have no visible effect.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
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
	patterns []string
	with     []string
	match    string
	seed     uint64
	sample   int
	least    float64
	budget   time.Duration
	workers  int
}

func parse(args []string, out io.Writer) (options, error) {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(out)
	var o options
	with := flags.String("with", "", "packages, with commas between them, whose tests may notice a change too")
	flags.StringVar(&o.match, "match", "", "make only the changes whose line contains this")
	flags.Uint64Var(&o.seed, "seed", 1, "what the sample is drawn by")
	flags.IntVar(&o.sample, "sample", 0, "make at most this many changes of each package; 0 makes all")
	flags.Float64Var(&o.least, "least", 100, "fail when fewer than this share, in percent, of the changes that are not equivalent are noticed")
	flags.DurationVar(&o.budget, "time", 0, "begin no change after this time; 0 is no limit")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "test programs at once")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.patterns = flags.Args()
	if len(o.patterns) == 0 {
		o.patterns = []string{"./internal/decide/etcdmember"}
	}
	if *with != "" {
		o.with = strings.Split(*with, ",")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) (int, error) {
	o, err := parse(args, out)
	if err != nil {
		return 2, nil
	}
	accepted, err := equivalents("hack/mutate/equivalent.txt")
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "m")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	packages, err := list(ctx, o.patterns)
	if err != nil {
		return 0, err
	}
	var end time.Time
	if o.budget > 0 {
		end = time.Now().Add(o.budget)
	}
	t := tally{out: out, least: o.least, accepted: accepted}
	for _, p := range packages {
		if err := o.one(ctx, p, tmp, end, &t); err != nil {
			return 0, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return t.end(), nil
}

// one makes the changes of one package.
func (o options) one(ctx context.Context, p pkg, tmp string, end time.Time, t *tally) error {
	mutants, err := p.build(ctx, tmp, o.with)
	if err != nil || len(mutants) == 0 {
		return err
	}
	all := len(mutants)
	chosen := o.choose(p.name, mutants)
	started := time.Now()
	tests := program{dirs: append([]string{p.dir}, directories(o.with)...), tmp: tmp}
	if err := tests.measure(ctx); err != nil {
		return fmt.Errorf("the tests fail without a change: %w", err)
	}
	tried, alive, err := tests.all(ctx, chosen, o.workers, end)
	if err != nil {
		return err
	}
	whole := len(tried) == all && o.match == ""
	t.add(p.name, all, tried, alive, whole, time.Since(started))
	return nil
}

// choose draws the sample. The draw of one package does not depend on the others.
func (o options) choose(name string, mutants []mutant) []mutant {
	if o.match != "" {
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !strings.Contains(m.line(), o.match) })
	}
	if o.sample == 0 || len(mutants) <= o.sample {
		return mutants
	}
	rng := source(o.seed, name)
	rng.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	mutants = mutants[:o.sample]
	slices.SortFunc(mutants, func(a, b mutant) int { return a.id - b.id })
	return mutants
}
