// Package etcdspace decides how etcd gets space back: which member is defragmented next, whether
// the leader moves first, and when the alarm NOSPACE is taken back. Each control plane decides
// for all members by what the members themselves answer, so all come to the same step, and the
// step names the one host that carries it out.
package etcdspace

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Member is one member of etcd, in its own words.
type Member struct {
	Name string         `json:"name"`
	ID   state.MemberID `json:"id"`
	// Leader is the member that it follows, zero for none.
	Leader state.MemberID `json:"leader,omitempty"`
	// Size and InUse are of its database in bytes; Quota is the size at which it raises the alarm.
	Size    int64  `json:"size"`
	InUse   int64  `json:"inUse"`
	Quota   int64  `json:"quota"`
	Index   uint64 `json:"index"`
	Version string `json:"version"`
	// NoSpace is true if it has raised the alarm NOSPACE, Corrupt if it raised CORRUPT.
	NoSpace bool `json:"noSpace,omitempty"`
	Corrupt bool `json:"corrupt,omitempty"`
}

// Percent returns how much of its quota a member's database takes.
func (m Member) Percent() int64 {
	if m.Quota <= 0 {
		return 0
	}
	return m.Size * 100 / m.Quota
}

func (m Member) free() int64 { return max(m.Size-m.InUse, 0) }

// Shape says who runs etcd.
type Shape string

// The shapes.
const (
	// Static is one or three hosts: kubelet runs etcd as a static pod.
	Static Shape = "static"
	// Two is two hosts: the etcd keeper runs etcd.
	Two Shape = "two"
)

// Pair is what the etcd keeper of one of two hosts says.
type Pair struct {
	// Own and Peer are the states of the two records, Peer empty if the peer says nothing.
	Own  state.EtcdState
	Peer state.EtcdState
	// Together is the time since the peer joined the membership.
	Together time.Duration
}

// Facts has what the decision is made of.
type Facts struct {
	// Self is the host that decides.
	Self  string
	Shape Shape
	// Voters is how many voters etcd lists. Members has those that answered, and Silent is for how
	// long all others have not, zero if there are none.
	Voters  int
	Members state.Fact[[]Member]
	Silent  time.Duration
	// Own is the member of this host, whatever the others answer, and NoSpace has the names of
	// the members that raised the alarm, as it knows them.
	Own     state.Fact[Member]
	NoSpace []string
	// Gone has the members beside Members that raised the alarm NOSPACE, and GoneCorrupt is true if
	// one of them raised CORRUPT. etcd keeps the alarm of a member that is removed, and takes no writes for it.
	Gone        []state.MemberID
	GoneCorrupt bool
	// Pair is known on two hosts only.
	Pair state.Fact[Pair]
	// Situation has a learner, a take-over, a rotation, backups and other work of the hosts.
	backup.Situation
	// BacksUp is true while this host takes a backup; unknown counts as true.
	BacksUp state.Fact[bool]
	// Sends is true if that backup needs etcd no more: what is left is to pack and to send it.
	Sends bool
	// Newest is the revision that etcd has, zero if it is not known; Past is the one that it had
	// CompactBehind ago. PastThere is true if Past can still be read: the API server has not
	// compacted it.
	Newest    int64
	Past      int64
	PastThere bool
	// Uptime and Journal are of this host.
	Uptime  time.Duration
	Journal Journal
	// Asked is true if a person asked this host for a defragmentation.
	Asked bool
	// Turn is how long the members have been such that the same step followed.
	Turn time.Duration
}

// Raised returns the members that raised the alarm NOSPACE, also those that are removed.
func (f Facts) Raised() []state.MemberID {
	var out []state.MemberID
	for _, m := range f.Members.Value {
		if m.NoSpace {
			out = append(out, m.ID)
		}
	}
	return append(out, f.Gone...)
}

// alarmed reports whether the alarm NOSPACE is raised.
func (f Facts) alarmed() bool { return len(f.Raised()) > 0 }

// Removed is a member in NoSpace that etcd lists no more.
const Removed = "a member that was removed"

// Journal is what a host remembers of its defragmentations in this boot. Times are since boot.
type Journal struct {
	// Failed counts the failures in a row. It is raised before a defragmentation begins, so that
	// an agent that ends in the middle has failed too.
	Failed int           `json:"failed,omitempty"`
	At     time.Duration `json:"at,omitempty"`
	// Last is when the last one that succeeded ended; zero for none.
	Last time.Duration `json:"last,omitempty"`
	// Error is that of the last failure.
	Error string `json:"error,omitempty"`
	// Done is the last one that succeeded.
	Done Done `json:"done,omitzero"`
	// Asked is the last wish at the Node that was answered, and Answer the answer.
	Asked  string `json:"asked,omitempty"`
	Answer Answer `json:"answer,omitzero"`
}

// Begin returns the journal as it is written before a defragmentation begins.
func (j Journal) Begin(now time.Duration) Journal {
	j.Failed, j.At, j.Error = j.Failed+1, now, "the agent ended during the defragmentation"
	return j
}

// End returns the journal after a defragmentation that Begin noted.
func (j Journal) End(now time.Duration, failure error) Journal {
	if failure == nil {
		return Journal{Last: now, Done: j.Done, Asked: j.Asked, Answer: j.Answer}
	}
	j.At, j.Error = now, failure.Error()
	return j
}

// GivenUp reports whether this host has given up for today.
func (j Journal) GivenUp(now time.Duration) bool { return j.Failed >= MaxFailures && now-j.At < Rest }
