package machineconfig

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

// maxQuoted bounds a text of others in the note of a boot, in bytes. Reports of incidents
// keep 400 of a note, and one with two such texts fits.
const maxQuoted = 120

// purpose is what a host knows of why it boots, or has packages change.
type purpose struct {
	journal hostapply.Journal
	wish    rollout.Wish
	// reason is what stands beside the wish for people: their own words, or the
	// operator's.
	reason string
	// record is of the updates of the wish, empty if there is none. required is whether
	// the distribution wants a reboot, as it was seen last.
	record   updates.Record
	required updates.Required
}

// purpose gathers why the host boots.
func (a *Agent) purpose() purpose {
	p := purpose{journal: *a.journal, wish: a.wanted(), required: a.patch.required}
	a.mu.Lock()
	p.reason = a.self.Annotations[p.wish.Names().Reason]
	a.mu.Unlock()
	if !p.wish.Patch {
		return p
	}
	if record, err := a.Updates.Record(); err == nil && record.Wish == p.wish.Wanted {
		p.record = record
	}
	return p
}

// boots says in one line for what the host boots.
func (p purpose) boots() string {
	byDistribution, forced := strings.CutPrefix(p.reason, rollout.ByDistribution)
	switch j := p.journal; {
	case j.Back:
		return fmt.Sprintf("it boots to go back from its configuration %s to %s, because %s", j.Target, cmp.Or(j.Good, "what it had before"), oneLine(j.Why, maxReason))
	case j.Target != "":
		return "it boots for its configuration " + j.Target
	case p.wish.Wanted == "":
		return "it boots for a wish that was taken back a moment ago"
	case p.wish.Patch:
		return p.afterUpdates() + "; " + p.wanted("its updates")
	case forced:
		return "it boots" + wantedByDistribution(byDistribution)
	default:
		return "it boots, because " + p.wanted("it")
	}
}

// afterUpdates says for which updates the host boots, or why it does after them.
func (p purpose) afterUpdates() string {
	switch r := p.record; {
	case r.Phase == updates.Staged:
		return "it boots for " + page.Count(len(r.Stack), "held update") + " of what etcd runs on"
	case r.Phase != updates.Installed:
		return "it boots for its updates"
	case len(r.Updates) > 0:
		return "it boots after " + page.Count(len(r.Updates), "update") + wantedByDistribution(p.required.Why)
	default:
		return "it boots" + wantedByDistribution(p.required.Why)
	}
}

// installs says in one line that the host has packages change, and for whom.
func (p purpose) installs() string {
	what := "the updates"
	if n := len(p.record.Updates); n > 0 {
		what = page.Count(n, "update")
	}
	return "it installs " + what + " of its distribution; " + p.wanted("its updates")
}

// wanted says that somebody wanted something, when, and the reason if there is one.
func (p purpose) wanted(what string) string {
	words := "somebody wanted " + what + " at " + p.wish.At.UTC().Format(time.RFC3339)
	if p.wish.InWindow {
		words += ", for its maintenance window"
	}
	if reason := oneLine(p.reason, maxQuoted); reason != "" {
		words += fmt.Sprintf(" (%q)", reason)
	}
	return words
}

// wantedByDistribution says that the distribution wants a boot, and why if that is known.
func wantedByDistribution(why string) string {
	words := ", because its distribution wants it"
	if why = oneLine(why, maxQuoted); why != "" {
		words += " (" + why + ")"
	}
	return words
}

// oneLine makes one line of a text of others, with at most so many bytes and without
// characters that a terminal would obey.
func oneLine(text string, most int) string {
	printable := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	return page.OneLine(strings.Map(printable, text), most)
}
