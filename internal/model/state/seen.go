package state

import (
	"encoding/json"
	"time"
)

// Seen is a fact with its source and its time, or with the reason why it is
// unknown. Its zero value is unknown.
type Seen[T any] struct {
	Known bool
	// Value has a meaning only if Known is true.
	Value T
	// From names the source: "the API", or a host's name.
	From string
	// At is when the fact was observed, zero if the source does not tell.
	At time.Time
	// Why says why the fact is unknown, empty if no more can be said. Lack is the
	// kind of that reason.
	Why  string
	Lack Lack
}

// Lack is the kind of reason for which a fact is unknown.
type Lack string

// The kinds of reasons.
const (
	LackOther  Lack = ""       // the source failed, or nobody asked it
	LackAbsent Lack = "absent" // the source does not exist: nothing of that kind is there
	LackDenied Lack = "denied" // only root may read the source
)

// See makes a known fact.
func See[T any](value T, from string, at time.Time) Seen[T] {
	return Seen[T]{Known: true, Value: value, From: from, At: at}
}

// Fact returns the fact without its source.
func (s Seen[T]) Fact() Fact[T] { return Fact[T]{Known: s.Known, Value: s.Value} }

// seen is the form of a Seen in JSON. The value stands there only if it is known.
type seen[T any] struct {
	Known bool      `json:"known"`
	Value *T        `json:"value,omitempty"`
	From  string    `json:"from,omitempty"`
	At    time.Time `json:"at,omitzero"`
	Why   string    `json:"why,omitempty"`
	Lack  Lack      `json:"lack,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s Seen[T]) MarshalJSON() ([]byte, error) {
	out := seen[T]{s.Known, nil, s.From, s.At, s.Why, s.Lack}
	if s.Known {
		out.Value = &s.Value
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seen[T]) UnmarshalJSON(b []byte) error {
	var in seen[T]
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*s = Seen[T]{Known: in.Known, From: in.From, At: in.At, Why: in.Why, Lack: in.Lack}
	if in.Value != nil {
		s.Value = *in.Value
	}
	return nil
}
