package incident

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestEventsAreReadAgainAndNothingIsNotedTwice(t *testing.T) {
	a, _ := pairOf(t, newAPI())
	must(t, a.run(-10, nil))
	before, err := readMemory(filepath.Join(a.dir, "incidents"))
	must(t, err)
	must(t, a.run(-5, nil))
	after, err := readMemory(filepath.Join(a.dir, "incidents"))
	must(t, err)
	if len(before.Records) < 4 || !after.same(before) {
		t.Errorf("%d records, before %d", len(after.Records), len(before.Records))
	}
	for _, r := range before.Records {
		if r.Boot != before.Records[0].Boot {
			t.Errorf("one boot is %s and %s", before.Records[0].Boot, r.Boot)
		}
	}
}

// TestMoreEventsThanAreKeptAreNoNews plays a rule that comes and goes for hours.
func TestMoreEventsThanAreKeptAreNoNews(t *testing.T) {
	a, _ := pairOf(t, newAPI())
	var events []state.Event
	for i := range maxRecords + 100 {
		at := began.Add(-2000*time.Second + time.Duration(i)*time.Second)
		events = append(events, state.Event{Boot: a.id(), Up: at.Sub(a.origin), At: at, Kind: state.EventDecision, Rule: fmt.Sprintf("equal.idle-%d", i%2), Action: state.EtcdIdle})
	}
	must(t, a.files().AppendEvents(state.EtcdEvents, events), a.run(-10, nil))
	before, err := readMemory(filepath.Join(a.dir, "incidents"))
	must(t, err, a.run(-5, nil))
	after, err := readMemory(filepath.Join(a.dir, "incidents"))
	must(t, err)
	if len(before.Records) != maxRecords || before.Records[0].Kind != decide.Recorded || !after.same(before) {
		t.Errorf("%d records, before %d", len(after.Records), len(before.Records))
	}
}

// TestWhatEarlierReleasesReadOfTheJournalStays begins with the memory of an agent
// that read the journal, in the middle of an incident.
func TestWhatEarlierReleasesReadOfTheJournalStays(t *testing.T) {
	api := newAPI()
	a, b := pairOf(t, api)
	must(t, a.run(-10, nil), b.run(-10, nil))
	loses(t, a)
	must(t, a.run(4, nil), os.RemoveAll(a.files().Path(state.EventsDir))) // its keeper wrote no events yet
	path := filepath.Join(a.dir, "incidents", memoryFile)
	text, err := os.ReadFile(path)
	must(t, err)
	old := strings.ReplaceAll(strings.Replace(string(text), "{", `{"cursor":"s=1;i=2",`, 1), "events of", "journal of")
	must(t, os.WriteFile(path, []byte(old), 0o600))
	id := a.reports()[0].ID
	returns(a, b)
	for _, at := range []float64{31, 33} {
		must(t, b.run(at, nil), a.run(at, nil))
	}
	if list := a.reports(); len(list) != 1 || list[0].ID != id || list[0].State != decide.Over || list[0].Failures[0].Cause != decide.Lost {
		t.Errorf("it was %s: %+v", id, list)
	}
}
