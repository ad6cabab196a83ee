package cluster

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// rolloutLimit is for how long the pods of a part may take to run as its release has them,
// and rolloutHost how much more for each host: most of them are replaced one host after the
// other.
const (
	rolloutLimit = 5 * time.Minute
	rolloutHost  = 30 * time.Second
	// steady is how long the pods of all parts are watched before they count: a program
	// without a probe counts as available for the seconds between two crashes.
	steady = time.Minute
)

func (s Site) rolloutLimit() time.Duration {
	return rolloutLimit + time.Duration(len(s.Hosts))*rolloutHost
}

// words says what of a part does not run.
func (p Part) words() string {
	if !p.Pending.Known {
		return "whether the pods of " + p.Name + " run is not known"
	}
	return p.Pending.Value
}

// pendingOf returns the first part of a list of which not all pods are known to run.
func (s Site) pendingOf(list []Part) *Part {
	for i := range list {
		if !state.Is(list[i].Pending, "") {
			return &list[i]
		}
	}
	return nil
}

// pending returns the first part that was brought and does not run yet; nil for none.
func (s Site) pending(risen bool) *Part {
	var brought []Part
	for _, p := range s.Parts {
		if Follows(p.Name, s.Raises, risen) && state.Is(p.Release, s.Record.To) {
			brought = append(brought, p)
		}
	}
	return s.pendingOf(brought)
}

// rollout waits for the pods of what was brought before anything else is done, and asks no
// gate: what does not run must not keep itself from going back.
func (s Site) rollout() (Step, bool) {
	p, step := s.pending(s.Record.NoWayBack), Step{}
	switch {
	case p != nil:
		step, _ = s.roll(*p)
	case s.Record.Settled || len(s.Parts) == 0 || len(s.left()) > 0 || s.behind(false) != "" || s.Record.NoWayBack:
		return Step{}, false
	default:
		step, _ = s.watch()
	}
	step.rolls = true
	return step, true
}

// watch waits until the pods of all parts have run for a while. The wait for one that stops
// meanwhile goes on where it was.
func (s Site) watch() (Step, bool) {
	r := s.Record
	if gap := s.Now.Sub(r.Rollout.Seen); r.Rollout.Runs.IsZero() || gap < 0 || gap > longestGap {
		r.Rollout.Runs = s.Now
	}
	r.Rollout.Seen = s.Now
	if s.Now.Sub(r.Rollout.Runs) < steady {
		return s.write(r, "the pods of all parts run, and are watched for "+page.Duration(steady))
	}
	r.Settled, r.Rollout = true, Rollout{}
	return s.write(r, "the pods of all parts have run for "+page.Duration(steady))
}

// roll waits for the pods of a part. After the limit the parts go back by themselves, and
// the upgrade waits for a person. They stay where the old operator would bring them once more,
// where they have run before, where nobody knows whether they run, and after the commit.
func (s Site) roll(p Part) (Step, bool) {
	r := s.waiting(p.Name)
	r.Seen = time.Time{} // the site is not healthy
	if s.Now.Sub(r.Rollout.Since) < s.rolloutLimit() {
		return s.write(r, "waiting for the pods of "+p.Name+": "+p.words())
	}
	why := fmt.Sprintf("the pods of %s did not all run within %s: %s", p.Name, page.Duration(s.rolloutLimit()), p.words())
	switch {
	case r.NoWayBack:
		return s.keep(r, why+". The way back is closed: mend it, and the upgrade goes on by itself")
	case r.Settled || !p.Pending.Known || !s.partsReturn():
		return s.keep(r, why+". Nothing goes back by itself: mend it, or go back with the whole site: `holdfast upgrade rollback`")
	}
	return s.giveUp(r, why)
}

// undonePart has the parts go back where a host has set one back that did not start. Like a
// rollout it asks no gate. Parts that have run before stay, and so they do after the commit.
func (s Site) undonePart() (Step, bool) {
	if s.Record.Settled || s.Record.NoWayBack {
		return Step{}, false
	}
	for _, p := range s.Parts {
		if p.Undone != "" && !state.Is(p.Release, s.Record.To) {
			return s.giveUp(s.Record, p.Undone)
		}
	}
	return Step{}, false
}

// giveUp has the parts go back by themselves.
func (s Site) giveUp(r Record, why string) (Step, bool) {
	r.Failed, r.Rollout = why, Rollout{}
	return s.write(r, "the parts go back: "+why)
}

// keep pauses, and keeps the time of the wait.
func (s Site) keep(r Record, why string) (Step, bool) {
	step, _ := s.step(Pause, why)
	step.Record = r
	return step, true
}

// waiting returns the record with the wait for a part. Time in which nobody looked does not
// count: the whole site may have been without power.
func (s Site) waiting(part string) Record {
	r := s.Record
	if gap := s.Now.Sub(r.Rollout.Seen); r.Rollout.Part != part || gap < 0 || gap > longestGap {
		r.Rollout = Rollout{Part: part, Since: s.Now}
	}
	r.Rollout.Seen, r.Rollout.Runs = s.Now, time.Time{}
	return r
}

// partsReturn reports whether the operator that goes on once the parts are back knows that
// they went back: that of the old release. While it has not been replaced, it decides this.
func (s Site) partsReturn() bool {
	return s.PartsReturn || len(s.Parts) > 0 && state.Is(s.Parts[len(s.Parts)-1].Release, s.Record.From)
}

// failedPart waits for a person where parts went back by themselves.
func (s Site) failedPart() (Step, bool) {
	if s.Record.Failed == "" {
		return Step{}, false
	}
	why := "the parts went back: " + s.Record.Failed
	if p := s.pendingOf(s.Parts); p != nil {
		why += ". Now: " + p.words()
	}
	return s.step(Pause, why+". All hosts run the new release. An administrator decides: go back with the whole site (`holdfast upgrade rollback`), and begin anew if the cause is mended")
}

// settleBack waits on the way back of the site until the pods of the old release run. After
// the limit hosts return all the same: they may be what keeps the pods from running.
func (s Site) settleBack() (Step, bool) {
	p, r := s.pendingOf(s.Parts), s.Record
	if p == nil {
		return Step{}, false
	}
	if r.Rollout.Since.IsZero() {
		r.Rollout = Rollout{Part: p.Name, Since: s.Now}
	}
	if s.Now.Sub(r.Rollout.Since).Abs() >= s.rolloutLimit() {
		return Step{}, false
	}
	return s.write(r, "waiting for the pods of "+p.Name+" of the old release: "+p.words())
}

// unawaited forgets a wait that a step does not go on with: what holds a site meanwhile is
// no fault of the part. On the way back of the site the wait is had once.
func (s Site) unawaited(step Step) Step {
	if !step.rolls && !s.Record.Returning {
		step.Record.Rollout = Rollout{}
	}
	return step
}
