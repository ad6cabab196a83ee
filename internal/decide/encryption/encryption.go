// Package encryption decides how the keys of secrets in etcd change while every
// API server can read what any of them has written. First all read the new key,
// then all write with it, then everything stored is written anew, and only then
// the old key is dropped.
package encryption

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The place of the wish: a ConfigMap that `holdfast encryption rotate` writes
// and every control plane reads. It holds numbers of keys, which are no secret,
// and is itself not encrypted.
const (
	WishNamespace = "kube-system"
	WishName      = "holdfast-encryption"
	// WishKeys is the data key of the list, WishRewritten that of the number of the
	// encryption key with which everything was written anew, WishAt that of the time
	// of the wish.
	WishKeys      = "keys"
	WishRewritten = "rewritten"
	WishAt        = "at"
)

// Keys lists numbers of keys; the first one is used for writing. 0 stands for no
// key: clear text.
type Keys []int

// errKeys describes a valid list.
var errKeys = errors.New("must be one or two different numbers from 0 on, with a comma between them")

// Parse reads the form that String writes.
func Parse(text string) (Keys, error) {
	var out Keys
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("keys %q: %w", text, errKeys)
		}
		out = append(out, n)
	}
	if !out.valid() {
		return nil, fmt.Errorf("keys %q: %w", text, errKeys)
	}
	return out, nil
}

func (k Keys) String() string {
	var words []string
	for _, n := range k {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

func (k Keys) valid() bool {
	return (len(k) == 1 || len(k) == 2 && k[0] != k[1]) && !slices.ContainsFunc(k, func(n int) bool { return n < 0 })
}

// Accept returns an error if a host must not follow a wish, whoever wrote it: no
// wish takes encryption away from a cluster that has it.
func Accept(have, wish Keys) error {
	if !wish.valid() {
		return fmt.Errorf("keys %q: %w", wish, errKeys)
	}
	if wish[0] == 0 && have[0] != 0 {
		return fmt.Errorf("keys %q: refused: secrets are encrypted on this host and would be written in clear text", wish)
	}
	return nil
}

// Host is a control plane, or a host that is about to become one.
type Host struct {
	Name  string
	Ready bool
	// Joins is true for a host that says itself that it becomes a control plane, and is none yet.
	Joins bool
	// ControlPlanes is the number of which the host knows, zero if it does not say.
	ControlPlanes int
	// Loaded holds the keys that its API server has; nil if it has not published
	// them.
	Loaded Keys
	// Kept is true if the last of them is one that the host keeps though nobody wants it.
	Kept bool
}

// wanted are its keys without one that it keeps.
func (h Host) wanted() Keys {
	if h.Kept && len(h.Loaded) == 2 {
		return h.Loaded[:1]
	}
	return h.Loaded
}

// Seen holds the facts that Next decides from.
type Seen struct {
	// Wish holds the keys that every host is to have; nil before the first
	// rotation.
	Wish Keys
	// Rewritten is the key with which everything was last written anew, 0 for
	// never.
	Rewritten int
	Hosts     []Host
	// AtWork says which other work holds the keys as they are, such as a control plane that
	// comes with those of now; empty without.
	AtWork string
}

// Kind names a step.
type Kind string

// The steps.
const (
	// Refuse: nothing may be done now; Why gives the reason.
	Refuse Kind = "refuse"
	// Wait: some hosts have not loaded the wanted keys yet.
	Wait Kind = "wait"
	// Ask: Keys is the next wish to write.
	Ask Kind = "ask"
	// Rewrite: everything stored must be written anew, with Keys[0].
	Rewrite Kind = "rewrite"
	// Done: every host has one key, the same one.
	Done Kind = "done"
)

// Step is the next thing to do.
type Step struct {
	Kind Kind
	Keys Keys
	// Again is true for a wish after which everything is rewritten, though it was before.
	Again bool
	// Why explains the step to people.
	Why string
}

// Agreed returns the wanted keys: the wish, or before the first wish the keys
// that all hosts have, but for those that they keep; nil if the hosts differ.
func (s Seen) Agreed() Keys {
	if s.Wish != nil || len(s.Hosts) == 0 {
		return s.Wish
	}
	for _, h := range s.Hosts {
		if !slices.Equal(h.wanted(), s.Hosts[0].wanted()) {
			return nil
		}
	}
	return s.Hosts[0].wanted()
}

// Next decides the next step. If no rotation is under way it is Done, or begins
// one if begin is set.
//
// The wish changes only while every control plane is there and has loaded the
// previous one. So the cluster goes on by at most one step while a control plane
// is away, and that host can still read everything when it comes back. A host without a
// Node counts as away: it may have an earlier wish. So may one that is being installed.
func Next(s Seen, begin bool) Step {
	if why := s.away(); why != "" {
		return Step{Kind: Refuse, Why: why}
	}
	step := s.next(begin)
	if changes := step.Kind == Ask || step.Kind == Rewrite; changes && s.AtWork != "" && !step.Again { // one more key to read harms nobody who comes
		return Step{Kind: Refuse, Why: s.AtWork}
	}
	return step
}

// next decides the next step of control planes that are all there.
func (s Seen) next(begin bool) Step {
	now := s.Agreed()
	if !now.valid() {
		return Step{Kind: Refuse, Why: "the control planes do not agree on valid keys: " + list(s.Hosts)}
	}
	var late []string
	var keeps *Host
	for i, h := range s.Hosts {
		switch {
		case h.Kept && !h.Joins && len(now) == 1 && len(h.Loaded) == 2 && h.Loaded[0] == now[0]:
			keeps = &s.Hosts[i]
		case h.Kept || !slices.Equal(h.Loaded, now):
			late = append(late, h.Name)
		}
	}
	switch {
	case len(late) > 0:
		return Step{Kind: Wait, Keys: now, Why: fmt.Sprintf("waiting for the API servers of %s to load: %s", strings.Join(late, " and "), words(now))}
	case keeps != nil:
		return Step{Kind: Ask, Keys: slices.Clone(keeps.Loaded), Again: true, Why: fmt.Sprintf(
			"%s may have written with %s, which is not wanted now: every host must be able to read it, and everything is rewritten", keeps.Name, words(keeps.Loaded[1:]))}
	case len(now) == 1 && !begin:
		return Step{Kind: Done, Keys: now, Why: "all have " + words(now) + " and no other key"}
	case len(now) == 1:
		next := Keys{now[0], now[0] + 1}
		return Step{Kind: Ask, Keys: next, Why: fmt.Sprintf("every host must be able to read key %d", next[1])}
	case now[0] < now[1]:
		next := Keys{now[1], now[0]}
		return Step{Kind: Ask, Keys: next, Why: fmt.Sprintf("every host must write with key %d", next[0])}
	case s.Rewritten != now[0]:
		return Step{Kind: Rewrite, Keys: now, Why: fmt.Sprintf("everything stored is rewritten with key %d", now[0])}
	}
	return Step{Kind: Ask, Keys: Keys{now[0]}, Why: fmt.Sprintf("%s is dropped", words(Keys{now[1]}))}
}

// away says which control planes are missing for a change of keys, empty if
// none.
func (s Seen) away() string {
	if len(s.Hosts) == 0 {
		return "no control plane is known"
	}
	var gone, silent []string
	of, have := 0, 0
	for _, h := range s.Hosts {
		if of = max(of, h.ControlPlanes); !h.Joins {
			have++
		}
		switch {
		case !h.Ready:
			gone = append(gone, h.Name)
		case h.Loaded == nil:
			silent = append(silent, h.Name)
		}
	}
	switch {
	case len(gone) > 0:
		return strings.Join(gone, " and ") + " not ready: an absent control plane could not read what the others write; bring it back, or if it is gone for good: holdfast host replace " + strings.Join(gone, "; holdfast host replace ")
	case len(silent) > 0:
		return strings.Join(silent, " and ") + " does not report the keys of its API server: the cluster was installed before encryption existed, the host is being installed, or its agent is not running"
	case of == 0:
		return "no control plane says how many the site has: their agents are not running, or do not read the wishes for authorities (holdfast ca show)"
	case have < of:
		return fmt.Sprintf("only %d of %d control planes have a Node: the other one may come back with earlier keys; bring it back, or if it is gone for good: holdfast host replace NAME", have, of)
	}
	return ""
}

func list(hosts []Host) string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name+" "+words(h.Loaded))
	}
	return strings.Join(out, ", ")
}

func words(k Keys) string {
	switch {
	case len(k) == 0:
		return "nothing"
	case len(k) == 1 && k[0] == 0:
		return "clear text"
	case len(k) == 1:
		return "key " + strconv.Itoa(k[0])
	}
	return fmt.Sprintf("%s to write, %s to read", words(k[:1]), words(k[1:]))
}
