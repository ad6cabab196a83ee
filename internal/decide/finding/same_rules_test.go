package finding

import "testing"

// TestTwoFindingsAreTheSameByWhatTheyAreAbout: the words, how severe it is and what
// helps may change while the problem stays.
func TestTwoFindingsAreTheSameByWhatTheyAreAbout(t *testing.T) {
	f := Finding{ID: "vip-nobody", Subject: "10.0.0.5", Variant: "api", Severity: Warning, Problem: "no host holds it", Meaning: "m", Commands: Anywhere("c"), Page: "p"}
	for rule, c := range map[string]struct {
		change func(*Finding)
		same   bool
	}{
		"nothing is another":          {func(*Finding) {}, true},
		"it is of another kind":       {func(f *Finding) { f.ID = "vip-two" }, false},
		"it is about another one":     {func(f *Finding) { f.Subject = "10.0.0.6" }, false},
		"it is about another part":    {func(f *Finding) { f.Variant = "ingress" }, false},
		"it became more severe":       {func(f *Finding) { f.Severity = Critical }, true},
		"it is said in other words":   {func(f *Finding) { f.Problem, f.Meaning = "nobody has it", "n" }, true},
		"other commands help":         {func(f *Finding) { f.Commands, f.Page = nil, "q" }, true},
		"it concerns the cluster now": {func(f *Finding) { f.Subject = "" }, false},
	} {
		o := f
		c.change(&o)
		if f.Same(o) != c.same || o.Same(f) != c.same {
			t.Errorf("%s: the same is %t, the other way round %t", rule, f.Same(o), o.Same(f))
		}
	}
}
