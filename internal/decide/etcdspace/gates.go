package etcdspace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// gate is a reason for which nothing is done, whoever asks.
type gate struct {
	id string
	// said is true for what Nodes say. Once the alarm is raised nobody can write there that it is
	// over, so such a gate would stay closed for good: then it does not count.
	said bool
	// blocks is true for what only a member that is blocked for a while could harm. Once the alarm is
	// raised, a step that blocks none waits for no such gate: some of them open with a write.
	blocks bool
	why    func(f Facts) string
}

// gates are asked in this order; the first that is closed is the answer.
var gates = []gate{
	{id: "unknown", why: silent},
	{id: "quota", why: func(f Facts) string {
		return when(slices.ContainsFunc(f.Members.Value, func(m Member) bool { return m.Quota <= 0 }), "the quota of a member is not known")
	}},
	{id: "version", why: oldRelease},
	{id: "corrupt", why: func(f Facts) string {
		return when(f.GoneCorrupt || slices.ContainsFunc(f.Members.Value, func(m Member) bool { return m.Corrupt }), "etcd has raised the alarm CORRUPT: nobody changes the data until a person has looked")
	}},
	{id: "leader", why: func(f Facts) string {
		return when(leader(f.Members.Value) == nil, "the members do not name one leader among them")
	}},
	{id: "learner", blocks: true, why: learner},
	{id: "take-over", why: func(f Facts) string {
		return when(f.Etcd.Value.TakesOver != "", "the etcd keeper is at work: "+f.Etcd.Value.TakesOver)
	}},
	{id: "no-writes", why: func(f Facts) string {
		return when(!f.Etcd.Known || !f.Etcd.Value.Writes, "it is not known whether etcd commits writes")
	}},
	{id: "behind", why: behind},
	{id: "pair", blocks: true, why: notPair},
	{id: "settling", blocks: true, why: settling},
	{id: "backup", why: backsUp},
	{id: "busy", said: true, why: func(f Facts) string { return when(len(f.Busy) > 0, strings.Join(f.Busy, " and ")+" takes a backup") }},
	{id: "away", said: true, why: func(f Facts) string { return backup.Sentences(f.Away) }},
	{id: "rotation", said: true, why: func(f Facts) string {
		return when(f.Rotation != "", "authorities are being replaced: "+f.Rotation)
	}},
}

func when(is bool, why string) string {
	if is {
		return why
	}
	return ""
}

// closed returns the first closed gate, nil if all are open.
func closed(f Facts) *Verdict {
	alarm := f.alarmed()
	for _, g := range gates {
		if g.said && alarm {
			continue
		}
		why := g.why(f)
		if why == "" || g.blocks && alarm && !step(f).blocks() {
			continue
		}
		return &Verdict{Rule: g.id, Why: why}
	}
	return nil
}

// blocks reports whether a member answers nobody, or may be about to, because of a step.
func (v Verdict) blocks() bool { return v.Step == Defragment || v.Step == MoveLeader }

// backsUp returns why a backup of this host is waited for. An upload may take hours, and a full etcd
// does not wait for it: the agent ends it for the defragmentation, and sends it afterwards.
func backsUp(f Facts) string {
	if f.BacksUp == state.Known(true) && f.Sends && f.alarmed() {
		return ""
	}
	return when(f.BacksUp != state.Known(false), f.Self+" takes a backup, or it is not known")
}

// oldRelease returns why a release of etcd is too old.
func oldRelease(f Facts) string {
	for _, m := range f.Members.Value {
		if v, ok := version(m.Version); !ok || slices.Compare(v[:], Fixed[:]) < 0 {
			return fmt.Sprintf("etcd on %s is %s: before 3.6.5 a defragmentation can damage the data of a member that takes in a snapshot (etcd issue 20650)", m.Name, cmp.Or(m.Version, "of an unknown release"))
		}
	}
	return ""
}

func version(text string) (out [3]int, ok bool) {
	n, err := fmt.Sscanf(text, "%d.%d.%d", &out[0], &out[1], &out[2])
	return out, err == nil && n == len(out)
}

// leader returns the member that all members name as their leader, nil if there is none.
func leader(list []Member) *Member {
	for i, m := range list {
		if m.ID != 0 && !slices.ContainsFunc(list, func(o Member) bool { return o.Leader != m.ID }) {
			return &list[i]
		}
	}
	return nil
}

// behind returns which member lacks too much of the log.
func behind(f Facts) string {
	var most uint64
	for _, m := range f.Members.Value {
		most = max(most, m.Index)
	}
	for _, m := range f.Members.Value {
		if most-m.Index > Behind {
			return fmt.Sprintf("%s is %d entries behind", m.Name, most-m.Index)
		}
	}
	return ""
}

// silent returns that members do not answer. A member that is defragmented does not, and its silence
// keeps the others waiting. One that is silent for far longer is lost: while the alarm is raised, nobody
// can write that it is replaced, so those that answer go on if they have a quorum.
func silent(f Facts) string {
	answer := len(f.Members.Value)
	lost := f.alarmed() && 2*answer > f.Voters && f.Silent >= Lost
	return when(!f.Members.Known || answer == 0 || answer != f.Voters && !lost, "not every member of etcd answers")
}

// learner returns which member catches up. The only member of a full etcd waits for none if a person
// asks: its learner may be of a host that is gone, and nobody can write that it is.
func learner(f Facts) string {
	if f.Asked && f.alarmed() && f.Voters == 1 {
		return ""
	}
	return when(f.Etcd.Value.Learner != "", f.Etcd.Value.Learner+" catches up with etcd's data")
}

// notPair returns why two hosts may not spare a member for a while. The member of a host that
// goes on alone is defragmented for a person only: nobody else can serve meanwhile, and the
// other host may come back at any moment.
func notPair(f Facts) string {
	p := f.Pair.Value
	switch {
	case f.Shape != Two:
		return ""
	case !f.Pair.Known:
		return "the etcd keeper does not answer"
	case p.Own == state.EtcdPair && p.Peer == state.EtcdPair && f.Voters == 2:
		return ""
	case f.alarmed() && votes(p.Own) && votes(p.Peer) && f.Voters == 2:
		return ""
	case f.Asked && p.Own == state.EtcdSole && f.Voters == 1:
		return ""
	case p.Own == state.EtcdSole && f.Voters == 1 && f.alarmed():
		return f.Self + " goes on alone, and the other host may come back at any moment, so a person chooses the time: sudo touch " + state.EtcdDefragmentWantedPath + " on " + f.Self
	case p.Own == state.EtcdSole && f.Voters == 1:
		return f.Self + " goes on alone: nobody else can serve meanwhile, and the other host may come back at any moment"
	}
	return fmt.Sprintf("both records must say pair: %s says %s, the other host %s", f.Self, cmp.Or(p.Own, "nothing"), cmp.Or(p.Peer, "nothing"))
}

// votes reports whether a record is that of a member that votes, and of a host that neither takes over
// nor leaves. Two such records do not become pair while the alarm is raised: that needs a marker, which
// is a write. The marker decides who may go on alone, not who votes. With both in contact a member that
// is blocked for a while is one of two voters, as with a pair (docs/adr/0088).
func votes(record state.EtcdState) bool {
	return slices.Contains([]state.EtcdState{state.EtcdPair, state.EtcdSole, state.EtcdVoter}, record)
}

// settling returns why two hosts are left alone for a while.
func settling(f Facts) string {
	p := f.Pair.Value
	return when(f.Shape == Two && f.Voters == 2 && p.Together < Settle, "the two hosts are together for "+page.Duration(p.Together)+" only, and wait for "+page.Duration(Settle)+" after a loss")
}
