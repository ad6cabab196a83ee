package backup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Host is the report of one control plane about its backups.
type Host struct {
	Name string
	Summary
	// Silent says why there is no report; empty if there is one.
	Silent string
	// Wanted is the wish that stands at its node.
	Wanted string
	// Lost is true if the disk of the host may be gone: nobody hears of it, or it goes.
	Lost bool `json:",omitempty"`
}

// HostOf reads the report in the annotations of a node.
func HostOf(name string, annotations map[string]string) Host {
	s, err := ReadSummary(annotations[Annotation])
	if err != nil {
		return Host{Name: name, Silent: err.Error(), Wanted: annotations[WantedOf]}
	}
	return Host{Name: name, Summary: s, Wanted: annotations[WantedOf]}
}

// Proof says that a person has opened a backup with the private key, which is not on the site.
type Proof struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	By string    `json:"by"`
	// Recipients are the public keys to which that copy was encrypted.
	Recipients []string `json:"recipients,omitempty"`
}

// The ConfigMap with the Proof, which an administrator writes by `holdfast backup prove`.
const (
	ProofNamespace = "kube-system"
	ProofName      = "holdfast-backup-proof"
	ProofKey       = "proof"
)

// ReadProof reads the data of that ConfigMap. What nobody can read proves nothing.
func ReadProof(data map[string]string) Proof {
	var p Proof
	if json.Unmarshal([]byte(data[ProofKey]), &p) != nil {
		return Proof{}
	}
	return p
}

// Site is what is known of the backups of a site.
type Site struct {
	Now time.Time
	// Hosts are the control planes.
	Hosts []Host
	// Proof is the last proof, zero if there was none.
	Proof state.Fact[Proof]
}

// Newest returns the newest good backup of all hosts, and its host; false if there is none. Those of
// a clock that was ahead do not count.
func (s Site) Newest() (host string, out Brief, is bool) {
	for _, h := range s.Hosts {
		if b, good := h.Newest(s.Now); good && b.Taken.After(out.Taken) {
			host, out, is = h.Name, b, true
		}
	}
	return host, out, is
}

// Known reports whether any host reports its backups.
func (s Site) Known() bool {
	return slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.Silent == "" })
}

// Kind is a kind of trouble.
type Kind string

// The kinds of trouble with backups.
const (
	// None means that no host has a good backup, and one was due long ago.
	None Kind = "none"
	// Old means that the newest good backup of the site is too old, HostOld that of one host.
	Old     Kind = "old"
	HostOld Kind = "host-old"
	// Failing means that tries of a host fail.
	Failing Kind = "failing"
	// Refused means that the wish of the site has mistakes, or that an object of it is gone.
	Refused Kind = "refused"
	// NotSent means that a target has no good backup that is new enough.
	NotSent Kind = "not-sent"
	// NeverProven means that nobody has opened a backup with the private key.
	NeverProven Kind = "never-proven"
)

// Trouble is one problem with backups.
type Trouble struct {
	Kind Kind
	// Subject is the host or target of the trouble; empty for the site.
	Subject string
	// Why has the figures, worded as a part of a sentence.
	Why string
	// Often is true if it has lasted so long that a person has to act.
	Often bool
	// Held is true if a host knows no wish without mistakes.
	Held bool
}

// oldAfter is the age, in periods, above which the newest good backup is too old. often is the
// number of failures in a row after which a person has to act.
const (
	oldAfter = 2
	often    = 3
)

// Troubles returns the problems with the backups of a site. If no host reports anything there is
// none here: another finding says that the hosts are silent.
func (s Site) Troubles() []Trouble {
	if !s.Known() {
		return nil
	}
	return slices.Concat(s.age(), s.ofHosts(), s.atTargets(), s.proof())
}

// limit is the age above which the newest good backup of the host is too old.
func (h Host) limit() time.Duration { return oldAfter * h.Period }

// limit is the greatest limit of all hosts. They differ right after a change of the schedule.
func (s Site) limit() time.Duration {
	var out time.Duration
	for _, h := range s.Hosts {
		out = max(out, h.limit())
	}
	return out
}

// since is the earliest time at which a host first looked for something to back up.
func (s Site) since() time.Time {
	var out time.Time
	for _, h := range s.Hosts {
		if h.Silent == "" && !h.Since.IsZero() && (out.IsZero() || h.Since.Before(out)) {
			out = h.Since
		}
	}
	return out
}

// age checks the age of the newest good backup of all hosts.
func (s Site) age() []Trouble {
	limit := s.limit()
	host, b, is := s.Newest()
	switch {
	case limit == 0:
		return nil
	case !is && s.since().IsZero(), !is && s.Now.Sub(s.since()) <= limit:
		return nil // the first backups are still to come
	case !is:
		return []Trouble{{Kind: None, Why: s.why(fmt.Sprintf("backups were due for %s", page.Duration(s.Now.Sub(s.since())))), Often: true}}
	case s.Now.Sub(b.Taken) > limit:
		return []Trouble{{Kind: Old, Why: s.why(fmt.Sprintf("it was taken at %s on %s, and the limit is %s", stamp(b.Taken), host, page.Duration(limit))), Often: true}}
	}
	return nil
}

// why adds what keeps the hosts from backups.
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

// ofHosts returns the problems of single hosts.
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
		b, is := h.Newest(s.Now)
		if age := s.Now.Sub(later(b.Taken, h.Since)); h.limit() > 0 && age > h.limit() && !siteOld {
			why := "it has no good backup"
			if is {
				why = "its newest was taken at " + stamp(b.Taken)
			}
			if h.Waits != "" {
				why += "; it waits: " + h.Waits
			}
			out = append(out, Trouble{Kind: HostOld, Subject: h.Name, Why: why})
		}
		if text := strings.Join(h.Refused, "; "); text != "" && !refused[text] {
			refused[text] = true
			out = append(out, Trouble{Kind: Refused, Why: text, Often: true, Held: s.held()})
		}
	}
	return out
}

// held reports whether a host knows no wish without mistakes.
func (s Site) held() bool { return slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.Held }) }

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// atTargets returns the targets without a new good backup. A site that has none at all is told as such.
func (s Site) atTargets() []Trouble {
	if _, _, is := s.Newest(); !is {
		return nil
	}
	var out []Trouble
	for _, name := range s.targets() {
		at, why := s.atTarget(name)
		from := later(at, s.aimedAt(name))
		if s.limit() == 0 || from.IsZero() || s.Now.Sub(from) <= s.limit() {
			continue
		}
		text := "none of the kept backups was read back there"
		if !at.IsZero() {
			text = "the newest copy there was taken at " + stamp(at)
		}
		if why != "" {
			text += ": " + why
		}
		out = append(out, Trouble{Kind: NotSent, Subject: name, Why: text, Often: true})
	}
	return out
}

// Sent returns the time at which the newest good backup was taken that a target has; zero if it has none.
func (s Site) Sent(target string) time.Time {
	at, _ := s.atTarget(target)
	return at
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

// atTarget returns the time at which the newest good backup was taken whose copy at a target was
// read back, and why the target lacks the newest one of all.
func (s Site) atTarget(name string) (newest time.Time, why string) {
	var last time.Time
	for _, h := range s.Hosts {
		for _, b := range h.Kept {
			for _, c := range b.Copies {
				if c.Target != name || !b.Good || model.Ahead(b.Taken, s.Now) {
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

// aimedAt returns since when a target is configured, by the first host that knew it. So a new target has
// time. Of agents that do not tell it, it is when the oldest kept backup was taken that the target was to get.
func (s Site) aimedAt(name string) time.Time {
	var out time.Time
	for _, h := range s.Hosts {
		if at := h.Aimed[name]; !at.IsZero() && (out.IsZero() || at.Before(out)) {
			out = at
		}
	}
	if !out.IsZero() {
		return out
	}
	for _, h := range s.Hosts {
		for _, b := range h.Kept {
			if model.Ahead(b.Taken, s.Now) || !slices.ContainsFunc(b.Copies, func(c Copy) bool { return c.Target == name }) {
				continue
			}
			if out.IsZero() || b.Taken.Before(out) {
				out = b.Taken
			}
		}
	}
	return out
}

// recipients lists the public keys to which the site encrypts.
func (s Site) recipients() []string {
	var out []string
	for _, h := range s.Hosts {
		out = append(out, h.Recipients...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// proof checks that somebody has opened a backup that was encrypted to today's recipients.
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
		return []Trouble{{Kind: NeverProven, Why: "the recipients were changed since the last proof, of " + stamp(s.Proof.Value.At)}}
	}
	return nil
}

// Lines describes the backups of a site for the page of status, in sentences.
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
	if h, _ := s.Host(host); h.Lost && !b.sent() {
		out = append(out, fmt.Sprintf("It lies on %s alone, which is not ready: if that host is lost, so is this backup (holdfast backup now).", host))
	}
	for _, h := range s.Hosts {
		if d := h.Doing; h.Silent == "" && d != nil {
			out = append(out, fmt.Sprintf("%s has been taking one since %s%s.", h.Name, stamp(d.Since), prefixed(": ", d.Phase)))
		}
	}
	for _, h := range s.Hosts {
		if h.Silent == "" && h.Stays != "" {
			out = append(out, fmt.Sprintf("%s removes none: %s.", h.Name, h.Stays))
		}
	}
	for _, h := range s.Hosts {
		if h.Silent == "" && len(h.Left) > 0 {
			out = append(out, fmt.Sprintf("Copies that %s could not remove stay until somebody or the target removes them: %s.", h.Name, strings.Join(h.Left, "; ")))
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

// whereTo says at which targets backups lie, and when the next one is taken.
func (s Site) whereTo() []string {
	var out []string
	if names := s.targets(); len(names) == 0 {
		out = append(out, "They lie only on the control planes: if all of these are lost, so are the backups (holdfast backup configure).")
	} else {
		proof := "it is not known whether anybody has opened one there"
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

// age formats an age. It is never negative, since another clock may have written the time.
func age(d time.Duration) string { return page.Duration(max(d, 0)) }

// size formats a number of bytes.
func size(bytes int64) string {
	switch {
	case bytes <= 0:
		return "of unknown size"
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
