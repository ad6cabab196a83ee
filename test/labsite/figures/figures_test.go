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
		one.Noticed("VIP v4", load.Loss{Requests: 100, Failed: i, FailedNew: i}, false)
		list = append(list, one)
	}
	other := Trial{Scenario: "node joins", Families: "v4"}
	other.Took("DNS", 120*time.Millisecond)
	other.Noticed("VIP v4", load.Loss{Requests: 50}, true)
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
	one.Noticed("VIP", load.Loss{Requests: 5, Failed: 1, FailedKept: 1, Late: time.Second}, true)
	one.Noticed("VIP", load.Loss{Requests: 6, Failed: 2, FailedNew: 2}, true)
	if c := one.Clients["VIP"]; c != (Client{Requests: 11, Failed: 3, FailedNew: 2, FailedKept: 1, Late: 1, Zero: true}) {
		t.Errorf("%+v", c)
	}
}
