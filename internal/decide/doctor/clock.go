package doctor

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// clockChecks are about time.
var clockChecks = []Check{
	{
		ID: "clock-sync", Title: "the clock of each host is kept right", For: Everywhere, judge: judgeSync,
		Meaning: "Nothing in the protocol of two hosts trusts clocks, but certificates, tokens, leases and every time that a person compares do. A clock that nobody keeps drifts by seconds a week.",
		Lines: []string{
			"apt install chrony      # or dnf install chrony",
			"chronyc sources -v      # whom it asks; a site without internet needs a source of its own",
			"timedatectl             # System clock synchronized: yes",
		},
	},
	{
		ID: "clock-apart", Title: "the clocks of the hosts agree", For: SeveralCPs, judge: judgeApart,
		Meaning: "Where clocks differ, leases and leader elections of the workload run out early or late, freshly made certificates and tokens are not yet valid, and logs of two hosts cannot be put in order.",
		Lines: []string{
			"chronyc makestep                               # on the host that is off, once its sources are right",
			"holdfast doctor clock-apart --hosts cp-1,cp-2   # measures through ssh, to some tens of milliseconds",
		},
	},
}

func judgeSync(s *sheet) {
	eachHost(s, "clock", func(h Host) state.Fact[Clock] { return h.Clock }, func(h Host, c Clock) {
		switch {
		case c.Synchronised && c.Service == "":
			s.say(finding.OK, h.Name, "synchronised")
		case c.Synchronised:
			s.say(finding.OK, h.Name, "synchronised by %s", c.Service)
		case c.Service == "":
			s.say(finding.Warning, h.Name, "its clock is not synchronised, and no service that would do it runs")
		default:
			s.say(finding.Warning, h.Name, "its clock is not synchronised, although %s runs: it has no source that it trusts", c.Service)
		}
	})
}

// The bounds for clocks that differ. Clocks count as apart only if they
// certainly are, and as close only if they certainly are.
const (
	apartWarning  = 500 * time.Millisecond
	apartCritical = 5 * time.Second
	apartUnsure   = 4 * time.Second
)

func judgeApart(s *sheet) {
	var measured []Host
	eachHost(s, "clock, compared with the others,", func(h Host) state.Fact[Offset] { return h.Offset }, func(h Host, _ Offset) {
		measured = append(measured, h)
	})
	for i, a := range measured {
		for _, b := range measured[i+1:] {
			s.compare(a, b)
		}
	}
}

func (s *sheet) compare(a, b Host) {
	x, y := a.Offset.Value, b.Offset.Value
	least := max(0, x.Low-y.High, y.Low-x.High)
	most := max(x.High-y.Low, y.High-x.Low)
	pair := a.Name + " and " + b.Name
	switch {
	case least > apartCritical:
		s.say(finding.Critical, pair, "their clocks are %s apart, or more", rounded(least))
	case least > apartWarning:
		s.say(finding.Warning, pair, "their clocks are %s apart, or more", rounded(least))
	case most > apartUnsure:
		s.notSeen("%s: their clocks may be up to %s apart, it could not be measured closer", pair, rounded(most))
	default:
		s.say(finding.OK, pair, "at most %s apart", rounded(most))
	}
}
