package witness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/incident"
)

// Recording holds what was seen during one scenario.
type Recording struct {
	// Versions holds the versions of the watched objects, by their revisions.
	Versions []Version
	Events   []corev1.Event
	Alerts   []Alert
	Reports  []incident.Incident
}

// Version holds all conditions of an object from a moment on.
type Version struct {
	At       time.Time // when the first watch received it
	Revision int64
	// Values maps "node cp-1: Online" to "True Online".
	Values map[string]string
	// Born is the time at which the object was made.
	Born time.Time
}

// Alert is a span of time in which an alert was pending or firing.
type Alert struct {
	Name        string
	Labels      map[string]string // host, instance, resource, vip and the like
	From, Until time.Time
}

// Row holds the steps of one subject, in their order.
type Row struct {
	Subject string
	Steps   []string
}

// Conditions returns the conditions of a PacemakerCluster by subject.
func Conditions(o etcdv1.PacemakerCluster) map[string]string {
	out := map[string]string{}
	values(out, "cluster", o.Status.Conditions)
	if o.Status.Nodes == nil {
		return out
	}
	for _, n := range *o.Status.Nodes {
		values(out, "node "+n.NodeName, n.Conditions)
		for _, r := range n.Resources {
			values(out, strings.ToLower(string(r.Name))+" on "+n.NodeName, r.Conditions)
		}
		for _, a := range n.FencingAgents {
			values(out, "fence agent "+a.Name, a.Conditions)
		}
	}
	return out
}

func values(into map[string]string, subject string, list []metav1.Condition) {
	for _, c := range list {
		into[subject+": "+c.Type] = string(c.Status) + " " + c.Reason
	}
}

// Rows returns the subjects with changes, sorted; a condition that did not
// change is left out.
func (r Recording) Rows(names Names) []Row {
	out := slices.Concat(r.conditions(names), r.events(names), r.alerts(names))
	slices.SortStableFunc(out, func(a, b Row) int { return cmp.Compare(a.Subject, b.Subject) })
	return append(out, r.reports(names)...)
}

func (r Recording) conditions(names Names) []Row {
	steps := map[string][]string{}
	for _, v := range r.Versions {
		for subject, value := range v.Values {
			if list := steps[subject]; len(list) == 0 || list[len(list)-1] != value {
				steps[subject] = append(list, value)
			}
		}
	}
	var out []Row
	for _, subject := range slices.Sorted(maps.Keys(steps)) {
		if len(steps[subject]) > 1 {
			out = append(out, Row{"condition " + names.In(subject), steps[subject]})
		}
	}
	return out
}

// events returns the events, grouped by kind and by their objects.
func (r Recording) events(names Names) []Row {
	list := slices.Clone(r.Events)
	slices.SortStableFunc(list, func(a, b corev1.Event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp.Time) })
	byKind := map[string][]string{}
	for _, e := range list {
		text := names.In(e.Message)
		who, rest, _ := strings.Cut(text, ": ")
		kind, by := "event "+e.Reason, " by "+e.Source.Component
		switch about := names.Within(who); {
		case ofCondition(e.Reason):
			kind += " " + who
			text, _, _ = strings.Cut(rest, ": ")
			by = ""
		case about != "":
			kind += " " + about
		}
		byKind[kind] = append(byKind[kind], e.Type+by+": "+text)
	}
	return rows(byKind)
}

// ofCondition reports whether an event announces a changed condition. The first
// observer, host or operator, announces it with the condition's words at that
// time; the corpus of states has those words.
func ofCondition(reason string) bool {
	return strings.HasPrefix(reason, "Pacemaker") && reason != "PacemakerFencingEvent" && reason != "PacemakerFailedResourceAction"
}

func (r Recording) alerts(names Names) []Row {
	steps := map[string][]string{}
	for _, a := range r.Alerts {
		parts := []string{"alert", a.Name}
		for _, l := range slices.Sorted(maps.Keys(a.Labels)) {
			parts = append(parts, l+"="+names.In(a.Labels[l]))
		}
		subject := strings.Join(parts, " ")
		steps[subject] = append(steps[subject], "seen")
	}
	return rows(steps)
}

func rows(byKind map[string][]string) []Row {
	var out []Row
	for _, k := range slices.Sorted(maps.Keys(byKind)) {
		out = append(out, Row{k, byKind[k]})
	}
	return out
}

// reports returns the phases of each failure by their names, with their words.
// Their order differs from play to play, and so does the holder of a virtual
// IP.
func (r Recording) reports(names Names) []Row {
	var out []Row
	for n, i := range r.Reports {
		head := Row{Subject: fmt.Sprintf("report %d", n+1)}
		head.Steps = append(head.Steps, "title: "+names.In(i.Title), "state: "+string(i.State), "journals: "+names.Sorted(i.Journals))
		for _, who := range i.People {
			head.Steps = append(head.Steps, "person: "+who)
		}
		for _, note := range i.Notes {
			head.Steps = append(head.Steps, "note: "+names.In(note))
		}
		out = append(out, head)
		for k, f := range i.Failures {
			row := Row{Subject: fmt.Sprintf("report %d, failure %d: %s", n+1, k+1, f.Cause)}
			row.Steps = append(row.Steps, "who: "+or(names.Sorted(f.Hosts), "nobody")+"; went on: "+or(names.In(f.By), "either"))
			out = append(out, row)
			for _, m := range slices.SortedFunc(slices.Values(f.Moments), func(a, b incident.Moment) int { return cmp.Compare(a.Phase, b.Phase) }) {
				if m.Phase == incident.PhaseClients {
					continue // in a lab of two hosts chance decides whether the other one has time to measure
				}
				words := names.In(m.Words)
				if m.At.IsZero() {
					words = "no time: " + words
				}
				out = append(out, Row{fmt.Sprintf("report %d, failure %d, %s", n+1, k+1, m.Phase), []string{words}})
			}
		}
	}
	return out
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
