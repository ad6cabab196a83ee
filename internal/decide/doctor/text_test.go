package doctor

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// situations returns clusters as they occur in practice.
func situations() []struct {
	name  string
	facts Facts
} {
	fresh := wellTwo()
	for i := range fresh.Hosts {
		h := &fresh.Hosts[i]
		h.Rings.Value, h.BMCs.Value[0].Proven = h.Rings.Value[:1], time.Time{}
		h.BMCs.Value[0].Slowest, h.BMCs.Value[0].Interface = 0, "eth0"
	}
	apiAway := wellTwo()
	apiAway.Hosts[0].Source, apiAway.Hosts[0].Offset.Value = Here, Offset{}
	apiAway.Hosts = apiAway.Hosts[:1]
	apiAway.Hosts = append(apiAway.Hosts, Host{Name: "cp-2"})
	apiAway.Cluster = Cluster{Trouble: []string{"the API: dial tcp 10.0.0.5:6443: connect: connection refused"}}
	neglected := wellTwo()
	neglected.Hosts[1].BMCs.Value[0].Delay = 0
	neglected.Hosts[0].Swap.Value = 4 << 30
	neglected.Hosts[0].Watchdogs.Value = []string{"sbd.service is running: it restarts a host that loses its peer or its disk"}
	neglected.Hosts[1].Clock.Value = Clock{}
	neglected.Hosts[1].Offset.Value = Offset{Low: 90 * time.Second, High: 90*time.Second + 20*time.Millisecond}
	neglected.Cluster.Budgets.Value = []Budget{budget(2, 2)}
	neglected.Hosts[1].Devices = state.Fact[[]Device]{}
	published := wellTwo()
	for i := range published.Hosts {
		published.Hosts[i].Source, published.Hosts[i].To = Published, now.Add(-12*time.Minute)
		published.Hosts[i].Offset.Value = Offset{Low: -time.Second, High: 20 * time.Millisecond}
	}
	return []struct {
		name  string
		facts Facts
	}{
		{"two hosts that are well, seen through the API alone", published},
		{"two hosts as they were just installed", fresh},
		{"two hosts that nobody looked after", neglected},
		{"one host left, without API", apiAway},
		{"one host", wellMany("cp-1")},
		{"three hosts", wellMany("cp-1", "cp-2", "cp-3")},
	}
}

func TestTheTextOfEachSituationIsTheApprovedOne(t *testing.T) {
	var b strings.Builder
	for _, s := range situations() {
		_, _ = fmt.Fprintf(&b, "=== %s\n\n%s\n", s.name, Text(s.facts, Examine(s.facts), page.Style{}))
	}
	s := situations()[2]
	_, _ = fmt.Fprintf(&b, "=== %s, wide\n\n%s\n", s.name, Text(s.facts, Examine(s.facts), page.Style{Wide: true}))
	golden.Check(t, "situations.txt", []byte(b.String()))
}

func TestATextFitsATerminalAndHasNoColourUnlessAsked(t *testing.T) {
	for _, s := range situations() {
		text := Text(s.facts, Examine(s.facts), page.Style{})
		for line := range strings.Lines(text) {
			if len([]rune(line)) > 100 && !strings.HasPrefix(line, "  $ ") {
				t.Errorf("%s: %d columns: %s", s.name, len(line), line)
			}
		}
		if strings.Contains(text, "\x1b") {
			t.Errorf("%s: colour without a terminal", s.name)
		}
		if coloured := Text(s.facts, Examine(s.facts), page.Style{Colour: true}); !strings.Contains(coloured, "\x1b[") {
			t.Errorf("%s: no colour", s.name)
		}
	}
}

const runbook = "../../../docs/runbook/doctor.md"

func TestTheRunbookPageListsEveryCheckAsTheTableHasIt(t *testing.T) {
	text, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- checks: written by the test of internal/decide/doctor, with -update -->\n", "\n<!-- end of checks -->"
	head, rest, ok := strings.Cut(string(text), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the checks: %q ... %q", runbook, begin, end)
	}
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" { // golden's
		if err := os.WriteFile(runbook, []byte(head+begin+Table()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != Table() {
		t.Errorf("%s is not what the table says: run this test with -update, and read the page", runbook)
	}
}
