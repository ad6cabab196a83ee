package rollout_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// stamps are times as people and programs may write them, and whether they are read.
var stamps = map[string]bool{
	"2026-11-23T12:00:00Z": true, "2026-11-23T13:00:00+01:00": true, "2026-11-23T12:00:00.5Z": true,
	"now": false, "2026-11-23": false, "2026-11-23 12:00:00": false, "1763899200": false, " 2026-11-23T12:00:00Z": false,
}

// TestAWishIsReadWithWhatIsSaidOfIt has each wish with each value about it, about an
// earlier one, and about none.
func TestAWishIsReadWithWhatIsSaidOfIt(t *testing.T) {
	for wanted, isTime := range stamps {
		for _, of := range []string{wanted, "2026-11-22T00:00:00Z", "", wanted + "0"} {
			for given, isGiven := range stamps {
				a := map[string]string{rollout.RebootWanted: wanted, rollout.RebootFrom: rollout.About(of, "boot-1"), rollout.RebootGiven: rollout.About(of, given)}
				w := rollout.WishOf(a)
				own := of == wanted
				at, _ := time.Parse(time.RFC3339, wanted)
				if w.Wanted != wanted || w.At.IsZero() == isTime || !w.At.Equal(at) && isTime || (w.From == "boot-1") != own || (w.From == "") == own {
					t.Errorf("%q about %q: %+v", wanted, of, w)
				}
				if !w.Given.IsZero() != (own && isGiven) || w.HasTurn() != (own && isGiven) || !w.Open() || w.Done || !w.Left {
					t.Errorf("%q about %q, given %q: %+v", wanted, of, given, w)
				}
				for boot, is := range map[string]bool{"boot-1": false, "boot-2": own, "": own} {
					if w.Booted(boot) != is {
						t.Errorf("%q about %q: booted in %q: %v", wanted, of, boot, w.Booted(boot))
					}
				}
				for done, is := range map[string]bool{wanted: true, of: own, "": false, wanted + " ": false} {
					a[rollout.RebootDone] = done
					if w := rollout.WishOf(a); w.Done != is || w.Open() == is || is && (w.HasTurn() || w.Booted("boot-2")) {
						t.Errorf("%q, done %q: %+v", wanted, done, w)
					}
				}
			}
		}
	}
}

// TestWhatIsLeftOfAWishIsWhatTheOperatorRemoves: its own annotations and the reason, and
// none of the agent's, which writes them again.
func TestWhatIsLeftOfAWishIsWhatTheOperatorRemoves(t *testing.T) {
	names := []string{rollout.RebootReason, rollout.RebootGiven, rollout.RebootWaits, rollout.RebootFrom, rollout.RebootDone}
	for set := range 1 << len(names) {
		a := map[string]string{}
		for i, name := range names {
			if set&(1<<i) != 0 {
				a[name] = ""
			}
		}
		w := rollout.WishOf(a)
		if w.Left != (set&0b00111 != 0) || w.Open() || w.HasTurn() || w.Done || w.From != "" || w.Booted("boot-2") {
			t.Errorf("%v: %+v", a, w)
		}
	}
}

// words are the stages of a wish that a host may have.
var wishWords = []string{"none", "new", "heard", "turn", "late", "done", "later", "soon", "back"}

func withWish(h rollout.Host, word string) rollout.Host {
	if word != "none" {
		h.Wish = wishOf(word)
	}
	return h
}

// TestInEachStateAWishIsDecidedAboutOnce has each state of two control planes and a worker
// with each stage of a wish for one of them.
func TestInEachStateAWishIsDecidedAboutOnce(t *testing.T) {
	kinds := map[string]int{}
	for _, first := range lines {
		for _, second := range lines {
			for _, worker := range []string{"t>t Done", "a>t Working", "a>a Done"} {
				for _, word := range wishWords {
					for who := range 3 {
						s := aSite(t, first, second, worker, state.Known(true))
						s.Now = noon
						s.Hosts[who] = withWish(s.Hosts[who], word)
						h := s.Hosts[who]
						before := slices.Clone(s.Hosts)
						d := rollout.Decide(s)
						bad := func(rule string) {
							t.Helper()
							t.Fatalf("cp-1 %s, cp-2 %s, w-1 %s, %s has the wish %s: %+v: %s", first, second, worker, h.Name, word, d.Wishes, rule)
						}
						if !reflect.DeepEqual(s.Hosts, before) {
							bad("what it was given changed")
						}
						wants := map[string]int{"none": 0, "turn": 0, "late": 0}
						n, known := wants[word]
						if !known {
							n = 1
						}
						if len(d.Wishes) != n {
							bad("one step for each wish that waits, or is over")
						}
						for _, step := range d.Wishes {
							kinds[fmt.Sprintf("%s %v %v", word, step.Give, step.Over)]++
							switch {
							case step.Host != h.Name:
								bad("it is about whose wish it is")
							case step.Over != (word == "done" || word == "back"):
								bad("it is over once it was carried out or taken back")
							case step.Over && (step.Give || step.Waits != ""):
								bad("what is over is nothing else")
							case !step.Over && step.Give != (step.Waits == ""):
								bad("who gets no turn is told why")
							case step.Give && word != "heard":
								bad("a turn is for a wish that the agent has heard of, and whose time has come")
							case word == "later" && step.Waits != "it is wanted for "+noon.Add(time.Minute).Format(time.RFC3339):
								bad("it waits for its time")
							case word == "soon" && !strings.Contains(step.Waits, `is "soon", and not a time such as 2026-11-23T12:00:00Z`):
								bad("what is no time is told")
							}
						}
						for _, a := range d.Set {
							if a.Host == h.Name && (word == "turn" || word == "late") {
								bad("who boots is given no other configuration")
							}
						}
					}
				}
			}
		}
	}
	for _, kind := range []string{"new false false", "heard true false", "heard false false", "done false true", "back false true", "later false false", "soon false false"} {
		if kinds[kind] < 20 {
			t.Errorf("%s: %v", kind, kinds)
		}
	}
}

// TestWhatIsForetoldOfARebootComesAbout: what a person is told before he asks is what the
// operator decides after it.
func TestWhatIsForetoldOfARebootComesAbout(t *testing.T) {
	now, given, waits := noon.Format(time.RFC3339), 0, 0
	for _, carries := range []state.Fact[bool]{state.Known(true), {}} {
		for _, first := range lines {
			for _, second := range lines {
				for _, worker := range []string{"t>t Done", "a>t Working", "a>a Done", "a>b Degraded", ">"} {
					s := aSite(t, first, second, worker, carries)
					s.Now = noon
					for i, h := range s.Hosts {
						told := rollout.WouldWait(s, h.Name, false, false)
						if !s.Hosts[i].Wish.At.IsZero() {
							t.Fatal("to ask makes a wish")
						}
						after := s
						after.Hosts = slices.Clone(s.Hosts)
						after.Hosts[i].Wish = rollout.WishOf(map[string]string{rollout.RebootWanted: now, rollout.RebootFrom: rollout.About(now, "boot-1")})
						for _, step := range rollout.Decide(after).Wishes {
							if step.Host != h.Name || step.Waits != told || step.Give != (told == "") {
								t.Fatalf("cp-1 %s, cp-2 %s, w-1 %s: %s was told %q, and then %+v", first, second, worker, h.Name, told, step)
							}
							if step.Give {
								given++
							} else {
								waits++
							}
						}
					}
				}
			}
		}
	}
	if given < 200 || waits < 2000 {
		t.Errorf("%d were given, %d wait", given, waits)
	}
	s := aSite(t, lines[0], lines[0], lines[0], state.Known(true))
	s.Now = noon
	s.Hosts[0].Wish = wishOf("turn")
	for host, want := range map[string]string{"cp-1": "it has its turn already", "cp-2": "cp-1 (its agent has not answered yet) is at work", "cp-9": "nobody decides about it"} {
		if got := rollout.WouldWait(s, host, false, false); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// TestARebootIsWishedOnceForEachReason: a boot satisfies some of what a distribution asks
// for, and the rest, such as a kernel that the boot loader does not take, stays for a person.
func TestARebootIsWishedOnceForEachReason(t *testing.T) {
	reasons := []string{"its packages ask for it: libc6", "the kernel 2 is installed, and 1 runs", "needs-restarting asks for it: glibc"}
	text := func(set int) string {
		var out []string
		for i, reason := range reasons {
			if set&(1<<i) != 0 {
				out = append(out, reason)
			}
		}
		return strings.Join(out, "; ")
	}
	for wished := range 8 {
		for required := range 8 {
			h := host(t, "w-1 new>new Done", 0)
			h.Required, h.RequiredWished = text(required), text(wished)
			p := pools()
			p[1].BootsRequired = true
			var want []rollout.WishStep
			switch {
			case required == 0, required == wished:
			case required&^wished == 0:
				want = []rollout.WishStep{{Host: "w-1", Remains: text(required)}}
			default:
				want = []rollout.WishStep{{Host: "w-1", Wish: text(required)}}
			}
			if got := rollout.Decide(rollout.Site{Now: noon, Hosts: []rollout.Host{h}, Pools: p}).Wishes; !slices.Equal(got, want) {
				t.Errorf("%q after %q: %+v, want %+v", text(required), text(wished), got, want)
			}
		}
	}
}

// TestTheOldestWishIsFirst, whatever the hosts are called; equal ones by their names.
func TestTheOldestWishIsFirst(t *testing.T) {
	for _, a := range []time.Duration{time.Minute, time.Hour, 2 * time.Hour} {
		for _, b := range []time.Duration{time.Minute, time.Hour, 2 * time.Hour} {
			for _, c := range []time.Duration{time.Minute, time.Hour, 2 * time.Hour} {
				ages := []time.Duration{a, b, c}
				s := rollout.Site{Now: noon, Hosts: hosts(t, "w-3 new>new Done\nw-1 new>new Done\nw-2 new>new Done"), Pools: pools()}
				oldest := 0
				for i, age := range ages {
					wanted := noon.Add(-age).Format(time.RFC3339)
					s.Hosts[i].Wish = rollout.WishOf(map[string]string{rollout.RebootWanted: wanted, rollout.RebootFrom: rollout.About(wanted, "boot-1")})
					if age > ages[oldest] || age == ages[oldest] && s.Hosts[i].Name < s.Hosts[oldest].Name {
						oldest = i
					}
				}
				d := rollout.Decide(s)
				if len(d.Wishes) != 3 {
					t.Fatalf("%v: %+v", ages, d.Wishes)
				}
				for i, step := range d.Wishes {
					if step.Give != (step.Host == s.Hosts[oldest].Name) || step.Give != (i == 0) {
						t.Errorf("%v: %+v", ages, d.Wishes)
					}
				}
			}
		}
	}
}

// TestAHostThatNoPoolHasGetsNoTurn and is told why; nothing is left of its wish once that
// is over.
func TestAHostThatNoPoolHasGetsNoTurn(t *testing.T) {
	for _, word := range wishWords {
		for _, line := range []string{"other-1 new>new Done", "other-1 >", "gpu-1 new>new Done"} {
			s := rollout.Site{Now: noon, Hosts: []rollout.Host{withWish(host(t, line, 0), word)}, Pools: pools()}
			if strings.HasPrefix(line, "gpu") {
				gpus(&s)
				other := s.Pools[2]
				other.Name = "gpu2"
				s.Pools = append(s.Pools, other)
			}
			d := rollout.Decide(s)
			var want []rollout.WishStep
			name := s.Hosts[0].Name
			switch word {
			case "done", "back":
				want = []rollout.WishStep{{Host: name, Over: true}}
			case "none":
			default:
				want = []rollout.WishStep{{Host: name, Waits: "it has no turn: " + d.Astray[0].Why}}
			}
			if diff := cmp.Diff(want, d.Wishes); diff != "" || len(d.Astray) != 1 {
				t.Errorf("%s, %s: %s", line, word, diff)
			}
		}
	}
}

// TestEachStateOfAHostHasWords: each combination of what stands in a node. What is most
// pressing is told, and who waits is told for what.
func TestEachStateOfAHostHasWords(t *testing.T) {
	const when = "2026-11-23T12:00:00Z"
	type part struct{ name, value string }
	groups := [][][]part{
		{
			nil,
			{{rollout.CurrentConfig, "a"}, {rollout.DesiredConfig, "a"}, {rollout.StateOf, "Done"}},
			{{rollout.CurrentConfig, "a"}, {rollout.DesiredConfig, "b"}, {rollout.StateOf, "Done"}},
			{{rollout.CurrentConfig, "a"}, {rollout.DesiredConfig, "b"}, {rollout.StateOf, "Working"}, {rollout.ReasonOf, "writes b"}},
			{{rollout.CurrentConfig, "a"}, {rollout.DesiredConfig, "b"}, {rollout.StateOf, "Degraded"}},
		},
		{
			nil,
			{{rollout.RebootWanted, when}},
			{{rollout.RebootWanted, when}, {rollout.RebootFrom, when + " boot-1"}, {rollout.RebootWaits, when + " w-1 is at work"}},
			{{rollout.RebootWanted, when}, {rollout.RebootFrom, when + " boot-1"}, {rollout.RebootGiven, when + " " + when}},
			{{rollout.RebootWanted, when}, {rollout.RebootDone, when}},
		},
		{nil, {{drain.Wanted, when}}, {{drain.Wanted, when}, {drain.Had, when}}, {{drain.Wanted, when}, {drain.Had, "2026-11-22T12:00:00Z"}}, {{drain.CordonedBy, "x"}}},
		{nil, {{drain.Waits, "default/web"}}},
	}
	texts := map[string]int{}
	var play func(i int, a map[string]string)
	check := func(a map[string]string) {
		for bits := range 8 {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", Annotations: a}}
			n.Spec.Unschedulable = bits&1 != 0
			ready, full := bits&2 != 0, bits&4 != 0
			if ready {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
			}
			if full {
				n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
			}
			got := rollout.Doing(n)
			h := rollout.HostOf(n)
			bad := func(rule string) {
				t.Helper()
				t.Fatalf("%v, cordoned %v, ready %v, full %v: %+v: %s", a, bits&1 != 0, ready, full, got, rule)
			}
			does := strings.TrimPrefix(got.Does, "is not ready; ")
			quiet := (a[rollout.DesiredConfig] == "" || h.State == rollout.Done && h.Current == h.Desired) && !h.Wish.Open() && a[drain.Wanted] == "" && a[drain.CordonedBy] == "" && !h.Unschedulable
			switch {
			case strings.HasPrefix(got.Does, "is not ready") == ready:
				bad("who is not ready is told so")
			case got.Does == "" && (!quiet || full):
				bad("who is at something is told so")
			case got.Does == "" && got.Waits != "":
				bad("nobody waits for nothing")
			case quiet && !full && ready && got.Does != "":
				bad("who takes pods and has nothing to do is told nothing")
			case h.Wish.HasTurn() && h.State != rollout.Working && does != "has its turn to boot":
				bad("a turn comes first")
			case h.State == rollout.Working && does != "writes b":
				bad("who works says at what")
			case h.Wish.Open() && !h.Wish.HasTurn() && h.State == rollout.Done && h.Current == h.Desired && does != "waits for its turn to boot":
				bad("a wish waits for its turn")
			case h.Wish.Open() && a[rollout.RebootWaits] != "" && does == "waits for its turn to boot" && got.Waits != "w-1 is at work":
				bad("and is told for what")
			case does == "moves its pods to other hosts" && got.Waits != a[drain.Waits]:
				bad("who is in the way is told")
			case strings.HasPrefix(does, "is empty") != (does == "is empty, as an administrator wants since "+when):
				bad("since when it is empty is told")
			case drain.HasWanted(a) && does == "is to be empty":
				bad("who is empty is not to be empty")
			}
			texts[does]++
		}
	}
	play = func(i int, a map[string]string) {
		if i == len(groups) {
			check(a)
			return
		}
		for _, parts := range groups[i] {
			next := maps.Clone(a)
			for _, p := range parts {
				next[p.name] = p.value
			}
			play(i+1, next)
		}
	}
	play(0, map[string]string{})
	for _, text := range []string{
		"", "has its turn to boot", "writes b", "was given another configuration", "waits for its turn to boot", "is to be empty", "moves its pods to other hosts",
		"is empty, as an administrator wants since " + when, "keeps its pods, because no other host takes them", "takes pods again in a moment", "is cordoned", "failed: it gave no reason", "its disk is full",
	} {
		if texts[text] == 0 {
			t.Errorf("nobody is told %q", text)
		}
		delete(texts, text)
	}
	delete(texts, "is not ready")
	if len(texts) > 0 {
		t.Errorf("nobody expects %v", texts)
	}
}
