package witness

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var start = time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)

// at returns a moment, in seconds after the start.
func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// names returns the names of a play in which a certain host survives; swapped,
// they are those of another play of the same scenario, in which the other host
// does.
func names(survivor, lost string) Names {
	return Names{survivor: "survivor", lost: "lost", "10.0.0.5": "the API's VIP"}
}

func event(second int, component, reason, message string) corev1.Event {
	return corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(component, second, message)}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source: corev1.EventSource{Component: component}, FirstTimestamp: metav1.NewTime(start.Add(time.Duration(second) * time.Second)),
	}
}

// recording returns a possible recording of a power cut. late is added to every
// time.
func recording(survivor, lost string, late float64) Recording {
	values := func(online, redundant string) map[string]string {
		return map[string]string{
			"node " + lost + ": Online": online, "cluster: Redundant": redundant, "node " + survivor + ": Online": "True Online",
			"fence agent " + lost + "_redfish: Started": online[:strings.Index(online, " ")] + " Started",
		}
	}
	return Recording{
		Versions: []Version{
			{At: at(-10), Revision: 1, Values: values("True Online", "True Redundant")},
			{At: at(4 + late), Revision: 7, Values: values("False Offline", "False PeerLost")},
			{At: at(5 + late), Revision: 8, Values: values("False Offline", "False PeerLost")},
			{At: at(20 + late), Revision: 9, Values: values("True Online", "False Resyncing")},
			{At: at(24 + late), Revision: 10, Values: values("True Online", "True Redundant")},
		},
		Events: []corev1.Event{
			event(21, "holdfast-operator", "PacemakerNodeOnline", "node "+lost+": Online"),
			event(5, "holdfast-operator", "PacemakerNodeOffline", "node "+lost+": Offline: Corosync has just lost it"),
			event(4, "holdfast-agent", "PacemakerFencingEvent", fmt.Sprintf("fence of %s succeeded: reboot by %s at %s", lost, survivor, at(3+late).Format(time.RFC3339))),
		},
		Alerts: []Alert{
			{Name: "HoldfastNodeOffline", Labels: map[string]string{"host": lost}, From: at(4 + late), Until: at(20 + late)},
			{Name: "HoldfastTookOver", Labels: map[string]string{"instance": survivor}, From: at(5 + late), Until: at(90)},
		},
		Reports: []incident.Incident{{
			Title: lost + " stopped without notice: over after 2" + fmt.Sprint(int(late)) + "s", State: incident.Over, Journals: []string{"cp-1", "cp-2"},
			Failures: []incident.Failure{{
				Hosts: []string{lost}, By: survivor, Cause: incident.Lost, At: at(1.8 + late),
				Moments: []incident.Moment{
					{Phase: incident.PhaseFenced, At: at(3 + late), Words: survivor + " switched " + lost + " off, and read that back, which took 1." + fmt.Sprint(int(late)) + "s"},
					{Phase: incident.PhaseVIP, Words: "no virtual IP was seen to move"},
					{Phase: incident.PhasePods, At: at(9 + late), Words: fmt.Sprintf("%d pods of %s ran elsewhere", 3+int(late), lost)},
				},
			}},
		}},
	}
}

func text(rows []Row) string { return Approved{}.With(rows) }

func TestTwoPlaysOfOneScenarioAreOneText(t *testing.T) {
	first := text(recording("cp-1", "cp-2", 0).Rows(names("cp-1", "cp-2")))
	golden.Check(t, "power-cut.txt", []byte(first))
	if second := text(recording("cp-2", "cp-1", 3).Rows(names("cp-2", "cp-1"))); second != first {
		t.Errorf("another host, later:\n%s\nwas\n%s", second, first)
	}
}

func TestWhatComesInAnotherOrderOrTwiceOrNotIsAnotherText(t *testing.T) {
	first := text(recording("cp-1", "cp-2", 0).Rows(names("cp-1", "cp-2")))
	for what, change := range map[string]func(*Recording){
		"a condition changes twice": func(r *Recording) { r.Versions[2] = r.Versions[0] },
		"a condition never changes": func(r *Recording) { r.Versions = r.Versions[:1] },
		"an event is told twice": func(r *Recording) {
			e := r.Events[1]
			e.Name += "-again"
			r.Events = append(r.Events, e)
		},
		"an event is not told":         func(r *Recording) { r.Events = r.Events[:2] },
		"an alert comes and goes":      func(r *Recording) { r.Alerts = append(r.Alerts, r.Alerts[0]) },
		"another host is told of":      func(r *Recording) { r.Alerts[0].Labels["host"] = "cp-1" },
		"the report has another cause": func(r *Recording) { r.Reports[0].Failures[0].Cause = incident.Gone },
		"a phase was not seen":         func(r *Recording) { r.Reports[0].Failures[0].Moments[0].At = time.Time{} },
		"there is no report":           func(r *Recording) { r.Reports = nil },
		"somebody had to do something": func(r *Recording) { r.Reports[0].People = []string{"anna"} },
		"the report lacks a journal":   func(r *Recording) { r.Reports[0].Journals = []string{"cp-1"} },
	} {
		r := recording("cp-1", "cp-2", 0)
		change(&r)
		if text(r.Rows(names("cp-1", "cp-2"))) == first {
			t.Errorf("%s, and that is not seen", what)
		}
	}
}

func TestNamesAndFiguresAreReplacedAndNothingElse(t *testing.T) {
	n := Names{"cp-1": "survivor", "cp-10": "third", "10.0.0.1": "one", "10.0.0.12": "twelve"}
	for in, want := range map[string]string{
		"cp-10 and cp-1_redfish":                "third and survivor_redfish",
		"at 10.0.0.12, not 10.0.0.1":            "at twelve, not one",
		"over after 1m30s, 2d3h, 250ms or 4.2s": "over after <long>, <long>, <long> or <long>",
		"at 2026-11-20T21:00:03Z by hand":       "at <time> by hand",
		"show 20261121-105017-cp-1":             "show <name>",
		"at once, at attempt 27":                "at once, at attempt N",
		"1 pod, 12 pods, 3 hosts, code 7":       "N pods, N pods, 3 hosts, code 7",
		"exit status 1: etcd's s3 and v2m":      "exit status 1: etcd's s3 and v2m",
	} {
		if got := n.In(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestAnAlertThatFiresIsTheOneThatWasPending(t *testing.T) {
	sample := func(state string, from, until int) series {
		s := series{Metric: map[string]string{"__name__": "ALERTS", "alertname": "A", "alertstate": state, "severity": "critical", "host": "cp-1"}}
		for i := from; i <= until; i++ {
			s.Values = append(s.Values, [2]any{float64(start.Unix() + int64(i)), "1"})
		}
		return s
	}
	got := times([]series{sample("firing", 11, 20), sample("pending", 5, 10), sample("pending", 40, 41)})
	if len(got) != 2 || !got[0].From.Equal(at(5)) || !got[0].Until.Equal(at(20)) || !got[1].From.Equal(at(40)) || got[0].Labels["host"] != "cp-1" {
		t.Errorf("%+v", got)
	}
	if b := Begun(got, at(6)); len(b) != 0 {
		t.Errorf("it was there before, and was told: %+v", b)
	}
	short, long := Alert{Name: "short", From: at(0), Until: at(0).Add(lasts - time.Second)}, Alert{Name: "long", From: at(0), Until: at(0).Add(lasts)}
	if l := Lasting([]Alert{short, long}); len(l) != 1 || l[0].Name != "long" {
		t.Errorf("%+v", l)
	}
	if b := Begun(got, at(1)); len(b) != 2 {
		t.Errorf("it was not there before: %+v", b)
	}
	data, err := json.Marshal(got[0].Labels)
	if err != nil || string(data) != `{"host":"cp-1"}` {
		t.Errorf("labels %s, %v", data, err)
	}
}
