package drain_test

import (
	"slices"
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

// controlPlane is the taint of a control plane that takes no ordinary pods.
var controlPlane = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}

// taintedOther is another node that is ready, and has that taint and more.
func taintedOther(name string, more ...corev1.Taint) corev1.Node {
	n := cordonedOther(name)
	n.Spec.Unschedulable, n.Spec.Taints = false, slices.Concat(controlPlane, more)
	return n
}

func cordon(n corev1.Node) corev1.Node {
	n.Spec.Unschedulable = true
	return n
}

func gone(n corev1.Node) corev1.Node {
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	return n
}

// TestPodsOfATaintedHostGoToOthersWithItsTaint though no host that takes ordinary pods is ready.
func TestPodsOfATaintedHostGoToOthersWithItsTaint(t *testing.T) {
	worker := gone(cordonedOther("w-1"))
	worker.Spec.Unschedulable = false
	another := taintedOther("cp-2")
	another.Spec.Taints = []corev1.Taint{{Key: "site", Effect: corev1.TaintEffectNoSchedule}}
	justGone := gone(taintedOther("cp-2"))
	justGone.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
	const evict, opens = "evict a, again after 2s", "Uncordoned"
	for _, c := range []struct {
		sentence string
		taints   []corev1.Taint
		other    corev1.Node
		want     string
	}{
		{"another one has its taint", controlPlane, taintedOther("cp-2"), evict},
		{"another one has its taint, and is unreachable by taint alone", controlPlane, taintedOther("cp-2", corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}), evict},
		{"it has one more", slices.Concat(controlPlane, another.Spec.Taints), taintedOther("cp-2"), evict},
		{"the other one is cordoned", controlPlane, cordon(taintedOther("cp-2")), opens},
		{"the other one is away", controlPlane, gone(taintedOther("cp-2")), opens},
		{"the other one has just gone", controlPlane, justGone, "again after 5s"},
		{"the other one has another taint", controlPlane, another, opens},
		{"it has no taint itself", nil, taintedOther("cp-2"), opens},
	} {
		for what, f := range map[string]drain.Facts{
			"its own wish":       began(time.Hour),
			"an administrator's": facts(true, drain.Wanted, since, drain.CordonedBy, "drain-wanted-"+since, drain.Began, since),
		} {
			f.Node.Spec.Taints, f.Others, f.Pods = c.taints, []corev1.Node{worker, c.other}, []corev1.Pod{pod("a")}
			if got := said(drain.Begin(f)); got != c.want && (c.want != opens || !strings.Contains(got, opens)) {
				t.Errorf("%s, %s: %s\nwant %s", c.sentence, what, got, c.want)
			}
		}
	}
}

// TestWhereAllOtherHostsAreTaintedThoseTaintedAlikeTakeItsPods: the host is emptied as any other one, and
// does not keep its pods. A cordon counts as among hosts that take ordinary pods.
func TestWhereAllOtherHostsAreTaintedThoseTaintedAlikeTakeItsPods(t *testing.T) {
	another := taintedOther("cp-2")
	another.Spec.Taints = []corev1.Taint{{Key: "site", Effect: corev1.TaintEffectNoSchedule}}
	const evict, opens, keeps = "evict a, again after 2s", "Uncordoned", "NotDrained"
	for _, c := range []struct {
		sentence     string
		taints       []corev1.Taint
		others       []corev1.Node
		own, persons string
	}{
		{"another one has its taint", controlPlane, []corev1.Node{taintedOther("cp-2")}, evict, evict},
		{"one of two has its taint", controlPlane, []corev1.Node{another, taintedOther("cp-3")}, evict, evict},
		{"the other one is cordoned", controlPlane, []corev1.Node{cordon(taintedOther("cp-2"))}, evict, opens},
		{"the other one is away", controlPlane, []corev1.Node{gone(taintedOther("cp-2"))}, opens, opens},
		{"the other one has another taint", controlPlane, []corev1.Node{another}, keeps, keeps},
		{"it has no taint itself", nil, []corev1.Node{taintedOther("cp-2")}, keeps, keeps},
		{"it is alone", controlPlane, nil, keeps, keeps},
	} {
		for _, by := range []struct {
			who, want string
			facts     drain.Facts
		}{
			{"its own wish", c.own, began(time.Hour)},
			{"an administrator's", c.persons, facts(true, drain.Wanted, since, drain.CordonedBy, "drain-wanted-"+since, drain.Began, since)},
		} {
			f := by.facts
			f.Node.Spec.Taints, f.Others, f.Pods = c.taints, c.others, []corev1.Pod{pod("a", tolerates)}
			if got := said(drain.Begin(f)); got != by.want && (by.want == evict || !strings.Contains(got, by.want)) {
				t.Errorf("%s, %s: %s\nwant %s", c.sentence, by.who, got, by.want)
			}
			if got := drain.Foresee(f).Nowhere; got != (by.want == keeps) {
				t.Errorf("%s, %s: foreseen that it keeps its pods: %t", c.sentence, by.who, got)
			}
		}
	}
}

// TestAPodFromBeforeATaintStaysWhereAllHostsHaveIt: it would run nowhere, also after the boot.
func TestAPodFromBeforeATaintStaysWhereAllHostsHaveIt(t *testing.T) {
	f := began(time.Hour)
	f.Node.Spec.Taints, f.Others, f.Pods = controlPlane, []corev1.Node{taintedOther("cp-2")}, []corev1.Pod{pod("a", tolerates), pod("old")}
	if got := said(drain.Begin(f)); !strings.Contains(got, "NotDrained") {
		t.Errorf("got %s", got)
	}
	if !drain.Foresee(f).Nowhere {
		t.Error("it is not foreseen that it keeps its pods")
	}
}

func tolerates(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
}

// TestAnAdministratorsDrainWaitsWhileAllOtherHostsAreCordoned: pods would run nowhere. A host's own
// wish does not wait for that, since two hosts would wait for each other.
func TestAnAdministratorsDrainWaitsWhileAllOtherHostsAreCordoned(t *testing.T) {
	now := noon.Add(-time.Minute).Format(time.RFC3339)
	const ours = "drain-wanted-then"
	saying := func(words string) string {
		return "no other host takes pods now, and they stay until one does: " + words
	}
	stay, empties := saying("w-2 is cordoned (holdfast host uncordon w-2)"), saying("w-2 is to be empty, as an administrator wants since "+since)
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
	away := gone(cordonedOther("w-3"))
	away.Spec.Unschedulable = false
	emptied := wanted(since, cordonedOther("w-2"))
	emptied.Node.Annotations[drain.Had] = since
	ahead := wanted(since, cordonedOther("w-2"))
	ahead.Node.Annotations[drain.Wanted] = noon.Add(time.Hour).Format(time.RFC3339)
	tainted := func(others ...corev1.Node) drain.Facts {
		f := wanted(since, append(others, cordonedOther("w-2"))...)
		f.Node.Spec.Taints = controlPlane
		return f
	}
	valued := taintedOther("cp-2")
	valued.Spec.Taints[0].Value = "x"
	off := cordonedOther("w-2", drain.Wanted, since)
	off.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}}
	opened := "-cordoned-for, -drain-began, drain-waits=" + stay + `, unschedulable=false, Uncordoned "it gets pods again, because no other host takes pods now; its own move once one is", again after 1m0s`
	both := saying("w-2 itself is to be empty for reboot-x (to take that back: holdfast host reboot w-2 --cancel)")
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
		{"both were cordoned in one moment, and this one keeps its cordon", wanted(since, cordonedOther("w-2", drain.Wanted, since, drain.CordonedBy, ours)), "again after 1m0s", told(empties, "1m0s")},
		{"a person cordoned the other one, and wants it empty too", wanted(since, cordonedOther("w-2", drain.Wanted, since)), strings.ReplaceAll(opened, stay, empties), ""},
		{"it was wanted by a clock that is ahead", ahead, opened, ""},
		{"its taint keeps ordinary pods away, and its own go to another one with that taint", tainted(taintedOther("cp-2")), "evict a, again after 2s", "again after 2s"},
		{"no other one has its taint", tainted(), opened, ""},
		{"the other one with its taint is away", tainted(gone(taintedOther("cp-2"))), opened, ""},
		{"the other one with its taint is cordoned", tainted(cordon(taintedOther("cp-2"))), strings.ReplaceAll(opened, stay, strings.Replace(stay, "w-2 is", "cp-2 is cordoned (holdfast host uncordon cp-2), w-2 is", 1)), ""},
		{"the other one has a taint besides, which its pods may not tolerate", tainted(taintedOther("cp-2", corev1.Taint{Key: "site", Effect: corev1.TaintEffectNoSchedule})), opened, ""},
		{"the other one has its taint with another value", tainted(valued), opened, ""},
		{"it has no taint, and the other one has", wanted(since, cordonedOther("w-2"), taintedOther("cp-2")), opened, ""},
		{"the other one is cordoned and away", wanted(now, gone(cordonedOther("w-2"))), "again after 5s", told(saying("w-2 is not ready"), "5s")},
		{"the other one was taken out, and is off", wanted(now, gone(off)), "again after 5s", told(saying("w-2 is off"), "5s")},
		{"both were cordoned in one moment, and this one takes pods again", wanted(since, cordonedOther("w-0", drain.Wanted, since)), strings.ReplaceAll(opened, stay, strings.ReplaceAll(empties, "w-2", "w-0")), ""},
		{"the other one is empty already", wanted(since, cordonedOther("w-2", drain.Wanted, since, drain.Had, since)), strings.ReplaceAll(opened, stay, empties), ""},
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
		{"one is wanted empty, which may be for its removal", []corev1.Node{cordonedOther("w-2", drain.Wanted, since)}, "w-2 is to be empty, as an administrator wants since " + since},
		{"one is not ready", []corev1.Node{gone(cordonedOther("w-2"))}, "w-2 is not ready"},
		{"one is to boot", []corev1.Node{cordonedOther("w-2", drain.Desired, "drain-reboot-x")}, "w-2 itself is to be empty for reboot-x (to take that back: holdfast host reboot w-2 --cancel)"},
	} {
		if f.Others = c.others; drain.Foresee(f).AllCordoned != c.want {
			t.Errorf("%s: %+v", c.sentence, drain.Foresee(f))
		}
	}
	f.Node.Spec.Taints = controlPlane
	for want, others := range map[string][]corev1.Node{
		"w-2 is cordoned (holdfast host uncordon w-2)":   {cordonedOther("w-2"), tainted},
		"cp-2 is cordoned (holdfast host uncordon cp-2)": {cordon(taintedOther("cp-2")), tainted},
		"": {cordonedOther("w-2"), taintedOther("cp-2")},
	} {
		if f.Others = others; drain.Foresee(f).AllCordoned != want {
			t.Errorf("a host with a taint, %q: %+v", want, drain.Foresee(f))
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
