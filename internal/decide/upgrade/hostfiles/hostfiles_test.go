package hostfiles_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatAHostGetsOfAReleaseAndWhatStays: each row is what the release that runs brings, what
// the other one brings, and what the host has. A dash is no file.
func TestWhatAHostGetsOfAReleaseAndWhatStays(t *testing.T) {
	for _, c := range []struct{ was, is, has, want string }{
		{"a", "a", "a", "nothing"},
		{"a", "a", "x", "nothing"},
		{"a", "a", "-", "nothing"},
		{"a", "b", "a", "a to b"},
		{"a", "b", "b", "nothing"},
		{"a", "b", "x", "kept"},
		{"a", "b", "-", "kept"}, // somebody removed it
		{"-", "b", "-", "- to b"},
		{"-", "b", "b", "nothing"},
		{"-", "b", "x", "kept"},
		{"a", "-", "a", "a to -"},
		{"a", "-", "x", "kept"},
		{"a", "-", "-", "nothing"},
	} {
		var was, is []state.File
		if c.was != "-" {
			was = append(was, state.File{Path: "/f", Data: []byte(c.was)})
		}
		if c.is != "-" {
			is = append(is, state.File{Path: "/f", Data: []byte(c.is)})
		}
		has := hostfiles.File{Path: "/f", Data: []byte(c.has), Mode: 0o644}
		if c.has == "-" {
			has = hostfiles.File{Path: "/f", Gone: true}
		}
		from, to, kept := hostfiles.Way(was, is, []hostfiles.File{has}, nil)
		if got := outcome(from, to, kept); got != c.want {
			t.Errorf("%s, %s, and the host has %s: %s, want %s", c.was, c.is, c.has, got, c.want)
		}
		if got := hostfiles.Changes(was, is, has); got != (len(to) > 0) {
			t.Errorf("%s, %s, and the host has %s: the way changes it: %v", c.was, c.is, c.has, got)
		}
	}
}

func outcome(from, to []hostfiles.File, kept []string) string {
	word := func(f hostfiles.File) string {
		if f.Gone {
			return "-"
		}
		return string(f.Data)
	}
	switch {
	case len(from) == 1 && len(to) == 1 && len(kept) == 0:
		return word(from[0]) + " to " + word(to[0])
	case len(from) == 0 && len(to) == 0 && strings.Join(kept, "") == "/f":
		return "kept"
	case len(from) == 0 && len(to) == 0 && len(kept) == 0:
		return "nothing"
	}
	return fmt.Sprint(from, to, kept)
}

// TestAReleaseThatChangesAModeAlone: the way back has the host's own.
func TestAReleaseThatChangesAModeAlone(t *testing.T) {
	was, is := []state.File{{Path: "/f"}}, []state.File{{Path: "/f", Mode: 0o600}}
	from, to, kept := hostfiles.Way(was, is, []hostfiles.File{{Path: "/f", Mode: 0o640}}, nil)
	if len(from) != 1 || from[0].Mode != 0o640 || len(to) != 1 || to[0].Mode != 0o600 || len(kept) > 0 {
		t.Errorf("%v %v %v", from, to, kept)
	}
}

func TestThePathsOfBothReleasesAreLookedAtOnce(t *testing.T) {
	got := hostfiles.Paths([]state.File{{Path: "/b"}, {Path: "/a"}}, []state.File{{Path: "/c"}, {Path: "/a"}})
	if fmt.Sprint(got) != "[/a /b /c]" {
		t.Error(got)
	}
}
