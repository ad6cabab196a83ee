// Package explain says in words what etcd on a two-node host does, why, on what
// evidence, and what a person may type. It decides nothing: the words follow
// the verdict of etcdmember, and what a confirmation would change is asked of
// package confirm.
package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Source says where an explanation has its facts from.
type Source string

// The sources.
const (
	FromAgent    Source = "agent"    // the agent of etcd on this host
	FromFiles    Source = "files"    // the agent does not answer: what lies on the disk
	FromSnapshot Source = "snapshot" // a recorded snapshot; nothing of now
)

// Status sums an explanation up. Each has its exit code.
type Status string

// The statuses.
const (
	Healthy    Status = "healthy"     // one of two voters; either host may fail
	Degraded   Status = "degraded"    // takes writes, but one more failure stops or loses
	Waiting    Status = "waiting"     // takes no writes; nothing is asked of a person
	NeedsHuman Status = "needs-human" // nothing will happen without a person, or the peer
	Stopped    Status = "stopped"     // Pacemaker wants it so
	Unknown    Status = "unknown"     // too little could be seen
	Unmanaged  Status = "unmanaged"   // this host is not one of two
)

// Service is what a client gets from etcd on this host.
type Service string

// The services.
const (
	Writes    Service = "writes"
	ReadsOnly Service = "reads-only" // etcd runs and commits nothing
	None      Service = "none"       // etcd does not run
	Unclear   Service = "unknown"
)

// Input is what is explained.
type Input struct {
	Source Source
	Report state.EtcdReport
	// Unmanaged is set where nothing on the host says that it is one of two.
	Unmanaged bool
	// BMC is the address of the peer's BMC, empty where it is not known.
	BMC string
	// Limits are what could not be looked at, one sentence each.
	Limits []string
}

// Advice is something that a person may do.
type Advice struct {
	// Command is what to type; empty for what is done elsewhere.
	Command string `json:"command,omitempty"`
	// Does is what that brings, or what to do.
	Does string `json:"does"`
}

// Explanation is the answer to: what is this host doing, since when, why, on
// what evidence, and what may be typed?
type Explanation struct {
	Host    string            `json:"host"`
	Peer    string            `json:"peer,omitempty"`
	Status  Status            `json:"status"`
	Service Service           `json:"service"`
	Source  Source            `json:"source"`
	Summary string            `json:"summary"`
	Action  state.EtcdAction  `json:"action,omitempty"`
	Rule    string            `json:"rule,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Record  *state.EtcdRecord `json:"record,omitempty"`
	// At is when the facts were looked at; SinceSeconds is how long the rule
	// has been the same.
	At           time.Time `json:"at,omitzero"`
	SinceSeconds float64   `json:"sinceSeconds,omitempty"`
	// Data says whose copy is the newer one, as far as this host can know.
	Data     string   `json:"data,omitempty"`
	Problems []string `json:"problems,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
	Next     []Advice `json:"next,omitempty"`
	Limits   []string `json:"limits,omitempty"`
}

// Etcd explains etcd on one host.
func Etcd(in Input) Explanation {
	snap, verdict := in.Report.Snapshot, in.Report.Verdict
	out := Explanation{Host: snap.Host, Peer: snap.Peer, Source: in.Source, Limits: in.Limits, At: in.Report.At}
	if in.Unmanaged {
		out.Status, out.Service = Unmanaged, Unclear
		out.Summary = "etcd of this host is not run by Holdfast's agent: it is no host of a two-node control plane, or Pacemaker was not set up yet"
		return out
	}
	out.Action, out.Rule, out.Reason, out.Evidence = verdict.Action, verdict.Rule, verdict.Reason, slices.Clip(verdict.Evidence)
	if r := in.Report.Reach; r.Why != "" {
		out.Evidence = append(out.Evidence, "own network: "+reached[r.State]+", "+r.Why)
	}
	if snap.Record.Known {
		out.Record = &snap.Record.Value
	}
	out.SinceSeconds = in.Report.Since.Seconds()
	out.Service, out.Status = service(snap.Local), status(in)
	out.Summary = summary(in, out.Status, out.Service)
	out.Data = Newest(snap)
	out.Problems = problems(in.Report)
	out.Next = advice(in, out.Status)
	return out
}

// reached is what a host knows of its own reach, in words.
var reached = map[state.ReachState]string{
	state.ReachYes: "can be reached", state.ReachNo: "cut off", state.ReachUnknown: "not known whether it can be reached",
}

func problems(r state.EtcdReport) []string {
	var out []string
	if r.Problem != "" {
		out = append(out, "the last step ran into: "+r.Problem)
	}
	if r.StandIn != "" && !strings.HasPrefix(r.StandIn, "done") && !strings.HasPrefix(r.StandIn, "nothing-to-do") && !settled(r.Snapshot) {
		out = append(out, "the stand-in of the last take-over: "+r.StandIn)
	}
	return out
}

// settled is whether a take-over is over, however its stand-in ended: the record
// says so, and etcd has a leader without one. What the stand-in advised then, to
// stop etcd and mend its copy, would break what is whole.
func settled(s state.EtcdSnapshot) bool {
	if !s.Record.Known || service(s.Local) != Writes || s.Local.StandIn.Known && s.Local.StandIn.Value != 0 {
		return false
	}
	return s.Record.Value.State == state.EtcdPair || s.Record.Value.State == state.EtcdSole
}

func service(l state.EtcdLocal) Service {
	switch {
	case state.Is(l.Running, false):
		return None
	case !l.Running.Known, !l.Leader.Known:
		return Unclear
	case l.Leader.Value == 0, l.Stalled > election:
		return ReadsOnly
	}
	return Writes
}

// status sums the verdict and the facts up.
func status(in Input) Status {
	snap, verdict := in.Report.Snapshot, in.Report.Verdict
	switch s := service(snap.Local); {
	case in.Source == FromFiles: // nobody goes on, whatever the rule says
		return Unknown
	case verdict.Action == state.EtcdAskHuman:
		return NeedsHuman
	case snap.Pacemaker.Leaving && s != Writes, in.Report.Wish == state.EtcdStopped && s == None:
		return Stopped
	case s == Writes && whole(snap):
		return Healthy
	case s == Writes:
		return Degraded
	case s == Unclear && !snap.Local.Running.Known:
		return Unknown
	}
	return Waiting
}

// whole reports whether both hosts may fail each other: two voters that both
// hold everything and see each other.
func whole(s state.EtcdSnapshot) bool {
	return state.Is(s.Pacemaker.Contact, true) && s.Record.Known && s.Record.Value.State == state.EtcdPair &&
		s.Statement.Known && s.Statement.Value.Record.State == state.EtcdPair && voters(s) == 2 &&
		!s.Pacemaker.Leaving && !s.Statement.Value.Leaving
}

func voters(s state.EtcdSnapshot) int {
	n := 0
	for _, m := range s.Local.Members.Value {
		if !m.Learner {
			n++
		}
	}
	return n
}
