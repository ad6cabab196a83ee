// Package encryption decides how the keys of secrets in etcd change while every
// API server can read what any of them has written: the new key is one that all
// read, then the one that all write, then all that is stored is written anew, and
// only then the old key is gone.
package encryption

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where the wish is: a ConfigMap that `holdfast encryption rotate` writes and every
// control plane reads. Numbers are no secret, and it is not encrypted itself.
const (
	WishNamespace = "kube-system"
	WishName      = "holdfast-encryption"
	// WishKeys is the key of its data with the list, WishRewritten that with the
	// number of the key with which all was written anew.
	WishKeys      = "keys"
	WishRewritten = "rewritten"
)

// Keys are numbers of keys, the one that is written with first. 0 is none: clear
// text.
type Keys []int

// errKeys names what a list may be.
var errKeys = errors.New("must be one or two different numbers from 0 on, with a comma between them")

// Parse reads what String wrote.
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

// Accept returns an error where a host does not follow a wish, whoever wrote it:
// nothing takes encryption away from a cluster that has it.
func Accept(have, wish Keys) error {
	if !wish.valid() {
		return fmt.Errorf("keys %q: %w", wish, errKeys)
	}
	if wish[0] == 0 && have[0] != 0 {
		return fmt.Errorf("keys %q: refused, secrets are encrypted here and would be written in clear text", wish)
	}
	return nil
}

// Host is a control plane, or one that is about to be one.
type Host struct {
	Name  string
	Ready bool
	// Loaded are the keys that its API server has; nil where it has not said so.
	Loaded Keys
}

// Seen is what a decision is made from.
type Seen struct {
	// Wish is what every host is to have; nil before the first rotation.
	Wish Keys
	// Rewritten is the key with which all was written anew, 0 where nothing was.
	Rewritten int
	Hosts     []Host
}

// Kind is what is to be done.
type Kind string

// What may be to do.
const (
	// Refuse: it cannot be done, and Why says so.
	Refuse Kind = "refuse"
	// Wait: hosts are to take the wish in first.
	Wait Kind = "wait"
	// Ask: Keys is the next wish.
	Ask Kind = "ask"
	// Rewrite: all that is stored is to be written anew, by Keys[0].
	Rewrite Kind = "rewrite"
	// Done: every host has one key, the same.
	Done Kind = "done"
)

// Step is what is to be done next.
type Step struct {
	Kind Kind
	Keys Keys
	// Why is for a person.
	Why string
}

// Agreed are the keys that are wanted: the wish, or what all hosts have where
// nobody wished anything yet; nil where they do not agree.
func (s Seen) Agreed() Keys {
	if s.Wish != nil || len(s.Hosts) == 0 {
		return s.Wish
	}
	for _, h := range s.Hosts {
		if !slices.Equal(h.Loaded, s.Hosts[0].Loaded) {
			return nil
		}
	}
	return s.Hosts[0].Loaded
}

// Next decides the next step. Where nothing is under way it is done, or begins a
// rotation if that is wanted.
//
// A wish changes only while every control plane is there and has taken in the one
// before: one that is away then comes back to a cluster that has gone on by less
// than it can read.
func Next(s Seen, begin bool) Step {
	if why := away(s.Hosts); why != "" {
		return Step{Kind: Refuse, Why: why}
	}
	now := s.Agreed()
	if !now.valid() {
		return Step{Kind: Refuse, Why: "the control planes do not say that they have the same keys: " + list(s.Hosts)}
	}
	var late []string
	for _, h := range s.Hosts {
		if !slices.Equal(h.Loaded, now) {
			late = append(late, h.Name)
		}
	}
	switch {
	case len(late) > 0:
		return Step{Kind: Wait, Keys: now, Why: fmt.Sprintf("API servers of %s take in %s", strings.Join(late, " and "), words(now))}
	case len(now) == 1 && !begin:
		return Step{Kind: Done, Keys: now, Why: "all have " + words(now) + " and no other"}
	case len(now) == 1:
		next := Keys{now[0], now[0] + 1}
		return Step{Kind: Ask, Keys: next, Why: fmt.Sprintf("all are to read key %d", next[1])}
	case now[0] < now[1]:
		next := Keys{now[1], now[0]}
		return Step{Kind: Ask, Keys: next, Why: fmt.Sprintf("all are to write with key %d", next[0])}
	case s.Rewritten != now[0]:
		return Step{Kind: Rewrite, Keys: now, Why: fmt.Sprintf("all that is stored is written anew, with key %d", now[0])}
	}
	return Step{Kind: Ask, Keys: Keys{now[0]}, Why: fmt.Sprintf("%s is dropped", words(Keys{now[1]}))}
}

// away names the control planes without which no key may change.
func away(hosts []Host) string {
	if len(hosts) == 0 {
		return "no control plane is known"
	}
	var gone, silent []string
	for _, h := range hosts {
		switch {
		case !h.Ready:
			gone = append(gone, h.Name)
		case h.Loaded == nil:
			silent = append(silent, h.Name)
		}
	}
	switch {
	case len(gone) > 0:
		return strings.Join(gone, " and ") + " not ready: a control plane that is away could not read what the others write; bring it back, or delete its Node if it is gone for good"
	case len(silent) > 0:
		return strings.Join(silent, " and ") + " does not say which keys its API server has: the cluster is older than keys, the host is being installed, or its agent does not run"
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
