package conformance

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// aReport is a report as ginkgo 2.28 writes it, with fewer attributes.
const aReport = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="9"><testsuite name="Kubernetes e2e suite">
  <testcase name="[SynchronizedBeforeSuite]" status="passed" time="1"></testcase>
  <testcase name="[It] [sig-node] Pods should run [Conformance] [sig-node, Conformance]" status="passed" time="2.5">
    <system-err>a timeline</system-err>
  </testcase>
  <testcase name="[It] [sig-node] Pods should fail [Conformance] [sig-node, Conformance]" status="failed" time="1">
    <failure message="no such pod&#xA;more" type="failed">text</failure>
  </testcase>
  <testcase name="[It] [sig-node] Pods should hang [Conformance] [sig-node, Conformance]" status="timedout" time="600">
    <error message="A suite timeout occurred" type="timedout">text</error>
  </testcase>
  <testcase name="[It] [sig-apps] Two nodes [Serial] [Conformance] [sig-apps, Serial, Conformance]" status="skipped" time="0.1">
    <skipped message="skipped - Requires at least 2 nodes (not 1)"></skipped>
  </testcase>
  <testcase name="[It] [sig-apps] Another one [sig-apps]" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
  <testcase name="[ReportAfterSuite] Invariant Metrics" status="failed" time="0">
    <failure message="&#xFFFD;[1ma panic&#xFFFD;[0m" type="failed">text</failure>
  </testcase>
</testsuite></testsuites>`

func read(t *testing.T) Report {
	t.Helper()
	r, err := ReadReport(strings.NewReader(aReport))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAReportHoldsTheSpecsThatWereChosen(t *testing.T) {
	want := []Spec{
		{Name: "[sig-node] Pods should run [Conformance]", Outcome: Passed, Took: 2500 * time.Millisecond},
		{Name: "[sig-node] Pods should fail [Conformance]", Outcome: Failed, Took: time.Second, Why: "no such pod"},
		{Name: "[sig-node] Pods should hang [Conformance]", Outcome: Failed, Took: 10 * time.Minute, Why: "A suite timeout occurred"},
		{Name: "[sig-apps] Two nodes [Serial] [Conformance]", Outcome: Skipped, Took: 100 * time.Millisecond, Why: "Requires at least 2 nodes (not 1)"},
		{Name: "[ReportAfterSuite] Invariant Metrics", Outcome: Failed, Why: "a panic"},
	}
	r := read(t)
	if !slices.Equal(r.Specs, want) {
		t.Errorf("specs are\n%+v, want\n%+v", r.Specs, want)
	}
	if len(r.Names) != 5 || r.Names[4] != "[sig-apps] Another one" {
		t.Errorf("names are %q", r.Names)
	}
}

func TestADamagedReportIsAnError(t *testing.T) {
	if _, err := ReadReport(strings.NewReader(aReport[:len(aReport)/2])); err == nil {
		t.Error("half a report was read")
	}
}

func TestWhatIsWrongWithARun(t *testing.T) {
	for _, test := range []struct {
		name  string
		known []Exception
		want  []string
	}{
		{"failures alone", nil, []string{
			"[sig-node] Pods should fail [Conformance]: no such pod",
			"[sig-node] Pods should hang [Conformance]: A suite timeout occurred",
			"[ReportAfterSuite] Invariant Metrics: a panic",
		}},
		{"exceptions that fail, skip themselves, were not chosen", []Exception{
			{Spec: "[sig-node] Pods should fail [Conformance]"},
			{Spec: "[sig-apps] Another one"},
			{Spec: "[sig-apps] Two nodes [Serial] [Conformance]"},
		}, []string{"[sig-node] Pods should hang [Conformance]: A suite timeout occurred", "[ReportAfterSuite] Invariant Metrics: a panic"}},
		{"an exception that passed, and one of no spec", []Exception{
			{Spec: "[sig-node] Pods should run [Conformance]"},
			{Spec: "[sig-node] Gone"},
			{Spec: "[sig-node] Pods should fail [Conformance]"},
			{Spec: "[sig-node] Pods should hang [Conformance]"},
		}, []string{
			"[sig-node] Pods should run [Conformance]: it passed, take it off the list of exceptions",
			"[ReportAfterSuite] Invariant Metrics: a panic", "[sig-node] Gone: an exception, but no spec is called so",
		}},
	} {
		if got := Judge(read(t), test.known); !slices.Equal(got, test.want) {
			t.Errorf("%s:\n%q, want\n%q", test.name, got, test.want)
		}
	}
	early := Report{Specs: []Spec{{Name: "[SynchronizedBeforeSuite]", Outcome: Failed, Why: "connection refused"}}}
	if got := Judge(early, exceptions); !slices.Equal(got, []string{"[SynchronizedBeforeSuite]: connection refused"}) {
		t.Errorf("a run that failed before its first spec: %q", got)
	}
}

func TestAnExceptionHoldsOnItsShapes(t *testing.T) {
	known := []Exception{{Spec: "everywhere"}, {Spec: "one worker", Shapes: []string{"2+1", "1+1"}}}
	for shape, want := range map[string]int{"2+1": 2, "1+1": 2, "2+0": 1} {
		if got := On(shape, known); len(got) != want || got[0].Spec != "everywhere" {
			t.Errorf("%s: %v", shape, got)
		}
	}
}

func TestATableNamesWhatDidNotPass(t *testing.T) {
	got := Table("parallel", read(t), 61*time.Minute)
	for _, want := range []string{
		"parallel:    1 passed, 3 failed, 1 skipped themselves, in 1h1m0s\n", "  failed     600.0 s  [sig-node] Pods should hang",
		"  skipped      0.1 s  [sig-apps] Two nodes", "Requires at least 2 nodes",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "Pods should run") {
		t.Errorf("a spec that passed has a line:\n%s", got)
	}
}

func TestEachExceptionHasAReason(t *testing.T) {
	for _, e := range exceptions {
		if e.Reason == "" || !strings.HasSuffix(e.Spec, "[Conformance]") {
			t.Errorf("exception %q: reason %q", e.Spec, e.Reason)
		}
	}
}

func TestEndsOfSpecsAreCountedWhereverALineIsCut(t *testing.T) {
	const text = "------\n• [0.1 seconds]\n------\n• [FAILED] [2.0 seconds]\nno • [ here\nS [SKIPPED] [0 seconds]\n• [3 seconds]\n"
	for size := 1; size < len(text); size++ {
		c := &counter{n: new(atomic.Int64)}
		for rest := []byte(text); len(rest) > 0; {
			n, err := c.Write(rest[:min(size, len(rest))])
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if got := c.n.Load(); got != 3 {
			t.Fatalf("in pieces of %d bytes: %d specs, want 3", size, got)
		}
	}
}

func TestOptionsOfTheSuiteFollowThoseOfGinkgo(t *testing.T) {
	k := &Kit{Suite: "/e2e.test", Kubectl: "/kubectl"}
	args := k.arguments(Run{Name: "serial", Labels: "Conformance && Serial", Focus: `\[sig-node\]`, Procs: 1, Within: time.Hour, Kubeconfig: "/kc", Dir: "/out"})
	i := slices.Index(args, "/e2e.test")
	if i < 0 || args[i+1] != "--" {
		t.Fatalf("no suite in %q", args)
	}
	for _, want := range []string{"--focus=" + `\[sig-node\]`, "--label-filter=Conformance && Serial", "--timeout=1h0m0s", "--junit-report=serial.xml"} {
		if !slices.Contains(args[:i], want) {
			t.Errorf("ginkgo is not told %s: %q", want, args[:i])
		}
	}
	if !slices.Contains(args[i:], "--kubeconfig=/kc") || slices.Contains(args, "--dry-run") || slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--skip") }) {
		t.Errorf("arguments are %q", args)
	}
}
