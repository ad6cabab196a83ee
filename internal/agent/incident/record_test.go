package incident

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
)

// etcd's record is read from its file only if no event tells it: the event comes
// a moment after the file, and has the reason.
func TestARecordIsNotedFromItsFileWhereNoEventTellsIt(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		age   time.Duration
		noted []decide.Record
		want  int
	}{
		"its event is on the way": {time.Second, nil, 0},
		"no event came":           {time.Minute, nil, 1},
		"the clock was set back":  {-time.Minute, nil, 1},
		"an event has told it":    {time.Minute, []decide.Record{{Kind: decide.Recorded, Seq: 7}}, 0},
		"the events end earlier":  {time.Minute, []decide.Record{{Kind: decide.Recorded, Seq: 6}, {Kind: decide.Holds}}, 1},
	} {
		files := records.Files{Root: t.TempDir()}
		if err := files.WriteRecord(state.EtcdRecord{State: state.EtcdSole, Seq: 7, Member: 1, Cluster: 2, Written: now.Add(-c.age)}); err != nil {
			t.Fatal(err)
		}
		m := memory{Records: c.noted}
		if err := (sources{files: files}).addRecord(t.Context(), decide.Record{Host: "cp-1", At: now}, &m); err != nil {
			t.Fatal(err)
		}
		if got := len(m.Records) - len(c.noted); got != c.want {
			t.Errorf("%s: %d noted, want %d", name, got, c.want)
		}
	}
}
