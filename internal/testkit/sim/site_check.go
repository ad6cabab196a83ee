package sim

import (
	"strings"

	"github.com/holdfast/holdfast/internal/decide/replace"
)

// checkSite checks what must hold while a site changes, and reports whether the checks of a pair
// have to wait.
func (w *world) checkSite() bool {
	s := w.site
	stay, going := &w.hosts[s.stay], &w.hosts[s.going()]
	if s.shelf != nil && s.shelf.running {
		w.fail("I9", "etcd runs on the machine that was taken out")
	}
	if s.old != nobody && going.machine == s.old && s.out(stay) {
		if going.running {
			w.fail("I9", "etcd runs on host %d, which is being taken out", s.going())
		}
		if stay.contact && going.contact && stay.ring == going.ring {
			w.fail("I9", "host %d is being taken out, and is let in", s.going())
		}
	}
	if p := stay.seat.plan; p != nil && p.Stage == replace.Narrowing && stay.seat.static && stay.seat.etcd && !stay.seat.halted {
		w.fail("I9", "kubelet has etcd, and Pacemaker may start it, too")
	}
	return s.busy || s.life != stands || s.planes != 2
}

// out reports whether something of the host that goes was taken out already.
func (s *site) out(stay *host) bool {
	p := stay.seat.plan
	if p == nil || p.Grows || p.Stage == replace.Planned || p.Stage == replace.Aborted {
		return false
	}
	_, grave := s.graves[p.Old.Name]
	grave = grave && s.graves[p.Old.Name].UID == p.Old.UID
	return p.Reloaded || grave || s.node != s.old || !stay.seat.lists || !stay.seat.cib || stay.seat.retired.Known
}

// checkGrant fails if a host starts alone beside a peer that was on all the time.
func (w *world) checkGrant(i int) {
	if w.site == nil {
		return
	}
	h, p := &w.hosts[i], &w.hosts[1-i]
	if h.seat.lists && p.power && p.seat.runs && p.bootedAt < h.bootedAt && p.seat.keyRan == h.seat.keyRan {
		w.fail("I9", "host %d starts alone beside host %d, which was on all the time", i, 1-i)
	}
}

// checkDecision fails if a decision takes something of a host out that runs, unless a person has
// said that the host is off.
func (w *world) checkDecision(d replace.Decision) {
	s := w.site
	going := &w.hosts[s.going()]
	retires := d.Act == replace.WritePlan && d.Plan.Stage == replace.Retired
	takesOut := d.Act == replace.LeaveRing || d.Act == replace.Forget || d.Act == replace.DropNode || d.Act == replace.DropPods
	if (retires || takesOut) && going.machine == s.old && going.power && w.powerOfPeer(s.stay).Known {
		w.fail("I9", "%s while host %d runs", d.Rule, s.going())
	}
}

// runSite plays the schedule of a seed with a site that changes.
func runSite(seed uint64, opt Options) Result {
	w := newSite(seed, opt)
	limit := opt.Faults
	if limit == 0 {
		limit = 6
	}
	limit = w.rng.IntN(limit + 1)
	storm := 400 + w.rng.IntN(stormSteps)
	w.limit = limit
	for w.step = 0; w.step < storm && w.failure == nil && !w.ignored; w.step++ {
		w.tick()
		w.siteStep()
		if w.faults < limit && w.rng.IntN(storm/(limit+1)+1) == 0 {
			w.faults++
			w.fault()
		}
	}
	w.mend()
	r := Result{Seed: seed, Faults: w.faults}
	for end := w.step + calmSteps; w.step < end && w.failure == nil && !r.Converged && !w.ignored; w.step++ {
		w.tick()
		w.siteStep()
		r.Converged = w.siteWhole()
		if !r.Converged && w.step%64 == 0 && w.serves() && w.siteSays() {
			break
		}
	}
	if w.failure == nil && !r.Converged {
		r.Human = w.ignored || w.serves() && w.siteSays() || w.asksHuman() && (w.lost || w.unusable() || w.unproved())
		if !r.Human {
			w.fail("I7", "the site is neither whole nor serves and says what is missing (%s; %s; plan %s)", w.hosts[0].verdict.Rule, w.hosts[1].verdict.Rule, w.site.rule)
		}
	}
	for i := range w.hosts {
		r.TakeOvers += w.hosts[i].disk.record.TakeOver.Counter
	}
	r.Steps, r.Writes, r.Violation, r.Trace = w.step, w.writes, w.failure, w.log
	if w.opt.Trace {
		r.Trace = append(r.Trace, w.String(), w.site.String())
	}
	return r
}

// siteWhole reports whether the change is done, and no old machine disturbs.
func (w *world) siteWhole() bool {
	s := w.site
	return !s.busy && w.settled() && (s.shelf == nil || !s.shelf.power) && (s.planes == 2 || !w.hosts[s.stay].seat.conf)
}

// siteSays reports whether the plan waits for a machine that nobody brings, or that went away for
// good before it entered.
func (w *world) siteSays() bool {
	s := w.site
	return s.busy && !s.comes && (strings.HasPrefix(s.rule, "newcomer.") || strings.HasPrefix(s.rule, "joining."))
}

// unproved reports whether the host that stays may not go on alone: the other one was lost while
// nothing had shown that it had not gone on alone.
func (w *world) unproved() bool {
	s := w.site
	return s.life != stands && !w.hosts[s.stay].disk.record.State.Leads()
}
