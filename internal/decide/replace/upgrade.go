package replace

import "github.com/holdfast/holdfast/internal/decide/upgrade/hold"

// An upgrade that is under way waits for the host that was lost. So a plan about that host does
// not wait until the upgrade is over, and asks decide/upgrade/hold at three places instead: before
// the lost host is retired, before another machine is let in, and before a site shrinks
// (docs/adr/0101). A site that grows has lost nobody, and waits until the upgrade is over.

const upgradeStatus = "holdfast upgrade status"

// upgrade says why a plan about a lost host waits; shut for one that is not known.
func (f Facts) upgrade(of func(hold.Lost) string) string {
	if !f.Upgrade.Known {
		return "the API does not say how far an upgrade of the site is"
	}
	return of(f.Upgrade.Value)
}

func (f Facts) installs() string { return f.upgrade(func(l hold.Lost) string { return l.Install }) }
func (f Facts) narrows() string  { return f.upgrade(func(l hold.Lost) string { return l.Narrow }) }

// gateUpgrade is for plans about a host that was lost.
func (f Facts) gateUpgrade() Gate {
	if why := f.upgrade(func(l hold.Lost) string { return l.Retire }); why != "" {
		return shut("upgrade", upgradeStatus, "%s", why)
	}
	return open("upgrade")
}

// upgradeRules come before the newcomer is waited for.
var upgradeRules = []rule{{
	step: "R4", id: "newcomer.upgrade", act: Wait,
	when:  func(f Facts) bool { return !f.Plan.Grows && f.installs() != "" },
	words: func(f Facts) string { return "no machine takes the place of " + old(f) + " yet: " + f.installs() },
	way:   says(upgradeStatus),
}}

// narrowWaits come before the host that stays becomes a lone control plane.
var narrowWaits = []rule{{
	step: "S4", id: "narrow.upgrade", act: Wait, when: func(f Facts) bool { return f.narrows() != "" },
	words: func(f Facts) string { return here(f) + " does not become a lone control plane yet: " + f.narrows() },
	way:   says(upgradeStatus),
}}
