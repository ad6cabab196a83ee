package drain

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	decide "github.com/holdfast/holdfast/internal/decide/drain"
)

var drains, uncordons = decide.Before("rendered-worker-1"), decide.After("rendered-worker-1")

const enough = 20

func TestAHostIsEmptiedAndTakesPodsAgain(t *testing.T) {
	s := newSite(t)
	s.runs("web", "ReplicaSet")
	s.runs("logs", "DaemonSet")
	s.looks(enough)
	if s.writes.Count != 0 {
		t.Fatalf("nobody asked for anything, and it wrote %d times", s.writes.Count)
	}
	s.wish(drains)
	s.looks(enough)
	s.is("emptied", true, map[string]string{decide.Applied: drains, decide.CordonedBy: drains})
	if s.names() != "logs" {
		t.Errorf("there are %s", s.names())
	}
	s.writes.Count = 0
	s.looks(enough)
	if s.writes.Count != 0 {
		t.Errorf("at rest it wrote %d times", s.writes.Count)
	}
	s.wish(uncordons)
	s.looks(enough)
	s.is("again", false, map[string]string{decide.Applied: uncordons})
	want := "w-1 Normal Cordoned: it gets no new pods, because its pods move to other hosts\n" +
		"w-1 Normal Drained: other hosts have its pods; 1 that belong to it stay\nw-1 Normal Uncordoned: it gets pods again"
	if got := s.told(); got != want {
		t.Errorf("it told\n%s\nwant\n%s", got, want)
	}
}

func TestAPersonsCordonStays(t *testing.T) {
	s := newSite(t)
	s.cordon(true)
	s.wish(drains)
	s.looks(enough)
	s.is("emptied", true, map[string]string{decide.Applied: drains})
	s.wish(uncordons)
	s.looks(enough)
	s.is("again", true, map[string]string{decide.Applied: uncordons})
}

func TestAHostThatSomebodyUncordonsIsEmptiedAnew(t *testing.T) {
	s := newSite(t)
	s.wish(drains)
	s.looks(enough)
	s.cordon(false)
	s.runs("web", "ReplicaSet")
	must(t, errOf(s.look()))
	s.is("at once", true, map[string]string{decide.CordonedBy: drains})
	s.looks(enough)
	s.is("emptied", true, map[string]string{decide.Applied: drains, decide.CordonedBy: drains})
	if s.names() != "" {
		t.Errorf("there are %s", s.names())
	}
}

func errOf(_ time.Duration, err error) error { return err }

func TestABudgetIsHeededAndNamedUntilItLetsGo(t *testing.T) {
	s := newSite(t)
	s.runs("web", "ReplicaSet")
	s.runs("db", "StatefulSet")
	s.budget("db", 0)
	s.wish(drains)
	began := s.now
	for s.node().Annotations[decide.Waits] == "" && s.now.Sub(began) < time.Minute {
		must(t, errOf(s.look()))
		s.kubelet()
	}
	if s.now.Sub(began) > 10*time.Second {
		t.Errorf("it takes %s to say who is in the way", s.now.Sub(began))
	}
	const words = "default/db (of StatefulSet of-db): PodDisruptionBudget db lets none go: of 1 pods 1 are ready, and 1 have to be"
	s.is("in the way", true, map[string]string{decide.CordonedBy: drains, decide.Waits: words})
	if got := s.told(); !strings.Contains(got, "w-1 Warning DrainWaits: "+words) || s.names() != "db" {
		t.Errorf("it told\n%s\nand there are %s", got, s.names())
	}
	s.looks(200)
	s.is("in the way for long", true, map[string]string{decide.CordonedBy: drains, decide.Waits: words})
	if since, known := decide.Since(s.node().Annotations); !known || s.now.Sub(since) < decide.Limit || s.told() != "" {
		t.Errorf("it waits since %s, and told more than once", since)
	}
	s.allows("db", 1)
	s.looks(enough)
	s.is("emptied", true, map[string]string{decide.Applied: drains, decide.CordonedBy: drains})
}

func TestAPodThatNobodyMakesAgainIsLeftToAPerson(t *testing.T) {
	s := newSite(t)
	s.runs("debug", "")
	s.wish(drains)
	s.looks(enough)
	s.is("in the way", true, map[string]string{decide.CordonedBy: drains, decide.Waits: "default/debug: nobody would make it again elsewhere; delete it, or move it yourself"})
	s.wish(uncordons)
	s.looks(enough)
	s.is("taken back", false, map[string]string{decide.Applied: uncordons})
	if s.names() != "debug" {
		t.Errorf("there are %s", s.names())
	}
}

func TestWhereNobodyElseTakesPodsNoneIsEvicted(t *testing.T) {
	s := newSite(t)
	must(t, s.admin.DeleteAllOf(t.Context(), &corev1.Node{}))
	s.join("w-1")
	s.join("cp-1", corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule})
	s.runs("web", "ReplicaSet")
	s.wish(drains)
	s.looks(enough)
	s.is("answered", false, map[string]string{decide.Applied: drains})
	if got := s.told(); s.names() != "web" || !strings.HasPrefix(got, "w-1 Warning NotDrained: no other host takes its pods") {
		t.Errorf("there are %s, it told %s", s.names(), got)
	}
}

// TestWhereverADrainIsCutOffTheNextOneGoesOn ends the operator before and after
// each of its writes and evictions.
func TestWhereverADrainIsCutOffTheNextOneGoesOn(t *testing.T) {
	broken := errors.New("the API went away")
	for after := range 2 {
		for n := 1; ; n++ {
			s := newSite(t)
			s.runs("a", "ReplicaSet")
			s.runs("b", "ReplicaSet")
			cut := func(i int) error {
				if i == n {
					return broken
				}
				return nil
			}
			if after == 1 {
				s.writes.After = cut
			} else {
				s.writes.Before = cut
			}
			for _, wish := range []string{drains, uncordons} {
				s.wish(wish)
				s.goesOn(broken)
			}
			s.is("in the end", false, map[string]string{decide.Applied: uncordons})
			if s.names() != "" {
				t.Errorf("cut at write %d: there are %s", n, s.names())
			}
			if s.writes.Count < n {
				if n < 5 {
					t.Errorf("there were only %d writes", s.writes.Count)
				}
				break
			}
		}
	}
}

// goesOn lets operators look, of which one that saw an error is another one
// afterwards. No pod goes while the node takes new ones.
func (s *site) goesOn(broken error) {
	s.t.Helper()
	for range enough {
		pods := len(s.pods())
		again, err := s.look()
		if errors.Is(err, broken) {
			s.restart()
			again = 1
		} else {
			must(s.t, err)
		}
		gone := func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }
		if n := s.node(); (slices.ContainsFunc(s.pods(), gone) || len(s.pods()) < pods) && !n.Spec.Unschedulable {
			s.t.Fatalf("pods go, and the node takes new ones")
		} else if _, ours := n.Annotations[decide.CordonedBy]; n.Spec.Unschedulable && !ours {
			s.t.Fatalf("nobody knows whose cordon it is")
		}
		s.kubelet()
		if again == 0 {
			return
		}
	}
	s.t.Fatal("it never comes to rest")
}

func TestSomebodyWhoCordonsMeanwhileIsNotOverwritten(t *testing.T) {
	s := newSite(t)
	s.wish(drains)
	s.writes.Before = func(n int) error {
		if n == 1 {
			s.cordon(true)
		}
		return nil
	}
	s.looks(enough)
	s.is("emptied", true, map[string]string{decide.Applied: drains})
}

func TestTheOperatorMayNotDeletePods(t *testing.T) {
	s := newSite(t)
	s.runs("web", "ReplicaSet")
	p := s.pods()[0]
	if err := s.own.Delete(t.Context(), &p); !apierrors.IsForbidden(err) {
		t.Errorf("it may: %v", err)
	}
	if err := s.own.Get(t.Context(), client.ObjectKeyFromObject(&p), &p); !apierrors.IsForbidden(err) {
		t.Errorf("it reads one by its name: %v", err)
	}
}

func TestAHeartbeatIsNoReasonToLook(t *testing.T) {
	before := &corev1.Node{}
	after := before.DeepCopy()
	after.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	if asks(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a heartbeat")
	}
	for name, change := range map[string]func(*corev1.Node){
		"a wish":   func(n *corev1.Node) { n.Annotations = map[string]string{decide.Desired: drains} },
		"a cordon": func(n *corev1.Node) { n.Spec.Unschedulable = true },
	} {
		after := before.DeepCopy()
		if change(after); !asks(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
			t.Error(name)
		}
	}
}
