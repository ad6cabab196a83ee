package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Outcome tells how a spec ended.
type Outcome string

// Outcomes. A spec that was not chosen has none.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// Skipped is the outcome of a spec that found that it cannot run here.
	Skipped Outcome = "skipped"
)

// Spec is one test of the suite, or a step before or after all of them.
type Spec struct {
	Name    string
	Outcome Outcome
	Took    time.Duration
	// Why is the first line of the message of a spec that failed or skipped
	// itself.
	Why string
}

// Report is one run of the suite.
type Report struct {
	// Specs holds the chosen specs.
	Specs []Spec
	// Names holds the names of all specs, chosen or not.
	Names []string
}

// junit is the part of ginkgo's JUnit file that is read.
type junit struct {
	Suites []struct {
		Cases []junitCase `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitCase struct {
	Name    string  `xml:"name,attr"`
	Status  string  `xml:"status,attr"`
	Seconds float64 `xml:"time,attr"`
	Skipped *words  `xml:"skipped"`
	Failure *words  `xml:"failure"`
	Error   *words  `xml:"error"`
}

type words struct {
	Message string `xml:"message,attr"`
}

// notChosen is ginkgo's message for a spec that was not chosen. If a spec skips
// itself, its own message follows after a dash.
const notChosen = "skipped"

// labels matches the labels behind the name of a spec.
var labels = regexp.MustCompile(` \[[^\[\]]*\]$`)

// colours matches colour codes in ginkgo's own messages about steps before all
// specs. XML cannot hold the character that they begin with.
var colours = regexp.MustCompile("\uFFFD\\[[0-9;]*m")

// ReadReport reads a JUnit file.
func ReadReport(r io.Reader) (Report, error) {
	var file junit
	var out Report
	if err := xml.NewDecoder(r).Decode(&file); err != nil {
		return out, fmt.Errorf("read the report of the tests: %w", err)
	}
	for _, s := range file.Suites {
		for _, c := range s.Cases {
			name, isSpec := strings.CutPrefix(c.Name, "[It] ")
			if isSpec {
				name = labels.ReplaceAllString(name, "")
				out.Names = append(out.Names, name)
			}
			spec := Spec{Name: name, Outcome: outcome(c.Status), Took: time.Duration(c.Seconds * float64(time.Second)), Why: c.why()}
			if spec.Outcome == Skipped && spec.Why == "" || !isSpec && spec.Outcome != Failed {
				continue
			}
			out.Specs = append(out.Specs, spec)
		}
	}
	return out, nil
}

func outcome(status string) Outcome {
	switch status {
	case "passed":
		return Passed
	case "skipped", "pending":
		return Skipped
	}
	return Failed // failed, panicked, timedout, interrupted, aborted
}

// why returns the reason of a spec, empty for a spec that was not chosen.
func (c junitCase) why() string {
	for _, w := range []*words{c.Failure, c.Error, c.Skipped} {
		if w != nil {
			text := strings.TrimPrefix(w.Message, notChosen)
			line, _, _ := strings.Cut(strings.TrimPrefix(text, " - "), "\n")
			return colours.ReplaceAllString(line, "")
		}
	}
	return ""
}

// Exception is a spec that is known to fail in the lab.
type Exception struct {
	Spec, Reason string
	// Shapes lists the sites on which it fails; empty for all.
	Shapes []string
}

// On returns the exceptions that hold on a shape.
func On(shape string, known []Exception) []Exception {
	return slices.DeleteFunc(slices.Clone(known), func(e Exception) bool {
		return len(e.Shapes) > 0 && !slices.Contains(e.Shapes, shape)
	})
}

// Judge returns what is wrong with a run: each failed spec that is no
// exception, each exception that passed, and each exception that names no spec.
// A run that failed before its first spec has no names.
func Judge(r Report, known []Exception) []string {
	var out []string
	excepted := func(name string) bool {
		return slices.ContainsFunc(known, func(e Exception) bool { return e.Spec == name })
	}
	for _, s := range r.Specs {
		switch {
		case s.Outcome == Failed && !excepted(s.Name):
			out = append(out, fmt.Sprintf("%s: %s", s.Name, s.Why))
		case s.Outcome == Passed && excepted(s.Name):
			out = append(out, s.Name+": it passed, take it off the list of exceptions")
		}
	}
	for _, e := range known {
		if len(r.Names) > 0 && !slices.Contains(r.Names, e.Spec) {
			out = append(out, e.Spec+": an exception, but no spec is called so")
		}
	}
	return out
}

// Table describes a run in a few lines: a line of numbers, and one for each
// spec that did not pass.
func Table(what string, r Report, took time.Duration) string {
	count := map[Outcome]int{Passed: 0, Failed: 0, Skipped: 0}
	var lines strings.Builder
	for _, s := range r.Specs {
		count[s.Outcome]++
		if s.Outcome != Passed {
			fmt.Fprintf(&lines, "  %-7s  %7.1f s  %s\n                      %s\n", s.Outcome, s.Took.Seconds(), s.Name, s.Why)
		}
	}
	return fmt.Sprintf("%-9s %4d passed, %d failed, %d skipped themselves, in %s\n%s", what+":",
		count[Passed], count[Failed], count[Skipped], took.Round(time.Second), lines.String())
}
