package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Annotations of a node about a reboot that somebody wants. The values of the
// agent and of the operator begin with the wish that they are about, so that what
// belongs to a former wish counts for nothing.
const (
	// RebootWanted is a wish: the time from which on the host may boot. An
	// administrator sets it and takes it back; the operator removes it once it was
	// carried out.
	RebootWanted = state.AnnotationDomain + "reboot-wanted"
	// RebootReason says why, for people. It comes and goes with the wish.
	RebootReason = state.AnnotationDomain + "reboot-reason"
	// RebootFrom is the boot in which the agent heard of the wish. Any other boot
	// carries it out. The agent writes it.
	RebootFrom = state.AnnotationDomain + "reboot-from"
	// RebootGiven is when the host got its turn. The operator writes it.
	RebootGiven = state.AnnotationDomain + "reboot-given"
	// RebootWaits says for what the host waits until then. The operator writes it.
	RebootWaits = state.AnnotationDomain + "reboot-waits"
	// RebootDone is the last wish that was carried out. The agent writes it.
	RebootDone = state.AnnotationDomain + "reboot-done"
)

// Annotations of a node about the updates that somebody wants of its distribution, as
// those of a reboot. A wish that ends with NoReboot is carried out without a boot; one that
// ends with HeldToo is also for what etcd runs on, and needs one.
const (
	PatchWanted = state.AnnotationDomain + "patch-wanted"
	PatchReason = state.AnnotationDomain + "patch-reason"
	PatchFrom   = state.AnnotationDomain + "patch-from"
	PatchGiven  = state.AnnotationDomain + "patch-given"
	PatchWaits  = state.AnnotationDomain + "patch-waits"
	PatchDone   = state.AnnotationDomain + "patch-done"
	// PatchResult is what became of the last one that was carried out. The agent
	// writes it.
	PatchResult = state.AnnotationDomain + "patch-result"
	NoReboot    = "/no-reboot"
	HeldToo     = "/held"
)

// InWindow stands in a wish, after its time, that waits for the maintenance window of
// the pool. Other wishes of a person do not wait for it.
const InWindow = "/in-window"

// Ask returns what is written of a wish that counts from now on. how is NoReboot or HeldToo,
// or empty.
func Ask(now time.Time, inWindow bool, how string) string {
	wanted := now.UTC().Format(time.RFC3339)
	if inWindow {
		wanted += InWindow
	}
	return wanted + how
}

// RebootRequired is the annotation of a node that says whether the distribution of
// its host wants a reboot, and why. Its agent writes it (decide/updates). At a pool,
// where people write it, its value RebootsRequired makes a wish of that.
// RequiredWished is why the operator did so last.
const (
	RebootRequired  = state.AnnotationDomain + "reboot-required"
	RebootsRequired = "Boot"
	RequiredWished  = state.AnnotationDomain + "reboot-required-wished"
)

// ByDistribution begins the reason of a reboot that the operator wishes, because the
// distribution of the host wants one.
const ByDistribution = "its distribution wants it: "

// WishNames are the annotations of one kind of wish.
type WishNames struct{ Wanted, Reason, From, Given, Waits, Done string }

// Wish is what somebody wants of a host: a reboot, or the updates of its
// distribution.
type Wish struct {
	// Patch is true for updates.
	Patch bool
	// Wanted is the wish as it was written, empty for none. At is its time, zero if
	// it is no time.
	Wanted string
	At     time.Time
	// From is the boot in which the agent heard of it, empty if it has not yet.
	From string
	// InWindow is true if it waits for the maintenance window of the pool.
	InWindow bool
	// Given is when the host got its turn, zero if it has none.
	Given time.Time
	// Done is true once it was carried out, and the host is ready.
	Done bool
	// Left is true if the operator has annotations to remove when there is no wish.
	Left bool
}

// Names returns the annotations of the kind of a wish.
func (w Wish) Names() WishNames {
	if w.Patch {
		return WishNames{PatchWanted, PatchReason, PatchFrom, PatchGiven, PatchWaits, PatchDone}
	}
	return WishNames{RebootWanted, RebootReason, RebootFrom, RebootGiven, RebootWaits, RebootDone}
}

// WishOf returns the wish of a node that comes first: the one that has its turn, then
// one that is over, then updates, because a boot for them is the reboot too.
func WishOf(annotations map[string]string) Wish {
	both := WishesOf(annotations)
	for _, first := range []func(Wish) bool{Wish.HasTurn, Wish.over, Wish.Open} {
		if i := slices.IndexFunc(both, first); i >= 0 {
			return both[i]
		}
	}
	return Wish{}
}

// behindOf returns the wish of a node for a reboot while that for updates comes first and has no
// turn yet; empty if there are not both. Which of them could have its turn, the pool decides.
func behindOf(annotations map[string]string, first Wish) Wish {
	reboot := wishOf(annotations, Wish{})
	if !first.Patch || !first.Open() || first.HasTurn() || !reboot.Open() {
		return Wish{}
	}
	return reboot
}

// WishesOf returns the wishes of a node: for updates, and for a reboot.
func WishesOf(annotations map[string]string) []Wish {
	return []Wish{wishOf(annotations, Wish{Patch: true}), wishOf(annotations, Wish{})}
}

// WishOfKind returns the wish of a node for updates (patch), or for a reboot.
func WishOfKind(annotations map[string]string, patch bool) Wish {
	return wishOf(annotations, Wish{Patch: patch})
}

// wishOf reads the annotations of one kind of wish.
func wishOf(annotations map[string]string, w Wish) Wish {
	names := w.Names()
	w.Wanted = annotations[names.Wanted]
	for _, name := range []string{names.Reason, names.Given, names.Waits} {
		_, has := annotations[name]
		w.Left = w.Left || has
	}
	if w.Wanted == "" {
		return w
	}
	when := w.Wanted
	if w.Patch {
		when = strings.TrimSuffix(strings.TrimSuffix(when, NoReboot), HeldToo)
	}
	when, w.InWindow = strings.CutSuffix(when, InWindow)
	if at, err := time.Parse(time.RFC3339, when); err == nil {
		w.At = at
	}
	w.Done = annotations[names.Done] == w.Wanted
	w.From = about(w.Wanted, annotations[names.From])
	if at, err := time.Parse(time.RFC3339, about(w.Wanted, annotations[names.Given])); err == nil {
		w.Given = at
	}
	return w
}

// About returns a value of the agent or of the operator about a wish.
func About(wish, value string) string { return wish + " " + value }

// about returns what such a value says about a wish; empty if it is about another.
func about(wish, value string) string {
	after, ok := strings.CutPrefix(value, wish+" ")
	if !ok {
		return ""
	}
	return after
}

// Open reports whether a wish is there that was not carried out.
func (w Wish) Open() bool { return w.Wanted != "" && !w.Done }

// over reports whether a wish was carried out or taken back, and something of it is
// left.
func (w Wish) over() bool { return w.Done || w.Wanted == "" && w.Left }

// HasTurn reports whether a host is to carry a wish out now.
func (w Wish) HasTurn() bool { return w.Open() && w.From != "" && !w.Given.IsZero() }

// Booted reports whether a wish for a reboot has seen another boot than that in which
// it was heard of.
func (w Wish) Booted(boot string) bool {
	return !w.Patch && w.Open() && w.From != "" && w.From != boot
}

// task says what a wish is for, after "its turn".
func (w Wish) task() string {
	if w.Patch {
		return "to get updates"
	}
	return "to boot"
}

// WishStep is what the operator writes about the wish for a host.
type WishStep struct {
	Host string
	// Patch is true if the wish is for updates.
	Patch bool
	// Give is true if the host gets its turn now. Waits says why it does not.
	Give  bool
	Waits string
	// Over is true if the wish was carried out or taken back, so that nothing of it
	// is left.
	Over bool
	// Wish is why a reboot is wished that the distribution wants, and Remains what is left
	// of the reasons for which one was: the boot took the others away. Forget is true once
	// it wants none any more.
	Wish, Remains string
	Forget        bool
}

// rebooting reports whether a host is on its way to a reboot or updates that somebody
// wants.
func (h Host) rebooting() bool { return h.Wish.HasTurn() }

// reboots decides about the wishes for hosts of a pool, after its configuration: a
// boot for that carries the wish out too. The oldest wish comes first. A reboot does not wait for
// updates that are only wanted for later.
func (t turn) reboots(others []turn) []WishStep {
	var out []WishStep
	wishes := slices.Clone(t.hosts)
	for i := range wishes {
		if h := &wishes[i]; h.Behind.Open() && t.later(*h, h.Wish) != "" {
			h.Wish, h.Behind = h.Behind, h.Wish
		}
	}
	slices.SortStableFunc(wishes, func(a, b Host) int {
		return cmp.Or(a.Wish.At.Compare(b.Wish.At), cmp.Compare(a.Name, b.Name))
	})
	for _, h := range wishes {
		switch w := h.Wish; {
		case w.over():
			out = append(out, WishStep{Host: h.Name, Patch: w.Patch, Over: true})
		case !w.Open():
			out = append(out, t.required(h)...)
		case w.HasTurn():
		default:
			wait := cmp.Or(t.notYet(h), t.elsewhere(others), t.notSpared(h))
			out = append(out, WishStep{Host: h.Name, Patch: w.Patch, Give: wait == "", Waits: wait})
			if h.Behind.Open() {
				out = append(out, WishStep{Host: h.Name, Patch: h.Behind.Patch, Waits: cmp.Or(t.later(h, h.Behind), updatesFirst)})
			}
			if wait == "" {
				i := slices.IndexFunc(t.hosts, func(o Host) bool { return o.Name == h.Name })
				w.Given = t.site.Now
				t.hosts[i].Wish = w
			}
		}
	}
	return out
}

// required makes a wish of a reboot that the distribution of a host wants, if its pool
// says so: once for each reason, until it is gone. One that a boot does not satisfy would
// boot the host for ever, and one that a person has taken back would return. A boot may
// satisfy one of several.
func (t turn) required(h Host) []WishStep {
	switch {
	case h.RequiredWished != "" && h.NotRequired:
		return []WishStep{{Host: h.Name, Forget: true}}
	case h.Required == "" || h.Required == h.RequiredWished:
	case updates.Within(h.Required, h.RequiredWished):
		return []WishStep{{Host: h.Name, Remains: h.Required}}
	case t.pool.BootsRequired && !t.pool.ByHand:
		return []WishStep{{Host: h.Name, Wish: h.Required}}
	}
	return nil
}

// answersWithin is the time for which nobody looks after an agent that was asked: it
// hears of a wish at once and tells the API.
const answersWithin = 20 * time.Second

// updatesFirst is for what a reboot waits while updates of the same host could have their turn.
const updatesFirst = "the updates that somebody wants of it too, which come first"

// undue returns why the time of a wish has not come.
func (t turn) undue(w Wish) string {
	switch {
	case w.At.IsZero():
		return fmt.Sprintf("%s is %.40q, and not a time such as %s", w.Names().Wanted, w.Wanted, t.site.Now.UTC().Format(time.RFC3339))
	case t.site.Now.Before(w.At):
		return "it is wanted for " + w.At.UTC().Format(time.RFC3339)
	default:
		return ""
	}
}

// later returns why updates have to wait for longer than a reboot of the same host; empty if they
// do not.
func (t turn) later(h Host, w Wish) string {
	undue := t.undue(w)
	switch {
	case !w.Patch:
		return ""
	case undue == "" && w.InWindow && t.pool.Closed != "":
		return t.pool.Closed
	case undue == "" && h.waitsForBoot():
		return h.busy()
	}
	return undue
}

// waitsForBoot reports whether a person is to boot a host for its configuration. A reboot that
// somebody wants is that boot.
func (h Host) waitsForBoot() bool { return h.working() && h.stage() == WaitsForBoot }

// busy says that a host is on its way to its configuration.
func (h Host) busy() string { return h.atWork() + " has work to do for its configuration first" }

// notYet returns what of the host itself, or of its pool, keeps it from its turn.
func (t turn) notYet(h Host) string {
	undue := t.undue(h.Wish)
	switch w := h.Wish; {
	case undue != "":
		return undue
	case h.Desired == "":
		return "it was not given a configuration yet, so nobody knows whether its agent answers"
	case !h.Ready:
		return "it is not ready; its turn " + w.task() + " comes once it is back"
	case w.From == "" && t.site.Now.Sub(w.At) < answersWithin:
		return "the answer of its agent, which was asked a moment ago"
	case w.From == "":
		return "its agent has not answered yet; look whether holdfast-agent.service runs there, and is of this release"
	case t.site.Upgrade != "":
		return t.site.Upgrade
	case t.plan() != "" && !h.failing():
		return t.plan()
	case t.pool.Paused:
		return "the pool " + t.pool.Name + " is paused"
	case w.InWindow && t.pool.Closed != "":
		return t.pool.Closed
	case h.working() && (w.Patch || !h.waitsForBoot()):
		return h.busy()
	case t.pool.Settling && h.Desired != t.pool.Target:
		return "the MachineConfigs of its pool have just changed"
	}
	return ""
}

// elsewhere names a host of another pool, or of none, that is at work.
func (t turn) elsewhere(others []turn) string {
	for _, o := range others {
		for _, h := range o.hosts {
			if h.working() {
				return fmt.Sprintf("%s of the pool %s is at work", h.atWork(), o.pool.Name)
			}
		}
	}
	return t.worksOutside()
}

// notSpared returns why a host cannot be away now. What is away anyway, or failed,
// takes no redundancy with it, and a person may boot it because of that: it is
// enough that the cluster carries on without it. A pressure does not count: a boot changes no configuration, and a
// host may be short of memory for years.
func (t turn) notSpared(h Host) string {
	t, h = t.without(func(Host) bool { return true }), h.relieved()
	others := t
	others.hosts = slices.DeleteFunc(slices.Clone(t.hosts), func(o Host) bool { return o.Name == h.Name })
	if !t.controlPlanes() {
		limit, err := t.limit()
		if err != nil {
			return err.Error()
		}
		if away := others.unavailable(); len(away) >= limit {
			return tooMany(limit, away)
		}
		return ""
	}
	for _, o := range others.hosts {
		if o.working() {
			return o.atWork() + " is at work"
		}
	}
	if h.failing() || h.away() != "" {
		return t.needed(h)
	}
	return t.gate()
}

// WouldWait returns for what a host would wait if somebody wanted its reboot now, or its updates
// (patch), in the maintenance window or at any time; empty if it would get its turn.
func WouldWait(s Site, host string, patch, inWindow bool) string {
	s.Hosts = slices.Clone(s.Hosts)
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Name != host {
			continue
		}
		if h.rebooting() {
			return "it has its turn already"
		}
		w := Wish{Patch: patch, Wanted: s.Now.UTC().Format(time.RFC3339), At: s.Now, From: "now", InWindow: inWindow}
		switch was := h.Wish; {
		case was.Open() && was.Patch && !patch:
			h.Behind = w
		case was.Open() && !was.Patch && patch:
			h.Wish, h.Behind = w, was
		default:
			h.Wish = w
		}
	}
	for _, step := range Decide(s).Wishes {
		if step.Host == host && step.Patch == patch {
			return step.Waits
		}
	}
	return "nobody decides about it"
}
