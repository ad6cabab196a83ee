// Package handover decides the next step on the way from etcd as kubeadm starts it
// to etcd under the cluster manager, on a control plane of two. It looks at what
// the cluster holds and never at what happened before, so its caller may have been
// started a moment ago.
package handover

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// Steps lists the steps in their order.
func Steps() []twonode.Step {
	return []twonode.Step{
		twonode.Auth, twonode.Fencing, twonode.Manifest, twonode.Setup, twonode.HandOver, twonode.Finish,
	}
}

// Member is the known state of etcd on a host. Unknown counts neither as unhealthy
// nor as healthy.
type Member string

// The states of a member.
const (
	MemberUnknown   Member = ""
	MemberHealthy   Member = "healthy" // it answers, votes, and has a leader
	MemberUnhealthy Member = "unhealthy"
)

// Node is a control plane.
type Node struct {
	Name  string
	Ready bool
	Etcd  Member
}

// JobState is the progress of a Job.
type JobState string

// The states of a Job.
const (
	JobRunning   JobState = "running"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	// JobEnding is a Job that was deleted and whose pods may still run.
	JobEnding JobState = "ending"
)

// Job is a Job that the cluster holds.
type Job struct {
	Name  string
	Key   string // identifies what it was made from
	State JobState
	// Attempt counts from 1. Failure says why this attempt failed, Before why the
	// attempt before it did; both are without secrets.
	Attempt         int
	Failure, Before string
	// Final is true if another attempt would fail in the same way.
	Final bool
	Ended time.Time
}

// Digests stand for what Jobs are made from: a Job whose digest changed runs again.
// They are keyed, because they stand for passwords too.
type Digests struct {
	Release  string            // the release, whose settings the cluster manager gets
	Hosts    string            // names and addresses, and the secret of the hosts' trust
	Fencing  string            // the accounts of the BMCs
	Manifest map[string]string // etcd's pod, by node
}

// Snapshot holds everything that a decision depends on.
type Snapshot struct {
	// Nodes are the control planes; their order does not matter.
	Nodes []Node
	// Third is the name of the third control plane that a plan brings (docs/adr/0097) or takes out
	// (docs/adr/0102), empty without one. While its Node is there, the set-up of two is left as it is.
	Third string
	// Missing lists what an administrator has to provide before Jobs can be made;
	// Awaited lists what comes by itself.
	Missing, Awaited []string
	// Moved names the hosts whose nodes report another address than the one that
	// they were set up with.
	Moved   []string
	Digests Digests
	Jobs    []Job
	// Begun is true once etcd's object says that etcd is run from outside;
	// HandedOver is true once both hosts were handed over. Neither becomes false
	// again.
	Begun, HandedOver bool
	// AtWork is why nothing may be changed on hosts while one is at work for an upgrade of the
	// site, Away why none may be taken away while they run two releases, and Upgrade why
	// nothing that each release has of its own may be changed until it is over. All are empty
	// where no upgrade holds anything.
	AtWork, Away, Upgrade string
	Now                   time.Time
}

// Work is a Job that the cluster should hold.
type Work struct {
	Step twonode.Step
	Node string
	Name string
	Key  string
	// Attempt and Before are as in Job.
	Attempt int
	Before  string
}

// Decision says what to do now.
type Decision struct {
	// Begin is true where etcd's object has to say that etcd is run from outside,
	// before any Job of this decision is made.
	Begin bool
	// Delete names Jobs that have ended or must end; the Jobs in Create are made
	// after that.
	Delete []string
	Create []Work
	// Conditions are the conditions of etcd's object.
	Conditions []Condition
	// Again is the time until the next decision even if nothing changes; zero for
	// never.
	Again time.Duration
}

// Decide returns what to do. The same snapshot gives the same decision.
func Decide(s Snapshot) Decision {
	s.Nodes = slices.SortedFunc(slices.Values(s.Nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	if reason := waitsForHosts(s); reason != "" {
		return Decision{Conditions: conditions(s, outlook{waiting: reason})}
	}
	for _, stage := range stages(s) {
		if !done(s, stage) {
			return at(s, stage)
		}
	}
	return Decision{Conditions: conditions(s, outlook{complete: true})}
}

// at returns the decision while a stage is not done.
func at(s Snapshot, stage []Work) Decision {
	now := reachable(s, stage)
	look := outlook{stage: stage, waiting: cmp.Or(held(s, now), gate(s, now))}
	var d Decision
	if look.waiting == "" {
		if again := mend(s, now); len(again) > 0 {
			return Decision{Delete: again, Conditions: conditions(s, look), Again: lookAtOnce}
		}
		d = advance(s, now)
		d.Begin = !s.Begun && stage[0].Step == twonode.HandOver
	}
	d.Conditions = conditions(s, look)
	return d
}

// advance starts the missing Jobs of a stage and repeats the failed ones.
func advance(s Snapshot, stage []Work) Decision {
	var d Decision
	for _, w := range stage {
		job, there := find(s.Jobs, w.Name)
		switch {
		case !there:
			w.Attempt = 1
			d.Create = append(d.Create, w)
		case job.State == JobEnding:
			// The Job is made anew once it is gone.
		case job.Key != w.Key && job.State == JobRunning:
			// Two Jobs of a kind must never run on one host: the old one has to end
			// first.
			d.Delete = append(d.Delete, job.Name)
		case job.Key != w.Key:
			w.Attempt = 1
			d.Delete, d.Create = append(d.Delete, job.Name), append(d.Create, w)
		case job.State == JobFailed:
			d.repeat(s, w, job)
		}
	}
	return d
}

// lookAtOnce is the wait after a decision that is only half of the work.
const lookAtOnce = 100 * time.Millisecond

// mend names the Jobs that have to run again before a later step is repeated. A
// host that lost its power may be back without Corosync, or without what was
// written last before the loss, and each host starts its own Corosync. Entering the
// cluster and setting it up change nothing where all is well.
func mend(s Snapshot, stage []Work) []string {
	before := entering(s)
	switch stage[0].Step {
	case twonode.Setup:
	case twonode.HandOver, twonode.Finish:
		before = append(before, work(twonode.Setup, "", ""))
	case twonode.Auth, twonode.Fencing, twonode.Manifest:
		return nil
	}
	var again []string
	for _, w := range stage {
		job, there := find(s.Jobs, w.Name)
		if !there || job.State != JobFailed || job.Key != w.Key || job.Final || job.Ended.Add(pause(job.Attempt)).After(s.Now) {
			continue
		}
		for _, b := range before {
			if old, there := find(s.Jobs, b.Name); there && old.State == JobSucceeded && job.Ended.After(old.Ended) && !slices.Contains(again, old.Name) {
				again = append(again, old.Name)
			}
		}
	}
	return again
}

// repeat makes a failed Job anew once its pause is over.
func (d *Decision) repeat(s Snapshot, w Work, job Job) {
	if job.Final {
		return // it stays until what it was made from changes, or an administrator deletes it
	}
	if left := job.Ended.Add(pause(job.Attempt)).Sub(s.Now); left > 0 {
		d.Again = cmp.Or(min(d.Again, left), left)
		return
	}
	w.Attempt, w.Before = job.Attempt+1, job.Failure
	d.Delete, d.Create = append(d.Delete, job.Name), append(d.Create, w)
}

// The pauses before a failed Job is repeated. The first is short, because most
// failures mean that something was not there yet.
const (
	firstPause   = 5 * time.Second
	longestPause = 2 * time.Minute
)

// pause returns the wait after a number of failures.
func pause(attempt int) time.Duration {
	p := firstPause
	for range attempt - 1 {
		if p *= 2; p >= longestPause {
			return longestPause
		}
	}
	return p
}

func done(s Snapshot, stage []Work) bool {
	return !slices.ContainsFunc(stage, func(w Work) bool {
		job, _ := find(s.Jobs, w.Name) // one that is not there has no key
		return job.Key != w.Key || job.State != JobSucceeded
	})
}

func find(jobs []Job, name string) (Job, bool) {
	i := slices.IndexFunc(jobs, func(j Job) bool { return j.Name == name })
	if i < 0 {
		return Job{}, false
	}
	return jobs[i], true
}
