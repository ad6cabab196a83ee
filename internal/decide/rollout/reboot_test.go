package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// wishOf returns how far a wish is, by a word: heard has reached the agent, turn was
// given a turn. patch- before it makes it one for updates, window- one that waits for the
// maintenance window.
func wishOf(word string) rollout.Wish {
	if rest, ok := strings.CutPrefix(word, "patch-"); ok {
		a := map[string]string{}
		for name, value := range annotationsOf(rest) {
			a[strings.Replace(name, "/reboot-", "/patch-", 1)] = value
		}
		return rollout.WishOf(a)
	}
	return rollout.WishOf(annotationsOf(word))
}

// annotationsOf returns those of a wish for a reboot.
func annotationsOf(word string) map[string]string {
	wanted := noon.Add(-time.Minute).Format(time.RFC3339)
	if first, ok := strings.CutPrefix(word, "older-"); ok {
		word, wanted = first, noon.Add(-time.Hour).Format(time.RFC3339)
	}
	if first, ok := strings.CutPrefix(word, "fresh-"); ok {
		word, wanted = first, noon.Add(-19*time.Second).Format(time.RFC3339)
	}
	if rest, ok := strings.CutPrefix(word, "window-"); ok {
		word, wanted = rest, wanted+rollout.InWindow
	}
	a := map[string]string{rollout.RebootWanted: wanted}
	switch word {
	case "new":
	case "heard", "turn", "late", "done":
		a[rollout.RebootFrom] = rollout.About(wanted, "boot-1")
		given := map[string]time.Duration{"turn": time.Minute, "late": time.Hour}
		if ago := given[word]; ago != 0 {
			a[rollout.RebootGiven] = rollout.About(wanted, noon.Add(-ago).Format(time.RFC3339))
		}
		if word == "done" {
			a[rollout.RebootDone] = wanted
		}
	case "later":
		a[rollout.RebootWanted] = noon.Add(time.Minute).Format(time.RFC3339)
	case "soon":
		a[rollout.RebootWanted] = "soon"
	case "back":
		a = map[string]string{rollout.RebootGiven: "x", rollout.RebootFrom: "x"}
	default:
		panic(word)
	}
	return a
}

// requires has the distribution of the first host want a reboot; wished is for what one was
// wished already.
func requires(why, wished string) func(*rollout.Site) {
	return func(s *rollout.Site) { s.Hosts[0].Required, s.Hosts[0].RequiredWished = why, wished }
}

// boots has the pool of workers make wishes of that.
func boots(s *rollout.Site) { of("worker", func(p *rollout.Pool) { p.BootsRequired = true })(s) }

// beside has somebody want updates and a reboot of the first host, as its node says it.
func beside(patch, reboot string) func(*rollout.Site) {
	return func(s *rollout.Site) {
		h := rollout.HostOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: besides(reboot, patch)}})
		s.Hosts[0].Wish, s.Hosts[0].Behind = h.Wish, h.Behind
	}
}

// besides are the annotations of a wish for a reboot and one for updates; empty for none.
func besides(reboot, patch string) map[string]string {
	a := map[string]string{}
	if reboot != "" {
		maps.Copy(a, annotationsOf(reboot))
	}
	if patch != "" {
		for name, value := range annotationsOf(patch) {
			a[strings.Replace(name, "/reboot-", "/patch-", 1)] = value
		}
	}
	return a
}

// waitsForBoot has a person boot the first host for its configuration.
func waitsForBoot(s *rollout.Site) { s.Hosts[0].Stage = rollout.WaitsForBoot }

func both(changes ...func(*rollout.Site)) func(*rollout.Site) {
	return func(s *rollout.Site) {
		for _, change := range changes {
			change(s)
		}
	}
}

func rebootSituations() []situation {
	const two = "cp-1 new>new Done wish=heard\ncp-2 new>new Done"
	spare := func(name string, s rollout.Spare) func(*rollout.Site) {
		return func(site *rollout.Site) { site.Spares[name] = s }
	}
	lost := rollout.Spare{Carries: state.Known(false), Why: "cp-1 is a learner"}
	limit := of("worker", func(p *rollout.Pool) { p.MaxUnavailable = new(intstr.FromInt32(2)) })
	return []situation{
		{"a worker boots", "w-1 new>new Done wish=heard\nw-2 new>new Done", nil},
		{"its agent has not heard of it", "w-1 new>new Done wish=new", nil},
		{"its agent was asked a moment ago", "w-1 new>new Done wish=fresh-new", nil},
		{"it was never given a configuration", "w-1 > wish=heard notready", nil},
		{"it is wanted for later", "w-1 new>new Done wish=later", nil},
		{"it is wanted for no time", "w-1 new>new Done wish=soon", nil},
		{"it is away", "w-1 new>new Done wish=heard notready", nil},
		{"a person has cordoned it, and it is the one that is away", "w-1 new>new Done wish=heard cordoned\nw-2 new>new Done", nil},
		{"another one is away", "w-1 new>new Done wish=heard\nw-2 new>new Done notready", nil},
		{"another one is away, and two may be", "w-1 new>new Done wish=heard\nw-2 new>new Done notready", limit},
		{"another one is short of memory", "w-1 new>new Done wish=heard\nw-2 new>new Done pressed", nil},
		{"another one has a full disk", "w-1 new>new Done wish=heard\nw-2 new>new Done pressure", nil},
		{"one after the other, the oldest wish first", "w-1 new>new Done wish=heard\nw-2 new>new Done wish=older-heard", nil},
		{"two at once", "w-1 new>new Done wish=heard\nw-2 new>new Done wish=heard\nw-3 new>new Done wish=heard", limit},
		{"the second waits for the first", "w-1 new>new Working wish=turn cordoned reason=moves\nw-2 new>new Done wish=heard", nil},
		{"the agent does not answer its turn", "w-1 new>new Done wish=late", nil},
		{"it has booted", "w-1 new>new Done wish=done", nil},
		{"the wish is taken back", "w-1 new>new Done wish=back", nil},
		{"the configuration goes first", "w-1 old>old Done wish=heard\nw-2 new>new Done", nil},
		{"also that of another host", "w-1 new>new Done wish=heard\nw-2 old>old Done", nil},
		{"it is at work on its configuration", "w-1 old>new Working wish=heard reason=moves", nil},
		{"its configuration changes just now", "w-1 old>old Done wish=heard", of("worker", func(p *rollout.Pool) { p.Settling = true })},
		{"it has the configuration that has just changed", "w-1 new>new Done wish=heard", of("worker", func(p *rollout.Pool) { p.Settling = true })},
		{"no other configuration is given to a host that boots", "w-1 old>old Working wish=turn", nil},
		{"nor to one that failed before", "w-1 old>bad Degraded wish=turn", nil},
		{"its pool is paused", "w-1 new>new Done wish=heard", of("worker", func(p *rollout.Pool) { p.Paused = true })},
		{"an upgrade takes hosts away", "w-1 new>new Done wish=heard", upgrades},
		{"a plan changes the control planes", two, changes},
		{"and a worker boots", "w-1 new>new Done wish=heard", changes},
		{"its pool has no configuration", "w-1 new>new Done wish=heard", of("worker", func(p *rollout.Pool) { p.Target, p.Problem = "", "two files have one path" })},
		{"the limit of its pool is no number", "w-1 new>new Done wish=heard", of("worker", func(p *rollout.Pool) { p.MaxUnavailable = new(intstr.FromString("some")) })},
		{"the configuration failed on it", "w-1 old>new Degraded reason=disk wish=heard\nw-2 old>old Done", nil},
		{"the configuration failed on another one", "w-1 old>new Degraded reason=disk\nw-2 old>old Done wish=heard", nil},
		{"a host of another pool is at work", "cp-1 new>new Done wish=heard\nw-1 old>new Working", nil},
		{"a host of another pool boots", "cp-1 new>new Done\nw-1 old>old Done\nw-2 new>new Done", func(s *rollout.Site) { s.Hosts[0].Wish, s.Hosts[0].State = wishOf("turn"), rollout.Working }},
		{"a worker and a control plane, one after the other", "cp-1 new>new Done wish=older-heard\nw-1 new>new Done wish=heard", nil},
		{"what failed on a worker keeps no control plane from its reboot", "cp-1 new>new Done wish=heard\nw-1 old>new Degraded", nil},
		{"the only control plane", "cp-1 new>new Done wish=heard", func(s *rollout.Site) { s.Spares = nil }},
		{"one of two control planes", two, nil},
		{"both of them", "cp-1 new>new Done wish=heard\ncp-2 new>new Done wish=heard", nil},
		{"only the one that is to boot could be lost", two, spare("cp-2", lost)},
		{"it could not be lost", two, spare("cp-1", lost)},
		{"nobody knows", two, spare("cp-1", rollout.Spare{})},
		{"the other one is away", "cp-1 new>new Done wish=heard\ncp-2 new>new Done notready", nil},
		{"the other one is short of memory", "cp-1 new>new Done wish=heard\ncp-2 new>new Done pressed", nil},
		{"it is short of memory itself, and only it could be lost", "cp-1 new>new Done wish=heard pressed\ncp-2 new>new Done", spare("cp-2", lost)},
		{"the other one is at work", "cp-1 new>new Done wish=heard\ncp-2 old>new Working", nil},
		{"a person has emptied it", "cp-1 new>new Done wish=heard cordoned\ncp-2 new>new Done", spare("cp-2", lost)},
		{"a person has emptied the one that carries", "cp-1 new>new Done wish=heard cordoned\ncp-2 new>new Done", spare("cp-1", lost)},
		{"a node was deleted", "cp-1 new>new Done wish=heard", func(s *rollout.Site) { s.ControlPlanes = 2 }},
		{"no pool selects it", "other-1 new>new Done wish=heard", nil},
		{"no pool selects it, and it has booted", "other-1 new>new Done wish=done", nil},
		{"a worker gets updates", "w-1 new>new Done wish=patch-heard\nw-2 new>new Done", nil},
		{"its agent has not heard that it is to get updates", "w-1 new>new Done wish=patch-new", nil},
		{"updates are wanted for no time", "w-1 new>new Done wish=patch-soon", nil},
		{"it is away and is to get updates", "w-1 new>new Done wish=patch-heard notready", nil},
		{"a reboot waits for updates of another one", "w-1 new>new Working wish=patch-turn cordoned reason=installs\nw-2 new>new Done wish=heard", nil},
		{"the agent does not answer that it has its turn for updates", "w-1 new>new Done wish=patch-late", nil},
		{"one of two control planes gets updates", "cp-1 new>new Done wish=patch-heard\ncp-2 new>new Done", nil},
		{"it could not be lost, and is to get updates", "cp-1 new>new Done wish=patch-heard\ncp-2 new>new Done", spare("cp-1", lost)},
		{"its updates are over", "w-1 new>new Done wish=patch-done", nil},
		{"a person wants it while the window is closed", "w-1 new>new Done wish=heard", of("worker", closed)},
		{"a person wants it in the window", "w-1 new>new Done wish=window-heard\nw-2 new>new Done wish=patch-window-heard", of("worker", closed)},
		{"a person wants it in the window, which is open", "w-1 new>new Done wish=window-heard", nil},
		{"what began in the window goes on after it", "w-1 new>new Done wish=window-turn\nw-2 new>new Done wish=window-heard", of("worker", closed)},
		{"the distribution wants it, and nobody said that this is a wish", "w-1 new>new Done", requires("kernel", "")},
		{"the distribution wants it, and that is a wish", "w-1 new>new Done\nw-2 new>new Done", both(boots, requires("kernel", ""))},
		{"it is wished already", "w-1 new>new Done wish=window-heard", both(boots, requires("kernel", "kernel"), of("worker", closed))},
		{"it has booted, and the distribution wants it still", "w-1 new>new Done", both(boots, requires("kernel", "kernel"))},
		{"it has booted, and one reason of several is left", "w-1 new>new Done", both(boots, requires("the kernel 2 is installed, and 1 runs", "its packages ask for it: libc6; the kernel 2 is installed, and 1 runs"))},
		{"one more reason comes beside", "w-1 new>new Done", both(boots, requires("its packages ask for it: libc6; the kernel 2 is installed, and 1 runs", "the kernel 2 is installed, and 1 runs"))},
		{"it wants it for another reason", "w-1 new>new Done", both(boots, requires("glibc", "kernel"))},
		{"nobody knows any more whether it wants it", "w-1 new>new Done", both(boots, requires("", "kernel"))},
		{"it wants none any more", "w-1 new>new Done", both(boots, requires("", "kernel"), func(s *rollout.Site) { s.Hosts[0].NotRequired = true })},
		{"updates and a reboot are wanted now", "w-1 new>new Done", beside("heard", "heard")},
		{"updates wait for the window, and a reboot is wanted now", "w-1 new>new Done\nw-2 new>new Done wish=heard", both(beside("window-heard", "older-heard"), of("worker", closed))},
		{"both wait for the window", "w-1 new>new Done", both(beside("window-heard", "window-heard"), of("worker", closed))},
		{"updates are wanted in the window, which is open, and a reboot", "w-1 new>new Done", beside("window-heard", "heard")},
		{"updates are wanted for later, and a reboot now", "w-1 new>new Done", beside("later", "heard")},
		{"updates are wanted for no time, and a reboot now", "w-1 new>new Done", beside("soon", "heard")},
		{"updates are wanted for later, and a reboot now, and another host is away", "w-1 new>new Done\nw-2 new>new Done notready", beside("later", "heard")},
		{"no pool selects it, and updates and a reboot are wanted", "other-1 new>new Done", beside("heard", "heard")},
		{"a person is to boot it for its configuration, and wants that of the site", "w-1 old>new Working wish=heard reason=needs", waitsForBoot},
		{"a person is to boot it for its configuration, and wants updates", "w-1 old>new Working wish=patch-heard reason=needs", waitsForBoot},
		{"a person is to boot it for its configuration, and wants both", "w-1 old>new Working reason=needs", both(waitsForBoot, beside("heard", "heard"))},
		{"a person boots the hosts of the pool", "w-1 new>new Done", both(boots, requires("kernel", ""), of("worker", func(p *rollout.Pool) { p.ByHand = true }))},
	}
}

func TestWhoBootsNextIsApproved(t *testing.T) {
	var out strings.Builder
	for _, c := range rebootSituations() {
		fmt.Fprintf(&out, "%s\n  %s\n%s", c.sentence, strings.ReplaceAll(c.hosts, "\n", "\n  "), told(rollout.Decide(site(t, c))))
	}
	golden.Check(t, "reboots.txt", []byte(out.String()))
}

// TestInEveryStateOfASmallSiteAWishKeepsTheRules plays all states of two control planes
// and a worker, with wishes for each set of them.
func TestInEveryStateOfASmallSiteAWishKeepsTheRules(t *testing.T) {
	given := map[string]int{}
	for _, carries := range []state.Fact[bool]{state.Known(true), state.Known(false), {}} {
		for _, first := range lines {
			for _, second := range lines {
				for _, worker := range lines {
					for _, set := range []int{1, 2, 4, 7} {
						s := aSite(t, first, second, worker, carries)
						s.Now = noon
						for i := range s.Hosts {
							if set&(1<<i) != 0 {
								s.Hosts[i].Wish = wishOf("heard")
							}
						}
						d := rollout.Decide(s)
						for _, rule := range brokenByWishes(s, d) {
							t.Fatalf("cp-1 %s, cp-2 %s, w-1 %s, carries on without cp-1 %+v, wishes %b: %+v: broken: %s", first, second, worker, carries, set, d.Wishes, rule)
						}
						for _, w := range d.Wishes {
							if w.Give {
								given[w.Host]++
							}
						}
					}
				}
			}
		}
	}
	if len(given) != 3 {
		t.Errorf("given %v", slices.Sorted(maps.Keys(given)))
	}
}

// brokenByWishes returns the rules that the decision about wishes breaks.
func brokenByWishes(s rollout.Site, d rollout.Decision) []string {
	out := broken(s, d)
	rule := func(holds bool, words string) {
		if !holds {
			out = append(out, words)
		}
	}
	busy := len(d.Set)
	for _, w := range d.Wishes {
		h := named(s, w.Host)
		rule(h.Wish.Open() && (w.Waits == "") == w.Give && !w.Over, "who has a wish gets its turn, or is told for what it waits")
		if !w.Give {
			continue
		}
		busy++
		rule(h.Ready && h.Desired != "" && !works(h), "who boots is there, and at no other work")
		rule(!slices.ContainsFunc(s.Hosts, func(o rollout.Host) bool { return works(o) && (controlPlane(o) || controlPlane(h)) }), "nobody boots beside a control plane at work, and no control plane beside anybody at work")
		if !controlPlane(h) {
			continue
		}
		rule(state.Is(s.Spares[h.Name].Carries, true), "a control plane boots where the cluster carries on without it")
		alone := isAway(h) || fails(h)
		for _, o := range s.Hosts {
			rule(alone || !controlPlane(o) || !isAway(o) && state.Is(s.Spares[o.Name].Carries, true), "a healthy control plane boots where each could be lost")
		}
	}
	rule(busy < 2, "one host is at work")
	wishes := 0
	for _, h := range s.Hosts {
		if h.Wish.Open() {
			wishes++
		}
	}
	rule(wishes == len(d.Wishes), "each wish is decided about")
	return out
}

func TestWhatIsSaidOfAFormerWishCountsForNothing(t *testing.T) {
	a := map[string]string{
		rollout.RebootWanted: "2026-11-23T12:00:00Z", rollout.RebootFrom: rollout.About("2026-11-23T11:00:00Z", "boot-1"),
		rollout.RebootGiven: rollout.About("2026-11-23T11:00:00Z", "2026-11-23T11:00:01Z"), rollout.RebootDone: "2026-11-23T11:00:00Z",
	}
	if w := rollout.WishOf(a); !w.Open() || w.HasTurn() || w.From != "" || w.Booted("boot-2") {
		t.Errorf("%+v", w)
	}
	a[rollout.RebootFrom] = rollout.About("2026-11-23T12:00:00Z", "boot-2")
	if w := rollout.WishOf(a); w.HasTurn() || w.Booted("boot-2") || !w.Booted("boot-3") {
		t.Errorf("heard: %+v", w)
	}
	a[rollout.RebootGiven] = rollout.About("2026-11-23T12:00:00Z", "2026-11-23T12:00:01Z")
	if w := rollout.WishOf(a); !w.HasTurn() || !w.Given.Equal(noon.Add(time.Second)) {
		t.Errorf("its turn: %+v", w)
	}
	a[rollout.RebootDone] = "2026-11-23T12:00:00Z"
	if w := rollout.WishOf(a); w.HasTurn() || w.Open() || w.Booted("boot-3") {
		t.Errorf("done: %+v", w)
	}
}

// TestTheWishThatComesFirst: one that has its turn keeps it, and a boot for updates is
// the reboot too.
func TestTheWishThatComesFirst(t *testing.T) {
	for _, c := range []struct {
		reboot, patch string
		want          bool // updates
	}{
		{"heard", "", false},
		{"", "heard", true},
		{"heard", "heard", true},
		{"turn", "heard", false},
		{"turn", "done", false},
		{"turn", "back", false},
		{"heard", "turn", true},
		{"done", "heard", false},
		{"heard", "done", true},
		{"back", "turn", true},
	} {
		if w := rollout.WishOf(besides(c.reboot, c.patch)); w.Patch != c.want {
			t.Errorf("a reboot %q and updates %q: %+v", c.reboot, c.patch, w)
		}
	}
	a := map[string]string{rollout.PatchWanted: "2026-11-23T12:00:00Z" + rollout.NoReboot}
	if w := rollout.WishOf(a); !w.At.Equal(noon) || w.Booted("x") {
		t.Errorf("without a boot: %+v", w)
	}
	a = map[string]string{rollout.PatchWanted: rollout.Ask(noon, true, rollout.HeldToo)}
	if w := rollout.WishOf(a); !w.At.Equal(noon) || !w.InWindow || !strings.HasSuffix(w.Wanted, rollout.HeldToo) {
		t.Errorf("updates of what etcd runs on, in the window: %+v", w)
	}
	a = map[string]string{rollout.PatchWanted: rollout.Ask(noon, true, rollout.NoReboot)}
	if w := rollout.WishOf(a); !w.At.Equal(noon) || !w.InWindow || !strings.HasSuffix(w.Wanted, rollout.NoReboot) {
		t.Errorf("in the window, without a boot: %+v", w)
	}
	a = map[string]string{rollout.RebootWanted: rollout.Ask(noon, true, "")}
	if w := rollout.WishOf(a); !w.At.Equal(noon) || !w.InWindow {
		t.Errorf("in the window: %+v", w)
	}
	a = map[string]string{rollout.RebootWanted: "2026-11-23T12:00:00Z" + rollout.NoReboot}
	if w := rollout.WishOf(a); !w.At.IsZero() {
		t.Errorf("a reboot without a boot: %+v", w)
	}
}

// TestUpdatesAndARebootThatWaitAreBothTold: each with its own reason and the command that takes it
// back, and what is foretold of the reboot is what the operator decides.
func TestUpdatesAndARebootThatWaitAreBothTold(t *testing.T) {
	a := besides("older-heard", "window-heard")
	a[rollout.PatchWaits] = rollout.About(a[rollout.PatchWanted], "its window is closed")
	a[rollout.RebootWaits] = rollout.About(a[rollout.RebootWanted], "w-2 is at work")
	a[rollout.DesiredConfig], a[rollout.CurrentConfig], a[rollout.StateOf] = "new", "new", string(rollout.Done)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", Annotations: a}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	want := rollout.Activity{Does: "waits for its turn to get updates and for that to boot", Waits: "its window is closed; for the reboot: w-2 is at work"}
	if got := rollout.Doing(n); got != want {
		t.Errorf("%+v", got)
	}
	var told []string
	for _, w := range rollout.HostOf(n).OfWishes(noon.Add(25 * time.Hour)) {
		told = append(told, fmt.Sprint(w.Why, ", late ", w.Late, ", updates ", w.Patch, ": ", w.Cancel))
	}
	if !slices.Equal(told, []string{
		"its window is closed, late false, updates true: holdfast host patch w-1 --cancel",
		"w-2 is at work, late true, updates false: holdfast host reboot w-1 --cancel",
	}) {
		t.Errorf("told: %q", told)
	}
	s := site(t, situation{hosts: "w-1 new>new Done", change: both(beside("window-heard", ""), of("worker", closed))})
	s.Now = noon
	if got := rollout.WouldWait(s, "w-1", false, false); got != "" {
		t.Errorf("a reboot beside updates that wait for the window: %q", got)
	}
	if got := rollout.WouldWait(s, "w-1", true, false); got != "" {
		t.Errorf("updates now: %q", got)
	}
	beside("heard", "")(&s)
	if got := rollout.WouldWait(s, "w-1", false, false); got != "the updates that somebody wants of it too, which come first" {
		t.Errorf("a reboot beside updates: %q", got)
	}
	beside("", "heard")(&s)
	if got := rollout.WouldWait(s, "w-1", true, true); got != "its maintenance window opens at 2026-11-29T02:00:00+01:00" {
		t.Errorf("updates in the window beside a reboot: %q", got)
	}
}
