package people

import (
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// mixedLong is for how long hosts of one upgrade may run two releases before people are
// told that it takes long.
const mixedLong = 24 * time.Hour

// TroubleKind is a kind of thing that people are told of an upgrade.
type TroubleKind string

// The kinds of troubles.
const (
	// HostHeld: a host of the upgrade holds, and a person should look.
	HostHeld TroubleKind = "host held"
	// HostReturned: a host went back by itself.
	HostReturned TroubleKind = "host returned"
	// FetchFailed: a host cannot fetch the release.
	FetchFailed TroubleKind = "fetch failed"
	// HeldByGate: a gate, or a host that is missing, holds the upgrade.
	HeldByGate TroubleKind = "held"
	// PausedByPerson: a person holds it.
	PausedByPerson TroubleKind = "paused"
	// WishRefused: the operator does not follow the wish.
	WishRefused TroubleKind = "refused"
	// Mixed: hosts run different releases, and no upgrade is under way, or one for long.
	Mixed TroubleKind = "mixed"
	// WayBackOpen: all hosts run the new release, and nobody has committed yet.
	WayBackOpen TroubleKind = "way back open"
)

// Trouble is something that people are told of an upgrade.
type Trouble struct {
	Kind TroubleKind
	// Host is the host that it is about; empty for the site.
	Host string
	// Why says what it is, for people.
	Why string
}

// Troubles returns what people are told of the upgrade, hosts first.
func (u Upgrade) Troubles() []Trouble {
	var out []Trouble
	told := false // of a host for which the upgrade waits
	for _, h := range u.Hosts {
		t := u.troubles(h)
		told = told || len(t) > 0
		out = append(out, t...)
	}
	phase, why := u.Phase()
	switch held := u.Held(); {
	case u.Wish.Paused != "" && u.asked():
		out = append(out, Trouble{PausedByPerson, "", u.Wish.Paused})
	case held != "" && !told:
		out = append(out, Trouble{HeldByGate, "", held})
	case phase == cluster.Proving && held == "":
		if u.SoakOff {
			why = "a person commits"
		}
		out = append(out, Trouble{WayBackOpen, "", why})
	}
	if why := u.Refused(); why != "" {
		out = append(out, Trouble{WishRefused, "", why})
	}
	if u.mixed() && (!u.Record.Started || u.long()) {
		out = append(out, Trouble{Mixed, "", u.differ()})
	}
	return out
}

func (u Upgrade) troubles(h Host) []Trouble {
	told := h.Told.Value
	j := told.Journal
	ours := u.Record.Started && j.Upgrade == u.Record.Upgrade
	switch {
	case !h.Told.Known:
		return nil
	case told.Held != "" && (ours || !j.Step.AtRest()):
		return []Trouble{{HostHeld, h.Name, told.Held}}
	case ours && j.Step == parachute.Returned && j.Why != "" && !u.Record.Returning:
		return []Trouble{{HostReturned, h.Name, j.Why}}
	case told.FetchFailed != "" && (u.asked() || u.offers() != ""):
		return []Trouble{{FetchFailed, h.Name, told.FetchFailed}}
	}
	return nil
}

// mixed reports whether two hosts are known to run different releases.
func (u Upgrade) mixed() bool {
	first := ""
	for _, h := range u.Hosts {
		r := h.running()
		if r.Known && first != "" && r.Value != first {
			return true
		}
		if r.Known {
			first = r.Value
		}
	}
	return false
}

// long reports whether the upgrade began long ago.
func (u Upgrade) long() bool {
	if u.Version == nil || len(u.Version.Status.History) == 0 {
		return false
	}
	newest := u.Version.Status.History[0]
	return newest.State == configv1.PartialUpdate && u.Now.Sub(newest.StartedTime.Time) > mixedLong
}

// differ says which host runs what.
func (u Upgrade) differ() string {
	var out []string
	for _, h := range u.Hosts {
		if r := h.running(); r.Known {
			out = append(out, h.Name+" "+u.Name(r.Value))
		}
	}
	return strings.Join(out, ", ")
}

// Brief is what an overview of the site has of an upgrade.
type Brief struct {
	Phase cluster.Phase `json:"phase"`
	Why   string        `json:"why"`
	// From and To name the two releases; To is empty if none is wanted.
	From string `json:"from"`
	To   string `json:"to,omitempty"`
	// Offer names the release that is offered; empty for none.
	Offer string `json:"offer,omitempty"`
	// WayBack is open or closed while an upgrade is under way.
	WayBack string      `json:"wayBack,omitempty"`
	Hosts   []BriefHost `json:"hosts"`

	doing string
}

// BriefHost is what one host runs and does, in words.
type BriefHost struct {
	Name  string `json:"name"`
	Doing string `json:"doing"`
}

// Same reports whether two briefs differ at most in what changes by itself.
func (b *Brief) Same(o *Brief) bool {
	return b == nil && o == nil || b != nil && o != nil && b.doing == o.doing
}

// Brief returns what an overview tells; nil if nothing is offered, wanted or under way, and
// all hosts run the same.
func (u Upgrade) Brief() *Brief {
	if !u.asked() && !u.mixed() && u.offers() == "" {
		return nil
	}
	s := u.Status()
	site, hosts := s.Doing()
	b := &Brief{Phase: s.Phase, Why: s.Why, From: s.names[s.From], To: s.names[s.To], WayBack: s.WayBack, Hosts: []BriefHost{}, doing: site}
	if s.To == "" {
		b.To = ""
	}
	if s.Offer != "" {
		b.Offer = s.names[s.Offer]
	}
	for i, doing := range hosts {
		b.Hosts = append(b.Hosts, BriefHost{s.Hosts[i].Name, doing})
		b.doing += "\n" + doing
	}
	return b
}

// Sentence says in one sentence what the site does.
func (b *Brief) Sentence() string {
	way := ""
	if b.To != "" {
		way = ", from " + b.From + " to " + b.To
	}
	if b.Offer != "" {
		way = ", " + b.Offer
	}
	return string(b.Phase) + way + ": " + b.Why
}
