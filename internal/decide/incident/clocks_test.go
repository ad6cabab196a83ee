package incident

import (
	"strings"
	"testing"
	"time"
)

// at is a record of a boot of a host, made at a second by its clock and at another one
// since the boot; a boot of "" names only the wall clock.
func at(host, boot string, clock, up float64) Record {
	return Record{Host: host, Boot: boot, At: began.Add(time.Duration(clock * 1e9)), Up: time.Duration(up * 1e9)}
}

func TestABootWithoutAMeetingTakesTheDifferenceOfTheNearestOne(t *testing.T) {
	for _, order := range [][3]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}} {
		near, far, own := boot{"cp-2", order[0]}, boot{"cp-2", order[1]}, boot{"cp-2", order[2]}
		c := &clocks{
			reference: "cp-1",
			first:     map[boot]time.Time{near: began.Add(time.Hour), far: began.Add(9 * time.Hour), own: began, {"cp-1", "x"}: began, {"cp-3", "y"}: began},
			ahead:     map[boot]time.Duration{near: time.Minute, far: 5 * time.Minute},
		}
		c.guess()
		if c.ahead[own] != time.Minute || c.ahead[boot{"cp-3", "y"}] != 0 || c.ahead[boot{"cp-1", "x"}] != 0 || c.ahead[far] != 5*time.Minute {
			t.Errorf("%v: %v", order, c.ahead)
		}
	}
}

// TestARecordWithoutABootLiesInTheBootBeforeIt: a history names no boot.
func TestARecordWithoutABootLiesInTheBootBeforeIt(t *testing.T) {
	records := []Record{
		at("cp-2", "late", 1000, 10), at("cp-2", "early", 100, 10), at("cp-2", "latest", 5000, 10), at("cp-1", "other", 150, 10),
	}
	c := read(records)
	for second, want := range map[float64]string{99: "", 100: "early", 999: "early", 1000: "late", 4999: "late", 9000: "latest"} {
		if got := c.boots(at("cp-2", "", second, 0)); got.id != want || got.host != "cp-2" {
			t.Errorf("at second %g: %v, want %q", second, got, want)
		}
	}
}

func TestTheReferenceIsTheFirstHostByName(t *testing.T) {
	for _, list := range [][]Record{{at("b", "1", 0, 1), at("a", "1", 0, 1)}, {at("a", "1", 0, 1), at("b", "1", 0, 1), at("a", "2", 9, 1)}} {
		if c := read(list); c.reference != "a" || !c.compared["a"] || c.compared["b"] {
			t.Errorf("%s, compared %v", c.reference, c.compared)
		}
	}
}

// TestAHostThatWasFencedBootedAfterItIfItsClockMayBeWrong: by up to an hour, and only
// where it had an earlier boot.
func TestAHostThatWasFencedBootedAfterItIfItsClockMayBeWrong(t *testing.T) {
	play := func(seconds float64, earlier bool) *clocks {
		records := []Record{at("cp-1", "x", 0, 1), {Host: "cp-1", Kind: Fenced, OK: true, Target: "cp-2", At: began.Add(2 * time.Hour)}}
		if earlier {
			records = append(records, at("cp-2", "before", -9000, 1))
		}
		r := at("cp-2", "after", 7200-seconds, 1)
		r.Kind = Booted
		return read(append(records, r))
	}
	after := boot{"cp-2", "after"}
	for _, c := range []struct {
		behind  float64
		earlier bool
		moves   bool
	}{{60, true, true}, {3599, true, true}, {3600, true, false}, {9000, true, false}, {-60, true, false}, {60, false, false}} {
		got := play(c.behind, c.earlier)
		want := time.Duration(0)
		if c.moves {
			want = -time.Duration(c.behind*1e9) - time.Millisecond
		}
		if got.ahead[after] != want || got.least[after] != c.moves {
			t.Errorf("%g s before its fence, an earlier boot %t: ahead %s", c.behind, c.earlier, got.ahead[after])
		}
	}
}

func TestWhatIsSaidOfAClock(t *testing.T) {
	b := boot{"cp-2", "b"}
	up, down := at("cp-2", "b", 0, 1), at("cp-2", "b", 0, 0)
	for what, c := range map[string]struct {
		ahead, moved time.Duration
		least, alone bool
		r            Record
		want         string
	}{
		"it agrees":                            {apart - 1, apart - 1, false, false, up, ""},
		"it is ahead":                          {apart, 0, false, false, up, "the clock of cp-2 was 2s ahead of that of cp-1; all times here are by the clock of cp-1"},
		"it is behind":                         {-apart, 0, false, false, up, "the clock of cp-2 was 2s behind that of cp-1; all times here are by the clock of cp-1"},
		"it is behind by that or more":         {-time.Minute, 0, true, false, up, "the clock of cp-2 was 1m00s or more behind that of cp-1; all times here are by the clock of cp-1"},
		"it was set":                           {0, apart, false, false, up, "the clock of cp-2 was changed by 2s after boot; its earlier times are corrected"},
		"a time of the wall clock is not":      {0, apart, false, false, down, ""},
		"it could not be compared with cp-1's": {0, 0, false, true, up, "the clocks of cp-2 and cp-1 could not be compared: the order of their entries may be wrong"},
	} {
		k := &clocks{
			reference: "cp-1", ahead: map[boot]time.Duration{b: c.ahead}, moved: map[boot]time.Duration{b: c.moved},
			least: map[boot]bool{b: c.least}, compared: map[string]bool{"cp-2": !c.alone},
		}
		if got := strings.Join(k.note(c.r), "|"); got != c.want {
			t.Errorf("%s: %q", what, got)
		}
		if got := k.notes([]Record{c.r, c.r}); len(got) > 1 {
			t.Errorf("%s: it is said %d times", what, len(got))
		}
	}
}

// TestOneRecordHasOneKey: read twice, by either host, it is one; what differs in any
// part is another one.
func TestOneRecordHasOneKey(t *testing.T) {
	r := Record{Host: "cp-1", Boot: "b", Up: time.Second, At: began, Kind: Recorded, Seq: 4}
	again := r
	again.At = began.Add(time.Hour) // its clock was set since
	again.Why = "other words"
	if r.Key() != again.Key() {
		t.Errorf("%s and %s", r.Key(), again.Key())
	}
	seen := map[string]bool{r.Key(): true}
	for what, change := range map[string]func(*Record){
		"another host": func(r *Record) { r.Host = "cp-2" }, "another boot": func(r *Record) { r.Boot = "c" }, "another moment": func(r *Record) { r.Up++ },
		"by the wall clock": func(r *Record) { r.Up = 0 }, "another kind": func(r *Record) { r.Kind = API }, "another number": func(r *Record) { r.Seq = 5 },
		"another ring": func(r *Record) { r.Ring = 5 }, "another target": func(r *Record) { r.Target = "cp-2" }, "another rule": func(r *Record) { r.Rule = "x" },
		"another wish": func(r *Record) { r.Wish = "stopped" }, "other VIPs": func(r *Record) { r.VIPs = []string{"10.0.0.5"} }, "another outcome": func(r *Record) { r.OK = true },
	} {
		other := r
		if change(&other); seen[other.Key()] {
			t.Errorf("%s: %s", what, other.Key())
		}
		seen[other.Key()] = true
	}
	wrote := Record{Host: "cp-1", Kind: Wrote, Who: "worker-1", At: began}
	byPeer := wrote
	if byPeer.Host = "cp-2"; byPeer.Key() != wrote.Key() {
		t.Error("what a machine measured is one record, whoever read it")
	}
	if byPeer.Who = "worker-2"; byPeer.Key() == wrote.Key() {
		t.Error("another machine's is another one")
	}
}

// TestAnotherNameOfAnIncidentIsGivenOnce: an earlier name goes to the first report that
// had it, and no name is that of two.
func TestAnotherNameOfAnIncidentIsGivenOnce(t *testing.T) {
	of := func(id string, second float64, was ...string) Incident {
		r := at("cp-1", "b", second, second)
		r.Kind = API
		return Incident{ID: id, Was: was, Start: r.At, Records: []Record{r}, Journals: []string{"cp-1"}}
	}
	got := Reports(nil, []Incident{of("b", 1, "a", "x"), of("c", 2, "x", "b")})
	if len(got) != 2 || got[0].ID != "a" || strings.Join(got[0].Was, " ") != "b x" || got[1].ID != "c" || got[1].Was != nil {
		t.Errorf("%s was %v, %s was %v", got[0].ID, got[0].Was, got[1].ID, got[1].Was)
	}
	if got := Reports(nil, []Incident{of("c", 2), of("b", 2)}); len(got) != 1 || got[0].ID != "b" || len(got[0].Was) != 1 {
		t.Errorf("two reports of one record: %+v", got)
	}
}
