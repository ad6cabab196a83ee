package fence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheHistoryIsBoundedAndItsSumsAreNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	proven := Record{Target: "cp-1", Off: true, Requests: 1, Time: time.Unix(1000, 0).UTC(), Phases: Phases{PowerOff: 7 * time.Second}}
	if err := appendHistory(path, proven); err != nil {
		t.Fatal(err)
	}
	failed := Record{Target: "cp-1", Detail: strings.Repeat("no answer ", 3000)}
	const times = 60 // of 30 KB each: three times the bound
	var sums Sums
	for i := range times {
		failed.Requests = i
		if err := appendHistory(path, failed); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > maxHistory {
			t.Fatalf("after %d: %d bytes, %v", i, info.Size(), err)
		}
		total, err := sums.Of(path)
		if got := total["cp-1"]; err != nil || got.Proven != 1 || got.Failed != i+1 || got.Worst != 7*time.Second || !got.Last.Time.Equal(proven.Time) || !got.Cut.Equal(proven.Time) {
			t.Fatalf("after %d: %+v, %v", i, got, err)
		}
	}
	records, err := History(path)
	if err != nil || len(records) >= times || len(records) < 5 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for i, r := range records {
		if want := times - len(records) + i; r.Requests != want || r.Target != "cp-1" {
			t.Errorf("record %d is that of %s, attempt %d", i, r.Target, r.Requests)
		}
	}
}

func TestAHistoryThatIsAsItWasIsNotReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	var sums Sums
	if total, err := sums.Of(path); err != nil || len(total) != 0 {
		t.Fatalf("%v, %v", total, err)
	}
	for want := 1; want <= 2; want++ {
		if err := appendHistory(path, Record{Target: "cp-1", Off: true}); err != nil {
			t.Fatal(err)
		}
		reads := sums.reads
		for range 3 {
			if total, err := sums.Of(path); err != nil || total["cp-1"].Proven != want {
				t.Errorf("%+v, %v", total, err)
			}
		}
		if sums.reads != reads+1 {
			t.Errorf("read %d times", sums.reads-reads)
		}
	}
}
