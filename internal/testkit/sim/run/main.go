// Command run plays schedules of the simulator, see docs/TRACK-RECORD.md.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast/holdfast/internal/testkit/sim"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) } //nolint:forbidigo // this is a main

type total struct {
	sync.Mutex
	steps, takeOvers, faults, writes uint64
	converged, human                 int
	failed                           []sim.Result
}

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(out)
	seeds := flags.Uint64("seeds", 20000, "how many schedules to play")
	from := flags.Uint64("from", 1, "the first seed")
	replay := flags.Uint64("replay", 0, "play this seed alone and print every step")
	faults := flags.Int("faults", 0, "at most so many faults in a schedule (0: six)")
	name := flags.String("bug", "", "take a rule out or put a mistake in (see docs/TRACK-RECORD.md)")
	sites := flags.Bool("sites", false, "play sites that grow, replace a lost machine, or shrink")
	thirds := flags.Bool("thirds", false, "play sites of two that get a third control plane, and of three that give one up")
	list := flags.Bool("list", false, "list the bugs that can be put in, as a table")
	first := flags.Bool("first", false, "stop at the first violation")
	workers := flags.Int("workers", runtime.NumCPU(), "schedules at once")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *list {
		return table(out)
	}
	opt := sim.Options{Faults: *faults, Sites: *sites, Thirds: *thirds}
	if *name != "" {
		bug, ok := sim.FindBug(*name)
		if !ok {
			say(out, "there is no bug %q; there are: %s\n", *name, sim.BugNames())
			return 2
		}
		opt.Bug = bug
	}
	if *replay != 0 {
		return show(out, *replay, opt)
	}
	started := time.Now()
	t := play(*from, *seeds, *workers, *first, opt)
	say(out, "%d schedules in %s: %d steps, %d faults, %d take-overs, %d writes; %d converged, %d ended where a person has to decide, %d violations\n",
		*seeds, time.Since(started).Round(time.Millisecond), t.steps, t.faults, t.takeOvers, t.writes, t.converged, t.human, len(t.failed))
	for i, r := range t.failed {
		if i < 10 {
			say(out, "seed %d: %s\n", r.Seed, r.Violation)
		}
	}
	if len(t.failed) > 0 {
		say(out, "replay with: go run ./internal/testkit/sim/run -replay %d %s\n", t.failed[0].Seed, replayArgs(*name, *faults, *sites, *thirds))
		return 1
	}
	return 0
}

func table(out io.Writer) int {
	for _, b := range sim.Bugs {
		say(out, "| `%s` | %s | %s | `-bug %s -replay %d` |\n", b.Name, b.What, b.Origin, b.Name, b.Seed)
	}
	return 0
}

// say prints. It ignores errors: if the output was closed, nobody wants to read
// it.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

func replayArgs(bug string, faults int, sites, thirds bool) string {
	args := ""
	if thirds {
		args += "-thirds "
	}
	if sites {
		args += "-sites "
	}
	if bug != "" {
		args += "-bug " + bug
	}
	if faults != 0 {
		args += fmt.Sprintf(" -faults %d", faults)
	}
	return args
}

func show(out io.Writer, seed uint64, opt sim.Options) int {
	opt.Trace = true
	r := sim.Run(seed, opt)
	for _, line := range r.Trace {
		say(out, "%s\n", line)
	}
	if r.Violation != nil {
		say(out, "VIOLATION %s\n", r.Violation)
		return 1
	}
	say(out, "no violation; converged %t, a person is asked %t\n", r.Converged, r.Human)
	return 0
}

func play(from, seeds uint64, workers int, first bool, opt sim.Options) *total {
	t := &total{}
	var next atomic.Uint64
	next.Store(from)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for seed := next.Add(1) - 1; seed < from+seeds; seed = next.Add(1) - 1 {
				if t.add(sim.Run(seed, opt)) && first {
					next.Store(from + seeds)
				}
			}
		})
	}
	wait.Wait()
	return t
}

// add counts a result and reports whether it is a violation.
func (t *total) add(r sim.Result) bool {
	t.Lock()
	defer t.Unlock()
	t.steps += uint64(r.Steps)
	t.faults += uint64(r.Faults)
	t.takeOvers += r.TakeOvers
	t.writes += r.Writes
	if r.Converged {
		t.converged++
	}
	if r.Human {
		t.human++
	}
	if r.Violation != nil {
		t.failed = append(t.failed, r)
	}
	return r.Violation != nil
}
