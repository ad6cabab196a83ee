package parts_test

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

// TestAHostWhosePodsNobodyReachesIsNamedOnlyIfTheHostAnswers: nothing else is taken for a
// broken pod network.
func TestAHostWhosePodsNobodyReachesIsNamedOnlyIfTheHostAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		list []parts.Reached
		want string
	}{
		{"nobody was asked", nil, ""},
		{"all answer", []parts.Reached{{"a", true, true}, {"b", true, true}}, ""},
		{"a host is off", []parts.Reached{{"a", true, true}, {"b", false, false}}, ""},
		{"a pod answers, and its host does not", []parts.Reached{{"b", true, false}}, ""},
		{"the pod does not answer", []parts.Reached{{"a", true, true}, {"b", false, true}}, "no ready pod of b answers the operator, although the host itself does"},
		{"one of two pods answers", []parts.Reached{{"b", false, true}, {"b", true, true}}, ""},
		{"neither of two pods answers", []parts.Reached{{"b", false, true}, {"b", false, true}}, "no ready pod of b answers the operator, although the host itself does"},
		{"a host that answered once, and then did not", []parts.Reached{{"b", false, true}, {"b", false, false}}, ""},
		{"pods of two hosts", []parts.Reached{{"c", false, true}, {"a", true, true}, {"b", false, true}}, "no ready pod of b and of c answers the operator, although the host itself does"},
	} {
		if got := parts.Unreached(c.list); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
