package incident

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/state"
)

var at = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// noted returns records of n take-overs by cp-1, one hour apart.
func noted(n int) []decide.Record {
	rec := func(d time.Duration, r decide.Record) decide.Record {
		r.Host, r.Boot, r.Up, r.At, r.From = "cp-1", "b", d+time.Hour, at.Add(d), "test"
		return r
	}
	out := []decide.Record{
		rec(0, decide.Record{Kind: decide.Members, Members: []string{"cp-1", "cp-2"}, Ring: 1, Quorate: true}),
		rec(1, decide.Record{Kind: decide.Recorded, State: state.EtcdPair, Seq: 1}),
	}
	for i := range n {
		d, ring, seq := time.Duration(i+1)*time.Hour, uint64(2*i+2), uint64(2*i+2)
		out = append(out,
			rec(d, decide.Record{Kind: decide.Members, Members: []string{"cp-1"}, Ring: ring, Quorate: true}),
			rec(d+time.Second, decide.Record{Kind: decide.Recorded, State: state.EtcdSole, Seq: seq}),
			rec(d+time.Minute, decide.Record{Kind: decide.Members, Members: []string{"cp-1", "cp-2"}, Ring: ring + 1, Quorate: true}),
			rec(d+2*time.Minute, decide.Record{Kind: decide.Recorded, State: state.EtcdPair, Seq: seq + 1}),
		)
	}
	return out
}

type answers struct {
	data map[string]map[string]string
	err  error
}

func (a answers) ConfigMaps(_ context.Context, namespace, label string) (map[string]map[string]string, error) {
	if namespace != Namespace || label != Label {
		return nil, fmt.Errorf("%s %s", namespace, label)
	}
	return a.data, a.err
}

func TestWhatAHostShowsIsReadBack(t *testing.T) {
	records := noted(3)
	data, err := Published{Records: records, Incidents: decide.Assemble(records)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	l, err := InCluster(t.Context(), answers{data: map[string]map[string]string{ConfigMap("cp-1"): data, ConfigMap("cp-2"): {keyJournal: "{"}}})
	if err != nil || len(l.Incidents) != 3 || !l.Incidents[0].Start.After(l.Incidents[2].Start) {
		t.Errorf("%v: %d incidents", err, len(l.Incidents))
	}
	if len(l.Limits) != 1 || !strings.Contains(l.Limits[0], "holdfast-incidents-cp-2") {
		t.Errorf("what is not understood is said: %q", l.Limits)
	}
	if _, err := InCluster(t.Context(), answers{err: errors.New("refused")}); err == nil {
		t.Error("no error")
	}
	if l, err := InCluster(t.Context(), answers{}); err != nil || len(l.Limits) != 1 || l.Incidents == nil {
		t.Errorf("a cluster without reports: %+v, %v", l, err)
	}
}

func TestAConfigMapIsNeverTooLong(t *testing.T) {
	records := noted(400)
	for i := range records {
		records[i].Why = strings.Repeat("long words ", 300)
	}
	data, err := Published{Records: records, Incidents: decide.Assemble(records)}.Encode()
	if err != nil || len(data[keyJournal])+len(data[KeyIncidents]) > limit {
		t.Errorf("%v: %d bytes", err, len(data[keyJournal])+len(data[KeyIncidents]))
	}
	p, err := Decode(data)
	if err != nil || len(p.Records) < 2 || p.Records[len(p.Records)-1].Seq != records[len(records)-1].Seq {
		t.Errorf("%v: the newest stays: %d records", err, len(p.Records))
	}
}

func TestAHostKeepsTheNewestReportsAndNoPartsOfThem(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "journal.json")
	if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := decide.Assemble(noted(Kept + 5))
	if len(all) != Kept+5 {
		t.Fatalf("%d incidents", len(all))
	}
	for _, list := range [][]decide.Incident{all[:3], all} {
		if err := Write(dir, list); err != nil {
			t.Fatal(err)
		}
	}
	l, err := OnHost(dir)
	if err != nil || len(l.Incidents) != Kept || l.Incidents[0].ID != all[len(all)-1].ID || len(l.Limits) != 0 {
		t.Errorf("%v: %d reports, %q", err, len(l.Incidents), l.Limits)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("what is no report was removed")
	}
	if err := os.WriteFile(filepath.Join(dir, "20261120-torn.json"), []byte(`{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := OnHost(dir); err != nil || len(l.Incidents) != Kept || len(l.Limits) != 1 {
		t.Errorf("one that is torn is said and hides none: %v: %d reports, %q", err, len(l.Incidents), l.Limits)
	}
}

func TestAReportFromOutsideNamesNoFileElsewhere(t *testing.T) {
	bad := decide.Assemble(noted(1))[0]
	for _, id := range []string{"../../etc/passwd", "", ".hidden", "a/b", strings.Repeat("9", 200)} {
		bad.ID = id
		if got := sound([]decide.Incident{bad}); len(got) != 0 {
			t.Errorf("%q is taken for a name", id)
		}
	}
}
