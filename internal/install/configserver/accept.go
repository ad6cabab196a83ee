package configserver

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// Negotiate chooses a spec version from the Accept headers of a request and the
// supported versions, which are ordered oldest first and all of one major
// version.
//
// Each Ignition media type names the newest version that the client reads. In
// the order of its q-values, the client gets the newest supported version up to
// that one. A client that names no Ignition media type, or no version, gets the
// newest. A client that names only other major versions gets an error, whose
// text lists the supported ones.
func Negotiate(accept, supported []string) (string, error) {
	newest := supported[len(supported)-1]
	wishes := wishesOf(accept)
	if len(wishes) == 0 {
		return newest, nil
	}
	var old bool
	for _, w := range wishes {
		if w.version == "" {
			return newest, nil
		}
		if v, ok := upTo(w.version, supported); ok {
			return v, nil
		}
		old = old || strings.HasPrefix(w.version, "2.") || w.version == "2"
	}
	words := "the requested Ignition spec version is not supported; supported are " + strings.Join(supported, ", ")
	if old {
		words += "; spec 2 is not served, use an operating system with Ignition 2 (spec 3)"
	}
	return "", errors.New(words)
}

// wish is one Ignition media type of an Accept header.
type wish struct {
	version string
	q       float64
}

// maxWishes bounds the number of media types that are read.
const maxWishes = 64

func wishesOf(accept []string) []wish {
	var wishes []wish
	for _, item := range splitList(strings.Join(accept, ",")) {
		media, params, err := mime.ParseMediaType(item)
		if err != nil || media != ignition.MediaType {
			continue
		}
		w := wish{version: params["version"], q: 1}
		if q, ok := params["q"]; ok {
			w.q = quality(q)
		}
		if w.q > 0 {
			wishes = append(wishes, w)
		}
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(b.q, a.q) })
	return wishes
}

// quality parses a q-value. An invalid one makes its media type the last
// resort.
func quality(s string) float64 {
	q, err := strconv.ParseFloat(s, 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0.0001
	}
	return q
}

// splitList splits a header at commas outside of quotes.
func splitList(s string) []string {
	var items []string
	quoted, escaped, start := false, false, 0
	for i := 0; i < len(s) && len(items) < maxWishes; i++ {
		switch {
		case escaped:
			escaped = false
		case quoted && s[i] == '\\':
			escaped = true
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			items = append(items, s[start:i])
			start = i + 1
		}
	}
	return append(items, s[start:])
}

// upTo returns the newest supported version of the same major that is not newer
// than asked.
func upTo(asked string, supported []string) (string, bool) {
	a, err := parseVersion(asked)
	if err != nil {
		return "", false
	}
	for _, v := range slices.Backward(supported) {
		s, err := parseVersion(v)
		if err == nil && s[0] == a[0] && slices.Compare(s[:], a[:]) <= 0 {
			return v, true
		}
	}
	return "", false
}

// parseVersion accepts "3", "3.4", "3.4.0" and "3.6.0-experimental".
func parseVersion(s string) ([3]int, error) {
	var v [3]int
	numbers, _, _ := strings.Cut(s, "-")
	parts := strings.Split(numbers, ".")
	if len(parts) > len(v) {
		return v, fmt.Errorf("version %q", s)
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return v, fmt.Errorf("version %q", s)
		}
		v[i] = int(n)
	}
	return v, nil
}
