package handover

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// jobStates are the states that a Job of a stage may be in: the word is what with
// reads, and the change makes it more precise.
var jobStates = []struct {
	name, word string
	change     func(*Job)
}{
	{"absent", "", nil},
	{"running", "running", func(*Job) {}},
	{"succeeded an hour ago", "succeeded", func(*Job) {}},
	{"succeeded a second ago", "succeeded", func(j *Job) { j.Ended = now.Add(-time.Second) }},
	{"failed an hour ago", "failed", func(j *Job) { j.Failure = "no answer" }},
	{"failed a second ago", "failed", func(j *Job) { j.Ended, j.Failure = now.Add(-time.Second), "no answer" }},
	{"failed for good", "failed", func(j *Job) { j.Final, j.Failure = true, "a wrong input" }},
	{"ending", "ending", func(*Job) {}},
	{"running, made from something else", "running", func(j *Job) { j.Key = "older" }},
	{"succeeded, made from something else", "succeeded", func(j *Job) { j.Key = "older" }},
}

// inEachState calls look with each state that a cluster may be in while a step is
// done: each state of the Jobs of that step, and each state of both hosts.
func inEachState(t *testing.T, look func(name func() string, s Snapshot)) {
	t.Helper()
	hosts := []Node{{Ready: true, Etcd: MemberHealthy}, {Ready: true, Etcd: MemberUnhealthy}, {Ready: true}, {Etcd: MemberHealthy}}
	for _, step := range Steps() {
		for i, first := range jobStates {
			for k, second := range jobStates {
				s := upTo(step)
				if s = inState(s, step, "cp-1", i); step != twonode.Setup {
					s = inState(s, step, "cp-2", k)
				} else if k > 0 {
					continue // it has one Job
				}
				for n := range len(hosts) * len(hosts) {
					s := s
					s.Nodes = []Node{hosts[n%len(hosts)], hosts[n/len(hosts)]}
					s.Nodes[0].Name, s.Nodes[1].Name = "cp-1", "cp-2"
					look(func() string {
						return fmt.Sprintf("%s is %s on cp-1, %s on cp-2, hosts %v", step, first.name, second.name, s.Nodes)
					}, s)
				}
			}
		}
	}
}

func inState(s Snapshot, step twonode.Step, node string, i int) Snapshot {
	if jobStates[i].word == "" {
		return s
	}
	s = with(s, fmt.Sprintf("%s %s %s", step, node, jobStates[i].word))
	jobStates[i].change(&s.Jobs[len(s.Jobs)-1])
	return s
}

// TestInEveryStateOfAStepTheRulesHold states what Decide may do.
func TestInEveryStateOfAStepTheRulesHold(t *testing.T) {
	states := 0
	inEachState(t, func(name func() string, s Snapshot) {
		if states++; t.Failed() {
			return // one state is enough to see what is wrong
		}
		d := Decide(s)
		for rule, broken := range map[string]bool{
			"at most one Job is made that stops or restarts etcd":      touching(d.Create) > 1,
			"none is made while the other host's one may still run":    touching(d.Create) > 0 && slices.ContainsFunc(s.Jobs, atWork),
			"etcd is taken from kubelet only while the other is whole": slices.ContainsFunc(d.Create, func(w Work) bool { return w.Step == twonode.HandOver && !healthyBut(s, w.Node) }),
			"but for accounts of BMCs, both hosts have to be ready":    len(d.Create) > 0 && !ready(s) && d.Create[0].Step != twonode.Fencing,
			"an account goes to a host that is ready":                  slices.ContainsFunc(d.Create, func(w Work) bool { return !readyAt(s, w.Node) }),
			"a Job that is there is deleted before it is made anew":    slices.ContainsFunc(d.Create, func(w Work) bool { return there(s, w.Name) && !slices.Contains(d.Delete, w.Name) }),
			"only what is there is deleted":                            slices.ContainsFunc(d.Delete, func(name string) bool { return !there(s, name) }),
			"a Job that is ending is left alone":                       slices.ContainsFunc(d.Delete, func(name string) bool { return stateOf(s, name) == JobEnding }),
			"a Job that runs is ended only for one of another kind":    slices.ContainsFunc(d.Delete, func(name string) bool { return stateOf(s, name) == JobRunning && !outdated(s, name) }),
			"what ended a Job that ran is made once that has ended":    slices.ContainsFunc(d.Create, func(w Work) bool { return stateOf(s, w.Name) == JobRunning }),
			"what fails for good is left to an administrator":          slices.ContainsFunc(d.Create, func(w Work) bool { return final(s, w.Name) }),
			"a first attempt has no failure before it, a second has":   slices.ContainsFunc(d.Create, func(w Work) bool { return (w.Attempt > 1) != (w.Before != "") || w.Attempt < 1 }),
			"etcd's object says so before etcd is taken from kubelet":  !s.Begun && !d.Begin && slices.ContainsFunc(d.Create, func(w Work) bool { return w.Step == twonode.HandOver }),
			"it does not say so before that":                           d.Begin && !done(s, stages(s)[4]),
			"what is waited for is said, and the work is not done":     waits(t, d) && len(d.Create)+len(d.Delete) > 0,
			"the order of the hosts does not matter":                   !reflect.DeepEqual(d, Decide(change(s, func(s *Snapshot) { s.Nodes = []Node{s.Nodes[1], s.Nodes[0]} }))),
		} {
			if broken {
				t.Errorf("%s\n%s: %s; %+v", rule, name(), told(d), condition(t, d, SetupProgressing))
			}
		}
	})
	if states < 8000 {
		t.Errorf("%d states", states)
	}
}

func touching(list []Work) int {
	n := 0
	for _, w := range list {
		if w.Step == twonode.Manifest || w.Step == twonode.HandOver {
			n++
		}
	}
	return n
}

// atWork reports whether a Job of the hand-over may still have a pod.
func atWork(j Job) bool {
	for _, node := range []string{"cp-1", "cp-2"} {
		if j.Name == work(twonode.HandOver, node, "").Name {
			return j.State == JobRunning || j.State == JobEnding
		}
	}
	return false
}

func healthyBut(s Snapshot, node string) bool {
	return !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name != node && n.Etcd != MemberHealthy })
}

func ready(s Snapshot) bool {
	return !slices.ContainsFunc(s.Nodes, func(n Node) bool { return !n.Ready })
}

func readyAt(s Snapshot, node string) bool {
	return slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == node && n.Ready })
}

func there(s Snapshot, name string) bool { _, is := find(s.Jobs, name); return is }

func stateOf(s Snapshot, name string) JobState { job, _ := find(s.Jobs, name); return job.State }

func outdated(s Snapshot, name string) bool { job, _ := find(s.Jobs, name); return job.Key == "older" }

func final(s Snapshot, name string) bool { job, _ := find(s.Jobs, name); return job.Final }

func waits(t *testing.T, d Decision) bool {
	t.Helper()
	return condition(t, d, SetupProgressing).Reason == "Waiting"
}

// TestWhatTheWaitIsCalled: programs read the reason, people the message.
func TestWhatTheWaitIsCalled(t *testing.T) {
	ill := func(s *Snapshot) { s.Nodes[1].Etcd = MemberUnhealthy }
	for _, c := range []struct {
		s      Snapshot
		reason string
		status bool
	}{
		{allDone(), AsExpected, false},
		{two(), "Auth", true},
		{change(two(), ill), "Waiting", true},
		{change(two(), func(s *Snapshot) { s.Nodes = s.Nodes[:1] }), "Waiting", true},
		{upTo(twonode.HandOver), "HandOver", true},
		{change(upTo(twonode.HandOver), ill), "Waiting", true},
	} {
		if got := condition(t, Decide(c.s), SetupProgressing); got.Reason != c.reason || got.Status != c.status {
			t.Errorf("want %s: %+v", c.reason, got)
		}
	}
}

// TestOnlyANewManifestKeepsTheOtherHostWaiting: etcd restarts where a manifest was
// written, for half a minute.
func TestOnlyANewManifestKeepsTheOtherHostWaiting(t *testing.T) {
	for _, c := range []struct {
		state JobState
		ago   time.Duration
		waits bool
	}{
		{JobSucceeded, 0, true},
		{JobSucceeded, settled - 1, true},
		{JobSucceeded, settled, false},
		{JobFailed, 0, false},
		{JobRunning, 0, false},
	} {
		s := change(allDone(), func(s *Snapshot) { s.Jobs = slices.Clone(s.Jobs) })
		i := slices.IndexFunc(s.Jobs, func(j Job) bool { return j.Name == work(twonode.Manifest, "cp-1", "").Name })
		s.Jobs[i].State, s.Jobs[i].Ended = c.state, now.Add(-c.ago)
		if got := restartGate(s, func(n Node) bool { return n.Name == "cp-1" }); (got != "") != c.waits {
			t.Errorf("%s %s ago: %q", c.state, c.ago, got)
		}
	}
}
