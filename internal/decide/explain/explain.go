// Package explain says in words what etcd on a two-node host does, why, on what
// evidence, and what an administrator may type. It decides nothing: the words
// follow the verdict of etcdmember, and package confirm says what a confirmation
// would change.
package explain

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Source is the origin of an explanation's facts.
type Source string

// The sources.
const (
	FromAgent    Source = "agent"    // the etcd keeper on this host
	FromFiles    Source = "files"    // the keeper does not answer: only the files on the disk
	FromSnapshot Source = "snapshot" // a recorded snapshot; nothing about now
)

// Status sums an explanation up. Each status has its own exit code.
type Status string

// The statuses.
const (
	Healthy    Status = "healthy"     // one of two voters; either host may fail
	Degraded   Status = "degraded"    // takes writes, but one more failure stops or loses
	Waiting    Status = "waiting"     // takes no writes; needs no administrator
	NeedsHuman Status = "needs-human" // nothing will happen without an administrator, or the peer
	Stopped    Status = "stopped"     // Pacemaker had etcd stopped here a moment ago: the host leaves
	Unknown    Status = "unknown"     // too little is known
	Unmanaged  Status = "unmanaged"   // this host does not belong to a two-node control plane
)

// Service says what a client gets from etcd on this host.
type Service string

// The services.
const (
	Writes    Service = "writes"
	ReadsOnly Service = "reads-only" // etcd runs and commits nothing
	None      Service = "none"       // etcd does not run
	Unclear   Service = "unknown"
)

// Input holds the facts to explain.
type Input struct {
	Source Source
	Report state.EtcdReport
	// Unmanaged is set where nothing on the host says that it belongs to a two-node
	// control plane.
	Unmanaged bool
	// Replaced says when and by whom another machine got the place of this host, empty if the
	// host has not written that down.
	Replaced string
	// BMC is the address of the peer's BMC, empty where it is not known.
	BMC string
	// Deleted lists what somebody deleted on the host.
	Deleted []state.Deleted
	// Limits lists what could not be read, one sentence each.
	Limits []string
}

// Advice is one thing that an administrator may do.
type Advice struct {
	// Command is the command to type, empty for what is done elsewhere.
	Command string `json:"command,omitempty"`
	// Does says what the command does, or what to do.
	Does string `json:"does"`
}

// Explanation answers these questions: what is this host doing, since when, why, on
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
	// At is the time of the facts; SinceSeconds is how long the rule has been the
	// same.
	At           time.Time `json:"at,omitzero"`
	SinceSeconds float64   `json:"sinceSeconds,omitempty"`
	// Data says whose data directory is the newer one, as far as this host can
	// know.
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
		out.Summary = "the etcd keeper does not run etcd on this host: the host is not in a two-node control plane, or Pacemaker is not set up yet"
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
	for _, d := range in.Deleted {
		out.Problems = append(out.Problems, d.Problem+". "+d.Meaning)
	}
	out.Next = slices.Concat(putBack(in), odd(in), advice(in, out.Status))
	if in.Replaced != "" {
		out.Next = leave(in)
	}
	return out
}

// reached puts a host's knowledge of its own reach into words.
var reached = map[state.ReachState]string{
	state.ReachYes: "reachable", state.ReachNo: "cut off", state.ReachUnknown: "unknown whether it is reachable",
}

func problems(r state.EtcdReport) []string {
	var out []string
	if r.Problem != "" {
		out = append(out, "the last step failed: "+r.Problem)
	}
	if r.StandIn != "" && !r.StandInOutcome.Works() && !settled(r.Snapshot) {
		out = append(out, "the stand-in of the last take-over: "+r.StandIn)
	}
	return out
}

// settled reports whether a take-over is over, however its stand-in ended: the
// record says so, and etcd has a leader without one. The stand-in's advice of that
// time, to stop etcd and repair its data, would then break what is whole.
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
	case in.Replaced != "":
		return NeedsHuman
	case in.Source == FromFiles: // no etcd keeper carries the rule out
		return Unknown
	case verdict.Action == state.EtcdAskHuman:
		return NeedsHuman
	case staysStopped(in.Report):
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

// leaves is how long a host that leaves has its etcd stopped, at most: then it is off.
const leaves = 5 * time.Minute

// staysStopped reports whether Pacemaker had etcd stopped here for longer than a host that leaves needs. A
// person did that, by a standby or by disabling the resource, and nobody else ends it.
func staysStopped(r state.EtcdReport) bool {
	return r.Wish == state.EtcdStopped && service(r.Snapshot.Local) == None && r.Snapshot.Pacemaker.LeavingFor > leaves
}

// whole reports whether either host may fail: two voters both hold everything and
// see each other.
func whole(s state.EtcdSnapshot) bool {
	return state.Is(s.Pacemaker.Contact, true) && s.Record.Known && s.Record.Value.State == state.EtcdPair &&
		s.Statement.Known && s.Statement.Value.Record.State == state.EtcdPair && voters(s) == 2 && len(etcdmember.Strangers(s)) == 0 &&
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
