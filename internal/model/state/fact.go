package state

import (
	"bytes"
	"encoding/json"
)

// Fact is the result of a look-up, which may have failed: a time-out is no
// answer, and no answer is never "no". Its zero value is unknown. In JSON an
// unknown fact is null.
type Fact[T any] struct {
	Known bool
	// Value has a meaning only if Known is true.
	Value T
}

// Known returns a fact with a known value.
func Known[T any](value T) Fact[T] { return Fact[T]{Known: true, Value: value} }

// Is reports whether the fact is known and equal to value.
func Is[T comparable](f Fact[T], value T) bool { return f.Known && f.Value == value }

// MarshalJSON writes null for an unknown fact.
func (f Fact[T]) MarshalJSON() ([]byte, error) {
	if !f.Known {
		return []byte("null"), nil
	}
	return json.Marshal(f.Value)
}

// UnmarshalJSON reads null as unknown.
func (f *Fact[T]) UnmarshalJSON(b []byte) error {
	*f = Fact[T]{}
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		return nil
	}
	f.Known = true
	return json.Unmarshal(b, &f.Value)
}
