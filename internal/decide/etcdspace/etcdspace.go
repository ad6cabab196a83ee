package etcdspace

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Step is what is done.
type Step string

// The steps.
const (
	None       Step = ""
	Defragment Step = "defragment"  // the member of Verdict.Host
	MoveLeader Step = "move-leader" // from Verdict.Host to Verdict.To
	Compact    Step = "compact"     // up to Verdict.Revision
	Disarm     Step = "disarm"      // the alarm NOSPACE of Facts.Raised
)

// Verdict is one step, or none.
type Verdict struct {
	Step Step `json:"step,omitempty"`
	// Host carries the step out, which is the host that leads or the one whose member it is.
	Host string `json:"host,omitempty"`
	// To is the member that leads after MoveLeader.
	To       state.MemberID `json:"to,omitempty"`
	Revision int64          `json:"revision,omitempty"`
	// Rule names the row of the table, Why says it in words.
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Decide returns the step that follows from the facts. It is the same on every host with the same
// answers of the members, except for what only one host knows: its failures and its backups.
func Decide(f Facts) Verdict {
	if v := closed(f); v != nil {
		return *v
	}
	if v := othersTurn(f); v != nil {
		return *v
	}
	v := step(f)
	if held := waits(f, v); held != nil {
		return *held
	}
	return v
}

// waits returns for what this host waits although it is its turn; nil for nothing. A person's
// wish waits for none of it.
func waits(f Facts, v Verdict) *Verdict {
	if f.Asked || v.Host != f.Self || v.Step != Defragment && v.Step != MoveLeader {
		return nil
	}
	j := f.Journal
	switch {
	case j.GivenUp(f.Uptime):
		return &Verdict{Rule: "given-up", Why: fmt.Sprintf("%d defragmentations of %s failed in a row, the last one with: %s; it tries again after %s", j.Failed, f.Self, j.Error, page.Duration(Rest))}
	case j.Failed > 0 && f.Uptime-j.At < Settle:
		return &Verdict{Rule: "again", Why: fmt.Sprintf("the last defragmentation of %s failed less than %s ago, with: %s", f.Self, page.Duration(Settle), j.Error)}
	case j.Last > 0 && f.Uptime-j.Last < Lately && !f.alarmed():
		return &Verdict{Rule: "lately", Why: fmt.Sprintf("%s was defragmented less than %s ago", f.Self, page.Duration(Lately))}
	case v.Step == Defragment && f.Turn < Apart:
		return &Verdict{Rule: "turn", Why: fmt.Sprintf("%s is next, and waits until that has been so for %s: the member before it may have just come back", f.Self, page.Duration(Apart))}
	}
	return nil
}

// othersTurn returns that another host is next by itself, which a person's wish waits for: two
// members are never defragmented together.
func othersTurn(f Facts) *Verdict {
	if !f.Asked {
		return nil
	}
	f.Asked = false
	v := step(f)
	if v.Host == "" || v.Host == f.Self {
		return nil
	}
	return &Verdict{Rule: "other", Why: fmt.Sprintf("%s does its part first (%s): %s", v.Host, v.Step, v.Why)}
}

// Turn identifies the step that the members ask for, whatever this host has to wait for. While it
// stays the same, a host's turn lasts; a member that does not answer ends it.
func Turn(f Facts) string {
	if closed(f) != nil {
		return ""
	}
	v := step(f)
	if v.Step == None {
		return ""
	}
	return string(v.Step) + " " + v.Host
}

func step(f Facts) Verdict {
	list, lead := f.Members.Value, leader(f.Members.Value)
	alarm := f.alarmed()
	if alarm && !slices.ContainsFunc(list, func(m Member) bool { return m.Percent() >= Low }) {
		return Verdict{Step: Disarm, Host: lead.Name, Rule: "disarm", Why: fmt.Sprintf("the alarm NOSPACE is raised, and every member that answers is below %d %% of its quota", Low)}
	}
	if alarm && f.Past > 0 && f.PastThere {
		return Verdict{
			Step: Compact, Host: lead.Name, Revision: f.Past, Rule: "compact",
			Why: fmt.Sprintf("the alarm NOSPACE is raised, so the API server cannot note its own compaction: old versions up to revision %d, which is %s old, are compacted", f.Past, page.Duration(CompactBehind)),
		}
	}
	next, why := pick(f)
	switch {
	case next == nil && alarm && f.Past < f.Newest:
		return Verdict{Rule: youngVersions, Why: fmt.Sprintf("the alarm NOSPACE is raised: versions of the last %s are compacted once they are so old, and may leave something to gain", page.Duration(CompactBehind))}
	case next == nil && alarm:
		return Verdict{Rule: "nothing-to-gain", Why: "the alarm NOSPACE is raised, and no member has enough that is free: objects must be deleted first"}
	case next == nil:
		return Verdict{Rule: "rest", Why: "no member has enough to gain"}
	case len(list) == 1:
		return alone(f, *next, why, alarm)
	case f.Shape == Static && next.InUse > MaxInUse:
		return Verdict{Rule: "too-large", Why: fmt.Sprintf("%s has %s in use: a defragmentation may last longer than kubelet's probe of etcd waits, which is 80 s", next.Name, size(next.InUse))}
	case next.ID == lead.ID:
		to := successor(list, *next)
		return Verdict{Step: MoveLeader, Host: next.Name, To: to.ID, Rule: "move-leader", Why: fmt.Sprintf("%s is next (%s) and leads: %s leads first, so that no write waits for a member that is blocked", next.Name, why, to.Name)}
	}
	return Verdict{Step: Defragment, Host: next.Name, Rule: "follower", Why: fmt.Sprintf("%s is next: %s", next.Name, why)}
}

// youngVersions is the rule of an alarm that may end with the next compaction.
const youngVersions = "versions"

// onlyMember is the rule of a member that waits for a person.
const onlyMember = "alone"

// alone decides for the only member.
func alone(f Facts, m Member, why string, alarm bool) Verdict {
	switch {
	case f.Shape == Static && m.InUse > MaxInUse:
		return Verdict{Rule: "too-large", Why: fmt.Sprintf("%s has %s in use: a defragmentation may last longer than kubelet's probe of etcd waits, which is 80 s", m.Name, size(m.InUse))}
	case f.Asked:
		return Verdict{Step: Defragment, Host: m.Name, Rule: "alone-asked", Why: "a person asked: " + why}
	case alarm:
		return Verdict{Step: Defragment, Host: m.Name, Rule: "alone-alarm", Why: "the only member takes no writes anyhow: " + why}
	}
	return Verdict{Rule: onlyMember, Why: fmt.Sprintf("%s is the only member, and nothing serves the API while it is defragmented, so a person chooses the time: %s", m.Name, why)}
}

// pick returns the member that is next, and why; nil if none has enough to gain. The member that
// raised the alarm comes first, since it alone keeps the others from writing; then followers.
func pick(f Facts) (*Member, string) {
	list, lead := slices.Clone(f.Members.Value), leader(f.Members.Value).ID
	slices.SortStableFunc(list, func(a, b Member) int {
		return cmp.Or(after(!a.NoSpace, !b.NoSpace), after(a.ID == lead, b.ID == lead), cmp.Compare(b.Percent(), a.Percent()), cmp.Compare(a.Name, b.Name))
	})
	for i, m := range list {
		if f.Asked && m.Name != f.Self { // a person asked for the member of this host
			continue
		}
		if why := worth(m, f.Asked); why != "" {
			return &list[i], why
		}
	}
	return nil, ""
}

// after orders what is true after what is false.
func after(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// worth returns why a member is worth a defragmentation, empty if it is not. A person's wish
// needs something to gain too, and no least size. Of an alarm it does not depend: members that
// are low keep nobody from taking it back.
func worth(m Member, asked bool) string {
	if m.Size <= 0 {
		return ""
	}
	percent := m.free() * 100 / m.Size
	switch text := fmt.Sprintf("%s of %s are free", size(m.free()), size(m.Size)); {
	case m.Percent() >= Low && percent >= Gain:
		return fmt.Sprintf("%s, and it is at %d %% of its quota", text, m.Percent())
	case m.Size > LeastSize && percent > LeastFree, asked && percent >= Gain:
		return text
	}
	return ""
}

// successor returns the member that leads next: the one that is least full.
func successor(list []Member, from Member) Member {
	others := slices.DeleteFunc(slices.Clone(list), func(m Member) bool { return m.ID == from.ID })
	return slices.MinFunc(others, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Percent(), b.Percent()), cmp.Compare(a.Name, b.Name))
	})
}

func size(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
