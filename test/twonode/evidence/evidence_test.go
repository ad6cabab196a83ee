package evidence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheTableHoldsWhatWasMeasured(t *testing.T) {
	var list []Trial
	for i := range 10 {
		list = append(list, Trial{Scenario: "power cut", EtcdBack: new(Seconds(i + 1)), Detect: new(Seconds(2)), Fences: 1, Failed: i == 9})
	}
	list = append(list, Trial{Scenario: "etcd killed", EtcdBack: new(Seconds(0.42))})
	got := Table(list)
	for _, want := range []string{
		"| power cut | 10 | 1 | 5.0 / 9.0 / 10.0 | – | – | – | – | – |\n",
		"| etcd killed | 1 | 0 | 0.4 | – | – | – | – | – |\n",
		"| power cut | 1 | 2.0 / 2.0 | – | – | – | – |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	if strings.Count(got, "etcd killed") != 1 {
		t.Errorf("a scenario without parts is in the table of parts:\n%s", got)
	}
}

func TestTheTableSaysForHowLongNobodyWroteAndWhoWasFencedWrongly(t *testing.T) {
	var list []Trial
	for i := range 3 {
		list = append(list, Trial{Scenario: "cable out", Hold: 75, Held: new(Seconds(i + 2)), HeldAny: new(Seconds(1)), Sick: "cp-1", Fenced: []string{"cp-1"}, Fences: 1})
	}
	list[2].Fenced = []string{"cp-2"}
	got := Table(append(list, Trial{Scenario: "power cut"}))
	if want := "| cable out | 3 | 0 | 75 | 3.0 / 4.0 / 4.0 | 1.0 / 1.0 / 1.0 | 1 | 1 |\n"; !strings.Contains(got, want) {
		t.Errorf("the table lacks %q:\n%s", want, got)
	}
	if strings.Count(got, "nor anywhere") != 1 || strings.Contains(Table(list[:0]), "nor anywhere") {
		t.Errorf("the table of held faults is there more or less than once:\n%s", got)
	}
}

func TestPercentilesAreMeasuredValues(t *testing.T) {
	for p, want := range map[int]float64{0: 1, 50: 2, 90: 4, 100: 4} {
		if got := Percentile([]float64{1, 2, 3, 4}, p); got != want {
			t.Errorf("p%d is %v, want %v", p, got, want)
		}
	}
}

func TestAPartIsKnownWhereBothItsEndsAre(t *testing.T) {
	start := time.Unix(1000, 0)
	var trial Trial
	trial.Split(Moments{Fault: start, Membership: start.Add(1800 * time.Millisecond), Fenced: start.Add(2 * time.Second), Etcd: start.Add(3 * time.Second)})
	if trial.Detect == nil || *trial.Detect != 1.8 || trial.Fence == nil || trial.Decide != nil || trial.Etcd != nil || trial.API != nil {
		t.Errorf("got %+v", trial)
	}
}

func TestTrialsAreReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "results.jsonl")
	for _, name := range []string{"a", "b"} {
		if err := Append(path, Trial{Scenario: name, Voters: new(Seconds(3))}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	list, err := Read[Trial](f)
	if err != nil || len(list) != 2 || list[1].Scenario != "b" || *list[1].Voters != 3 {
		t.Errorf("read %+v (%v)", list, err)
	}
	if _, err := Read[Trial](strings.NewReader(`{"scenario":"a"}{"scen`)); err == nil {
		t.Error("a torn file was read without a word")
	}
}

func TestTheTableHoldsHowSoonPeopleWereTold(t *testing.T) {
	list := []Trial{
		{Scenario: "power cut", Told: []Seconds{0.4, 1.2}, FirstTold: new(Seconds(3.1)), AgentCPU: map[string]float64{"cp-1": 80, "cp-2": 20}},
		{Scenario: "power cut", Told: []Seconds{0.6}, FirstTold: new(Seconds(3.5)), AgentCPU: map[string]float64{"cp-1": 10, "cp-2": 60}},
		{Scenario: "nobody was told"},
	}
	got := Table(list)
	for _, want := range []string{
		"| power cut | 3 | 0.6 / 1.2 / 1.2 | 3.1 / 3.5 | 60, 10 |\n",
		"| all | 3 | 0.6 / 1.2 / 1.2 | 3.1 / 3.5 | 60, 10 |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(Table(list[2:]), "event to API") {
		t.Error("a table of nothing")
	}
}
