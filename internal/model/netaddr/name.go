package netaddr

import "strings"

// The limits of DNS.
const (
	MaxLabel = 63
	maxName  = 253
)

// IsLabel reports whether a text is one label of a DNS name, in lower case.
func IsLabel(s string) bool {
	if s == "" || len(s) > MaxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// IsName reports whether a text is a DNS name in lower case: labels joined by
// dots.
func IsName(s string) bool {
	if len(s) > maxName {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !IsLabel(label) {
			return false
		}
	}
	return true
}
