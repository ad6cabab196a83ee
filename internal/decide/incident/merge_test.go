package incident

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWhateverIsKnownWhenNoReportIsLost plays a host that knows its own records
// at once, but gets those of its peer late, or not at all for a while, or loses
// them because its agent restarts. The failures are from the lab, a minute
// apart. Eight of thirteen incidents once became one report, because for a
// moment a host had taken two for one.
func TestWhateverIsKnownWhenNoReportIsLost(t *testing.T) {
	text, err := os.ReadFile("testdata/soon-after-one-another.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string][]Record{}
	var all []Record
	for line := range strings.Lines(string(text)) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		own[r.Host], all = append(own[r.Host], r), append(all, r)
	}
	want := Assemble(all)
	if len(want) != 5 {
		t.Fatalf("%v", titles(want))
	}
	for seed := range uint64(8) {
		for _, h := range []string{"cp-1", "cp-2"} {
			t.Run(fmt.Sprintf("%s-%d", h, seed), func(t *testing.T) {
				got := plays(t, rand.New(rand.NewPCG(seed, 1)), own[h], own[map[string]string{"cp-1": "cp-2", "cp-2": "cp-1"}[h]])
				if fmt.Sprint(titles(got)) != fmt.Sprint(titles(want)) {
					t.Errorf("%v, want %v", titles(got), titles(want))
				}
			})
		}
	}
}

// plays returns the reports that a host has in the end.
func plays(t *testing.T, random *rand.Rand, own, peers []Record) []Incident {
	t.Helper()
	until := func(list []Record, at time.Time) []Record {
		return slices.DeleteFunc(slices.Clone(list), func(r Record) bool { return r.At.After(at) })
	}
	var kept []Incident
	var heard []Record
	for _, r := range own {
		switch random.IntN(8) {
		case 0, 1:
			heard = until(peers, r.At.Add(-time.Duration(random.IntN(60))*time.Second))
		case 2:
			heard = nil // its agent restarted
		}
		before := kept
		kept = Reports(append(until(own, r.At), heard...), before)
		for _, was := range before {
			if was.Complete && !slices.ContainsFunc(kept, func(i Incident) bool { return i.ID == was.ID && i.Title == was.Title }) {
				t.Errorf("%s %q is lost at %s: %v", was.ID, was.Title, r.At, titles(kept))
			}
		}
		ids := map[string]bool{}
		for _, i := range kept {
			for _, name := range append([]string{i.ID}, i.Was...) {
				if ids[name] {
					t.Errorf("two are called %s: %v", name, titles(kept))
				}
				ids[name] = true
			}
		}
	}
	return Reports(append(slices.Clone(own), peers...), kept)
}
