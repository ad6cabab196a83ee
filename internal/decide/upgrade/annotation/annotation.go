// Package annotation holds what hosts, the operator and administrators write about an
// upgrade into objects of the API: names of annotations, and their formats.
//
// Two releases read each other's annotations in the middle of an upgrade. A reader
// ignores fields that it does not know. A field that changes what a reader may
// conclude gets a new format number, and a reader takes a number that it does not
// know as if nothing had been written.
package annotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotations of a Node.
const (
	// HostOf is written by the agent of the host: a Host.
	HostOf = "holdfast.io/upgrade-host"
	// TurnOf is written by the operator: the Turn of the host.
	TurnOf = "holdfast.io/upgrade-turn"
	// FetchOf is written by the operator: a Fetch.
	FetchOf = "holdfast.io/upgrade-fetch"
	// PartOf is written by the operator to one control plane: a Part.
	PartOf = "holdfast.io/upgrade-part"
)

// GivenByOperator are the annotations of a Node that the operator alone writes.
func GivenByOperator() []string { return []string{TurnOf, FetchOf, PartOf} }

// Annotations of the ClusterVersion "version", all written by administrators.
const (
	// PausedBy holds the reason for which no further host begins.
	PausedBy = "holdfast.io/upgrade-paused"
	// CommitOf holds the id of the upgrade whose soak is to end now.
	CommitOf = "holdfast.io/upgrade-commit"
	// OverridesOf holds a JSON list of Override.
	OverridesOf = "holdfast.io/upgrade-overrides"
	// SourcesOf holds where the releases of spec.desiredUpdate lie: a Sources.
	SourcesOf = "holdfast.io/upgrade-sources"
	// SoakOf holds the soak as a duration such as 24h, or "off".
	SoakOf = "holdfast.io/upgrade-soak"
	// OfferOf holds the digest of a release that all hosts fetch, and nobody wants to be
	// installed yet.
	OfferOf = "holdfast.io/upgrade-offer"
)

// GivenByPeople are the annotations of the ClusterVersion. One of a later release is refused by
// an earlier one: none that an upgrade leaves in place may be new.
func GivenByPeople() []string {
	return []string{PausedBy, CommitOf, OverridesOf, SourcesOf, SoakOf, OfferOf}
}

// VersionName is the name of the one ClusterVersion.
const VersionName = "version"

// DefaultSoak is how long a site is to be healthy on a new release where nobody says
// otherwise. With SoakOff as the value of SoakOf only a person commits.
const (
	DefaultSoak = 24 * time.Hour
	SoakOff     = "off"
)

// ParseSoak reads a soak: a duration such as 24h, or SoakOff.
func ParseSoak(text string) (soak time.Duration, off bool, err error) {
	if text == SoakOff {
		return 0, true, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, false, fmt.Errorf("soak %q: must be a time with its unit, for example 24h, or off", text)
	}
	return d, false, nil
}

// The record of an upgrade that is under way: a ConfigMap that the operator alone
// writes.
const (
	RecordNamespace = "kube-system"
	RecordName      = "holdfast-upgrade"
	RecordKey       = "record"
)

// format is the number that this release writes and the highest that it reads.
const format = 1

// ErrNewer says that a later release has written something that this one cannot
// read.
var ErrNewer = errors.New("a later release of Holdfast has written it")

// Host is what the agent of a host tells of it.
type Host struct {
	Format int `json:"format"`
	// At is when the agent looked.
	At time.Time `json:"at"`
	// Facts are those that the gates ask of the host. What only the API or a peer
	// knows is unknown here, and the operator adds it.
	Facts gate.Host `json:"facts"`
	// Release describes the release that runs, and Offered the ones that lie there
	// whole beside it.
	Release gate.Release   `json:"release"`
	Offered []gate.Release `json:"offered,omitempty"`
	// Journal is the host's own, of its way to another release.
	Journal parachute.Journal `json:"journal,omitzero"`
	// Held is why the host holds and a person should look; empty if it goes on.
	Held string `json:"held,omitempty"`
	// Fetching says how far a fetch is, and FetchFailed why the last attempt failed.
	Fetching    string `json:"fetching,omitempty"`
	FetchFailed string `json:"fetchFailed,omitempty"`
	// PartFailed is why the part that the host was last told to bring was not brought;
	// empty if it was, or is on its way.
	PartFailed string `json:"partFailed,omitempty"`
	// PartUndone is true if the part was brought, did not start, and was set back.
	PartUndone bool `json:"partUndone,omitempty"`
	// Raised is true once the host works at the functional level of the release that
	// runs.
	Raised state.Fact[bool] `json:"raised"`
}

// Releases returns the release that runs on the host, first, and those that lie there whole.
func (h Host) Releases() []gate.Release { return append([]gate.Release{h.Release}, h.Offered...) }

// Turn is what the cluster wants of a host.
type Turn struct {
	Format  int            `json:"format"`
	Wish    parachute.Wish `json:"wish"`
	Upgrade string         `json:"upgrade,omitempty"`
	From    string         `json:"from,omitempty"`
	To      string         `json:"to,omitempty"`
	// Closed is true once the record says that the way back is closed, and Raise once
	// the host is to work at the functional level of the release that runs.
	Closed bool `json:"closed,omitempty"`
	Raise  bool `json:"raise,omitempty"`
	// Kubelet is true once its kubelet is to be raised too: all API servers were.
	Kubelet bool `json:"kubelet,omitempty"`
	// Attempt is which attempt of the host the turn is for. An operator of a release of before leaves
	// it out, and a host decides alone then.
	Attempt int `json:"attempt,omitempty"`
	// Back is true if the site goes back, and the host goes to the old release as to any other. An
	// operator of a release of before leaves it out.
	Back bool `json:"back,omitempty"`
}

// Of returns the turn as a host decides from it.
func (t Turn) Of() parachute.Turn {
	return parachute.Turn{Wish: t.Wish, Upgrade: t.Upgrade, From: t.From, To: t.To, Raise: t.Raise && t.Closed, Kubelet: t.Kubelet, Attempt: t.Attempt, Back: t.Back}
}

// Fetch is which releases are to lie on a host, and where they are to be had.
type Fetch struct {
	Format int `json:"format"`
	// Wanted are digests. A host removes no release that is wanted, that runs, or to
	// which it may return.
	Wanted  []string `json:"wanted"`
	Sources Sources  `json:"sources,omitzero"`
}

// Part is what a control plane is to bring to the cluster: the part of that name, as the
// release has it.
type Part struct {
	Format  int    `json:"format"`
	Upgrade string `json:"upgrade"`
	Release string `json:"release"`
	Part    string `json:"part"`
	// Back is true on the way back. Operators of earlier releases do not say it.
	Back bool `json:"back,omitempty"`
}

// Brought names the objects of the API that releases have brought to the site.
type Brought struct {
	Format  int               `json:"format"`
	Objects []state.ObjectRef `json:"objects"`
}

// Sources is where releases are to be had. Whatever the source, a host compares each
// byte with the digest.
type Sources struct {
	// Registry is a repository such as registry.example/holdfast/release; empty for
	// none. Folder is a path on the host, such as that of a stick.
	Registry string `json:"registry,omitempty"`
	Folder   string `json:"folder,omitempty"`
}

// Override skips a gate.
type Override struct {
	Gate   gate.ID   `json:"gate"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// written is what every format has in common.
type written interface {
	Host | Turn | Fetch | Record | Part | Brought
}

// Encode writes an annotation in the present format.
func Encode[T written](value T) (string, error) {
	switch v := any(&value).(type) {
	case *Host:
		v.Format = format
	case *Turn:
		v.Format = format
	case *Fetch:
		v.Format = format
	case *Record:
		v.Format = format
	case *Part:
		v.Format = format
	case *Brought:
		v.Format = format
	}
	out, err := json.Marshal(value)
	return string(out), err
}

// Decode reads an annotation. An empty text gives the zero value. The error is
// ErrNewer if a later release wrote it; whoever gets an error knows nothing.
func Decode[T written](text string) (T, error) {
	var zero, value T
	if text == "" {
		return zero, nil
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return zero, fmt.Errorf("not readable: %w", err)
	}
	switch {
	case head.Format > format:
		return zero, ErrNewer
	case head.Format < 1:
		return zero, errors.New("not readable: it has no format number")
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return zero, fmt.Errorf("not readable: %w", err)
	}
	return value, nil
}
