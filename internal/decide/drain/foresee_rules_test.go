package drain_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// labelled gives a pod a label of its own, so that a budget can be about it alone.
func labelled(p *corev1.Pod) { p.Labels = map[string]string{"app": p.Name} }

// inhabitants are the pods that a host of the tests below has or has not, by a letter:
// two that move, two critical ones, one that is nobody's, one of a DaemonSet, one of a
// file, one that has finished.
func inhabitants(set string) []corev1.Pod {
	kinds := map[rune]func(*corev1.Pod){
		'a': nothing, 'b': nothing, 'c': critical, 'k': func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" },
		'n': nobodys, 'd': of("DaemonSet"), 'f': ofFile, 'x': phase(corev1.PodSucceeded),
	}
	var out []corev1.Pod
	for _, kind := range set {
		out = append(out, pod(string(kind), kinds[kind], labelled))
	}
	return out
}

// subsets returns each set of some letters.
func subsets(letters string) []string {
	var out []string
	for set := range 1 << len(letters) {
		var text strings.Builder
		for i, letter := range letters {
			if set&(1<<i) != 0 {
				text.WriteRune(letter)
			}
		}
		out = append(out, text.String())
	}
	return out
}

// guards returns a budget for each of some pods. It lets none go.
func guards(set string) []policyv1.PodDisruptionBudget {
	var out []policyv1.PodDisruptionBudget
	for _, kind := range set {
		out = append(out, budget("of-"+string(kind), &metav1.LabelSelector{MatchLabels: map[string]string{"app": string(kind)}}, 0))
	}
	return out
}

// carriedOut plays a drain that an administrator wants until nothing changes any more:
// who has moved, and what is said in the end.
func carriedOut(t *testing.T, f drain.Facts, guarded string) (moved []string, a map[string]string) {
	t.Helper()
	s := f.Node.DeepCopy()
	s.Annotations = map[string]string{drain.Wanted: since}
	pods := slices.Clone(f.Pods)
	for range 12 {
		look := f
		look.Node, look.Pods = s, slices.Clone(pods)
		step := drain.Begin(look)
		if step.Change == nil && step.Again == 0 {
			return moved, s.Annotations
		}
		if step.Change == nil {
			look.Refused = map[types.UID]string{}
			for _, p := range step.Evict {
				if strings.Contains(guarded, p.Name) {
					look.Refused[p.UID] = "no"
					continue
				}
				moved = append(moved, p.Name)
				pods = slices.DeleteFunc(pods, func(o corev1.Pod) bool { return o.UID == p.UID })
			}
			look.Pods = slices.Clone(pods)
			step = drain.Judge(look)
		}
		if step.Change == nil {
			continue
		}
		s = s.DeepCopy()
		for name, value := range step.Change.Annotations {
			if delete(s.Annotations, name); value != nil {
				s.Annotations[name] = *value
			}
		}
		if step.Change.Unschedulable != nil {
			s.Spec.Unschedulable = *step.Change.Unschedulable
		}
	}
	return moved, s.Annotations
}

// TestWhatIsForeseenComesAbout asks before each drain what it would do, and then carries it
// out: each set of pods, with budgets for each of those that move.
func TestWhatIsForeseenComesAbout(t *testing.T) {
	empty, blocked := 0, 0
	for _, set := range subsets("abckndfx") {
		for _, guarded := range subsets("ac") {
			f := facts(false)
			f.Pods, f.Budgets = inhabitants(set), guards(guarded)
			before := len(f.Pods)
			got := drain.Foresee(f)
			if len(f.Pods) != before || f.Refused != nil || f.Node.Spec.Unschedulable {
				t.Fatal("to foresee it changes something")
			}
			moved, a := carriedOut(t, f, guarded)
			bad := func(rule string) {
				t.Helper()
				t.Fatalf("pods %q, guarded %q: foreseen %+v; moved %q, and in the end %v: %s", set, guarded, got, moved, a, rule)
			}
			var names []string
			for _, kind := range "abck" {
				if strings.ContainsRune(set, kind) {
					names = append(names, fmt.Sprintf("default/%c (of ReplicaSet web)", kind))
				}
			}
			stay := strings.Count(set, "d") + strings.Count(set, "f")
			if !slices.Equal(got.Moves, names) || got.Stays != stay || got.Nowhere {
				bad("those that would move are named, and those that stay are counted")
			}
			if (got.InTheWay == "") != drain.HasWanted(a) {
				bad("a drain ends if nobody was foreseen to be in its way")
			}
			if got.InTheWay == "" {
				empty++
				if len(moved) != len(names) {
					bad("all that was foreseen has moved")
				}
				continue
			}
			blocked++
			for who := range strings.SplitSeq(a[drain.Waits], "; ") {
				if !strings.Contains(got.InTheWay, strings.SplitN(who, ":", 2)[0]) {
					bad("who is in the way was foreseen")
				}
			}
			for _, name := range moved {
				if strings.Contains(guarded, name) || !strings.Contains("abck", name) {
					bad("who is guarded does not move")
				}
			}
		}
	}
	if empty < 100 || blocked < 500 {
		t.Errorf("%d would end, %d not", empty, blocked)
	}
}

// TestWithoutAnotherHostNothingIsForeseenButWhatStays.
func TestWithoutAnotherHostNothingIsForeseenButWhatStays(t *testing.T) {
	for _, set := range subsets("acndf") {
		f := facts(false)
		f.Pods, f.Budgets, f.Others = inhabitants(set), guards("a"), nil
		got := drain.Foresee(f)
		if !got.Nowhere || got.Moves != nil || got.InTheWay != "" || got.Stays != strings.Count(set, "d")+strings.Count(set, "f") {
			t.Errorf("%q: %+v", set, got)
		}
		if moved, a := carriedOut(t, f, ""); len(moved) > 0 || !drain.HasWanted(a) {
			t.Errorf("%q: moved %q, %v", set, moved, a)
		}
	}
}

// TestABudgetHoldsAPodAsTheAPIDoes: one that lets none go, or several, whatever they let
// go; in the pod's namespace, by its labels.
func TestABudgetHoldsAPodAsTheAPIDoes(t *testing.T) {
	mine := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	other := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "z"}}
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "like"}}}
	elsewhere := budget("elsewhere", mine, 0)
	elsewhere.Namespace = "shop"
	kinds := map[string]struct {
		budget policyv1.PodDisruptionBudget
		of     bool
	}{
		"none": {budget("none", mine, 0), true}, "some": {budget("some", mine, 1), true}, "all": {budget("all", &metav1.LabelSelector{}, 2), true},
		"nobodys": {budget("nobodys", nil, 0), false}, "other": {budget("other", other, 0), false}, "wrong": {budget("wrong", wrong, 0), false}, "elsewhere": {elsewhere, false},
	}
	names := slices.Sorted(maps.Keys(kinds))
	for set := range 1 << len(names) {
		f := facts(false)
		f.Pods = inhabitants("a")
		var of []string
		holds := false
		for i, name := range names {
			if set&(1<<i) == 0 {
				continue
			}
			k := kinds[name]
			f.Budgets = append([]policyv1.PodDisruptionBudget{k.budget}, f.Budgets...)
			if k.of {
				of = append(of, name)
				holds = k.budget.Status.DisruptionsAllowed == 0
			}
		}
		want := ""
		switch {
		case len(of) > 1:
			want = "default/a (of ReplicaSet web): several PodDisruptionBudgets select it (" + strings.Join(of, ", ") + "), and the API evicts no such pod; leave one of them"
		case len(of) == 1 && holds:
			want = "default/a (of ReplicaSet web): PodDisruptionBudget none lets none go: of 2 pods 1 are ready, and 1 have to be"
		}
		if got := drain.Foresee(f).InTheWay; got != want {
			t.Errorf("%q: %q, want %q", of, got, want)
		}
	}
}

// wanting are the annotations that say who wants a host to be empty, and who was told.
func wanting() []map[string]string {
	var out []map[string]string
	for _, own := range []string{"", drain.Before("1"), drain.Before("2"), drain.After("1")} {
		for _, applied := range []string{"", drain.Before("1"), drain.Before("2"), drain.After("1")} {
			for _, wanted := range []string{"", "monday", "tuesday"} {
				for _, had := range []string{"", "monday", "tuesday"} {
					for _, began := range []string{"", "2026-11-23T11:30:00Z", "then"} {
						a := map[string]string{}
						for name, value := range map[string]string{drain.Desired: own, drain.Applied: applied, drain.Wanted: wanted, drain.Had: had, drain.Began: began} {
							if value != "" {
								a[name] = value
							}
						}
						out = append(out, a)
					}
				}
			}
		}
	}
	return out
}

// TestWhoWantsAHostToBeEmptyIsAnsweredByName: the host itself, an administrator, or both.
func TestWhoWantsAHostToBeEmptyIsAnsweredByName(t *testing.T) {
	for _, a := range wanting() {
		own, wanted := a[drain.Desired], a[drain.Wanted]
		ownEmpties := strings.HasPrefix(own, "drain-")
		if drain.HasWanted(a) != (wanted != "" && a[drain.Had] == wanted) || drain.Empties(own) != ownEmpties {
			t.Errorf("%v: %v, %v", a, drain.HasWanted(a), drain.Empties(own))
		}
		for _, wish := range []string{drain.Before("1"), drain.Before("2"), drain.After("1")} {
			if drain.Emptied(a, wish) != (own == wish && a[drain.Applied] == wish) {
				t.Errorf("%v: emptied for %s: %v", a, wish, drain.Emptied(a, wish))
			}
		}
		at, empties := drain.Since(a)
		if empties != (a[drain.Began] == "2026-11-23T11:30:00Z" && ownEmpties && a[drain.Applied] != own) || empties && !at.Equal(noon.Add(-30*time.Minute)) {
			t.Errorf("%v: emptied since %s, %v", a, at, empties)
		}
		if !ownEmpties && wanted == "" {
			continue
		}
		f := facts(true)
		f.Node.Annotations = maps.Clone(a)
		want := map[string]string{}
		if ownEmpties {
			want[drain.Applied] = own
		}
		if wanted != "" {
			want[drain.Had] = wanted
		}
		for what, c := range map[string]*drain.Change{"empty": drain.Judge(f).Change, "alone": alone(f)} {
			if c == nil {
				answered := (!ownEmpties || a[drain.Applied] == own) && (wanted == "" || drain.HasWanted(a))
				if what == "alone" && answered {
					continue
				}
				t.Fatalf("%v, %s: nothing is said", a, what)
			}
			if what == "alone" && c.Event == "" {
				continue // it was told, and what is left is taken away
			}
			told := map[string]string{}
			for name, value := range c.Annotations {
				if value != nil {
					told[name] = *value
				}
			}
			_, waits := c.Annotations[drain.Waits]
			_, began := c.Annotations[drain.Began]
			if !maps.Equal(told, want) || !waits || !began || c.Unschedulable != nil {
				t.Errorf("%v, %s: told %v, want %v", a, what, told, want)
			}
		}
	}
}

// alone returns the first change where no other host takes pods.
func alone(f drain.Facts) *drain.Change {
	f.Others = nil
	return drain.Begin(f).Change
}

// TestEachLookAtAWishIsTheNextStepOfIt has each of those annotations on a node that is
// cordoned or not.
func TestEachLookAtAWishIsTheNextStepOfIt(t *testing.T) {
	for _, a := range wanting() {
		for _, cordoned := range []bool{false, true} {
			f := facts(cordoned)
			f.Node.Annotations = maps.Clone(a)
			f.Pods = inhabitants("a")
			own, wanted := a[drain.Desired], a[drain.Wanted]
			empties := strings.HasPrefix(own, "drain-") || wanted != ""
			told := (!strings.HasPrefix(own, "drain-") || a[drain.Applied] == own) && (wanted == "" || a[drain.Had] == wanted)
			s := drain.Begin(f)
			bad := func(rule string) {
				t.Helper()
				t.Fatalf("%v, cordoned %v: %s: %s", a, cordoned, said(s), rule)
			}
			switch {
			case !empties:
				if len(s.Evict) > 0 || s.Again != 0 {
					bad("without a wish nobody goes")
				}
			case !cordoned:
				if s.Change == nil || s.Change.Unschedulable == nil || !*s.Change.Unschedulable || len(s.Evict) > 0 {
					bad("a host is cordoned before all else")
				}
				by := s.Change.Annotations[drain.CordonedBy]
				if by == nil || strings.HasPrefix(own, "drain-") && *by != own || !strings.HasPrefix(own, "drain-") && *by != "drain-wanted-"+wanted {
					bad("and says for what: the host's own wish before that of a person")
				}
				_, had := s.Change.Annotations[drain.Had]
				if s.Change.Annotations[drain.Had] != nil || had != (a[drain.Had] != "") {
					bad("and who was told before is told again")
				}
				began, written := s.Change.Annotations[drain.Began]
				if written != (a[drain.Began] == "") || written && *began != "2026-11-23T12:00:00Z" {
					bad("a drain begins once")
				}
				if person := "an administrator wants that since " + wanted + ", until: holdfast host uncordon w-1"; strings.Contains(s.Change.Note, "administrator") != (wanted != "") || wanted != "" && !strings.HasSuffix(s.Change.Note, person) {
					bad("a person is told how to have it back")
				}
			case told:
				if len(s.Evict) > 0 || s.Again != 0 || s.Change != nil && (s.Change.Unschedulable != nil || s.Change.Event != "") {
					bad("who was told that it is empty is left alone")
				}
			case a[drain.Began] == "":
				if s.Change == nil || len(s.Change.Annotations) != 1 || s.Change.Annotations[drain.Began] == nil || len(s.Evict) > 0 {
					bad("it is written down since when")
				}
			default:
				if s.Change != nil || len(s.Evict) != 1 || s.Again == 0 {
					bad("then pods go")
				}
			}
		}
	}
}
