package drain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

// cordonedOther is another node that is ready and cordoned. The annotations are pairs.
func cordonedOther(name string, annotations ...string) corev1.Node {
	n := *facts(true, annotations...).Node
	n.Name = name
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-24 * time.Hour))}}
	return n
}

// TestAnAdministratorsDrainWaitsWhileAllOtherHostsAreCordoned: pods would run nowhere. A host's own
// wish does not wait for that, since two hosts would wait for each other.
func TestAnAdministratorsDrainWaitsWhileAllOtherHostsAreCordoned(t *testing.T) {
	now := noon.Add(-time.Minute).Format(time.RFC3339)
	const ours = "drain-wanted-then"
	const stay = "no other host takes pods now, and they stay until one does: w-2 is cordoned (holdfast host uncordon w-2)"
	told := func(words, again string) string {
		return "drain-waits=" + words + ", DrainWaits \"" + words + "\", again after " + again
	}
	wanted := func(since string, others ...corev1.Node) drain.Facts {
		f := facts(true, drain.Wanted, since, drain.CordonedBy, ours, drain.Began, since)
		f.Others, f.Pods = others, []corev1.Pod{pod("a")}
		return f
	}
	fresh := facts(false, drain.Wanted, now)
	fresh.Others, fresh.Pods = []corev1.Node{cordonedOther("w-2")}, []corev1.Pod{pod("a")}
	own := wanted(since, cordonedOther("w-2"))
	own.Node.Annotations[drain.Desired] = one
	away := cordonedOther("w-3")
	away.Spec.Unschedulable, away.Status.Conditions[0].Status = false, corev1.ConditionUnknown
	emptied := wanted(since, cordonedOther("w-2"))
	emptied.Node.Annotations[drain.Had] = since
	ahead := wanted(since, cordonedOther("w-2"))
	ahead.Node.Annotations[drain.Wanted] = noon.Add(time.Hour).Format(time.RFC3339)
	tainted := wanted(since, cordonedOther("w-2"))
	tainted.Node.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	const opened = "-cordoned-for, -drain-began, drain-waits=" + stay + `, unschedulable=false, Uncordoned "it gets pods again, because no other host takes pods now; its own move once one is", again after 1m0s`
	const both = "no other host takes pods now, and they stay until one does: w-2 itself is to be empty for reboot-x (to take that back: holdfast host reboot w-2 --cancel)"
	for _, c := range []struct {
		sentence    string
		facts       drain.Facts
		begin, then string
	}{
		{"it is not cordoned yet", fresh, "again after 5s", told(stay, "5s")},
		{"the other one was cordoned a moment ago", wanted(now, cordonedOther("w-2")), "again after 5s", told(stay, "5s")},
		{"the other one stays cordoned", wanted(since, cordonedOther("w-2")), opened, ""},
		{"a third one is away", wanted(now, cordonedOther("w-2"), away), "again after 5s", told(stay, "5s")},
		{"the other one is to boot", wanted(now, cordonedOther("w-2", drain.Desired, "drain-reboot-x")), "again after 5s", told(both, "5s")},
		{"a third one takes pods", wanted(since, cordonedOther("w-2"), corev1.Node{}), "evict a, again after 2s", "again after 2s"},
		{"the host itself wants it too", own, "evict a, again after 2s", "again after 2s"},
		{"it was emptied before the other one was cordoned", emptied, "-drain-began", ""},
		{"both were cordoned in one moment, and this one keeps its cordon", wanted(since, cordonedOther("w-2", drain.Wanted, since, drain.CordonedBy, ours)), "again after 1m0s", told(stay, "1m0s")},
		{"a person cordoned the other one, and wants it empty too", wanted(since, cordonedOther("w-2", drain.Wanted, since)), opened, ""},
		{"it was wanted by a clock that is ahead", ahead, opened, ""},
		{"a taint keeps ordinary pods from it, and its own go to others with that taint", tainted, "evict a, again after 2s", "again after 2s"},
		{"both were cordoned in one moment, and this one takes pods again", wanted(since, cordonedOther("w-0", drain.Wanted, since)), strings.ReplaceAll(opened, "w-2", "w-0"), ""},
		{"the other one is empty already", wanted(since, cordonedOther("w-2", drain.Wanted, since, drain.Had, since)), opened, ""},
	} {
		if got := said(drain.Begin(c.facts)); got != c.begin {
			t.Errorf("%s: %s\nwant %s", c.sentence, got, c.begin)
		}
		if c.then == "" {
			continue
		}
		if got := said(drain.Judge(c.facts)); got != c.then {
			t.Errorf("%s: then %s\nwant %s", c.sentence, got, c.then)
		}
	}
}

func TestThatAllOtherHostsAreCordonedIsForeseen(t *testing.T) {
	tainted := cordonedOther("w-9")
	tainted.Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
	f := facts(false)
	for _, c := range []struct {
		sentence string
		others   []corev1.Node
		want     string
	}{
		{"none is there", nil, ""},
		{"none takes pods", []corev1.Node{tainted}, ""},
		{"one takes pods", []corev1.Node{cordonedOther("w-2"), {}}, ""},
		{"all are cordoned", []corev1.Node{cordonedOther("w-3"), cordonedOther("w-2"), tainted}, "w-2 is cordoned (holdfast host uncordon w-2), w-3 is cordoned (holdfast host uncordon w-3)"},
		{"one is to boot", []corev1.Node{cordonedOther("w-2", drain.Desired, "drain-reboot-x")}, "w-2 itself is to be empty for reboot-x (to take that back: holdfast host reboot w-2 --cancel)"},
	} {
		if f.Others = c.others; drain.Foresee(f).AllCordoned != c.want {
			t.Errorf("%s: %+v", c.sentence, drain.Foresee(f))
		}
	}
}

func TestWhatEndsTheOwnWishOfAHostIsSaid(t *testing.T) {
	for wish, want := range map[string]string{
		"":                    "",
		"uncordon-a":          "",
		"drain-reboot-x":      "w-1 itself is to be empty for reboot-x (to take that back: holdfast host reboot w-1 --cancel)",
		"drain-patch-x":       "w-1 itself is to be empty for patch-x (to take that back: holdfast host patch w-1 --cancel)",
		drain.Upgrade("x"):    "w-1 itself is to be empty for upgrade-x (it takes pods again once it is upgraded; see: holdfast upgrade status)",
		drain.Leave("boot-1"): "w-1 itself is to be empty for shutdown-boot-1 (it takes pods again once it is back, or its shutdown was cancelled)",
		one:                   "w-1 itself is to be empty for rendered-worker-1 (it takes pods again once it has that configuration; see: holdfast host show w-1)",
	} {
		if got := drain.OwnWish(facts(true, drain.Desired, wish).Node); got != want {
			t.Errorf("%s: %s", wish, got)
		}
	}
}
