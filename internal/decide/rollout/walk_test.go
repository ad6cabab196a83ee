package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// walk plays a site of hosts that work, fail, go away and come back, while its
// targets change.
type walk struct {
	t    *testing.T
	rand *rand.Rand
	site rollout.Site
	// calm is true once nothing fails or goes away any more.
	calm bool
	// before are the hosts before the last decision.
	before []rollout.Host
	// asked are the hosts that were given a configuration, and whose agents have not done
	// anything since.
	asked map[string]bool
	// boots counts the wishes that got their turn.
	boots int
}

func (w *walk) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nbefore %+v\nsite %+v", fmt.Sprintf(format, args...), w.before, w.site)
}

func controlPlane(h rollout.Host) bool { return strings.HasPrefix(h.Name, "cp-") }

// busy reports whether a host is at work, whatever its node says.
func (w *walk) busy(h rollout.Host) bool {
	return w.asked[h.Name] || h.Wish.HasTurn() || h.Desired != "" && h.State != rollout.Degraded && (h.Current != h.Desired || h.State != rollout.Done)
}

// look sets what is known of redundancy: a control plane can be spared while all
// others are there.
func (w *walk) look() {
	w.site.Spares = map[string]rollout.Spare{}
	for _, h := range w.site.Hosts {
		if !controlPlane(h) {
			continue
		}
		carries := !slices.ContainsFunc(w.site.Hosts, func(o rollout.Host) bool {
			return controlPlane(o) && o.Name != h.Name && (!o.Ready || o.Unschedulable)
		})
		if w.calm || w.rand.IntN(8) > 0 {
			w.site.Spares[h.Name] = rollout.Spare{Carries: state.Known(carries)}
		}
	}
}

// decide plays one decision, and checks what must hold in every one.
func (w *walk) decide() {
	w.look()
	w.before = slices.Clone(w.site.Hosts)
	d := rollout.Decide(w.site)
	for _, a := range d.Set {
		i := slices.IndexFunc(w.site.Hosts, func(h rollout.Host) bool { return h.Name == a.Host })
		h := &w.site.Hosts[i]
		w.check(*h)
		w.give(h, a)
	}
	for _, step := range d.Wishes {
		i := slices.IndexFunc(w.site.Hosts, func(h rollout.Host) bool { return h.Name == step.Host })
		switch h := &w.site.Hosts[i]; {
		case step.Over:
			h.Wish = rollout.Wish{}
		case step.Give:
			w.checkBoot(*h)
			h.Wish.Given = noon
			w.boots++
		}
	}
	kinds := map[bool]int{}
	for _, h := range w.site.Hosts {
		if w.busy(h) {
			kinds[controlPlane(h)]++
		}
	}
	if kinds[true] > 1 || kinds[true] > 0 && kinds[false] > 0 {
		w.fail("%d control planes and %d workers are at work", kinds[true], kinds[false])
	}
}

// give writes what the operator writes. What else the node says stays until its agent
// does something.
func (w *walk) give(h *rollout.Host, a rollout.Assignment) {
	n := &corev1.Node{}
	n.Annotations = map[string]string{rollout.StateOf: string(h.State)}
	for name, value := range a.Annotations(noon) {
		if delete(n.Annotations, name); value != nil {
			n.Annotations[name] = *value
		}
	}
	got := rollout.HostOf(n)
	h.Desired, h.Given, h.State = got.Desired, got.Given, got.State
	w.asked[h.Name] = true
}

// check checks that a host may be given a configuration now.
func (w *walk) check(given rollout.Host) {
	name := rollout.Worker
	if controlPlane(given) {
		name = rollout.Master
	}
	p := w.site.Pools[slices.IndexFunc(w.site.Pools, func(p rollout.Pool) bool { return p.Name == name })]
	away := 0
	for _, h := range w.site.Hosts {
		if controlPlane(h) == controlPlane(given) && h.Name != given.Name && (w.busy(h) || !h.Ready || h.Unschedulable) {
			away++
		}
	}
	failed := given.State == rollout.Degraded
	switch {
	case p.Paused:
		w.fail("%s was given a configuration while its pool is paused", given.Name)
	case w.busy(given) && p.Target == given.Current:
	case w.busy(given):
		w.fail("%s was given another configuration at its work", given.Name)
	case !failed && away >= 1 && controlPlane(given):
		w.fail("%s was taken while another control plane is away", given.Name)
	case !controlPlane(given) && away >= p.MaxUnavailable.IntValue() && given.Ready && !given.Unschedulable:
		w.fail("%s was taken while %d workers are away", given.Name, away)
	case controlPlane(given) && w.site.ControlPlanes > 1 && !state.Is(w.site.Spares[given.Name].Carries, true):
		w.fail("%s was taken, and the cluster does not carry on without it", given.Name)
	}
}

// checkBoot checks that a host may boot now.
func (w *walk) checkBoot(given rollout.Host) {
	alone := given.Unschedulable || given.State == rollout.Degraded
	for _, h := range w.site.Hosts {
		if h.Name != given.Name && controlPlane(h) && controlPlane(given) && (w.busy(h) || !alone && (!h.Ready || h.Unschedulable)) {
			w.fail("%s is to boot while %s is away", given.Name, h.Name)
		}
	}
	if w.busy(given) || !given.Ready || controlPlane(given) && w.site.ControlPlanes > 1 && !state.Is(w.site.Spares[given.Name].Carries, true) {
		w.fail("%s is to boot", given.Name)
	}
}

// act lets one host do something.
func (w *walk) act() {
	h := &w.site.Hosts[w.rand.IntN(len(w.site.Hosts))]
	what := w.rand.IntN(6)
	switch {
	case h.Wish.HasTurn() && h.Ready && what < 3:
		h.Wish.Done, h.Unschedulable = true, false // it has booted
	case !h.Wish.Open() && what == 4 && w.rand.IntN(4) == 0:
		h.Wish = wishOf("heard")
	case h.Wish.Open() && what == 5 && w.rand.IntN(8) == 0:
		h.Wish = wishOf("back")
	case w.busy(*h) && h.Ready && what < 3:
		w.says(h, rollout.Working)
		h.Unschedulable = true // it is drained
	case w.busy(*h) && h.Ready && what < 5:
		w.says(h, rollout.Done)
		h.Current, h.Unschedulable = h.Desired, false
	case w.calm && (!h.Ready || h.Unschedulable && !w.busy(*h)):
		h.Ready, h.Unschedulable = true, false
	case w.calm:
	case w.busy(*h) && h.Ready:
		w.says(h, rollout.Degraded)
		h.Unschedulable = w.rand.IntN(2) == 0
	case what == 0:
		h.Ready = !h.Ready
	case what == 1 && !w.busy(*h) && w.rand.IntN(4) == 0:
		h.Unschedulable = !h.Unschedulable // by an administrator
	case what == 2 && w.rand.IntN(4) == 0:
		w.site.Pools[w.rand.IntN(2)].Target = fmt.Sprintf("t%d", w.rand.IntN(4))
	case what == 3 && w.rand.IntN(6) == 0:
		i := w.rand.IntN(2)
		w.site.Pools[i].Paused = !w.site.Pools[i].Paused
	}
}

// says is what the agent of a host writes.
func (w *walk) says(h *rollout.Host, s rollout.State) {
	h.State = s
	delete(w.asked, h.Name)
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{t: t, asked: map[string]bool{}, rand: rand.New(rand.NewPCG(seed, 1))}
	w.site.ControlPlanes, w.site.Now = 1+w.rand.IntN(3), noon
	var lines []string
	// Some sites are new: no host has said or been given anything yet.
	has := []string{"t0>t0 Done", ">"}[w.rand.IntN(2)]
	for i := range w.site.ControlPlanes {
		lines = append(lines, fmt.Sprintf("cp-%d %s", i+1, has))
	}
	for i := range w.rand.IntN(4) {
		lines = append(lines, fmt.Sprintf("w-%d %s", i+1, has))
	}
	w.site.Hosts, w.site.Pools = hosts(t, strings.Join(lines, "\n")), pools()
	for i := range w.site.Pools {
		w.site.Pools[i].Target, w.site.Pools[i].MaxUnavailable = "t1", new(intstr.FromInt(1+w.rand.IntN(2)))
	}
	return w
}

func TestWhateverHappensNoTwoControlPlanesAreAway(t *testing.T) {
	boots := 0
	for seed := range uint64(100) {
		w := newWalk(t, seed)
		for range 100 {
			w.act()
			w.decide()
		}
		w.settle()
		boots += w.boots
	}
	if boots < 100 {
		t.Errorf("only %d wishes got their turn", boots)
	}
}

// settle ends all faults, and checks that every host then gets a target that
// none failed on.
func (w *walk) settle() {
	w.calm = true
	for i := range w.site.Pools {
		w.site.Pools[i].Target, w.site.Pools[i].Paused = "last", false
	}
	waits := func(h rollout.Host) bool {
		return h.Current != "last" || h.State != rollout.Done || h.Wish.HasTurn()
	}
	for range 2000 {
		if !slices.ContainsFunc(w.site.Hosts, waits) {
			return
		}
		w.act()
		w.decide()
	}
	w.fail("not every host got its configuration: %s", told(rollout.Decide(w.site)))
}
