package state

import (
	"bytes"
	"encoding/json"
	"reflect"
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

// MarshalJSON writes null for an unknown fact. A list or a map that is known to be
// empty is written as that, also if it is nil: null would be read as unknown.
func (f Fact[T]) MarshalJSON() ([]byte, error) {
	if !f.Known {
		return []byte("null"), nil
	}
	out, err := json.Marshal(f.Value)
	if err == nil && string(out) == "null" {
		switch reflect.TypeFor[T]().Kind() { //nolint:exhaustive // all others are never null, or have nothing to say
		case reflect.Slice:
			return []byte("[]"), nil
		case reflect.Map:
			return []byte("{}"), nil
		}
	}
	return out, err
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
