package vips

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/viprule"
)

// Verdict is the result of checking one rule.
type Verdict string

// The verdicts.
const (
	Passed   Verdict = "passed"
	Failed   Verdict = "failed"
	NotKnown Verdict = "unknown"
)

// Check is the result of one rule, for an administrator.
type Check struct {
	Rule     viprule.Rule `json:"rule"`
	Sentence string       `json:"sentence"`
	Verdict  Verdict      `json:"verdict"`
	// Details lists the mistakes, each with its field, or why the verdict is
	// unknown.
	Details []string `json:"details,omitempty"`
}

// Checks lists every rule with its verdict. The rules about hosts are checked only
// when all others are kept.
func (d Decision) Checks() []Check {
	early := slices.ContainsFunc(d.Findings, func(f viprule.Finding) bool { return !slices.Contains(hostRules, f.Rule) })
	var out []Check
	for _, r := range viprule.Rules() {
		c := Check{Rule: r, Sentence: r.Sentence(), Verdict: Passed}
		for _, f := range d.Findings {
			if f.Rule == r {
				c.Verdict = Failed
				c.Details = append(c.Details, f.Err.Error())
			}
		}
		why, unknown := d.Unknown[r]
		switch {
		case c.Verdict == Failed:
		case early && slices.Contains(hostRules, r), r == viprule.Nobody && len(d.Findings) > 0:
			c.Verdict, c.Details = NotKnown, []string{"checked only once all other rules are kept"}
		case unknown:
			c.Verdict, c.Details = NotKnown, []string{why}
		}
		out = append(out, c)
	}
	return out
}

// hostRules are the rules about the hosts of a cluster.
var hostRules = []viprule.Rule{viprule.NotANode, viprule.NotAGateway, viprule.HostsFamily, viprule.HostsHold, viprule.Nobody}
