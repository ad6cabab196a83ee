package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// If a verb does not fit a pointer, fmt prints the value behind it without
// calling its methods, secrets included. So every type that holds a secret.Text
// formats itself, whatever the verb.

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
	_, _ = fmt.Fprintf(f, "{HTTPProxy:%s HTTPSProxy:%s NoProxy:%s}",
		redactUserinfo(p.HTTPProxy), redactUserinfo(p.HTTPSProxy), redactUserinfo(p.NoProxy))
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

// redactUserinfo hides every part of a URL that could be a name or a password,
// even if the URL cannot be parsed: everything between the scheme and the last
// @, and everything from a ? or # on.
func redactUserinfo(url string) string {
	if i := strings.LastIndex(url, "@"); i >= 0 {
		scheme := ""
		if j := strings.Index(url[:i], "://"); j >= 0 && isScheme(url[:j]) {
			scheme = url[:j+len("://")]
		}
		url = scheme + secret.Redacted + url[i:]
	}
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		url = url[:i+1] + secret.Redacted
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
