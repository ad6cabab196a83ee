package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotations of a Node about backups of its host.
const (
	// Annotation holds the Summary of a host. Its agent writes it.
	Annotation = state.AnnotationDomain + "backup"
	// WantedOf is a wish for a backup now: an Asked. Administrators write it, and the
	// operator does before an upgrade. It stays until the next one: the host says in its
	// Summary which one it has answered.
	WantedOf = state.AnnotationDomain + "backup-wanted"
)

// Asked is a wish for a backup now, as it stands in the annotation: a time, a host that is gone and
// the reason, with blanks between them. Only the time is always there.
type Asked struct {
	// Text is the whole wish, by which it is identified.
	Text string
	At   time.Time
	// Gone is a control plane that is lost, or leaves: while it is not Ready, the backup does not wait
	// for its work. Empty for none.
	Gone   string
	Reason string
}

// gone begins the part of a wish that names a host. Agents of earlier releases take it for the
// beginning of the reason.
const gone = "gone="

// Ask returns the text of a wish that is made now.
func Ask(now time.Time, reason string) string { return AskWithout(now, "", reason) }

// AskWithout returns the text of a wish that is made now, and names a control plane that is gone; empty
// for none.
func AskWithout(now time.Time, host, reason string) string {
	text := now.UTC().Format(time.RFC3339Nano)
	if host != "" {
		text += " " + gone + host
	}
	return strings.TrimSpace(text + " " + page.OneLine(reason, maxReason))
}

// ReadAsked reads a wish. If its time cannot be read, the wish counts as made now.
func ReadAsked(text string) Asked {
	when, reason, _ := strings.Cut(strings.TrimSpace(text), " ")
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return Asked{Text: text, Reason: page.OneLine(text, maxReason)}
	}
	a := Asked{Text: text, At: at}
	if after, is := strings.CutPrefix(reason, gone); is {
		a.Gone, reason, _ = strings.Cut(after, " ")
	}
	a.Reason = page.OneLine(reason, maxReason)
	return a
}

// The bounds of a Summary. Every change of a Summary goes to every host.
const (
	maxReason = 80
	maxWhy    = 300
	maxBriefs = 16
	maxLeft   = 4
)

// Summary is the report of a host about its backups. A reader ignores fields that it does not
// know.
type Summary struct {
	// At is the time at which it was written.
	At time.Time `json:"at"`
	// Kept are the backups on this host, the newest first.
	Kept []Brief `json:"kept,omitempty"`
	// Stays says why the host removes none of them although more are there than are to be kept.
	Stays string `json:"stays,omitempty"`
	// Left names copies of removed backups that are still at a target; see Journal.Left.
	Left []string `json:"left,omitempty"`
	// Doing is the run that goes on now; nil if none does.
	Doing *Doing `json:"doing,omitempty"`
	// Failed describes the failures since the last good backup; nil if there is none.
	Failed *Failure `json:"failed,omitempty"`
	// Waits says why a backup that is due has not begun; Due is the time since which it is due.
	Waits string    `json:"waits,omitempty"`
	Due   time.Time `json:"due,omitzero"`
	// Schedule is the site's schedule in words, Period the longest time between two of its
	// times, and Next the time of this host's next backup.
	Schedule string        `json:"schedule"`
	Period   time.Duration `json:"period"`
	Next     time.Time     `json:"next,omitzero"`
	Keep     int           `json:"keep"`
	// Targets are the names of the targets, and Recipients the public keys to which copies
	// at targets are encrypted.
	Targets    []string `json:"targets,omitempty"`
	Recipients []string `json:"recipients,omitempty"`
	// Aimed is since when each target is configured.
	Aimed map[string]time.Time `json:"aimed,omitempty"`
	// Refused lists the mistakes for which the wish of the site is not followed, and its objects
	// that are gone.
	Refused []string `json:"refused,omitempty"`
	// Held is true if the host knows no wish without mistakes: it goes by the default one, and
	// removes no backup.
	Held bool `json:"held,omitempty"`
	// Asked is the last wish of a person that was answered; Answer is the answer.
	Asked  string `json:"asked,omitempty"`
	Answer Answer `json:"answer,omitzero"`
	// Since is the time at which this host first looked.
	Since time.Time `json:"since,omitzero"`
}

// Doing is a run that goes on.
type Doing struct {
	ID     string    `json:"id"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Phase is the phase of the run, in words.
	Phase string `json:"phase,omitempty"`
	// PastEtcd is true once the run asks nothing of etcd any more.
	PastEtcd bool `json:"pastEtcd,omitempty"`
}

// busy reports whether a run needs etcd, so that another host's run waits for its end. One that only
// tends asks nothing of it. A negative age is none: the clock was set.
func (d *Doing) busy(now time.Time) bool {
	return d != nil && d.Reason != Tend && !d.PastEtcd && within(now.Sub(d.Since), longest)
}

// Brief is one backup in short.
type Brief struct {
	ID     string    `json:"id"`
	Taken  time.Time `json:"taken"`
	Reason string    `json:"reason,omitempty"`
	// Good is true if it passed all checks; if not, Why says what is wrong.
	Good     bool   `json:"good"`
	Why      string `json:"why,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	Size     int64  `json:"size,omitempty"`
	// Kubernetes is the version that the host ran.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Release is the digest of the release that its host ran; empty if the host did not
	// know it.
	Release string `json:"release,omitempty"`
	Copies  []Copy `json:"copies,omitempty"`
}

// Copy is the copy of a backup at a target.
type Copy struct {
	Target string `json:"target"`
	// Verified is the time at which it was read back there; zero if it was not.
	Verified time.Time `json:"verified,omitzero"`
	Failed   string    `json:"failed,omitempty"`
	// To identifies the public keys to which the copy was encrypted, as recipientsID does. The keys
	// themselves may be long. Agents of before 2026-11-30 leave it empty.
	To string `json:"to,omitempty"`
}

// recipientsID identifies public keys in a short text, whatever their order; empty for none.
func recipientsID(recipients []string) string {
	if len(recipients) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(slices.Sorted(slices.Values(recipients))), "\n")))
	return hex.EncodeToString(sum[:8])
}

// SentTo reports whether a copy that was read back was encrypted to these public keys. A copy of
// which its host does not say it counts.
func (b Brief) SentTo(recipients []string) bool {
	id := recipientsID(recipients)
	return slices.ContainsFunc(b.Copies, func(c Copy) bool { return !c.Verified.IsZero() && (c.To == "" || c.To == id) })
}

// sent reports whether a target has a copy, which was read back there.
func (b Brief) sent() bool {
	return slices.ContainsFunc(b.Copies, func(c Copy) bool { return !c.Verified.IsZero() })
}

// Newest returns the newest good backup; false if there is none. Those of a clock that was ahead
// do not count, unless no time is given.
func (s Summary) Newest(now time.Time) (Brief, bool) {
	var out Brief
	for _, b := range s.Kept {
		if ahead := !now.IsZero() && model.Ahead(b.Taken, now); b.Good && !ahead && b.Taken.After(out.Taken) {
			out = b
		}
	}
	return out, out.ID != ""
}

// Text encodes a summary. It bounds everything that can grow.
func (s Summary) Text() (string, error) {
	s.Kept = slices.Clone(s.Kept)
	slices.SortStableFunc(s.Kept, func(a, b Brief) int { return b.Taken.Compare(a.Taken) })
	s.Kept = s.short()
	for i := range s.Kept {
		b := &s.Kept[i]
		b.Reason, b.Why, b.Copies = page.OneLine(b.Reason, maxReason), page.OneLine(b.Why, maxWhy), slices.Clone(b.Copies)
		for j := range b.Copies {
			b.Copies[j].Failed = page.OneLine(b.Copies[j].Failed, maxWhy)
		}
	}
	if s.Failed != nil {
		f := *s.Failed
		f.Why = page.OneLine(f.Why, maxWhy)
		s.Failed = &f
	}
	s.Stays = page.OneLine(s.Stays, maxWhy)
	s.Waits, s.Answer.Failed = page.OneLine(s.Waits, maxWhy), page.OneLine(s.Answer.Failed, maxWhy)
	s.Refused = slices.Clone(s.Refused[:min(len(s.Refused), maxBriefs)])
	s.Left = slices.Clone(s.Left[:min(len(s.Left), maxLeft)])
	for _, list := range [][]string{s.Refused, s.Left} {
		for i := range list {
			list[i] = page.OneLine(list[i], maxWhy)
		}
	}
	out, err := json.Marshal(s)
	return string(out), err
}

// short returns the newest backups, and the newest good one even if it is older.
func (s Summary) short() []Brief {
	if len(s.Kept) <= maxBriefs {
		return s.Kept
	}
	out := slices.Clone(s.Kept[:maxBriefs])
	if good, is := s.Newest(s.At); is && !slices.ContainsFunc(out, func(b Brief) bool { return b.ID == good.ID }) {
		out[maxBriefs-1] = good
	}
	return out
}

// ErrNothingSaid is returned if a host has reported nothing about its backups.
var ErrNothingSaid = errors.New("its agent has reported nothing about backups")

// ReadSummary decodes a summary. An empty text is ErrNothingSaid.
func ReadSummary(text string) (Summary, error) {
	var s Summary
	if text == "" {
		return s, ErrNothingSaid
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Summary{}, fmt.Errorf("annotation %s: not readable: %w", Annotation, err)
	}
	return s, nil
}

// WaitsAs reports whether both summaries say that a run waits, and differ in nothing but the words for
// what it waits for.
func (s Summary) WaitsAs(o Summary) bool {
	if s.Waits == "" || o.Waits == "" {
		return false
	}
	s.Waits = o.Waits
	return s.Same(o)
}

// Same reports whether two summaries are equal apart from the time at which they were
// written.
func (s Summary) Same(o Summary) bool {
	s.At, o.At = time.Time{}, time.Time{}
	a, err := s.Text()
	b, wrong := o.Text()
	return err == nil && wrong == nil && a == b
}
