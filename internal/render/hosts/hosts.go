// Package hosts renders Holdfast's part of /etc/hosts: the API's names at a
// site whose name server does not know them.
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

// Set returns the file with one entry of Holdfast's, which replaces an older
// one. All other bytes stay.
func Set(file []byte, a netip.Addr, names ...string) []byte {
	text := remove(string(file))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fmt.Appendf(nil, "%s%s\n%s %s\n%s\n", text, begin, a, strings.Join(names, " "), end)
}

// remove cuts out Holdfast's part. If somebody removed the end of that part,
// only the line at its beginning is cut out.
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
