package handover

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
)

// The conditions of etcd's object that this package keeps.
const (
	// ReadyForTransition is true when both hosts wait to take etcd over.
	ReadyForTransition = "ExternalEtcdReadyForTransition"
	// CompletedTransition is true when etcd runs outside of kubelet on both
	// hosts. It never becomes false again.
	CompletedTransition = "ExternalEtcdHasCompletedTransition"
	// SetupProgressing is true while a step is outstanding, SetupDegraded
	// while one fails, SetupAvailable once the cluster manager runs etcd.
	SetupProgressing = "TwoNodeSetupProgressing"
	SetupDegraded    = "TwoNodeSetupDegraded"
	SetupAvailable   = "TwoNodeSetupAvailable"
)

// ConditionTypes lists the conditions that this package owns.
func ConditionTypes() []string {
	return []string{ReadyForTransition, CompletedTransition, SetupProgressing, SetupDegraded, SetupAvailable}
}

// Condition is a condition of etcd's object.
type Condition struct {
	Type            string
	Status          bool
	Reason, Message string
	Changed         time.Time // time of the last change of Status
}

// AsExpected is the reason of a condition that needs no action.
const AsExpected = "AsExpected"

// outlook describes the progress of the hand-over.
type outlook struct {
	complete bool
	waiting  string // what it waits for, empty for nothing
	stage    []Work
}

func conditions(s Snapshot, look outlook) []Condition {
	handedOver := s.HandedOver || look.past(twonode.HandOver)
	out := []Condition{
		progressing(s, look),
		degraded(s, look),
		transition(ReadyForTransition, s.Begun || look.past(twonode.Setup), "HostsWait",
			"both hosts are ready to take over etcd", "the cluster manager is not set up yet"),
		transition(CompletedTransition, handedOver, "HandedOver",
			"etcd runs under the cluster manager on both hosts", "kubelet still runs etcd"),
		transition(SetupAvailable, handedOver, "HandedOver",
			"the cluster manager runs etcd on both hosts: either may be lost while PacemakerCluster says Redundant",
			"the loss of a control plane stops the cluster"),
	}
	return out
}

// past reports whether a step is done.
func (o outlook) past(step twonode.Step) bool {
	return o.complete || len(o.stage) > 0 &&
		slices.Index(Steps(), o.stage[0].Step) > slices.Index(Steps(), step)
}

func transition(kind string, is bool, reason, yes, no string) Condition {
	if is {
		return Condition{Type: kind, Status: true, Reason: reason, Message: yes}
	}
	return Condition{Type: kind, Reason: "SetupOutstanding", Message: no}
}

func progressing(s Snapshot, look outlook) Condition {
	c := Condition{Type: SetupProgressing, Status: !look.complete}
	switch {
	case look.complete:
		c.Reason, c.Message = AsExpected, "all steps are done"
	case look.stage == nil:
		c.Reason, c.Message = "Waiting", "waiting: "+look.waiting
	case look.waiting != "":
		c.Reason, c.Message = "Waiting", look.place()+open(s, look)+", waiting: "+look.waiting
	default:
		c.Reason, c.Message = reason(look.stage[0].Step), look.place()+open(s, look)
	}
	return c
}

// place describes the present step among all.
func (o outlook) place() string {
	step := o.stage[0].Step
	return fmt.Sprintf("step %d of %d (%s)", slices.Index(Steps(), step)+1, len(Steps()), step)
}

// open names the hosts on which the stage is not done.
func open(s Snapshot, look outlook) string {
	var nodes []string
	for _, w := range look.stage {
		if !done(s, []Work{w}) {
			nodes = append(nodes, w.Node)
		}
	}
	return " on " + strings.Join(nodes, " and ")
}

// degraded is true while the last finished attempt of a Job failed, whether it
// is being repeated already or not.
func degraded(s Snapshot, look outlook) Condition {
	var messages []string
	why := ""
	for _, stage := range known(s) {
		for _, w := range stage {
			job, _ := find(s.Jobs, w.Name)
			if message := failure(w, job); message != "" {
				messages, why = append(messages, message), reason(w.Step)+"Failed"
			}
		}
	}
	switch {
	case len(messages) > 0:
		return Condition{Type: SetupDegraded, Status: true, Reason: why, Message: strings.Join(messages, "\n")}
	case len(s.Nodes) > twoNodes && !s.widens():
		return Condition{Type: SetupDegraded, Status: true, Reason: "ControlPlanes", Message: look.waiting}
	case len(s.Nodes) == twoNodes && len(s.Missing) > 0:
		return Condition{Type: SetupDegraded, Status: true, Reason: "Missing", Message: strings.Join(s.Missing, "; ")}
	}
	if len(s.Moved) > 0 {
		return Condition{Type: SetupDegraded, Status: true, Reason: "AddressChanged", Message: strings.Join(s.Moved, "\n")}
	}
	return Condition{Type: SetupDegraded, Reason: AsExpected, Message: "no step fails"}
}

// known returns the stages, none while the hosts are unknown.
func known(s Snapshot) [][]Work {
	if len(s.Nodes) != twoNodes {
		return nil
	}
	return stages(s)
}

// failure describes how a Job fails, empty where it does not.
func failure(w Work, job Job) string {
	switch {
	case job.State == JobFailed:
		return fmt.Sprintf("%s on %s failed (attempt %d): %s", w.Step, w.Node, job.Attempt, job.Failure)
	case job.State != JobSucceeded && job.Before != "":
		return fmt.Sprintf("%s on %s is tried again (attempt %d) after: %s", w.Step, w.Node, job.Attempt, job.Before)
	}
	return ""
}

// reason turns a step's name into a condition's reason.
func reason(step twonode.Step) string {
	var out strings.Builder
	for word := range strings.SplitSeq(string(step), "-") {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String()
}
