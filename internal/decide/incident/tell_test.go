package incident

import (
	"strings"
	"testing"
	"time"
)

// TestWhoPublishesAnIncident: all hosts that know the same records name the same one.
func TestWhoPublishesAnIncident(t *testing.T) {
	booted := func(hosts ...string) []Record {
		out := []Record{{Host: "cp-1", Kind: API}, {Host: "cp-2", Kind: API}}
		for _, h := range hosts {
			out = append(out, Record{Host: h, Kind: Booted})
		}
		return out
	}
	both := []string{"cp-1", "cp-2"}
	for rule, c := range map[string]struct {
		by       string
		journals []string
		records  []Record
		want     string
	}{
		"the host that went on":                                {"cp-2", both, booted("cp-2"), "cp-2"},
		"not one whose records are missing":                    {"cp-2", []string{"cp-1"}, booted(), "cp-1"},
		"nobody went on: the first":                            {"", both, booted(), "cp-1"},
		"nobody went on: the first that did not boot":          {"", both, booted("cp-1"), "cp-2"},
		"nobody went on: the second booted, so it is no other": {"", both, booted("cp-2"), "cp-1"},
		"both booted: the first":                               {"", both, booted("cp-2", "cp-1"), "cp-1"},
	} {
		i := Incident{Failures: []Failure{{By: "cp-1"}, {By: c.by}}, Journals: c.journals, Records: c.records}
		if got := Teller(i); got != c.want {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// TestWhenAnIncidentIsPublished has the limits of time themselves: an incident is
// published when the time is up, and not a moment before.
func TestWhenAnIncidentIsPublished(t *testing.T) {
	open := Incident{ID: "20261120-090000-CP-2", Title: "cp-2 was lost", State: UnderWay, Start: began, Journals: []string{"cp-1", "cp-2"}, Failures: []Failure{{Hosts: []string{"cp-2"}}}}
	asks := open
	asks.State = Waiting
	over := open
	over.State, over.End = Over, began.Add(time.Hour)
	half := over
	half.Journals = []string{"cp-1"}
	seen := half // the lost host is known by a membership alone
	seen.Failures, seen.Records = []Failure{{By: "cp-1"}}, []Record{{Kind: Members, Members: []string{"cp-1", "cp-2"}}}
	for rule, c := range map[string]struct {
		i     Incident
		since time.Time
		wait  time.Duration
	}{
		"under way: after two minutes":                               {open, open.Start, soon},
		"waiting for an administrator: after two minutes":            {asks, asks.Start, soon},
		"over, and both hosts have reported: at once":                {over, over.End, 0},
		"over, and the lost host has not reported: in five":          {half, half.End, hearing},
		"over, and a host of the membership has not: in five":        {seen, seen.End, hearing},
		"over since a day, which is as late as an event may be told": {over, over.End, late},
	} {
		if _, ok := Told(c.i, c.since.Add(c.wait)); !ok {
			t.Errorf("%s: it is not", rule)
		}
		if _, ok := Told(c.i, c.since.Add(c.wait-1)); ok && c.wait != 0 && c.wait != late {
			t.Errorf("%s: it is earlier", rule)
		}
	}
	if _, ok := Told(over, over.End.Add(late+1)); ok {
		t.Error("an incident of days ago is news")
	}
}

func TestAnEventSaysWhatHappenedAndWhereMoreStands(t *testing.T) {
	i := Incident{ID: "20261120-090000-CP-2", Title: "cp-2 was lost", State: Over, Start: began, End: began.Add(time.Hour), Journals: []string{"cp-1", "cp-2"}, Failures: []Failure{{By: "cp-1"}}}
	e, _ := Told(i, i.End)
	want := "cp-2 was lost. No administrator had to act. Both hosts are healthy again. The whole report: holdfast incidents show 20261120-090000-CP-2"
	if e.Message != want || e.Name != "holdfast-incident.20261120-090000-cp-2" || e.Reason != ReasonOver || e.Warning || !e.At.Equal(i.End) {
		t.Errorf("over: %+v", e)
	}
	i.State, i.End = UnderWay, time.Time{}
	e, _ = Told(i, i.Start.Add(time.Hour))
	if !strings.HasPrefix(e.Message, "cp-2 was lost. It is not over: until both are voters again, the loss of cp-1 ") ||
		e.Name != "holdfast-incident.20261120-090000-cp-2.under-way" || e.Reason != ReasonUnderWay || !e.Warning || !e.At.Equal(i.Start) {
		t.Errorf("under way: %+v", e)
	}
}

// TestAnEventIsToldOnceUnderAnyName: an incident under way and the same one when it
// is over are two events.
func TestAnEventIsToldOnceUnderAnyName(t *testing.T) {
	i := Incident{ID: "new", Was: []string{"older", "old"}}
	warning, over := Event{Warning: true}, Event{}
	for name, c := range map[string]struct{ warning, over bool }{
		"holdfast-incident.new":           {false, true},
		"holdfast-incident.old":           {false, true},
		"holdfast-incident.new.under-way": {true, false},
		"holdfast-incident.old.under-way": {true, false},
		"holdfast-incident.another":       {false, false},
	} {
		told := map[string]bool{name: true}
		if WasTold(i, warning, told) != c.warning || WasTold(i, over, told) != c.over {
			t.Errorf("%s: under way %t, over %t", name, WasTold(i, warning, told), WasTold(i, over, told))
		}
	}
}
