package life_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/people"
	"github.com/holdfast/holdfast/test/labsite"
)

// takenOverWithin is the longest time in which nobody may write where a control plane takes
// over, with whatever release it runs: as much as random faults may take (test/chaos).
const takenOverWithin = 30 * time.Second

// strikes is what happens to a site in the middle of an upgrade.
type strikes struct {
	name string
	// both: the other control plane suffers it as well, in a play of its own. Otherwise the one
	// at work does.
	both bool
	// pair: it needs two control planes with fencing.
	pair bool
	// before makes a host ready for it; nil for nothing.
	before func(tr *trial, host string)
	// hits does it, and returns what ends it, nil for what is over at once. It lasts for a while.
	hits func(tr *trial, victim string) (mend func())
	// gap is the longest time in which nobody may write.
	gap time.Duration
	// silences: nobody reaches a host while it lasts.
	silences bool
	// kills: it is over at once, and changes nothing for long (TestAnUpgradeSurvivesKillsAtEachStep).
	kills bool
	// fenced says what is wrong with who was fenced.
	fenced func(fenced []string, victim string) error
}

// faults are those that a site survives at each moment of an upgrade. That a source of the
// release goes away is TestAnUpgradeSurvivesFaults' as well, while hosts fetch.
func faults() []strikes {
	return []strikes{
		{name: "network cut", both: true, hits: (*trial).cutOff, gap: takenOverWithin, silences: true, fenced: atMostOne},
		{name: "fence", pair: true, hits: (*trial).fence, gap: takenOverWithin, fenced: himAlone},
		{name: "etcd's disk full", hits: (*trial).fillEtcdsDisk, gap: takenOverWithin, fenced: nobody},
		{name: "the upgrade's disk full", before: (*trial).smallDisk, hits: (*trial).fillSmallDisk, gap: busyGap, fenced: nobody},
		{name: "operator killed", kills: true, hits: (*trial).killOperator, gap: busyGap, fenced: nobody},
		{name: "agent killed", kills: true, both: true, hits: (*trial).killAgent, gap: busyGap, fenced: nobody},
	}
}

// faultLasts is for how long a fault lasts that somebody has to mend: hosts have left, and
// the time of a parachute has not ended.
const faultLasts = time.Minute

// strike is a fault at a moment.
type strike struct {
	strikes
	step  parachute.Step
	other bool
}

func (s strike) String() string {
	who := "the host at work"
	if s.other {
		who = "the other host"
	}
	return fmt.Sprintf("%s, %s, at step %s of an upgrade", s.name, who, s.step)
}

// alone reports whether it strikes the one host that has all acknowledged writes, so that
// nobody can write before it is reached again: the host at work has left, or has come back
// and holds not all of them yet.
func (s strike) alone() bool {
	return s.silences && s.other && s.step != parachute.Prepare && s.step != parachute.Accepted
}

// longest is the longest time in which nobody may write.
func (s strike) longest() time.Duration {
	if s.alone() {
		return faultLasts + s.gap
	}
	return s.gap
}

// TestAnUpgradeSurvivesFaults has a fault strike at each of the moments at which power cuts
// do. Whoever is left serves with the release that it runs, and takes over as ever; the
// upgrade goes on, goes back, or waits for a person, and `holdfast upgrade status` says which.
// Nobody is fenced who need not be, and no acknowledged write is lost.
//
// A play takes eight minutes and more. One is played by its name, as in
// SCENARIOS='SurvivesFaults/network cut, the other host, at step armed', and the faults
// while hosts fetch by SCENARIOS='SurvivesFaults/registry gone' and '.../stick gone'.
func TestAnUpgradeSurvivesFaults(t *testing.T) {
	for _, from := range sources() {
		if !t.Failed() {
			from.playSource(t)
		}
	}
	for _, f := range faults() {
		for _, other := range []bool{false, true} {
			for _, step := range upgradeSteps {
				s := strike{f, step, other}
				switch planes := len(open(t).ControlPlanes()); {
				case t.Failed():
					return
				case other && !f.both:
				case planes == 1 && (other || f.pair || f.name == "network cut"):
					leaveOut(t, s.String(), "there is one control plane")
				case f.pair && planes != 2:
					leaveOut(t, s.String(), "three control planes fence nobody")
				default:
					playUpgrade(t, s.String(), func(tr *trial, w ways) { tr.struck(s, w) })
				}
			}
		}
	}
}

// struck has a fault strike once, and the upgrade end.
func (tr *trial) struck(s strike, w ways) {
	tr.Helper()
	if s.before != nil {
		for _, h := range tr.ControlPlanes() {
			s.before(tr, h)
		}
	}
	began := tr.Now()
	atWork := tr.onItsWay(s.step, w)
	victim := atWork
	if s.other {
		victim = tr.peer(atWork)
	}
	at := time.Now()
	tr.Logf("%s strikes %s, %s is at %s", s.name, victim, atWork, s.step)
	if mend := s.hits(tr, victim); mend != nil {
		tr.holdsOut(s, at)
		mend()
		tr.Logf("mended after %.0f s", time.Since(at).Seconds())
	}
	end := tr.outcome(w, s.step == parachute.Returning, at)
	tr.Trial.Took("until it "+end, time.Since(at))
	tr.Logf("%.0f s after the fault the upgrade %s", time.Since(at).Seconds(), end)
	tr.statusSays(end, w)
	tr.Noticed("", began)
	tr.outages(began)
	if len(tr.ControlPlanes()) > 1 {
		tr.Trial.Promise(noWriteAtAll, s.longest())
		tr.noGapSince(at, s.longest())
	}
	list, err := tr.Fenced(tr.Context(), tr.began)
	if err == nil {
		err = s.fenced(list, victim)
	}
	if err != nil {
		tr.Errorf("fenced: %v: %v", list, err)
	}
	if cuts, err := tr.Resets(tr.log, labsite.ForceOff); err != nil || s.tooMany(cuts, victim) {
		tr.Errorf("BMCs were asked to cut the power: %v (%v)", cuts, err)
	}
	tr.homeAgain(end, w)
}

// holdsOut lets a fault last. On more than one control plane somebody writes meanwhile,
// unless it strikes the only one that could serve them.
func (tr *trial) holdsOut(s strike, since time.Time) {
	tr.Helper()
	const lasts = faultLasts
	mended := since.Add(lasts)
	tr.remainsUntil(mended, "the fault lasts", func() error { return nil })
	if len(tr.ControlPlanes()) > 1 && !s.alone() && tr.rec.Copy().Gap("", tr.rec.At(since), tr.rec.Copy().End()).Length > lasts-time.Second {
		tr.Errorf("nobody could write in the %s of the fault", lasts)
	}
}

// noGapSince checks the longest time since a moment in which nobody could write by any way.
func (tr *trial) noGapSince(at time.Time, most time.Duration) {
	tr.Helper()
	h := tr.rec.Copy()
	if gap := h.Gap("", tr.rec.At(at), h.End()); gap.Length > most {
		tr.Errorf("nobody could write for %.1f s after the fault, want at most %s", gap.Length.Seconds(), most)
	}
}

// tooMany reports whether BMCs were asked to cut the power of more hosts than may be fenced:
// a fence that fails is asked for too.
func (s strikes) tooMany(cuts []labsite.Reset, victim string) bool {
	asked, most := map[string]bool{}, 0
	for _, r := range cuts {
		asked[r.Host] = true
	}
	switch {
	case s.pair:
		delete(asked, victim)
	case s.silences:
		most = 1
	}
	return len(asked) > most
}

func nobody(fenced []string, _ string) error {
	if len(fenced) > 0 {
		return errors.New("want nobody")
	}
	return nil
}

func atMostOne(fenced []string, _ string) error {
	if len(fenced) > 1 {
		return errors.New("want at most one of them, once")
	}
	return nil
}

func himAlone(fenced []string, victim string) error {
	if !slices.Equal(fenced, []string{victim}) {
		return fmt.Errorf("want %s, once", victim)
	}
	return nil
}

// upgradeStatus is what `holdfast upgrade status` says, for programs.
func (tr *trial) upgradeStatus() (s people.Status, err error) {
	cmd := exec.CommandContext(tr.Context(), *program, "upgrade", "status", "-o", "json", "--kubeconfig", tr.kubeconfig) // #nosec G204 -- a test's own words
	out, failed := cmd.Output()                                                                                          // its exit code says whether somebody is needed
	if err := json.Unmarshal(out, &s); err != nil {
		return s, errors.Join(fmt.Errorf("holdfast upgrade status -o json: %w: %s", err, out), failed)
	}
	return s, nil
}

// statusSays checks that `holdfast upgrade status` tells how an upgrade ended.
func (tr *trial) statusSays(end string, w ways) {
	tr.Helper()
	tr.Eventually(10*time.Minute, "the status says that the upgrade "+end, func() error {
		s, err := tr.upgradeStatus()
		if err != nil {
			return err
		}
		says := map[string]bool{
			isThere: s.Phase == cluster.Proving && s.To == w.to && s.WayBack == "open" && s.Held == "",
			isBack:  s.WayBack == "" && s.From == w.from,
			waits:   s.WayBack == "open" && heldByReturn(s),
		}
		if !says[end] {
			return fmt.Errorf("it is %s, from %s to %s, way back %q, held %q: %s", s.Phase, s.From, s.To, s.WayBack, s.Held, s.Why)
		}
		return nil
	})
}

// heldByReturn reports whether an upgrade waits for a person because a host went back.
func heldByReturn(s people.Status) bool { return strings.Contains(s.Held, "went back: ") }
