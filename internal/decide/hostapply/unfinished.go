package hostapply

import (
	"cmp"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// A way back that ends on a host that is not ready leaves the files of Good, and maybe programs
// or a kernel that run with something else. Nobody calls that done: the next way boots the host,
// also one to Good itself. If that fails too, the host rests until it is given something else, or
// a boot that somebody wants shows that it is ready. So no host boots again and again.

// notEnded is why a host may run with something else than it has.
const notEnded = "an earlier way back did not end"

// whole reports whether no way back has ended on a host that was not ready. An earlier release
// tells that in Why alone.
func (j Journal) whole() bool {
	return j.Unfinished == "" && !strings.Contains(j.Why, rollout.BackWith)
}

// unfinished returns the boot that saw such an end; empty if none did. An earlier release
// does not name it: it may have been the present one.
func (j Journal) unfinished(boot string) string {
	if j.whole() {
		return ""
	}
	return cmp.Or(j.Unfinished, boot)
}

// MustBoot reports whether the way of a host boots it whatever the way changes: an order failed
// on the way back, or the host has not booted since a way back that did not end.
func (j Journal) MustBoot(boot string) bool {
	return j.Phase == Booting || j.untold(boot)
}

// untold reports whether the host has not booted since a way back that did not end.
func (j Journal) untold(boot string) bool {
	return !j.Back && !j.whole() && j.unfinished(boot) == boot
}

// needs returns the facts of a way that boots for that.
func (j Journal) needs(f Facts) Facts {
	if j.untold(f.Boot) {
		f.Reboots, f.Drains = true, f.Drains || f.ByHand == ""
	}
	return f
}

// unsure returns what a way leaves of an earlier one back that did not end: nothing if the
// host has booted since.
func (w *way) unsure() string {
	if w.j.Unfinished != w.j.Boot {
		return ""
	}
	return w.j.Unfinished
}

// backWith adds to the reason of a way back what fails on it.
func (j Journal) backWith(what string) string {
	if strings.Contains(j.Why, rollout.BackWith) {
		return j.Why + "; " + what
	}
	return cmp.Or(j.Why, notEnded) + rollout.BackWith + cmp.Or(j.Good, "no configuration") + ": " + what
}

// withoutBack returns the reason of a way back without what failed on it.
func withoutBack(why string) string {
	before, _, _ := strings.Cut(why, rollout.BackWith)
	return before
}

// fulfilled returns what a host at rest says once it is ready with what somebody wanted. If it
// has booted since a way back that did not end, it runs with what it has.
func (s Step) fulfilled(f Facts) Step {
	j := s.Journal
	if u := j.unfinished(f.Boot); u != "" && u != f.Boot {
		j.Unfinished, j.Why = "", withoutBack(j.Why)
		if j.Failed == j.Good && !j.Refused {
			j.Failed, j.Why = "", ""
		}
		s = rest(j)
	}
	s.Report.Fulfilled = true
	return s
}
