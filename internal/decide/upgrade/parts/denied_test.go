package parts_test

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

// TestARouterThatDeniesEveryHostIsNamed: nothing else is taken for one.
func TestARouterThatDeniesEveryHostIsNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		list []parts.Asked
		want string
	}{
		{"nobody was asked", nil, ""},
		{"it leads", []parts.Asked{{"a", "x", 200, 200}, {"a", "y", 302, 200}}, ""},
		{"it denies the one host", []parts.Asked{{"a", "x", 404, 200}}, "a answers 404 for x, whose own pod answers 200"},
		{"it denies both", []parts.Asked{{"a", "y", 503, 200}, {"a", "x", 503, 401}}, "a answers 503 for x, whose own pod answers 401"},
		{"it denies one of two", []parts.Asked{{"a", "x", 404, 200}, {"a", "y", 200, 200}}, ""},
		{"the second router denies", []parts.Asked{{"b", "x", 404, 200}, {"a", "x", 200, 200}}, "b answers 404 for x, whose own pod answers 200"},
		{"the pod denies, too", []parts.Asked{{"a", "x", 404, 404}}, ""},
		{"the pod does not answer", []parts.Asked{{"a", "x", 502, 0}}, ""},
		{"a pod that denies tells nothing of the other host", []parts.Asked{{"a", "x", 404, 404}, {"a", "y", 404, 200}}, "a answers 404 for y, whose own pod answers 200"},
		{"the router does not answer", []parts.Asked{{"a", "x", 0, 200}}, ""},
		{"it asks for a name", []parts.Asked{{"a", "x", 401, 200}}, ""},
	} {
		if got := parts.Denied(c.list); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
