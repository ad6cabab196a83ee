package rotation

import (
	"testing"
	"time"
)

// Which wish comes from an older copy of etcd. The rotations are one after the other, an
// hour apart; of those in capital letters the clock of the command was a year ahead.
func TestWhichWishWasReplacedByALaterOne(t *testing.T) {
	at := func(name string) Followed {
		n := time.Duration(name[0]|0x20-'a') * time.Hour
		if name[0] < 'a' {
			n += 365 * 24 * time.Hour
		}
		return Followed{Of: name, Began: began.Add(n)}
	}
	for what, c := range map[string]struct {
		past, wish string
		phase      Phase
		want       bool
	}{
		"the first one":                       {"", "a", Trust, false},
		"a new host":                          {"", "a", Done, false},
		"the present one":                     {"ab", "b", Done, false},
		"the present one, under way":          {"ab", "b", Sign, false},
		"the next one":                        {"ab", "c", Trust, false},
		"it was away during the next one":     {"a", "b", Done, false},
		"the one before":                      {"ab", "a", Done, true},
		"the one before, under way":           {"ab", "a", Trust, true},
		"one of long ago":                     {"abc", "a", Drop, true},
		"it came after that one":              {"b", "a", Done, true},
		"it came after that one, at work":     {"b", "a", Sign, true},
		"it came after that one, at the end":  {"b", "a", Drop, true},
		"it came after that one, begun":       {"b", "a", Trust, false},
		"its files are older, at work":        {"a", "b", Sign, false},
		"it comes in the middle":              {"", "a", Sign, false},
		"the clock was right, and is wrong":   {"aBc", "c", Sign, false},
		"the clock was wrong, and is right":   {"aB", "c", Trust, false},
		"the clock was wrong, the one before": {"aB", "a", Done, true},
		"the clock was wrong before":          {"Ab", "A", Done, true},
		"the clock is wrong":                  {"ab", "C", Done, false},
		"the same again after one more":       {"abc", "b", Done, true},
		"it is wrong, and the host was away":  {"B", "c", Done, true}, // it says so, and a person decides
	} {
		var past Past
		for _, name := range c.past {
			past = past.With(at(string(name)))
		}
		if got := past.Undone(at(c.wish), c.phase); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	unknown := Past{{Of: "b"}}
	if unknown.Undone(Followed{Of: "a"}, Done) || !append(unknown, Followed{Of: "c"}).Undone(Followed{Of: "b"}, Done) {
		t.Error("a host without times knows names")
	}
	if p := (Past{}).With(at("a")); p.Last() != "a" || len(p.With(at("a"))) != 1 || (Past{}).Last() != "" {
		t.Errorf("%+v", p)
	}
}
