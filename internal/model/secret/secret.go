// Package secret is text that nothing prints by mistake.
package secret

import (
	"encoding/json"
	"fmt"
	"io"
)

// Text is a string that neither a formatting verb nor JSON prints. Its value
// is read with Reveal, at the places that hand it on, and written out with the
// rest of a configuration by config.Marshal.
type Text string

// Redacted is what a Text prints as. config.Parse refuses it as a value, so that a
// configuration that was printed and read back cannot pass for the original.
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

// Format implements fmt.Formatter: %d and %x would print a mere Stringer's
// value.
func (s Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalJSON implements json.Marshaler without the value.
func (s Text) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalYAML hides the value from YAML encoders too.
func (s Text) MarshalYAML() (any, error) { return s.String(), nil }

// Reveal returns the value.
func (s Text) Reveal() string { return string(s) }
