package dualstack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Act is what a host does next. Each changes one thing, and may be cut off and done again.
type Act string

// The acts.
const (
	Idle Act = "idle" // there is no plan, or nothing of it is left to do here
	Wait Act = "wait" // Words says for what

	Drop Act = "drop" // removes the host's copy of the plan
	Heed Act = "heed" // writes into the journal that the plan has begun
	Mark Act = "mark" // writes into the journal that this host serves both families
	// Begin writes into the announcement that the plan has begun. It fails if somebody took the
	// announcement back in between.
	Begin   Act = "begin"
	Publish Act = "publish" // writes the announcement again that somebody deleted
	// Serve gives the files of the API server and of the controller manager both families.
	Serve Act = "serve"
	// Note gives kubeadm's configuration in the cluster both families.
	Note Act = "note"
	// Share makes the Node of Host anew, with a second share of the pod network.
	Share Act = "share"
	// Forget removes the carrier's copy of the Node of Host, which it did not delete.
	Forget Act = "forget"
	// Route gives the pod network's configuration both families.
	Route Act = "route"
	// Write gives the files of the host both families, and notes the boot.
	Write Act = "write"
	// Boot asks for a planned reboot of the host, which drains it and waits for its turn.
	Boot Act = "boot"
	// Arrive writes into the journal that the host has booted with both families.
	Arrive Act = "arrive"
	// Settle gives the objects of the cluster both families, and notes it.
	Settle Act = "settle"
	// Withdraw takes the announcement out of the API: every host is done.
	Withdraw Act = "withdraw"
)

// Step is a decision.
type Step struct {
	Act  Act
	Rule string // the rule that decided
	Host string // whose Node is made anew, or is there
	// Words explain the step to people. Way says what to type, if only a person can go on.
	Words, Way string
}

type rule = plans.Rule[Facts, Act, Plan]

const statusShow = "holdfast site dual-stack status"

// Decide decides what a host does next. The same facts give the same step.
func Decide(f Facts) Step {
	if f.Plan == nil {
		return Step{Act: Idle, Rule: "no-plan"}
	}
	for _, t := range tables {
		if d, found := plans.First(t, f); found {
			s := Step{Act: d.Act, Rule: d.Rule, Words: d.Words, Way: d.Way}
			switch s.Act { //nolint:exhaustive // the others are about no Node
			case Share:
				s.Host = f.next()
			case Forget:
				s.Host = f.Stands[0]
			}
			return s
		}
	}
	return Step{Act: Wait, Rule: "nothing-fits", Words: "no rule fits: please report this plan", Way: statusShow}
}

// tables are asked one after the other; in each the first rule that fits decides.
var tables = [][]rule{goneRules, keptRules, standsRules, serveRules, shareRules, hostRules, overRules}

// goneRules are about an announcement that the API does not have.
var goneRules = []rule{
	{ID: "gone.drop", Act: Drop, When: func(f Facts) bool {
		return f.gone() && (!f.begun() || !f.listed() || f.stage(Over) && f.ended())
	}, Words: words("the plan is over, or was taken back: this host forgets it")},
	{ID: "gone.ended", Act: Drop, When: func(f Facts) bool { return f.gone() && f.stage(Over) && f.Journal.Settled }, Words: words("the plan is over: this host forgets it")},
	{ID: "gone.publish", Act: Publish, When: func(f Facts) bool { return f.gone() && f.carries() && f.Announced.Value.ID == "" }, Words: words("somebody deleted the announcement of a plan that has begun: writes it again")},
	{ID: "gone.await", Act: Wait, When: Facts.gone, Words: words("waits until the announcement of the plan is there again"), Way: statusShow},
	{ID: "unknown", Act: Wait, When: func(f Facts) bool { return !f.Announced.Known }, Words: words("waits until the API tells of the plan")},
}

// keptRules are about a plan that has changed nothing. Until it has begun it can be taken back.
var keptRules = []rule{
	{ID: "stranger", Act: Wait, When: func(f Facts) bool { return !f.listed() }, Words: words("this host came after the plan was made, and keeps one family"), Way: statusShow},
	{ID: "heed", Act: Heed, When: func(f Facts) bool { return !f.begun() && f.Announced.Value.Begun && f.heeded() }, Words: words("the plan has begun")},
	{ID: "begin.other", Act: Wait, When: func(f Facts) bool { return !f.begun() && !f.carries() }, Words: func(f Facts) string {
		return "the plan is announced: " + f.Carrier() + " begins it when each host can have both families"
	}},
	{ID: "begin.hosts", Act: Wait, When: func(f Facts) bool { return !f.begun() && len(f.late(f.Plan.Order(), kept)) > 0 }, Words: func(f Facts) string {
		return "waits for hosts that do not have the plan, or cannot have both families: " + f.lacks()
	}, Way: statusShow},
	{ID: "begin.work", Act: Wait, When: func(f Facts) bool { return !f.begun() && !state.Is(f.Work, "") }, Words: func(f Facts) string { return "waits for other work on hosts: " + known(f.Work) }, Way: "holdfast status"},
	{ID: "begin.whole", Act: Wait, When: func(f Facts) bool { return !f.begun() && !state.Is(f.Whole, "") }, Words: func(f Facts) string { return "waits until the redundancy is whole: " + known(f.Whole) }, Way: "holdfast status"},
	{ID: "begin", Act: Begin, When: func(f Facts) bool { return !f.begun() }, Words: words("begins: from here on the plan only goes forward")},
}

// standsRules are about a Node that the carrier kept to make it anew, and that is there after all: its
// deletion failed. From now on somebody else may delete it, and it does not come back from the copy then.
var standsRules = []rule{
	{ID: "share.stands", Act: Forget, When: func(f Facts) bool { return f.carries() && len(f.Stands) > 0 }, Words: func(f Facts) string {
		return "the Node " + f.Stands[0] + " is there: the copy of it goes"
	}},
}

// serveRules have the control planes know both families, one after the other. A controller
// manager that knows one family ends as soon as a Node has two shares, so all of them come
// before the first Node.
var serveRules = []rule{
	{ID: "serve.mark", Act: Mark, When: func(f Facts) bool { return !f.stage(Served) && (!f.controlPlane() || state.Is(f.Serves, true)) }, Words: words("this host serves both families")},
	{ID: "serve.unknown", Act: Wait, When: func(f Facts) bool { return !f.stage(Served) && !f.Serves.Known }, Words: words("waits until it is known what the API server and the controller manager of this host run with")},
	{ID: "serve.turn", Act: Wait, When: func(f Facts) bool { return !f.stage(Served) && len(f.late(f.earlier(), whole)) > 0 }, Words: func(f Facts) string {
		return "waits for its turn, after " + strings.Join(f.late(f.earlier(), whole), ", ")
	}},
	{ID: "serve.carried", Act: Wait, When: func(f Facts) bool { return !f.stage(Served) && !state.Is(f.Carried, true) }, Words: words("waits until the cluster goes on while the API server of this host starts anew"), Way: "holdfast status"},
	{ID: "serve.others", Act: Wait, When: func(f Facts) bool { return !f.stage(Served) && f.others() }, Words: waitsForOthers, Way: "holdfast status"},
	{ID: "serve", Act: Serve, When: func(f Facts) bool { return !f.stage(Served) }, Words: words("the API server and the controller manager of this host start anew with both families")},
	{ID: "serve.all", Act: Wait, When: func(f Facts) bool { return len(f.late(f.controlPlanes(), served)) > 0 }, Words: func(f Facts) string {
		return "waits until each controller manager knows both families: " + strings.Join(f.late(f.controlPlanes(), served), ", ")
	}},
}

// shareRules give each Node its second share, and then the pod network its second family. A
// daemon of the pod network that starts with both families ends on a host whose Node has one
// share, so all Nodes come before it.
var shareRules = []rule{
	{ID: "note.unknown", Act: Wait, When: func(f Facts) bool { return f.carries() && !f.Noted.Known }, Words: words("waits until the API tells of kubeadm's configuration")},
	{ID: "note", Act: Note, When: func(f Facts) bool { return f.carries() && !f.Noted.Value }, Words: words("a control plane that joins from now on gets both families")},
	{ID: "share", Act: Share, When: func(f Facts) bool { return f.carries() && f.next() != "" }, Words: func(f Facts) string {
		return "the Node " + f.next() + " is made anew, as it was, with a share of the second pod network: its pods run on"
	}},
	{ID: "share.all", Act: Wait, When: func(f Facts) bool { return f.carries() && len(f.late(f.Plan.Order(), shared)) > 0 }, Words: func(f Facts) string {
		return "waits until hosts are ready, for the second share of " + strings.Join(f.late(f.Plan.Order(), shared), ", ")
	}},
	{ID: "route.unknown", Act: Wait, When: func(f Facts) bool { return f.carries() && !f.Routed.Known }, Words: words("waits until the API tells of the pod network's configuration")},
	{ID: "route", Act: Route, When: func(f Facts) bool { return f.carries() && !f.Routed.Value }, Words: words("the pod network gets both families on each host that boots")},
}

// hostRules take the hosts to both families, one after the other. The carrier is the first, so
// the pod network has both families by then.
var hostRules = []rule{
	{ID: "host.turn", Act: Wait, When: func(f Facts) bool { return !f.stage(Written) && len(f.late(f.before(), settled)) > 0 }, Words: func(f Facts) string {
		return "waits for its turn, after " + strings.Join(f.late(f.before(), settled), ", ")
	}},
	{ID: "host.others", Act: Wait, When: func(f Facts) bool { return !f.stage(Written) && f.others() }, Words: waitsForOthers, Way: "holdfast status"},
	{ID: "host.write", Act: Write, When: func(f Facts) bool { return !f.stage(Written) }, Words: words("gives kubelet and the container runtime of this host both families, from its next boot on")},
	{ID: "host.boot", Act: Boot, When: func(f Facts) bool { return !f.stage(Over) && f.Journal.Changed == f.Boot }, Words: words("waits for a planned reboot of this host: kubelet and pods read their addresses when they start"), Way: "holdfast host list"},
	{ID: "host.await", Act: Wait, When: func(f Facts) bool { return !f.stage(Over) && len(f.late([]string{f.Host}, came)) > 0 }, Words: words("waits until kubelet reports addresses of both families"), Way: "systemctl status kubelet"},
	{ID: "host.arrive", Act: Arrive, When: func(f Facts) bool { return !f.stage(Over) }, Words: words("this host has both families")},
}

// overRules end the plan.
var overRules = []rule{
	{ID: "over.other", Act: Wait, When: func(f Facts) bool { return !f.carries() }, Words: words("this host has both families; waits for the others")},
	{ID: "over.all", Act: Wait, When: func(f Facts) bool { return len(f.late(f.Plan.Order(), over)) > 0 }, Words: func(f Facts) string { return "waits for " + strings.Join(f.late(f.Plan.Order(), over), ", ") }},
	{ID: "over.settle", Act: Settle, When: func(f Facts) bool { return !f.Journal.Settled }, Words: words("the objects of the cluster get both families")},
	{ID: "over.withdraw", Act: Withdraw, When: plans.Always[Facts], Words: words("every host has both families: the plan is over")},
}

// Locks reports whether the carrier has to hold the lock of all plans for a step. A person deletes the
// lock to replace a control plane that is lost, so while a host is not ready the carrier takes it again
// only for what changes the cluster: its own boot may wait for days, and cannot come without the other one.
func (f Facts) Locks(s Step) bool {
	if !f.begun() || !f.carries() {
		return false
	}
	switch s.Act {
	case Idle, Drop, Publish, Withdraw, Forget: // Publish takes it itself, Forget changes this host alone
		return false
	case Note, Share, Route, Settle:
		return true
	case Wait, Heed, Mark, Begin, Serve, Write, Boot, Arrive:
	}
	return !f.gone() && len(f.late(f.Plan.Order(), ready)) == 0
}

// others reports whether another plan may have the lock of all plans. Then the carrier changes nothing of its
// own either: the replacement of a control plane may need its API server.
func (f Facts) others() bool { return f.carries() && !state.Is(f.Others, "") }

func waitsForOthers(f Facts) string { return "waits for another plan: " + known(f.Others) }

// ended reports whether the carrier is known to have ended the plan: an announcement that is gone
// is not enough, since somebody may have deleted it. A carrier that has forgotten the plan says
// nothing of it any more.
func (f Facts) ended() bool {
	if !f.Nodes.Known || f.carries() {
		return false
	}
	if _, listed := f.Nodes.Value[f.Carrier()]; !listed {
		return false // somebody deleted its Node
	}
	s := f.seen(f.Carrier())
	return s.Stage == "" || s.Settled
}

// heeded reports whether the control planes before this host are known to have noted that the plan has
// begun. The carrier writes an announcement again that somebody deletes from then on, and forgets the
// plan before; so does the next one, if the carrier is taken out.
func (f Facts) heeded() bool { return len(f.late(f.earlier(), heeds)) == 0 }

// came is true of a host that is back from its boot.
func came(s Seen) bool { return s.Ready && s.Both }

// earlier are the control planes that have their turn before this one.
func (f Facts) earlier() []string {
	return slices.DeleteFunc(slices.Clone(f.before()), func(n string) bool { return !f.Plan.Hosts[n].ControlPlane })
}

// next returns the first host whose Node lacks its second share, empty if there is none. A Node
// that is not there comes back by itself, unless the carrier kept it. That of a host that is away is
// left alone: a Node that is made anew says nothing of its host until kubelet reports.
func (f Facts) next() string {
	late := f.late(f.Plan.Order(), shared)
	if i := slices.IndexFunc(late, func(n string) bool { return slices.Contains(f.Kept, n) }); i >= 0 {
		return late[i]
	}
	if len(late) == 0 || f.seen(late[0]).Shares == 0 || !f.seen(late[0]).Ready {
		return ""
	}
	return late[0]
}

// lacks says of each host that is waited for what it lacks.
func (f Facts) lacks() string {
	var out []string
	for _, name := range f.late(f.Plan.Order(), kept) {
		s := f.seen(name)
		why := s.Lacks
		switch {
		case why != "":
		case !s.Ready:
			why = "is not ready"
		default:
			why = "has not told yet"
		}
		out = append(out, fmt.Sprintf("%s (%s)", name, why))
	}
	return strings.Join(out, ", ")
}

func words(text string) func(Facts) string { return func(Facts) string { return text } }

func known(s state.Fact[string]) string {
	if !s.Known {
		return "unknown"
	}
	return s.Value
}
