package hostfiles_test

import (
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
)

// TestWhatBecomesOfAnArgument: each row is what the former release gave, what the other one
// gives, and what the program has. A dash is no argument, a question mark a release that does
// not say.
func TestWhatBecomesOfAnArgument(t *testing.T) {
	of := func(text string) map[string]string {
		switch text {
		case "?":
			return nil
		case "-":
			return map[string]string{"other": "stays"}
		}
		return map[string]string{"other": "stays", "a": text}
	}
	for _, c := range []struct{ was, is, has, want string }{
		{"1", "1", "1", "map[] [] []"},
		{"1", "1", "9", "map[] [] []"}, // a person's, and no release wants it otherwise
		{"1", "1", "-", "map[] [] []"},
		{"1", "2", "1", "map[a:2] [] []"},
		{"1", "2", "2", "map[] [] []"},
		{"1", "2", "9", "map[] [] [a]"},
		{"1", "2", "-", "map[] [] [a]"},
		{"-", "2", "-", "map[a:2] [] []"},
		{"-", "2", "9", "map[] [] [a]"},
		{"1", "-", "1", "map[] [a] []"},
		{"1", "-", "9", "map[] [] [a]"},
		{"1", "-", "-", "map[] [] []"},
		{"?", "2", "-", "map[a:2] [] []"},
		{"?", "2", "9", "map[a:2] [] []"},
		{"?", "-", "9", "map[] [] []"},
	} {
		set, drop, kept := hostfiles.Arguments(of(c.has), of(c.was), of(c.is))
		if got := fmt.Sprint(set, drop, kept); got != c.want {
			t.Errorf("%s, %s, and the program has %s: %s, want %s", c.was, c.is, c.has, got, c.want)
		}
	}
}
