package doctor

import (
	"encoding/json"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// FuzzWhatAHostSaysOfItself lets a host publish anything: all checks must judge
// it, and the page must show it.
func FuzzWhatAHostSaysOfItself(f *testing.F) {
	for _, s := range situations() {
		if len(s.facts.Hosts) > 0 {
			data, err := json.Marshal(s.facts.Hosts[0])
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(`{"name":"cp-1","bmcs":{"known":true,"value":[{"target":"\u001b[2J"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h Host
		if json.Unmarshal(data, &h) != nil {
			return
		}
		for _, s := range situations() {
			facts := s.facts
			if len(facts.Hosts) == 0 {
				continue
			}
			facts.Hosts[0] = h
			results := Examine(facts)
			if Text(facts, results, page.Style{}) == "" || Worst(results) == "" {
				t.Errorf("%q: nothing is said of it", data)
			}
		}
	})
}
