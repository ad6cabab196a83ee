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
		ID: "clock-behind", Title: "no clock is earlier than a certificate of its host", For: Everywhere, judge: judgeBehind,
		Meaning: "A host whose battery is empty boots in an earlier year. There, certificates that were issued since are not valid yet: kubelet, etcd and the API server of that host refuse their peers. If the clock is right, the certificate was issued while another host's clock was ahead; it becomes valid when its time comes, or is made anew.",
		Lines: []string{
			"date -u                 # on that host; compare it with another clock",
			"chronyc makestep        # if chronyc sources -v shows a right source",
			"timedatectl set-time 'YYYY-MM-DD HH:MM:SS'     # without a source, with the time service stopped",
			"hwclock --systohc       # so that the next boot begins with it",
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

// judgeBehind compares the clock of each host with the certificates on it. A
// clock that is behind looks right to a host alone after a boot without a time
// source, but nobody issues a certificate before its time.
func judgeBehind(s *sheet) {
	eachHost(s, "certificates", func(h Host) state.Fact[[]Certificate] { return h.Certificates }, func(h Host, list []Certificate) {
		clock := h.To
		if clock.IsZero() {
			clock = s.At
		}
		var last Certificate
		for _, c := range list {
			if c.Begins.After(last.Begins) {
				last = c
			}
		}
		switch {
		case last.Begins.After(clock):
			s.say(finding.Critical, h.Name, "its clock says %s, and %s is not valid before %s: the clock is behind, or that of the host which issued the certificate was ahead",
				minute(clock), last.Path, minute(last.Begins))
		case !last.Begins.IsZero():
			s.say(finding.OK, h.Name, "its clock says %s; the last certificate is from %s", minute(clock), minute(last.Begins))
		}
	})
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

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
