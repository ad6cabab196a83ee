package doctor

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// clockChecks are about time.
var clockChecks = []Check{
	{
		ID: "clock-sync", Title: "the clock of each host is synchronised", For: Everywhere, judge: judgeSync,
		Meaning: "The two-node protocol does not rely on clocks, but certificates, tokens, leases and all times in logs do. A clock that is not synchronised drifts by seconds a week.",
		Lines: []string{
			"apt install chrony      # or dnf install chrony",
			"chronyc sources -v      # the sources in use; a site without internet needs its own",
			"timedatectl             # System clock synchronized: yes",
		},
	},
	{
		ID: "clock-apart", Title: "the clocks of the hosts agree", For: SeveralCPs, judge: judgeApart,
		Meaning: "If clocks differ, leases and leader elections of the workload expire early or late, new certificates and tokens are not valid yet, and the logs of two hosts cannot be put in order.",
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
			s.say(finding.Warning, h.Name, "its clock is not synchronised, and no time service is running")
		default:
			s.say(finding.Warning, h.Name, "its clock is not synchronised, although %s is running: it has no usable time source", c.Service)
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
	eachHost(s, "clock offset", func(h Host) state.Fact[Offset] { return h.Offset }, func(h Host, _ Offset) {
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
		s.say(finding.Critical, pair, "their clocks are at least %s apart", rounded(least))
	case least > apartWarning:
		s.say(finding.Warning, pair, "their clocks are at least %s apart", rounded(least))
	case most > apartUnsure:
		s.notSeen("%s: their clocks may be up to %s apart; a closer measurement was not possible", pair, rounded(most))
	default:
		s.say(finding.OK, pair, "at most %s apart", rounded(most))
	}
}
