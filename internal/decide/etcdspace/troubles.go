package etcdspace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// Kind is a kind of trouble with the space of etcd.
type Kind string

// The kinds of trouble.
const (
	// Full means that the alarm NOSPACE is raised: etcd takes no writes.
	Full Kind = "full"
	// Short means that a member is near its quota.
	Short Kind = "short"
	// GivenUp means that the defragmentation of a member failed again and again.
	GivenUp Kind = "given-up"
	// Waste means that the only member has much to gain, and waits for a person.
	Waste Kind = "waste"
)

// Trouble is one problem.
type Trouble struct {
	Kind Kind `json:"kind"`
	// Subject is the host, empty for all of etcd.
	Subject string `json:"subject,omitempty"`
	// Why has the figures, worded as a part of a sentence.
	Why string `json:"why"`
	// Next says what the agents do about it, or what they wait for.
	Next string `json:"next,omitempty"`
	// Mends is true if the agents do it by themselves, Urgent if little is left until etcd takes
	// no writes.
	Mends  bool `json:"mends"`
	Urgent bool `json:"urgent"`
}

// Nearly is the share of its quota, in percent, from which on a member may be full within hours.
const Nearly = 95

// Troubles returns the problems with the space of etcd. Hosts that say nothing have none here:
// an older release says nothing.
func Troubles(hosts []Host) []Trouble {
	var out []Trouble
	for _, h := range hosts {
		if h.Silent == "" {
			out = append(out, h.troubles()...)
		}
	}
	for _, h := range hosts {
		if len(h.NoSpace) > 0 && h.Silent == "" {
			return append([]Trouble{h.full()}, out...)
		}
	}
	return out
}

func (h Host) full() Trouble {
	return Trouble{Kind: Full, Why: strings.Join(h.NoSpace, " and ") + " raised the alarm NOSPACE", Next: h.Next(), Mends: h.mends(), Urgent: true}
}

func (h Host) troubles() []Trouble {
	var out []Trouble
	if h.Percent() >= Low && len(h.NoSpace) == 0 {
		out = append(out, Trouble{
			Kind: Short, Subject: h.Name, Why: fmt.Sprintf("%d %% of its quota: %s of %s, of which %s are in use", h.Percent(), size(h.Size), size(h.Quota), size(h.InUse)),
			Next: h.Next(), Mends: h.mends(), Urgent: h.Percent() >= Nearly && !h.mends(),
		})
	}
	if h.GivenUp {
		out = append(out, Trouble{Kind: GivenUp, Subject: h.Name, Why: fmt.Sprintf("%d times in a row, the last time with: %s", h.Failed, h.Error), Next: "it tries again " + page.Duration(Rest) + " after the last time"})
	}
	if h.Verdict.Rule == onlyMember && h.Percent() < Low {
		out = append(out, Trouble{Kind: Waste, Subject: h.Name, Why: fmt.Sprintf("%s of %s are free", size(h.Free()), size(h.Size))})
	}
	return out
}

// byItself are rules without a step after which one follows.
var byItself = []string{"turn", "again", "lately", youngVersions, Begun}

// mends reports whether the agents do something about it by themselves.
func (h Host) mends() bool {
	return h.Verdict.Step != None || slices.Contains(byItself, h.Verdict.Rule)
}

// Next says what the agents do next, or what they wait for.
func (h Host) Next() string {
	if h.Verdict.Step != None && h.Verdict.Host != "" {
		return fmt.Sprintf("%s is next to %s", h.Verdict.Host, words[h.Verdict.Step])
	}
	return h.Verdict.Why
}

// words are the steps, as a part of a sentence.
var words = map[Step]string{
	None: "rest", Defragment: "be defragmented", MoveLeader: "hand over the lead", Compact: "compact old versions", Disarm: "take the alarm back",
}
