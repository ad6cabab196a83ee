package records

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheHistoryIsBoundedAndItsSumsAreNot(t *testing.T) {
	files := Files{Root: t.TempDir()}
	proven := state.FenceEntry{Target: "cp-1", Off: true, Requests: 1, Time: time.Unix(1000, 0).UTC(), Phases: state.FencePhases{PowerOff: 7 * time.Second}}
	if err := files.AppendFence(proven); err != nil {
		t.Fatal(err)
	}
	failed := state.FenceEntry{Target: "cp-1", Detail: strings.Repeat("no answer ", 3000)}
	const times = 60 // 30 KB each, three times the bound in total
	var sums FenceSums
	for i := range times {
		failed.Requests = i
		if err := files.AppendFence(failed); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(files.Path(state.FencingHistoryPath)); err != nil || info.Size() > maxHistory {
			t.Fatalf("after %d: %d bytes, %v", i, info.Size(), err)
		}
		total, err := sums.Of(files)
		if got := total["cp-1"]; err != nil || got.Proven != 1 || got.Failed != i+1 || got.Slowest() != 7*time.Second || !got.Last.Time.Equal(proven.Time) || !got.Cut.Equal(proven.Time) {
			t.Fatalf("after %d: %+v, %v", i, got, err)
		}
	}
	records, err := files.Fences()
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
	files := Files{Root: t.TempDir()}
	var sums FenceSums
	if total, err := sums.Of(files); err != nil || len(total) != 0 {
		t.Fatalf("%v, %v", total, err)
	}
	for want := 1; want <= 2; want++ {
		if err := files.AppendFence(state.FenceEntry{Target: "cp-1", Off: true}); err != nil {
			t.Fatal(err)
		}
		reads := sums.reads
		for range 3 {
			if total, err := sums.Of(files); err != nil || total["cp-1"].Proven != want {
				t.Errorf("%+v, %v", total, err)
			}
		}
		if sums.reads != reads+1 {
			t.Errorf("read %d times", sums.reads-reads)
		}
	}
}

// torn leaves the beginning of a line at the end of a file, as a power cut does.
func torn(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"target":"tw`)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestALineThatAPowerCutLeftDoesNotSpoilTheHistory(t *testing.T) {
	files := Files{Root: t.TempDir()}
	at := time.Unix(1000, 0).UTC()
	for _, name := range []string{"one", "three"} {
		if err := files.AppendFence(state.FenceEntry{Time: at, Target: name}); err != nil {
			t.Fatal(err)
		}
		if err := files.AppendConfirmation(state.ConfirmationEntry{Time: at, Peer: name}); err != nil {
			t.Fatal(err)
		}
		torn(t, files.Path(state.FencingHistoryPath))
		torn(t, files.Path(state.ConfirmationsPath))
	}
	fences, err := files.Fences()
	if err != nil || len(fences) != 2 || fences[0].Target != "one" || fences[1].Target != "three" {
		t.Errorf("%+v, %v", fences, err)
	}
	words, err := files.Confirmations()
	if err != nil || len(words) != 2 || words[0].Peer != "one" || words[1].Peer != "three" {
		t.Errorf("%+v, %v", words, err)
	}
}

func TestWhatNamesNoTimeIsNoConfirmation(t *testing.T) {
	files := Files{Root: t.TempDir()}
	put(t, files, state.ConfirmationsPath, "{}\n7\n"+`{"time":"2026-11-20T09:01:00Z","peer":"cp-2","who":"ops","force":true,"later":"unknown"}`+"\n")
	if words, err := files.Confirmations(); err != nil || len(words) != 1 || words[0].Who != "ops" || !words[0].Force {
		t.Errorf("%+v, %v", words, err)
	}
}
