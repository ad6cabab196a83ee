// Package secret provides text that is not printed by mistake.
package secret

import (
	"encoding/json"
	"fmt"
	"io"
)

// Text is a string that neither formatting verbs nor JSON print. Only Reveal
// returns its value, at the places that pass it on, and config.Marshal writes it
// out with the rest of a configuration.
type Text string

// Redacted is printed in place of a Text. config.Parse refuses it as a value, so
// that a configuration that was printed and read back cannot pass for the
// original.
const Redacted = "<redacted>"

// String implements fmt.Stringer without the value.
func (s Text) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString implements fmt.GoStringer without the value.
func (s Text) GoString() string { return s.String() }

// Format implements fmt.Formatter: with String alone, %d and %x would print the
// value.
func (s Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalJSON implements json.Marshaler without the value.
func (s Text) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalYAML also hides the value from YAML encoders.
func (s Text) MarshalYAML() (any, error) { return s.String(), nil }

// Reveal returns the value.
func (s Text) Reveal() string { return string(s) }
