package removal

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// bound is a pod of a ReplicaSet that was made at a time.
func bound(made time.Time, change ...func(*corev1.Pod)) corev1.Pod {
	p := pod("till-5f", "ReplicaSet")
	p.Name, p.GenerateName, p.CreationTimestamp = "till-5f-abcde", "till-5f-", metav1.NewTime(made)
	for _, c := range change {
		c(&p)
	}
	return p
}

func nobodys(p *corev1.Pod) { p.OwnerReferences = nil }

func ending(grace int64, finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &p.CreationTimestamp, &grace, finalizers
	}
}

func TestWhichPodsHoldARemovalAndWhichAreToldOnly(t *testing.T) {
	for what, c := range map[string]struct {
		pod  corev1.Pod
		out  time.Time
		told string // empty if the pod holds
	}{
		"one of before":                      {bound(now.Add(-time.Hour)), now, ""},
		"one that was made again":            {bound(now.Add(time.Second)), now, "pod shop/till-5f-* (of ReplicaSet till-5f): it was made for that name after the host was taken out"},
		"one of the same second":             {bound(now), now.Add(time.Millisecond), ""},
		"one of a host that nobody took out": {bound(now.Add(time.Hour)), time.Time{}, ""},
		"one that a person made later":       {bound(now.Add(time.Minute), nobodys), now, "pod shop/till-5f-abcde: it was made for that name after the host was taken out"},
		"one that a finalizer holds":         {bound(now.Add(-time.Hour), ending(0, "a/b", "c/d")), now, "pod shop/till-5f-abcde (of ReplicaSet till-5f): it is deleted, and waits for a/b, c/d"},
		"the same, of nobody taken out":      {bound(now.Add(-time.Hour), ending(0, "a/b")), time.Time{}, "pod shop/till-5f-abcde (of ReplicaSet till-5f): it is deleted, and waits for a/b"},
		"one that waits for its kubelet":     {bound(now.Add(-time.Hour), ending(30, "a/b")), now, ""},
		"one with a finalizer that is there": {bound(now.Add(-time.Hour), func(p *corev1.Pod) { p.Finalizers = []string{"a/b"} }), now, ""},
		"one that is about to go":            {bound(now.Add(-time.Hour), ending(0)), now, ""},
	} {
		hold, others := Bound([]corev1.Pod{c.pod, c.pod}, c.out)
		if c.told == "" && (len(hold) != 2 || len(others) > 0) || c.told != "" && (len(hold) > 0 || !slices.Equal(others, []string{c.told})) {
			t.Errorf("%s: %d hold, told %q", what, len(hold), others)
		}
	}
}

func TestTheTimeOfARemovalIsThatOfTheNamesLastEntry(t *testing.T) {
	for what, c := range map[string]struct {
		list retired.List
		want time.Time
	}{
		"nobody took it out":             {nil, time.Time{}},
		"another host":                   {retired.List{{Name: "w-9", When: now}}, time.Time{}},
		"it was taken out":               {retired.List{{Name: "w-1", When: now.Add(-time.Hour)}}, now.Add(-time.Hour)},
		"its successor is on its way":    {retired.List{{Name: "w-1", When: now.Add(-time.Hour), Again: now.Add(-time.Minute)}}, now.Add(-time.Hour)},
		"a later host had the name long": {retired.List{{Name: "w-1", When: now.Add(-50 * time.Hour), Again: now.Add(-49 * time.Hour)}}, time.Time{}},
	} {
		if got := Since(c.list, "w-1", now); !got.Equal(c.want) {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// A Deployment with spec.nodeName makes its pods again as often as they are swept.
func TestARemovalEndsAlthoughAControllerMakesPodsForTheNameAgain(t *testing.T) {
	f := worker().with(marked).with(func(f *Facts) {
		f.Node, f.Lease, f.Tokens = nil, false, nil
		f.Pods = []corev1.Pod{bound(now.Add(-time.Hour))}
	})
	if got := Next(f); got.Action != Sweep || len(got.Left.Pods) != 1 {
		t.Fatalf("the pod of before: %+v", got)
	}
	for _, again := range []corev1.Pod{bound(now.Add(5 * time.Second)), bound(now.Add(-time.Hour), ending(0, "a/b"))} {
		f.Pods = []corev1.Pod{again}
		got := Next(f)
		if got.Action != Done || len(got.Bound) != 1 || !strings.Contains(got.Bound[0], "shop/till-5f-") || !strings.Contains(got.Bound[0], "ReplicaSet till-5f") {
			t.Errorf("%+v", got)
		}
		if place := Successor(f, "w-2", nil); place != Free {
			t.Errorf("its place is %s", place)
		}
	}
	f.Retired = state.Known(retired.List{})
	if got := Next(f.with(func(f *Facts) { f.Pods = []corev1.Pod{bound(now.Add(5 * time.Second))} })); got.Action != Mark {
		t.Errorf("without an entry each pod may be one of before: %+v", got)
	}
}
