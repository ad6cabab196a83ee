package witness

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Names maps what differs from play to play to its replacement: the name of a
// host to its role, an address to its purpose.
type Names map[string]string

// Figures that differ from play to play.
var figures = []struct {
	form *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b\d{8}-\d{6}-[a-z0-9.-]*[a-z0-9]`), "<name>"}, // of a report: either host may have known first
	{regexp.MustCompile(`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?Z?`), "<time>"},
	{regexp.MustCompile(`\b\d+d(\d+h)?\b|\b\d+h(\d+m)?(\d+s)?\b|\b\d+m(\d+(\.\d+)?s)?\b|\b\d+(\.\d+)?m?s\b`), "<long>"},
	{regexp.MustCompile(`\b\d+ pods?\b`), "N pods"},
	{regexp.MustCompile(`\battempt \d+\b`), "attempt N"},
}

// In returns a text with every name replaced.
func (n Names) In(text string) string {
	for _, name := range n.longestFirst() {
		text = strings.ReplaceAll(text, name, n[name])
	}
	for _, f := range figures {
		text = f.form.ReplaceAllString(text, f.as)
	}
	return text
}

// Within returns the roles that a text names, sorted.
func (n Names) Within(text string) string {
	var found []string
	for _, role := range slices.Compact(slices.Sorted(maps.Values(n))) {
		if slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '_' }), role) {
			found = append(found, role)
		}
	}
	return strings.Join(found, " ")
}

// Sorted returns the roles of hosts.
func (n Names) Sorted(hosts []string) string {
	var out []string
	for _, h := range hosts {
		out = append(out, n.In(h))
	}
	slices.Sort(out)
	return strings.Join(out, " and ")
}

// longestFirst returns the names, the longest first, so that 10.0.0.1 is not
// found in 10.0.0.12.
func (n Names) longestFirst() []string {
	return slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
}
