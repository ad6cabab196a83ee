// Package hostapply decides what a host does next on its way to a configuration,
// so that a crash at any line and a power cut at any write leave it on the way
// to the new configuration or back to the last good one.
//
// All that it remembers is a journal on the host's disk. The caller writes the
// journal, does what the step says, and asks again. Everything that it does may be
// done twice. Both configurations lie on the disk before the first step, so that
// the way on and the way back need no API.
package hostapply

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Journal is what a host remembers. Configurations are named.
type Journal struct {
	// Good is the last configuration with which the host was ready.
	Good string `json:"good"`
	// Target is the one that the host is on its way to; empty if it is on none.
	Target string `json:"target,omitempty"`
	Phase  Phase  `json:"phase,omitempty"`
	// Back is true on the way from Target back to Good.
	Back bool `json:"back,omitempty"`
	// First is true if the way began before the host joined its cluster. Such a
	// failure is not held against the configuration: the host may have joined late for
	// other reasons. It is given the configuration once more, in its turn.
	First bool `json:"first,omitempty"`
	// Reboots is true if the way to Target needs a reboot.
	Reboots bool `json:"reboots,omitempty"`
	// Boot is the boot that saw the last step. Booted is true once the host has
	// booted on its way, on purpose or not, and may have read files of Target.
	// Boots counts the boots while it is checked.
	Boot   string `json:"boot,omitempty"`
	Booted bool   `json:"booted,omitempty"`
	Boots  int    `json:"boots,omitempty"`
	// Since is when the check began.
	Since time.Time `json:"since,omitzero"`
	// Failed is the configuration with which the host did not become ready, or
	// which it refused, and Why the reason.
	Failed  string `json:"failed,omitempty"`
	Refused bool   `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
	// Unfinished is the boot that saw a way back end on a host that was not ready; empty
	// if none did. It stays until the host has booted and is ready.
	Unfinished string `json:"unfinished,omitempty"`
	// Pressures are the wants for which kubelet ended pods when the way began; empty if none was known.
	Pressures string `json:"pressures,omitempty"`
}

// Phase is a part of the way.
type Phase string

// The phases.
const (
	Writing  Phase = "writing"
	Acting   Phase = "acting"
	Booting  Phase = "booting"
	Checking Phase = "checking"
)

// Facts is what a host knows when it decides.
type Facts struct {
	Now time.Time
	// Boot names the present boot, and Uptime is how long ago that was.
	Boot   string
	Uptime time.Duration
	// Desired is the configuration that the host is to have. It is unknown while
	// the API does not answer.
	Desired state.Fact[string]
	// First is true if the host has not joined its cluster and Desired came with its
	// Ignition config. Nothing runs there that has to move.
	First bool
	// Refused says why the host cannot apply Desired; empty if it can.
	Refused string
	// Drains and Reboots say what the way needs: to Desired while the host is on
	// none, or else the way that it is on. On a host that stays at rest Drains says
	// what its wish needs.
	Drains, Reboots bool
	Drained         bool
	// Quiet is true if nothing reads what the way changes until it is used.
	Quiet bool
	// Pressures are those of the node before a way to other settings of kubelet begins.
	Pressures string
	// ByHand says what a person does for the reboot of a host that does not boot by
	// itself; empty for one that does.
	ByHand string
	// Wish is how far a reboot is that somebody wants of the host, or that it is to get
	// updates.
	Wish Wish
	// Updates is how far it is with them.
	Updates Updates
	// Watched is the time since this process first saw that the host has booted for
	// it, or has its updates.
	Watched time.Duration
	// Did is what was done since the last journal, and Failed why it could not be
	// done. Both are lost with the process.
	Did    Do
	Failed string
	// MayBoot says whether the cluster carries on while the host boots, by what the
	// host itself sees at this moment, and NotSpared why it would not.
	MayBoot   state.Fact[bool]
	NotSpared string
	// Locks are those that programs hold at logind; none if it cannot be asked.
	Locks []Lock
	// Needed is true once MayBoot has not been true for NeededFor, until it has been for Settled.
	// A host that has not booted yet takes pods then: others may be gone for days.
	Needed bool
	// Ready says whether the host is ready, with all that it serves, and NotReady
	// why it is not, or why that is unknown.
	Ready    state.Fact[bool]
	NotReady string
}

// Wish is how far a reboot is that somebody wants of a host.
type Wish string

// The stages of a wish.
const (
	// NoWish: nobody wants a reboot, or the host has no turn yet.
	NoWish Wish = ""
	// Turn: the host is to boot now.
	Turn Wish = "turn"
	// Booted: it has booted since it heard of the wish, whatever for.
	Booted Wish = "booted"
	// Patch: the host is to get updates now.
	Patch Wish = "patch"
)

// Do is what a host does.
type Do string

// The steps of a host.
const (
	Nothing Do = ""
	// Drain waits until others have moved the host's pods.
	Drain Do = "drain"
	// Write stops units that end, and writes all files, units, keys and kernel
	// arguments of a configuration.
	Write Do = "write"
	// Act does what the changes need, beside a reboot.
	Act    Do = "act"
	Reboot Do = "reboot"
	// Fetch and Install have the updates of the distribution fetched and installed.
	Fetch   Do = "fetch"
	Install Do = "install"
)

// Step is what comes next.
type Step struct {
	// Journal is written before Do is done.
	Journal Journal
	Do      Do
	// Config is the configuration that Write writes.
	Config string
	Report Report
}

// Report is what the host says in the API.
type Report struct {
	State   rollout.State
	Current string
	Reason  string
	// Drain is true while the host is to be empty, and Needed while it takes pods although it
	// is on its way.
	Drain, Needed bool
	// Fulfilled is true once the host has booted as somebody wanted, and is ready; or
	// once its updates are over, also if they failed.
	Fulfilled bool
	// Stage says of Reason what people and alerts tell apart.
	Stage rollout.Stage
	// Blocked is true if nothing but a program that blocks shutdowns keeps the host from its boot.
	Blocked bool
}

// The bounds of a check.
const (
	// CheckLimit is the time in which a host becomes ready. It is that of a slow
	// boot with a full resync of etcd.
	CheckLimit = 10 * time.Minute
	// JoinLimit is the same for a host that has yet to join. It also waits for others
	// meanwhile.
	JoinLimit = 30 * time.Minute
	// Settled is the time for which a host is watched before it counts as ready: the
	// API notices only after 50 s that a kubelet is silent.
	Settled = time.Minute
	// Calm is for how long a kubelet with other settings ends no pods before the host counts as ready. It
	// looks, and tells its node, every 10 s.
	Calm = 30 * time.Second
	// NeededFor is for how long a host stays empty while the cluster may not carry on without
	// it. What two hosts see of each other changes for seconds without a fault.
	NeededFor = 2 * time.Minute
	// MaxBoots is the number of boots during a check after which the host is
	// taken for one that does not stay up.
	MaxBoots = 3
)

// Config returns the configuration that a host with this journal has, or is on its
// way to.
func (j Journal) Config() string {
	if j.Target == "" || j.Back {
		return j.Good
	}
	return j.Target
}

// MayJoin reports whether a host that was given a first configuration may start
// kubelet now, and for what it waits if not: all is written and told, or the host has
// gone back. Who has gone back joins without it.
func (j Journal) MayJoin() (ok bool, waits string) {
	switch {
	case j == Journal{}:
		return false, "the agent has not begun with this host's first configuration"
	case !j.First || j.Target == "" || j.Phase == Checking:
		return true, ""
	case j.Back:
		return false, fmt.Sprintf("the host goes back from its first configuration %s, because %s", j.Target, j.Why)
	default:
		return false, fmt.Sprintf("the host takes its first configuration %s: %s", j.Target, j.Phase)
	}
}

// limit is the time in which the host becomes ready.
func (j Journal) limit() time.Duration {
	if j.First {
		return JoinLimit
	}
	return CheckLimit
}

// failed reports whether a configuration is the one that the host did not become
// ready with, or that it refused, in its turn.
func (j Journal) failed(config string) bool { return config == j.Failed && !j.First }

// Begins reports whether a host at rest is given something that it has not failed with,
// and does not have or is not known to run with.
func (j Journal) Begins(desired state.Fact[string]) bool {
	return desired.Known && desired.Value != "" && (desired.Value != j.Good || !j.whole()) && !j.failed(desired.Value)
}

// Changed returns the report of a host at rest on which somebody changed what it
// had written. Other reports stay as they are.
func (r Report) Changed(what []string) Report {
	if r.State == rollout.Done && len(what) > 0 {
		r.State, r.Stage, r.Reason = rollout.Degraded, rollout.Changed, "somebody changed "+strings.Join(what, ", ")
	}
	return r
}

// Next returns the next step.
func Next(j Journal, f Facts) Step {
	if j.Target == "" {
		j.Unfinished = j.unfinished(f.Boot) // an earlier release did not note it: a later boot is to count
	}
	if j.Target == "" && f.Updates.Stage == updates.Busy {
		return patched(rest(j), f) // nothing else is done to a host whose packages change
	}
	if j.Target == "" {
		switch s := idle(j, f); {
		case s.Do != Nothing || s.Report.Needed || f.Wish == NoWish:
			return s // the configuration goes first
		case f.Wish == Patch:
			return patched(s, f)
		default:
			return wished(s, f)
		}
	}
	w := way{j, j.needs(f)}
	w.noticeBoot()
	switch w.j.Phase {
	case Acting:
		return w.act()
	case Booting:
		return w.boot()
	case Checking:
		return w.check()
	default:
		return w.write()
	}
}

// idle decides whether a way begins.
func idle(j Journal, f Facts) Step {
	desired := f.Desired.Value
	switch {
	case f.Desired.Known && desired != "" && desired == j.Good && j.whole():
		return rest(Journal{Good: j.Good})
	case !j.Begins(f.Desired):
		return rest(j)
	case f.Refused != "":
		return rest(Journal{Good: j.Good, Failed: desired, Refused: true, Why: f.Refused, First: f.First, Unfinished: j.unfinished(f.Boot)})
	}
	switch f = j.needs(f); {
	case f.Needed && f.Drains && !f.First:
		return f.needed(Step{Journal: j, Report: Report{State: rollout.Working, Current: j.Good}})
	case f.Drains && !f.Drained && !f.First:
		return Step{Journal: j, Do: Drain, Report: Report{State: rollout.Working, Current: j.Good, Reason: moves, Drain: true, Stage: rollout.Drains}}
	}
	w := way{Journal{Good: j.Good, Target: desired, Phase: Writing, Reboots: f.Reboots, Boot: f.Boot, First: f.First, Unfinished: j.unfinished(f.Boot), Pressures: f.Pressures}, f}
	return w.step(Write, "writes "+desired)
}

// rest reports a host that is on no way.
func rest(j Journal) Step {
	r := Report{State: rollout.Done, Current: j.Good, Stage: rollout.Settled}
	switch {
	case j.First: // it is a host that never had a configuration
	case j.Refused:
		r.State, r.Stage, r.Reason = rollout.Unreconcilable, rollout.Refused, j.Why
	case j.Failed != "":
		r.State, r.Stage, r.Reason = rollout.Degraded, rollout.Failed, j.Why
	case !j.whole():
		r.State, r.Stage, r.Reason = rollout.Degraded, rollout.Failed, notEnded
	}
	return Step{Journal: j, Report: r}
}

// way is a host on its way.
type way struct {
	j Journal
	f Facts
}

// step returns a step with the present journal. It says Working also on the way
// back, because the host is not to be counted on before it ends.
func (w *way) step(do Do, reason string) Step {
	stage := rollout.Applies
	if w.j.Back {
		stage = rollout.GoesBack
		reason = fmt.Sprintf("goes back to %s, because %s: %s", cmp.Or(w.j.Good, "no configuration"), w.j.Why, reason)
	}
	if do == Drain {
		stage = rollout.Drains
	}
	s := Step{Journal: w.j, Do: do, Report: Report{State: rollout.Working, Current: w.j.Good, Reason: reason, Drain: w.f.Drains && !w.j.First, Stage: stage}}
	if do == Write {
		s.Config = w.j.Config()
	}
	return s
}

// noticeBoot notes a boot since the last step.
func (w *way) noticeBoot() {
	if w.f.Boot == w.j.Boot {
		return
	}
	w.j.Boot, w.j.Booted = w.f.Boot, true
	switch w.j.Phase {
	case Booting:
		w.begin(Checking)
	case Checking:
		w.j.Boots++
	case Writing, Acting:
	}
}

func (w *way) begin(p Phase) {
	w.j.Phase = p
	if p == Checking {
		w.j.Since, w.j.Boots = w.f.Now, 0
	}
}

// write writes files, and then does what they need. The way back needs no reboot
// if the host has not booted on the way there.
func (w *way) write() Step {
	switch {
	case w.f.Failed != "" && w.j.Back:
		return w.step(Write, "cannot write: "+w.f.Failed)
	case w.f.Failed != "":
		return w.back("cannot write: " + w.f.Failed)
	case w.f.Did != Write:
		return w.step(Write, "writes "+w.j.Config())
	case w.j.Back && w.j.Reboots && !w.j.Booted:
		w.begin(Checking)
		return w.step(Nothing, "is checked")
	case w.f.Reboots:
		w.begin(Booting)
		return w.boot()
	default:
		w.begin(Acting)
		return w.step(Act, "tells its units")
	}
}

// act has the host do what the changes need. A program that got no order on the way back runs on with
// Target, beside files of Good. A boot reaches all programs.
func (w *way) act() Step {
	switch {
	case w.f.Failed != "" && w.j.Back:
		w.j.Why = w.j.backWith(w.f.Failed)
		w.begin(Booting)
		return w.step(Nothing, "needs a boot")
	case w.f.Failed != "":
		return w.back(w.f.Failed)
	case w.f.Did != Act:
		return w.step(Act, "tells its units")
	default:
		w.begin(Checking)
		return w.step(Nothing, "is checked")
	}
}

// boot boots the host if it is empty and the cluster carries on without it. Until
// then the wish may be taken back, by another one: none at all is that of a Node that was made or restored
// in the middle of the way, and the operator gives its wish anew. The way back needs nobody else, so it does not
// wait for pods: the host was not ready, and they did not run well there.
func (w *way) boot() Step {
	switch {
	case !w.j.Back && !w.j.Booted && w.f.Desired.Known && w.f.Desired.Value != "" && w.f.Desired.Value != w.j.Target:
		return w.back(takenBack)
	case w.f.ByHand != "":
		s := w.step(Nothing, "needs a reboot: "+w.f.ByHand)
		s.Report.Stage = rollout.WaitsForBoot
		return s
	case w.f.Needed && w.f.Drains && !w.j.Back && !w.j.First:
		return w.f.needed(w.step(Nothing, ""))
	case w.f.Drains && !w.f.Drained && !w.j.Back && !w.j.First:
		return w.step(Drain, moves)
	}
	do, reason := boots(w.f)
	if do == Nothing {
		return w.f.held(w.step(Nothing, reason))
	}
	return w.step(do, reason)
}

// check waits until the host is ready.
func (w *way) check() Step {
	if w.f.Now.Before(w.j.Since) {
		w.j.Since = w.f.Now // the clock went back
	}
	// A host may note the beginning by a clock that is wrong until somebody tells it the
	// time: nothing is checked for longer than the host runs.
	took := min(w.f.Now.Sub(w.j.Since), w.f.Uptime)
	switch late := took > w.j.limit(); {
	case state.Is(w.f.Ready, true) && (w.f.Quiet && w.j.whole() || took >= Settled):
		s := w.settle("")
		s.Report.Fulfilled = w.f.Wish == Booted // one boot served both
		return s
	case state.Is(w.f.Ready, true):
		return w.step(Nothing, "is watched for "+Settled.String())
	case w.j.Boots >= MaxBoots:
		return w.back(fmt.Sprintf("the host booted %d times and did not become ready", w.j.Boots))
	case late && w.f.Ready.Known:
		return w.back(because(fmt.Sprintf("the host was not ready %s after", w.j.limit()), w.f.NotReady))
	case late:
		return w.back(because(fmt.Sprintf("nobody could say %s after whether the host is ready", w.j.limit()), w.f.NotReady))
	default:
		return w.step(Nothing, because("waits until it is ready", w.f.NotReady))
	}
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// back begins the way back, once. What fails on it ends it, and so does what fails on a way to
// what the host has.
func (w *way) back(why string) Step {
	if w.j.Back || w.j.Target == w.j.Good {
		return w.settle(why)
	}
	w.j.Back, w.j.Why = true, why
	w.begin(Writing)
	return w.step(Write, "writes "+w.j.Good)
}

// settle ends a way. The reason of a failure is that of the way there; also says
// what failed on the way back.
func (w *way) settle(also string) Step {
	if !w.j.Back && also == "" {
		return rest(Journal{Good: w.j.Target})
	}
	why := withoutBack(w.j.Why)
	again := also == "" && why == takenBack && w.f.Desired.Known && (w.f.Desired.Value == w.j.Good || w.f.Desired.Value == "")
	if again || also == takenBack {
		return rest(Journal{Good: w.j.Good, Unfinished: w.unsure()}) // nothing failed
	}
	if also == "" && w.unsure() != "" {
		also = notEnded + ", and the host has not booted since"
	}
	if also == "" {
		return rest(Journal{Good: w.j.Good, Failed: w.j.Target, Why: cmp.Or(why, "it failed"), First: w.j.First})
	}
	return rest(Journal{Good: w.j.Good, Failed: w.j.Target, Why: w.j.backWith(also), First: w.j.First, Unfinished: w.j.Boot})
}
