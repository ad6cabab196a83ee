package arch

import (
	"strings"
	"testing"
)

// absent are programs that people of the field know and no host of ours has, with what serves there.
var absent = map[string]string{
	"crictl": "files in /var/log/pods, pgrep, or ctr --namespace k8s.io",
}

// TestNoTextNamesAProgramThatNoHostHas: a page that somebody opens at night must not name a command that
// is not there. The track record tells of such pages.
func TestNoTextNamesAProgramThatNoHostHas(t *testing.T) {
	seen := 0
	for name, text := range repository(t) {
		theirs := strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "internal/") && !strings.HasSuffix(name, "_test.go")
		if !theirs || name == "docs/TRACK-RECORD.md" {
			continue
		}
		seen++
		for program, instead := range absent {
			if strings.Contains(text, program) {
				t.Errorf("%s names %s, which no host has: %s", name, program, instead)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d texts were read", seen)
	}
}
