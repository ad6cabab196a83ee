package client

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sound is a correct history of two clients on one key: a write follows a
// write, with reads between, one write of unknown outcome that a later read
// found, and one that nobody read.
func sound() History {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return History{
		Ops: []Op{
			{Endpoint: "w", Client: 0, Kind: Write, Key: "k", Value: "a", Start: ms(0), End: ms(5), Outcome: OK, Revision: 10},
			{Endpoint: "w", Client: 1, Kind: Read, Key: "k", Value: "a", Start: ms(6), End: ms(8), Outcome: OK, Revision: 10},
			{Endpoint: "w", Client: 0, Kind: Write, Key: "k", Value: "b", Start: ms(9), End: ms(12), Outcome: OK, Revision: 11},
			{Endpoint: "w", Client: 0, Kind: Write, Key: "k", Value: "c", Start: ms(20), End: ms(1020), Outcome: Unknown},
			{Endpoint: "w", Client: 1, Kind: Write, Key: "k", Value: "never", Start: ms(21), End: ms(900), Outcome: Unknown},
			{Endpoint: "w", Client: 1, Kind: Write, Key: "k", Value: "refused", Start: ms(910), End: ms(911), Outcome: Failed},
			{Endpoint: "w", Client: 2, Kind: Read, Key: "k", Value: "c", Start: ms(1100), End: ms(1101), Outcome: OK, Revision: 12},
			{Endpoint: "w", Client: 0, Kind: Write, Key: "k", Value: "d", Start: ms(1200), End: ms(1210), Outcome: OK, Revision: 13},
		},
		Events: []Event{
			{Watch: "w", Key: "k", Value: "a", Revision: 10},
			{Watch: "w", Key: "k", Value: "b", Revision: 11},
			{Watch: "w", Key: "k", Value: "c", Revision: 12},
			{Watch: "w", Key: "k", Value: "d", Revision: 13},
		},
		Final: map[string]string{"k": "d"},
	}
}

func TestAHistoryThatIsRightPasses(t *testing.T) {
	if err := Check(sound()); err != nil {
		t.Error(err)
	}
}

func TestEachBrokenPromiseIsFound(t *testing.T) {
	cases := map[string]struct {
		plant func(*History)
		want  string
	}{
		"an acknowledged write is lost": {func(h *History) {
			h.Ops = append(h.Ops, Op{Client: 3, Kind: Read, Key: "k", Value: "b", Start: 2 * time.Second, End: 3 * time.Second, Outcome: OK})
		}, "not linearizable"},
		"a read is stale": {func(h *History) {
			h.Ops[1].Start, h.Ops[1].End = 15*time.Millisecond, 16*time.Millisecond
		}, "not linearizable"},
		"a read finds what was surely refused": {func(h *History) {
			h.Ops[6].Value = "refused"
		}, "not linearizable"},
		"a write of unknown outcome is undone after it was read": {func(h *History) {
			h.Ops[7] = Op{Client: 3, Kind: Read, Key: "k", Value: "b", Start: 2 * time.Second, End: 3 * time.Second, Outcome: OK}
			h.Events, h.Final = nil, nil
		}, "not linearizable"},
		"a revision is given out twice": {func(h *History) { h.Ops[7].Revision = 11 }, "given out twice"},
		"a revision goes back":          {func(h *History) { h.Ops[6].Revision = 9 }, "revision went back"},
		"a watch misses an event": {func(h *History) {
			h.Events = append(h.Events[:1:1], h.Events[2:]...)
		}, "is missing"},
		"a watch sees revisions out of order": {func(h *History) {
			h.Events[1], h.Events[2] = h.Events[2], h.Events[1]
		}, "came after"},
		"a watch sees what nobody wrote": {func(h *History) {
			h.Events = append(h.Events, Event{Watch: "w", Key: "k", Value: "ghost", Revision: 99})
		}, "never written"},
		"a watch sees a write at another revision": {func(h *History) {
			h.Events[3].Revision = 14
		}, "acknowledged was 13"},
		"a watch sees nothing at all": {func(h *History) {
			h.Ops[0].Endpoint = "mute"
		}, "watch mute: the write of k=a at revision 10 is missing"},
		"the end lacks the newest write": {func(h *History) { h.Final["k"] = "b" }, "in the end"},
		"the end has lost the key":       {func(h *History) { delete(h.Final, "k") }, "in the end"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := sound()
			c.plant(&h)
			err := Check(h)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestAWatchMayPassOverWhatItSays(t *testing.T) {
	h := sound()
	h.Events = append(h.Events[:1:1], h.Events[3])
	h.Skipped = map[string][]Span{"w": {{From: 11, Until: 12}}}
	if err := Check(h); err != nil {
		t.Error(err)
	}
	h.Skipped["w"][0].From = 12
	if err := Check(h); err == nil {
		t.Error("a missing event outside of what was passed over was not found")
	}
}

func TestAMissingWriteIsFoundInALongHistory(t *testing.T) {
	var h History
	at, rev := time.Duration(0), int64(0)
	for i := range 4000 {
		at, rev = at+time.Millisecond, rev+1
		key, value := fmt.Sprint("k", i%8), fmt.Sprint("v", i)
		h.Ops = append(h.Ops,
			Op{Client: i % 16, Kind: Write, Key: key, Value: value, Start: at, End: at + 20*time.Millisecond, Outcome: OK, Revision: rev},
			Op{Client: 16 + i%16, Kind: Read, Key: key, Value: value, Start: at + 21*time.Millisecond, End: at + 22*time.Millisecond, Outcome: OK})
		at += 22 * time.Millisecond
	}
	if err := Check(h); err != nil {
		t.Fatal(err)
	}
	h.Ops[5001].Value = h.Ops[5001-16].Value
	if err := Check(h); err == nil {
		t.Error("the planted loss was not found")
	}
}

func TestManyViolationsAreCounted(t *testing.T) {
	h := sound()
	for i := range 20 {
		h.Events = append(h.Events, Event{Watch: "w", Key: "k", Value: "ghost", Revision: int64(100 + i)})
	}
	if err := Check(h); err == nil || !strings.Contains(err.Error(), "15 more") {
		t.Errorf("got %v", err)
	}
}

func TestAGapIsTheLongestTimeWithoutAWriteSinceTheFault(t *testing.T) {
	var h History
	for _, at := range []int{0, 100, 900, 1000, 1100, 1500, 1600} {
		h.Ops = append(h.Ops, Op{Kind: Write, Endpoint: "a", Outcome: OK, End: time.Duration(at) * time.Millisecond})
	}
	h.Ops = append(h.Ops, Op{Kind: Write, Endpoint: "b", Outcome: OK, End: 1300 * time.Millisecond},
		Op{Kind: Write, Endpoint: "a", Outcome: Unknown, End: 1200 * time.Millisecond},
		Op{Kind: Read, Endpoint: "a", Outcome: OK, End: 1250 * time.Millisecond})
	ms := time.Millisecond
	for name, c := range map[string]struct {
		endpoint  string
		from, end time.Duration
		want      Gap
	}{
		"of one endpoint":                {"a", 1050 * ms, 1650 * ms, Gap{Length: 400 * ms, From: 1100 * ms, Until: 1500 * ms}},
		"of all":                         {"", 1050 * ms, 1650 * ms, Gap{Length: 200 * ms, From: 1100 * ms, Until: 1300 * ms}},
		"one from before does not count": {"", 950 * ms, 1650 * ms, Gap{Length: 200 * ms, From: 1100 * ms, Until: 1300 * ms}},
		"never written again":            {"b", 1400 * ms, 9000 * ms, Gap{Length: 7700 * ms, From: 1300 * ms, Until: 9000 * ms, Open: true}},
		"never written at all":           {"c", 0, 9000 * ms, Gap{Length: 9000 * ms, Until: 9000 * ms, Open: true}},
	} {
		if got := h.Gap(c.endpoint, c.from, c.end); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestAnOutageIsTheFirstLongGapAfterTheFault(t *testing.T) {
	var h History
	ms := time.Millisecond
	for _, at := range []int{0, 100, 400, 500, 600, 900, 1000, 2000} {
		h.Ops = append(h.Ops, Op{Kind: Write, Endpoint: "a", Outcome: OK, End: time.Duration(at) * ms})
	}
	if got, want := h.Outage("a", 450*ms, 2100*ms, 200*ms), (Gap{Length: 300 * ms, From: 600 * ms, Until: 900 * ms}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := h.Outage("a", 450*ms, 2100*ms, 1200*ms); got != (Gap{}) {
		t.Errorf("got %+v where there was none", got)
	}
	if got := h.Outage("a", 2000*ms, 9000*ms, 1200*ms); !got.Open {
		t.Errorf("got %+v, want one that does not end", got)
	}
}

func TestAHistoryIsKeptAsDataAndAsAPicture(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artefact")
	if err := Save(dir, sound()); err != nil {
		t.Fatal(err)
	}
	back, err := ReadHistory(dir)
	if err != nil || len(back.Ops) != len(sound().Ops) || back.Ops[3] != sound().Ops[3] {
		t.Errorf("read back %v (%v)", back, err)
	}
	if st, err := os.Stat(filepath.Join(dir, "history.html")); err != nil || st.Size() == 0 {
		t.Errorf("no picture: %v", err)
	}
}
