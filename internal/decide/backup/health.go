package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Host is what one control plane tells.
type Host struct {
	Name string
	Summary
	// Silent says why nothing is known; empty if the summary counts.
	Silent string
	// Wanted is the wish that stands at its node.
	Wanted string
}

// HostOf reads what a node tells.
func HostOf(name string, annotations map[string]string) Host {
	s, err := ReadSummary(annotations[Annotation])
	if err != nil {
		return Host{Name: name, Silent: err.Error(), Wanted: annotations[WantedOf]}
	}
	return Host{Name: name, Summary: s, Wanted: annotations[WantedOf]}
}

// Proof says that the owner of a site has opened a backup with the private key, which is
// not on the site.
type Proof struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	By string    `json:"by"`
	// Recipients are those to whom the site encrypted then.
	Recipients []string `json:"recipients,omitempty"`
}

// Place of the Proof: a ConfigMap that an administrator writes by `holdfast backup prove`.
const (
	ProofNamespace = "kube-system"
	ProofName      = "holdfast-backup-proof"
	ProofKey       = "proof"
)

// Site is what is known of the backups of a site.
type Site struct {
	Now time.Time
	// Hosts are the control planes.
	Hosts []Host
	// Proof is the zero value if nobody ever proved one.
	Proof state.Fact[Proof]
}

// Newest returns the newest good backup of any host, and that host; false if there is
// none.
func (s Site) Newest() (host string, out Brief, is bool) {
	for _, h := range s.Hosts {
		if b, good := h.Newest(); good && b.Taken.After(out.Taken) {
			host, out, is = h.Name, b, true
		}
	}
	return host, out, is
}

// Known reports whether any host tells of its backups.
func (s Site) Known() bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.Silent == "" })
}

// Kind is a kind of trouble.
type Kind string

// The kinds of trouble with backups.
const (
	// None: no host has a good backup, and one was due long ago.
	None Kind = "none"
	// Old: the newest good backup of the site is too old; HostOld: that of one host is.
	Old     Kind = "old"
	HostOld Kind = "host-old"
	// Failing: tries of a host fail.
	Failing Kind = "failing"
	// Refused: the wish of the site has mistakes.
	Refused Kind = "refused"
	// NotSent: no good backup that is new enough lies at a target.
	NotSent Kind = "not-sent"
	// NeverProven: nobody has opened a backup with the private key.
	NeverProven Kind = "never-proven"
)

// Trouble is one problem with backups.
type Trouble struct {
	Kind Kind
	// Host or target that it is about, empty for the site.
	Subject string
	// Why has the figures, as a part of a sentence.
	Why string
	// Often is true if it has lasted so long that a person has to act.
	Often bool
}

// oldAfter is how many periods the newest good backup may be old, and often how many
// failures in a row are no accident.
const (
	oldAfter = 2
	often    = 3
)

// Troubles returns what is wrong with the backups of a site. A site of which nobody tells
// anything has none: another finding says that its hosts are silent.
func (s Site) Troubles() []Trouble {
	if !s.Known() {
		return nil
	}
	return slices.Concat(s.age(), s.ofHosts(), s.atTargets(), s.proof())
}

// limit is how old the newest good backup of a host may be.
func (h Host) limit() time.Duration { return oldAfter * h.Period }

// limit is that of the site. Right after another schedule was wished, hosts differ.
func (s Site) limit() time.Duration {
	var out time.Duration
	for _, h := range s.Hosts {
		out = max(out, h.limit())
	}
	return out
}

// since is when the first host looked for what it has to back up.
func (s Site) since() time.Time {
	var out time.Time
	for _, h := range s.Hosts {
		if h.Silent == "" && !h.Since.IsZero() && (out.IsZero() || h.Since.Before(out)) {
			out = h.Since
		}
	}
	return out
}

// age looks at the newest good backup of all.
func (s Site) age() []Trouble {
	limit := s.limit()
	host, b, is := s.Newest()
	switch {
	case limit == 0:
		return nil
	case !is && s.since().IsZero(), !is && s.Now.Sub(s.since()) <= limit:
		return nil // the first ones are on their way
	case !is:
		return []Trouble{{Kind: None, Why: s.why(fmt.Sprintf("backups were due for %s", page.Duration(s.Now.Sub(s.since())))), Often: true}}
	case s.Now.Sub(b.Taken) > limit:
		return []Trouble{{Kind: Old, Why: s.why(fmt.Sprintf("it is of %s, on %s, and may be %s old", stamp(b.Taken), host, page.Duration(limit))), Often: true}}
	}
	return nil
}

// why adds what is in the way of hosts.
func (s Site) why(text string) string {
	for _, h := range s.Hosts {
		switch {
		case h.Failed != nil:
			text += "; " + h.Name + " failed: " + h.Failed.Why
		case h.Waits != "":
			text += "; " + h.Name + " waits: " + h.Waits
		}
	}
	return text
}

// ofHosts looks at each host for itself.
func (s Site) ofHosts() []Trouble {
	var out []Trouble
	siteOld := len(s.age()) > 0
	refused := map[string]bool{}
	for _, h := range s.Hosts {
		if h.Silent != "" {
			continue
		}
		if h.Failed != nil && !siteOld {
			out = append(out, Trouble{Kind: Failing, Subject: h.Name, Why: fmt.Sprintf("%s, last at %s: %s", times(h.Failed.Times), stamp(h.Failed.At), h.Failed.Why), Often: h.Failed.Times >= often})
		}
		b, is := h.Newest()
		if age := s.Now.Sub(later(b.Taken, h.Since)); h.limit() > 0 && age > h.limit() && !siteOld {
			why := "it has none"
			if is {
				why = "its newest is of " + stamp(b.Taken)
			}
			if h.Waits != "" {
				why += "; it waits: " + h.Waits
			}
			out = append(out, Trouble{Kind: HostOld, Subject: h.Name, Why: why})
		}
		if text := strings.Join(h.Refused, "; "); text != "" && !refused[text] {
			refused[text] = true
			out = append(out, Trouble{Kind: Refused, Why: text, Often: true})
		}
	}
	return out
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// atTargets looks for the newest good copy at each target.
func (s Site) atTargets() []Trouble {
	var out []Trouble
	for _, name := range s.targets() {
		at, why := s.atTarget(name)
		from := s.SentSince(name)
		if s.limit() == 0 || from.IsZero() || s.Now.Sub(from) <= s.limit() {
			continue
		}
		text := "none of those that are kept was read back there"
		if !at.IsZero() {
			text = "the newest there is of " + stamp(at)
		}
		if why != "" {
			text += ": " + why
		}
		out = append(out, Trouble{Kind: NotSent, Subject: name, Why: text, Often: true})
	}
	return out
}

// SentSince returns when the newest good backup was taken that a target has; before the
// first one, since when there is something to send. It is zero if there is nothing.
func (s Site) SentSince(target string) time.Time {
	at, _ := s.atTarget(target)
	return later(at, s.firstFor(target))
}

// targets lists the names of all targets.
func (s Site) targets() []string {
	var out []string
	for _, h := range s.Hosts {
		out = append(out, h.Targets...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// atTarget returns when the newest good backup was taken whose copy was read back at a
// target, and why the newest copy of all is not there.
func (s Site) atTarget(name string) (newest time.Time, why string) {
	var last time.Time
	for _, h := range s.Hosts {
		for _, b := range h.Kept {
			for _, c := range b.Copies {
				if c.Target != name || !b.Good {
					continue
				}
				if !c.Verified.IsZero() {
					newest = later(newest, b.Taken)
				}
				if b.Taken.After(last) {
					last, why = b.Taken, c.Failed
				}
			}
		}
	}
	return newest, why
}

// firstFor returns when the oldest good backup was taken that was to go to a target: a
// new target has time.
func (s Site) firstFor(name string) time.Time {
	var out time.Time
	for _, h := range s.Hosts {
		for _, b := range h.Kept {
			if !slices.ContainsFunc(b.Copies, func(c Copy) bool { return c.Target == name }) {
				continue
			}
			if out.IsZero() || b.Taken.Before(out) {
				out = b.Taken
			}
		}
	}
	return out
}

// recipients lists those to whom the site encrypts.
func (s Site) recipients() []string {
	var out []string
	for _, h := range s.Hosts {
		out = append(out, h.Recipients...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// proof looks whether somebody has opened a backup that was written to today's recipients.
func (s Site) proof() []Trouble {
	now := s.recipients()
	if !s.Proof.Known || len(s.targets()) == 0 || len(now) == 0 {
		return nil
	}
	then := slices.Sorted(slices.Values(s.Proof.Value.Recipients))
	switch {
	case s.Proof.Value.ID == "":
		return []Trouble{{Kind: NeverProven, Why: "nobody has opened one with a private key yet"}}
	case !slices.Equal(now, then):
		return []Trouble{{Kind: NeverProven, Why: "the last proof, of " + stamp(s.Proof.Value.At) + ", was for other recipients"}}
	}
	return nil
}

// Lines says how the backups of a site are, for the page of status.
func (s Site) Lines() []string {
	if !s.Known() {
		return nil
	}
	var out []string
	host, b, is := s.Newest()
	if is {
		out = append(out, fmt.Sprintf("The newest good one is %s old: %s on %s, revision %d, %s.", age(s.Now.Sub(b.Taken)), stamp(b.Taken), host, b.Revision, size(b.Size)))
	} else {
		out = append(out, "There is no good one yet.")
	}
	for _, h := range s.Hosts {
		if d := h.Doing; h.Silent == "" && d != nil {
			out = append(out, fmt.Sprintf("%s has been taking one since %s%s.", h.Name, stamp(d.Since), prefixed(": ", d.Phase)))
		}
	}
	return append(out, s.whereTo()...)
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// whereTo says where backups lie beside the hosts, and when the next one comes.
func (s Site) whereTo() []string {
	var out []string
	if names := s.targets(); len(names) == 0 {
		out = append(out, "They lie on the control planes alone: whoever loses all of these loses the backups too (holdfast backup configure).")
	} else {
		proof := "whether anybody has opened one there is not known"
		if wrong := s.proof(); len(wrong) > 0 {
			proof = wrong[0].Why
		} else if s.Proof.Known {
			proof = "opened by " + s.Proof.Value.By + " on " + stamp(s.Proof.Value.At)
		}
		out = append(out, fmt.Sprintf("They go to %s; %s.", strings.Join(names, ", "), proof))
	}
	var next time.Time
	schedule := ""
	for _, h := range s.Hosts {
		if h.Silent == "" && h.Next.After(s.Now) && (next.IsZero() || h.Next.Before(next)) {
			next, schedule = h.Next, h.Schedule
		}
	}
	if !next.IsZero() {
		out = append(out, fmt.Sprintf("The next one comes at %s (schedule %s).", stamp(next), schedule))
	}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// age says an age. A time to come is of another clock.
func age(d time.Duration) string { return page.Duration(max(d, 0)) }

// size says a number of bytes.
func size(bytes int64) string {
	switch {
	case bytes <= 0:
		return "of unknown size"
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
