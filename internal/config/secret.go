package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Secret is a string that neither a formatting verb nor JSON prints. Its value
// is read with Reveal, at the places that hand it on, and written out with the
// rest of a configuration by Marshal.
type Secret string

// Redacted is what a Secret prints as. Parse refuses it as a value, so that a
// configuration that was printed and read back cannot pass for the original.
const Redacted = "<redacted>"

// String implements fmt.Stringer without the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString implements fmt.GoStringer without the value.
func (s Secret) GoString() string { return s.String() }

// Format implements fmt.Formatter: %d and %x would print a mere Stringer's
// value.
func (s Secret) Format(f fmt.State, _ rune) { writeString(f, s.String()) }

// MarshalJSON implements json.Marshaler without the value.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalYAML hides the value from YAML encoders too.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// A verb that does not fit a pointer makes fmt print what it points to without
// asking its methods, secrets included. So every type above a Secret formats
// itself, whatever the verb.

// Format implements fmt.Formatter without secrets.
func (c InstallConfig) Format(f fmt.State, _ rune) {
	type plain InstallConfig
	_, _ = fmt.Fprintf(f, "%+v", plain(c))
}

// Format implements fmt.Formatter without secrets.
func (x Fencing) Format(f fmt.State, _ rune) {
	type plain Fencing
	_, _ = fmt.Fprintf(f, "%+v", plain(x))
}

// Format implements fmt.Formatter without secrets.
func (x FencingCredential) Format(f fmt.State, _ rune) {
	type plain FencingCredential
	_, _ = fmt.Fprintf(f, "%+v", plain(x))
}

// Format implements fmt.Formatter without secrets.
func (p BareMetalPlatform) Format(f fmt.State, _ rune) {
	type plain BareMetalPlatform
	_, _ = fmt.Fprintf(f, "%+v", plain(p))
}

// Format implements fmt.Formatter without secrets.
func (h Host) Format(f fmt.State, _ rune) {
	type plain Host
	_, _ = fmt.Fprintf(f, "%+v", plain(h))
}

// Format implements fmt.Formatter without secrets.
func (b BMC) Format(f fmt.State, _ rune) {
	type plain BMC
	_, _ = fmt.Fprintf(f, "%+v", plain(b))
}

// Format implements fmt.Formatter without the names and passwords in URLs.
func (p Proxy) Format(f fmt.State, _ rune) {
	writeString(f, fmt.Sprintf("{HTTPProxy:%s HTTPSProxy:%s NoProxy:%s}",
		redactUserinfo(p.HTTPProxy), redactUserinfo(p.HTTPSProxy), redactUserinfo(p.NoProxy)))
}

// MarshalJSON implements json.Marshaler without the names and passwords in
// URLs.
func (p Proxy) MarshalJSON() ([]byte, error) {
	type plain Proxy
	return json.Marshal(plain{
		HTTPProxy:  redactUserinfo(p.HTTPProxy),
		HTTPSProxy: redactUserinfo(p.HTTPSProxy),
		NoProxy:    redactUserinfo(p.NoProxy),
	})
}

// redactUserinfo hides all that could be a name or a password in a URL,
// whether or not the rest of it can be parsed: everything between the scheme
// and the last @, and everything from a ? or # on.
func redactUserinfo(url string) string {
	if i := strings.LastIndex(url, "@"); i >= 0 {
		scheme := ""
		if j := strings.Index(url[:i], "://"); j >= 0 && isScheme(url[:j]) {
			scheme = url[:j+len("://")]
		}
		url = scheme + Redacted + url[i:]
	}
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		url = url[:i+1] + Redacted
	}
	return url
}

func isScheme(s string) bool {
	if len(s) > 32 {
		return false
	}
	for _, r := range s {
		if !isASCIILetter(r) && !isDigit(r) && !strings.ContainsRune("+-.", r) {
			return false
		}
	}
	return s != ""
}

func isASCIILetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// writeString writes to a fmt.State, whose errors nobody sees.
func writeString(w io.Writer, s string) { _, _ = io.WriteString(w, s) }
