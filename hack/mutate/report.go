package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// tally counts what came of the changes of all packages.
type tally struct {
	out      io.Writer
	least    float64           // percent
	accepted map[string]string // by line, with the reason

	packages               int
	tried, alive, excepted int
	stale                  int
	took                   time.Duration
}

// add reports one package: the changes that no test noticed and that are not
// accepted, and the accepted ones that a test notices. Where the whole package
// was tried, it also reports the accepted ones that are gone.
func (t *tally) add(name string, all int, tried, alive []mutant, whole bool, took time.Duration) {
	stale := t.ours(name, tried, whole)
	var excepted int
	for _, m := range alive {
		if _, ok := t.accepted[m.line()]; ok {
			excepted++
			delete(stale, m.line())
			continue
		}
		t.say("%s\n", m.line())
	}
	for _, line := range slices.Sorted(maps.Keys(stale)) {
		t.say("equivalent.txt lists a change that the tests notice, or that no longer exists: %s\n", line)
	}
	t.say("%s: %d of %d changes in %s: %d noticed, %d accepted as equivalent, %d to review\n", name, len(tried), all,
		took.Round(time.Second), len(tried)-len(alive), excepted, len(alive)-excepted+len(stale))
	t.packages++
	t.tried, t.alive, t.excepted = t.tried+len(tried), t.alive+len(alive), t.excepted+excepted
	t.stale, t.took = t.stale+len(stale), t.took+took
}

// ours returns the accepted changes of a package that this run can judge.
func (t *tally) ours(name string, tried []mutant, whole bool) map[string]bool {
	out := make(map[string]bool)
	for line := range t.accepted {
		file, _, _ := strings.Cut(line, " ")
		if whole && file[:strings.LastIndex(file, "/")+1] == name+"/" {
			out[line] = true
		}
	}
	for _, m := range tried {
		if _, ok := t.accepted[m.line()]; ok {
			out[m.line()] = true
		}
	}
	return out
}

// end reports all packages together, and returns the exit status.
func (t *tally) end() int {
	noticed, of := t.tried-t.alive, t.tried-t.excepted
	share := 100.0
	if of > 0 {
		share = 100 * float64(noticed) / float64(of)
	}
	if t.packages > 1 {
		t.say("%d packages, %d changes in %s: %d noticed, %d accepted as equivalent, %d to review\n", t.packages, t.tried,
			t.took.Round(time.Second), noticed, t.excepted, t.alive-t.excepted+t.stale)
	}
	if share < t.least || t.stale > 0 {
		t.say("%.1f %% of the changes that are not equivalent are noticed; %g %% are wanted\n", share, t.least)
		return 1
	}
	t.say("%.1f %% of the changes that are not equivalent are noticed\n", share)
	return 0
}

func (t *tally) say(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

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
