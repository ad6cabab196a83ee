package figures

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/test/labsite/load"
)

func TestTheTableHoldsEachFigureBesideItsTarget(t *testing.T) {
	var list []Trial
	for i := range 10 {
		one := Trial{Scenario: "power cut", Families: "v4", Failed: i == 9}
		one.Took("no answer", time.Duration(i+1)*100*time.Millisecond)
		one.Promise("no answer", 800*time.Millisecond)
		one.Noticed("VIP v4", history(100, i), always, false)
		list = append(list, one)
	}
	other := Trial{Scenario: "node joins", Families: "v4"}
	other.Took("DNS", 120*time.Millisecond)
	other.Noticed("VIP v4", history(50, 0), always, true)
	got := Table(append(list, other))
	for _, want := range []string{
		"| power cut | v4 | no answer | 10 | 0.10 | 0.50 | 0.90 | 1.00 | 0.8 | 8 of 10 |\n",
		"| node joins | v4 | DNS | 1 | 0.12 | 0.12 | 0.12 | 0.12 | – | – |\n",
		"| power cut | v4 | VIP v4 | 10 | 1 | 1000 | 45 | 45 | 0 | 9 | – |\n",
		"| node joins | v4 | VIP v4 | 1 | 0 | 50 | 0 | 0 | 0 | 0 | 0 |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}

func TestClustersOfOtherFamiliesHaveLinesOfTheirOwn(t *testing.T) {
	a, b := Trial{Scenario: "power cut", Families: "v4"}, Trial{Scenario: "power cut", Families: "v6"}
	a.Took("no answer", time.Second)
	b.Took("no answer", 2*time.Second)
	if got := Table([]Trial{a, b}); !strings.Contains(got, "| power cut | v6 | no answer | 1 | 2.00 ") {
		t.Errorf("%s", got)
	}
}

func TestWhatAClientNoticedInSeveralSpansAddsUp(t *testing.T) {
	var one Trial
	h := history(11, 3)
	h.Requests[2].Kind, h.Requests[2].Late = load.Kept, time.Second
	one.Noticed("VIP", h, load.Span{Until: 4500 * time.Millisecond}, true)
	if c := one.Clients["VIP"]; c != (Client{Requests: 5, Failed: 3, FailedNew: 2, FailedKept: 1, Late: 1, Zero: true}) {
		t.Errorf("the first: %+v", c)
	}
	one.Noticed("VIP", h, load.Span{From: 4500 * time.Millisecond, Until: time.Hour}, true)
	if c := one.Clients["VIP"]; c != (Client{Requests: 11, Failed: 3, FailedNew: 2, FailedKept: 1, Late: 1, Zero: true}) {
		t.Errorf("both: %+v", c)
	}
}

// TestEachRequestCountsOnce has a judge look at what was recorded before: at the whole, at a
// part, and at more. A request that lasts from one span into the next one counts once too.
func TestEachRequestCountsOnce(t *testing.T) {
	second := func(from, until int) load.Span {
		return load.Span{From: time.Duration(from) * time.Second, Until: time.Duration(until) * time.Second}
	}
	for name, c := range map[string]struct {
		spans            []load.Span
		requests, failed int
	}{
		"the same again":           {[]load.Span{second(0, 3), second(0, 3)}, 4, 3},
		"the whole after the half": {[]load.Span{second(0, 1), second(0, 9)}, 10, 3},
		"the half after the whole": {[]load.Span{second(0, 9), second(2, 4)}, 10, 3},
		"parts that overlap":       {[]load.Span{second(0, 5), second(3, 7)}, 8, 3},
		"one after the other":      {[]load.Span{second(0, 2), second(2, 7)}, 8, 3},
		"nothing between":          {[]load.Span{second(0, 1), second(8, 9)}, 5, 2},
	} {
		var one Trial
		for _, s := range c.spans {
			one.Noticed("VIP", history(10, 3), s, false)
		}
		if got := one.Clients["VIP"]; got.Requests != c.requests || got.Failed != c.failed || got.FailedNew != c.failed {
			t.Errorf("%s: %+v, want %d requests, %d of them failed", name, got, c.requests, c.failed)
		}
	}
}

// always is a span that has every request.
var always = load.Span{Until: time.Hour}

// history returns a history with a request each second, which lasts for that second. The
// first ones fail.
func history(requests, failed int) load.History {
	var out load.History
	for i := range requests {
		r := load.Request{Kind: load.New, Start: time.Duration(i) * time.Second, End: time.Duration(i+1) * time.Second}
		if i < failed {
			r.Error = "it failed"
		}
		out.Requests = append(out.Requests, r)
	}
	return out
}
