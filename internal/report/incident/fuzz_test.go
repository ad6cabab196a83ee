package incident

import (
	"testing"

	decide "github.com/holdfast/holdfast/internal/decide/incident"
)

// FuzzDecode reads an arbitrary ConfigMap that a host has put into the API.
func FuzzDecode(f *testing.F) {
	f.Add(`[{"host":"cp-1","boot":"b"}]`, `[{"id":"1"}]`)
	f.Add(`null`, `[null]`)
	f.Add(`{}`, ``)
	f.Fuzz(func(t *testing.T, journal, incidents string) {
		p, err := Decode(map[string]string{keyJournal: journal, KeyIncidents: incidents})
		if err != nil {
			return
		}
		data, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(data[keyJournal])+len(data[KeyIncidents]) > 2*limit {
			t.Errorf("%d bytes are told", len(data[keyJournal])+len(data[KeyIncidents]))
		}
		for _, i := range Newest(decide.Reports(p.Records, p.Incidents)) {
			if i.ID == "" || decide.Teller(i) == "" && len(decide.Names(i)) > 0 {
				t.Errorf("%s, %s: %+v", journal, incidents, i)
			}
		}
	})
}
