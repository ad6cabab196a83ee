package leafcert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Life is the life of a renewed certificate where the site names none.
const Life = config.CertificateLife

// restartWait is the longest time for which a static pod that has not read its
// file waits for its turn. The certificate that it has lasts longer.
const restartWait = time.Hour

// reloadLimit is the time in which an API server shows a new certificate: it
// follows the file, and if that fails, looks once a minute.
const reloadLimit = 2 * time.Minute

// Authority is an authority on a host.
type Authority struct {
	From, Ends time.Time
	// Problem says why it cannot sign here; empty if it can.
	Problem string
}

// File is a leaf certificate that a host has.
type File struct {
	Leaf
	From, Ends time.Time
	// Written is the time at which the file was written.
	Written time.Time
	// Torn is true if the certificate does not belong to the key beside it.
	Torn bool
	// Issuer is its authority.
	Issuer Authority
	// Replaced is true if the static pod Restart still has the former file.
	Replaced bool
}

// Cluster is what the API says of all control planes.
type Cluster struct {
	Nodes []state.Node
	// Spare says whether the other one of two control planes carries on without
	// this one. It counts only with two.
	Spare rollout.Spare
}

// Host holds the facts that Decide decides from.
type Host struct {
	// Name is that of the host's node.
	Name string
	Now  time.Time
	// Life is the life of a new certificate.
	Life time.Duration
	// Files are those that the host has. Unread are the paths of others that are there and cannot be
	// read, and Broken says since when a file was known to be of no use at the last look.
	Files  []File
	Unread []string
	Broken map[string]time.Time
	// ControlPlanes is the number with which the site was installed.
	ControlPlanes int
	// Cluster is unknown while the API does not answer.
	Cluster state.Fact[Cluster]
	// Accepted is true while an administrator's word counts that the clock is right.
	Accepted bool
	// Shows reports whether the host's API server shows the certificate in its
	// file. It is unknown while that server does not answer.
	Shows state.Fact[bool]
}

// Kind names a step.
type Kind string

// The steps.
const (
	// None: nothing is to be done.
	None Kind = "none"
	// Wait: something is to be done, and may not be done yet; Why says for what it
	// waits.
	Wait Kind = "wait"
	// Take: publish that this host renews, and decide again.
	Take Kind = "take"
	// Work: write Renew anew, then restart Restart, one after the other.
	Work Kind = "work"
	// Release: publish that this host does not renew any more. With a Why, nothing
	// was done, and something waits.
	Release Kind = "release"
)

// Step is the next thing to do.
type Step struct {
	Kind    Kind
	Renew   []Leaf
	Restart []string
	// Why explains the step to people.
	Why string
	// Problems keep a certificate from being renewed until a person has acted.
	Problems []string
}

// Pending reports whether anything is to be done now or soon. Only then has
// anybody to ask the API for the rest of the facts.
func (h Host) Pending() bool { return len(h.due()) > 0 || len(h.restarts()) > 0 }

// Decide decides the next step of one control plane. Hosts take turns: a host
// publishes that it renews, and looks then whether another one has published the
// same. No two of them pass that look at the same time.
func Decide(h Host) Step {
	if clock := h.clock(); clock != "" {
		return Step{Kind: None, Problems: []string{clock}}
	}
	due, problems := h.renewable()
	step := Step{Kind: Work, Renew: due, Restart: h.restarts(), Problems: problems}
	for _, l := range due {
		if l.Restart != "" && !slices.Contains(step.Restart, l.Restart) {
			step.Restart = append(step.Restart, l.Restart)
		}
	}
	idle := len(step.Renew)+len(step.Restart) == 0
	switch {
	case idle && !h.turn():
		return Step{Kind: None, Problems: problems}
	case idle && state.Is(h.Shows, false):
		return h.unread(problems)
	case idle:
		return Step{Kind: Release, Problems: problems}
	case h.ControlPlanes == 1, h.urgent():
		return step
	}
	return h.inTurn(step)
}

// inTurn decides about work that may wait.
func (h Host) inTurn(work Step) Step {
	why := h.missing()
	if why == "" {
		why = h.renewing()
	}
	switch {
	case why != "" && h.turn():
		return Step{Kind: Release, Why: why, Problems: work.Problems}
	case why != "":
		return Step{Kind: Wait, Why: why, Problems: work.Problems}
	case !h.turn():
		return Step{Kind: Take, Problems: work.Problems}
	}
	return work
}

// unread keeps the turn while the API server shows another certificate than that
// in its file: the next host waits until a fault has shown.
func (h Host) unread(problems []string) Step {
	const why = "the API server still shows another certificate than that in " + APIServer
	for _, f := range h.Files {
		if f.Path == APIServer && h.Now.Sub(f.Written) > reloadLimit {
			problems = append(problems, why)
		}
	}
	return Step{Kind: Wait, Why: why, Problems: problems}
}

// Saying returns what the node of the host is to say after a step, whether that is another thing
// than it says, and whether what it says is known. A step that changes whether the host renews says
// so itself.
func (h Host) Saying(s Step) (next state.CertificateRenewal, changes, known bool) {
	if !h.Cluster.Known || s.Kind != Wait && s.Kind != None {
		return next, false, false
	}
	for _, n := range h.controlPlanes() {
		if n.Name == h.Name {
			next = state.ParseAnnotation[state.CertificateRenewal](n.Annotations[state.AnnotationRenewal]).Value
			known = true
		}
	}
	why := ""
	if s.Kind == Wait {
		why = h.missing() // the turn of another host is over within a minute
	}
	if !known || next.Waits == why {
		return next, false, known
	}
	if next.Waits == "" || why == "" {
		next.WaitsSince = time.Time{}
	}
	if next.Waits = why; why != "" && next.WaitsSince.IsZero() {
		next.WaitsSince = h.Now.UTC().Truncate(time.Second)
	}
	return next, true, true
}

// due returns the files to renew, whether their authority can sign or not.
func (h Host) due() []File {
	var out []File
	for _, f := range h.Files {
		if h.isDue(f) {
			out = append(out, f)
		}
	}
	return out
}

// isDue reports whether a third of the life is left, or less. A certificate that
// already ends with its authority gains nothing.
func (h Host) isDue(f File) bool {
	if f.Torn || h.ahead(f) {
		return true
	}
	return h.left(f) <= h.life(f)/3 && h.next(f).After(f.Ends)
}

// mustBe reports whether a file is renewed whoever is away: a sixth of its life is
// left, two months of a year, or nobody accepts it.
func (h Host) mustBe(f File) bool { return f.Torn || h.ahead(f) || h.left(f) <= h.life(f)/6 }

// Late returns for each file the time from which on it is renewed whoever is away. One
// that has not been renewed soon after needs a person. A file that is of no use is late since that
// was first seen.
func (h Host) Late() map[string]time.Time {
	out := h.BrokenSince()
	for _, f := range h.Files {
		if !f.Torn {
			out[f.Path] = f.Ends.Add(-h.life(f) / 6)
		}
	}
	return out
}

// BrokenSince returns the files that are there and of no use, each with the time at which that was
// first seen: those that cannot be read, and those whose certificate does not belong to the key.
func (h Host) BrokenSince() map[string]time.Time {
	out := map[string]time.Time{}
	for _, path := range h.Unread {
		out[path] = cmp.Or(h.Broken[path], h.Now)
	}
	for _, f := range h.Files {
		if f.Torn {
			out[f.Path] = cmp.Or(h.Broken[f.Path], h.Now)
		}
	}
	return out
}

func (h Host) left(f File) time.Duration { return f.Ends.Sub(h.Now) }

// life returns the life that counts. A renewed certificate is valid from the day
// of its authority on, which says nothing about its life.
func (h Host) life(f File) time.Duration { return min(f.Ends.Sub(f.From), h.Life) }

// next returns the end that a new certificate would have, as far as that is known.
func (h Host) next(f File) time.Time {
	end := h.Now.Add(h.Life)
	if f.Issuer.Problem == "" && f.Issuer.Ends.Before(end) {
		return f.Issuer.Ends
	}
	return end
}

// renewable returns what is due and can be signed, and why the rest cannot.
func (h Host) renewable() (leaves []Leaf, problems []string) {
	for _, f := range h.due() {
		if f.Issuer.Problem != "" {
			problems = append(problems, fmt.Sprintf("%s expires on %s and cannot be renewed here: %s", f.Path, date(f.Ends), f.Issuer.Problem))
			continue
		}
		leaves = append(leaves, f.Leaf)
	}
	return leaves, problems
}

// restarts returns the static pods that have not read their file.
func (h Host) restarts() []string {
	var out []string
	for _, f := range h.Files {
		if f.Replaced {
			out = append(out, f.Restart)
		}
	}
	return out
}

// urgent reports whether the work does not wait for others any more.
func (h Host) urgent() bool {
	return slices.ContainsFunc(h.Files, func(f File) bool {
		if h.isDue(f) && f.Issuer.Problem == "" && h.mustBe(f) {
			return true
		}
		return f.Replaced && h.Now.Sub(f.Written) >= min(restartWait, h.Life/6)
	})
}

// clock returns why the clock cannot be right; empty if nothing speaks against
// it. With such a clock nothing is judged.
func (h Host) clock() string {
	const says = "the clock of this host says %s, and %s is valid from %s on: compare the clocks (date -u) and set the wrong one (chronyc makestep)"
	leaves, authorities := h.Ahead()
	switch {
	case len(authorities) > 0:
		return fmt.Sprintf(says, stamp(h.Now), authorities[0].Path, stamp(authorities[0].Issuer.From))
	case len(leaves) > 0 && !h.Accepted:
		return fmt.Sprintf(says, stamp(h.Now), leaves[0].Path, stamp(leaves[0].From)) + ", or if this one is right: sudo holdfast certificates clock --accept"
	}
	return ""
}

// missing says what of the redundancy is missing, empty for nothing.
func (h Host) missing() string {
	if !h.Cluster.Known {
		return "the API does not say how the other control planes are"
	}
	var there int
	var away []string
	for _, n := range h.controlPlanes() {
		if !n.Absent {
			there++
		}
		if n.Name != h.Name && (!n.Ready || n.Absent) {
			away = append(away, n.Name)
		}
	}
	spare := h.Cluster.Value.Spare
	switch {
	case len(away) > 0:
		return "not ready: " + strings.Join(away, ", ")
	case there < h.ControlPlanes:
		return fmt.Sprintf("only %d of %d control planes have a Node", there, h.ControlPlanes)
	case h.ControlPlanes == 2 && !state.Is(spare.Carries, true):
		return strings.TrimSuffix("the other control plane could not carry on alone: "+spare.Why, ": ")
	}
	return ""
}

// renewing names other control planes that renew now.
func (h Host) renewing() string {
	var others []string
	for _, n := range h.controlPlanes() {
		if n.Name != h.Name && renews(n) {
			others = append(others, n.Name)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "renewing certificates now: " + strings.Join(others, ", ")
}

// turn reports whether this host has published that it renews.
func (h Host) turn() bool { return Renews(h.Name, h.controlPlanes()) }

// Renews reports whether a host has published that it renews.
func Renews(name string, nodes []state.Node) bool {
	return slices.ContainsFunc(nodes, func(n state.Node) bool { return n.Name == name && renews(n) })
}

func (h Host) controlPlanes() []state.Node {
	return slices.DeleteFunc(slices.Clone(h.Cluster.Value.Nodes), func(n state.Node) bool { return !n.ControlPlane() })
}

func renews(n state.Node) bool {
	r := state.ParseAnnotation[state.CertificateRenewal](n.Annotations[state.AnnotationRenewal])
	return r.Known && !r.Value.Since.IsZero()
}

func date(t time.Time) string  { return t.UTC().Format(time.DateOnly) }
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
