// Package hosts renders the part of /etc/hosts that is Holdfast's: the API's
// names at a site whose name server does not know them.
package hosts

import (
	"fmt"
	"net/netip"
	"strings"
)

// Path is the file on the host.
const Path = "/etc/hosts"

// The lines around Holdfast's part.
const (
	begin = "# holdfast: the API's names, since no name server knows them"
	end   = "# holdfast: end"
)

// Set returns the file with one entry of Holdfast's, in the place of an older
// one if there is any. All else stays byte for byte.
func Set(file []byte, a netip.Addr, names ...string) []byte {
	text := remove(string(file))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fmt.Appendf(nil, "%s%s\n%s %s\n%s\n", text, begin, a, strings.Join(names, " "), end)
}

// remove cuts Holdfast's part out. A part without an end was cut off by hand:
// only its own lines go.
func remove(text string) string {
	before, rest, found := strings.Cut(text, begin+"\n")
	if !found {
		return text
	}
	if _, after, whole := strings.Cut(rest, end+"\n"); whole {
		return before + after
	}
	return before + rest
}
