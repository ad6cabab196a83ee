package incident

import (
	"testing"
	"time"
)

// TestThePodsOfALostHostHaveMovedOnceAllThatStartedSinceAreReady takes cp-2 for
// lost at second 10.6 and lists the pods that the API has afterwards.
func TestThePodsOfALostHostHaveMovedOnceAllThatStartedSinceAreReady(t *testing.T) {
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * 1e9)) }
	moved := Pod{Node: "cp-1", Created: at(20), Ready: at(25)}
	later := Pod{Node: "cp-1", Created: at(21), Ready: at(31)}
	old := Pod{Node: "cp-1", Created: at(-60), Ready: at(-50)}
	for rule, c := range map[string]struct {
		pods  []Pod
		count int
		ready float64
	}{
		"no pod shows nothing":                                         {nil, 0, 0},
		"one that ran before shows nothing":                            {[]Pod{old}, 0, 0},
		"one that started since and is ready has moved":                {[]Pod{old, moved}, 1, 25},
		"the last to be ready gives the time, whatever the order":      {[]Pod{later, moved}, 2, 31},
		"so it does where it comes last":                               {[]Pod{moved, later}, 2, 31},
		"while one is not ready, they still move":                      {[]Pod{moved, {Node: "cp-1", Created: at(22)}}, 0, 0},
		"an old one that is not ready did not move":                    {[]Pod{moved, {Node: "cp-1", Created: at(-60)}}, 1, 25},
		"while one is still on the lost host, they still move":         {[]Pod{moved, {Node: "cp-2", Created: at(-60), Ready: at(-50)}}, 0, 0},
		"one that is being deleted there does not count":               {[]Pod{moved, {Node: "cp-2", Created: at(-60), Ends: true}}, 1, 25},
		"one that belongs to the lost host does not count":             {[]Pod{moved, {Node: "cp-2", Created: at(-60), Bound: true}}, 1, 25},
		"one of the second of the loss counts, the API has no finer":   {[]Pod{{Node: "cp-1", Created: at(10), Ready: at(12)}}, 1, 12},
		"one of the second before does not":                            {[]Pod{{Node: "cp-1", Created: at(9), Ready: at(12)}}, 0, 0},
		"one that was not scheduled yet is not ready, so it is waited": {[]Pod{moved, {Created: at(22)}}, 0, 0},
	} {
		count, ready, ok := Moved(c.pods, "cp-2", at(10.6))
		if count != c.count || ok != (c.count > 0) || ok && !ready.Equal(at(c.ready)) || !ok && !ready.IsZero() {
			t.Errorf("%s: %d at %v, %t", rule, count, ready.Sub(began), ok)
		}
	}
}

func TestPodsAreWatchedWhereTheAPIWasToldThatOneHostIsOff(t *testing.T) {
	lost := Failure{Hosts: []string{"cp-2"}, At: began}
	both := Failure{Hosts: []string{"cp-1", "cp-2"}, At: began}
	over := lost
	over.Moments = []Moment{{Phase: PhasePods, At: began.Add(time.Minute)}}
	open := lost
	open.Moments = []Moment{{Phase: PhasePods, Words: "no evidence yet that pods moved"}}
	tainted := []Record{{Kind: AsksFence, Target: "cp-2"}, {Kind: Tainted, Target: "cp-2"}}
	for rule, c := range map[string]struct {
		failures []Failure
		records  []Record
		want     string
	}{
		"one host is lost and the API was told":          {[]Failure{lost}, tainted, "cp-2"},
		"it is not known yet that the pods run":          {[]Failure{open}, tainted, "cp-2"},
		"the pods run":                                   {[]Failure{over}, tainted, ""},
		"the API was not told":                           {[]Failure{lost}, tainted[:1], ""},
		"the API was told of another host":               {[]Failure{lost}, []Record{{Kind: Tainted, Target: "cp-1"}}, ""},
		"both were lost: nowhere could pods run":         {[]Failure{both}, tainted, ""},
		"the pods of an earlier failure count no more":   {[]Failure{lost, both}, tainted, ""},
		"the pods of the last failure count, of several": {[]Failure{both, lost}, tainted, "cp-2"},
	} {
		host, since := Unmoved(Incident{Failures: c.failures, Records: c.records})
		if host != c.want || since.Equal(began) != (c.want != "") {
			t.Errorf("%s: %q since %v", rule, host, since)
		}
	}
}
