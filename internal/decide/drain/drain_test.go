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

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const one, two = "drain-rendered-worker-1", "drain-rendered-worker-2"

// pod returns a pod of a ReplicaSet.
func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}},
	}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func of(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = kind }
}

func pinned(p *corev1.Pod) {
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{},"f:spec":{"f:nodeName":{}}}`)}}
}

func nobodys(p *corev1.Pod) { p.OwnerReferences = nil }

func ofFile(p *corev1.Pod) {
	p.OwnerReferences = nil
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}

func critical(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" }

func phase(is corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = is }
}

func ending(until time.Duration, finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon.Add(until)}, finalizers
	}
}

func budget(name string, selector *metav1.LabelSelector, allowed int32) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ExpectedPods: 2, CurrentHealthy: 1, DesiredHealthy: 1},
	}
}

// facts returns those of a host beside another worker. The annotations are pairs.
func facts(cordoned bool, annotations ...string) drain.Facts {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	n.Spec.Unschedulable = cordoned
	return drain.Facts{Now: noon, Node: n, Others: make([]corev1.Node, 1), Own: types.NamespacedName{Namespace: "openshift-etcd", Name: "holdfast-operator-x"}}
}

// began are the annotations of a host that the operator has cordoned some time ago.
func began(ago time.Duration, more ...string) drain.Facts {
	return facts(true, append([]string{drain.Desired, one, drain.CordonedBy, one, drain.Began, noon.Add(-ago).Format(time.RFC3339)}, more...)...)
}

// said returns a step in one line.
func said(s drain.Step) string {
	var out []string
	if c := s.Change; c != nil {
		for _, name := range slices.Sorted(maps.Keys(c.Annotations)) {
			_, short, _ := strings.Cut(name, "/")
			if value := c.Annotations[name]; value == nil {
				out = append(out, "-"+short)
			} else {
				out = append(out, short+"="+*value)
			}
		}
		if c.Unschedulable != nil {
			out = append(out, fmt.Sprintf("unschedulable=%t", *c.Unschedulable))
		}
		if c.Event != "" {
			out = append(out, fmt.Sprintf("%s %q", c.Event, c.Note))
		}
	}
	for _, p := range s.Evict {
		out = append(out, "evict "+p.Name)
	}
	if s.Again != 0 {
		out = append(out, "again after "+s.Again.String())
	}
	return strings.Join(out, ", ")
}

func TestWhatAHostAsksForIsBegun(t *testing.T) {
	taint := func(f drain.Facts, key string, effect corev1.TaintEffect) drain.Facts {
		f.Others[0].Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}}
		return f
	}
	alone := facts(false, drain.Desired, one)
	alone.Others = nil
	answered := facts(false, drain.Desired, one, drain.Applied, one)
	answered.Others = nil
	const cordons = `cordoned-for=drain-rendered-worker-1, drain-began=2026-11-23T12:00:00Z, -lastAppliedDrain, unschedulable=true, ` +
		`Cordoned "it gets no new pods, because its pods move to other hosts", again after 2s`
	const nowhere = `-drain-began, -drain-waits, lastAppliedDrain=drain-rendered-worker-1, NotDrained "no other host takes its pods: they stay, and are away while it boots"`
	for _, c := range []struct {
		sentence string
		facts    drain.Facts
		want     string
	}{
		{"it asks for nothing", facts(false), ""},
		{"it asks for what nobody knows", facts(false, drain.Desired, "polish-1"), ""},
		{"it is to be empty", facts(false, drain.Desired, one), cordons},
		{"a person has cordoned it", facts(true, drain.Desired, one), "drain-began=2026-11-23T12:00:00Z, again after 2s"},
		{"it is cordoned", began(0), "again after 2s"},
		{"it is empty", facts(true, drain.Desired, one, drain.Applied, one, drain.CordonedBy, one), ""},
		{"it was empty, and somebody uncordoned it", facts(false, drain.Desired, one, drain.Applied, one, drain.CordonedBy, one), cordons},
		{"somebody uncordoned it on the way", facts(false, drain.Desired, one, drain.CordonedBy, one, drain.Began, "then"), strings.Replace(cordons, "drain-began=2026-11-23T12:00:00Z, ", "", 1)},
		{"it is to be empty once more", facts(true, drain.Desired, two, drain.Applied, one, drain.CordonedBy, one), "drain-began=2026-11-23T12:00:00Z, again after 2s"},
		{"it is alone", alone, nowhere},
		{"it is alone and knows it", answered, ""},
		{"the other one takes no pods", taint(facts(false, drain.Desired, one), "node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule), nowhere},
		{"the other one would rather not", taint(facts(false, drain.Desired, one), "UpdateInProgress", corev1.TaintEffectPreferNoSchedule), cordons},
		{"the other one is away", taint(facts(false, drain.Desired, one), corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute), cordons},
		{
			"it takes pods again", facts(true, drain.Desired, "uncordon-a", drain.Applied, one, drain.CordonedBy, one, drain.Waits, "x"),
			`-cordoned-for, -drain-waits, lastAppliedDrain=uncordon-a, unschedulable=false, Uncordoned "it gets pods again"`,
		},
		{
			"it takes pods again, and a person has cordoned it", facts(true, drain.Desired, "uncordon-a", drain.Applied, one),
			`lastAppliedDrain=uncordon-a, StaysCordoned "somebody else cordoned it, and it stays so"`,
		},
		{
			"it takes pods again, and a person has uncordoned it", facts(false, drain.Desired, "uncordon-a", drain.CordonedBy, one, drain.Began, "then"),
			"-cordoned-for, -drain-began, lastAppliedDrain=uncordon-a",
		},
		{
			"it took pods again, was to be empty while a person had cordoned it, and went back", facts(true, drain.Desired, "uncordon-a", drain.Applied, "uncordon-a", drain.Began, "then", drain.Waits, "x"),
			"-drain-began, -drain-waits",
		},
		{"it was empty, was to be so for another one, and went back", facts(true, drain.Desired, one, drain.Applied, one, drain.CordonedBy, one, drain.Began, "then"), "-drain-began"},
		{"it took pods again, and a person has cordoned it since", facts(true, drain.Desired, "uncordon-a", drain.Applied, "uncordon-a"), ""},
	} {
		if got := said(drain.Begin(c.facts)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.sentence, got, c.want)
		}
	}
}

func TestWhoIsEvictedAndWhoIsInTheWay(t *testing.T) {
	const rest = "-drain-began, -drain-waits, lastAppliedDrain=drain-rendered-worker-1, Drained "
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	own := func(p *corev1.Pod) { p.Namespace, p.Name = "openshift-etcd", "holdfast-operator-x" }
	const none = "PodDisruptionBudget a lets none go: of 2 pods 1 are ready, and 1 have to be"
	for _, c := range []struct {
		sentence string
		pods     []corev1.Pod
		budgets  []policyv1.PodDisruptionBudget
		refused  map[string]string
		// evict and then are what is done, and what is written after it.
		evict, then string
	}{
		{"it has none", nil, nil, nil, "", rest + `"other hosts have its pods"`},
		{"they go", []corev1.Pod{pod("b"), pod("a")}, nil, nil, "evict a, evict b", "again after 2s"},
		{
			"some belong to the host",
			[]corev1.Pod{pod("a", of("DaemonSet")), pod("b", ofFile), pod("c", own), pod("d", phase(corev1.PodSucceeded)), pod("e", phase(corev1.PodFailed), nobodys)},
			nil, nil, "", rest + `"other hosts have its pods; 3 that belong to it stay"`,
		},
		{"another kind of that name", []corev1.Pod{pod("a", of("DaemonSet"), func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" })}, nil, nil, "evict a", "again after 2s"},
		{
			"the name of the host is in what makes it: it would come back there",
			[]corev1.Pod{pod("a", pinned), pod("b")},
			nil, nil,
			"evict b", "again after 2s",
		},
		{"it alone is left", []corev1.Pod{pod("a", pinned)}, nil, nil, "", rest + `"other hosts have its pods; 1 that belong to it stay"`},
		{"nobody makes it again", []corev1.Pod{pod("a", pinned, nobodys)}, nil, nil, "", "drain-waits=default/a: nobody would make it again elsewhere; delete it, or move it yourself, again after 2s"},
		{"others need one as long as they run", []corev1.Pod{pod("a", critical), pod("b")}, nil, nil, "evict b", "again after 2s"},
		{"others need one, and end", []corev1.Pod{pod("a", critical), pod("b", ending(time.Minute))}, nil, nil, "", "again after 2s"},
		{"others needed one, and are gone", []corev1.Pod{pod("a", critical), pod("b", of("DaemonSet"))}, nil, nil, "evict a", "again after 2s"},
		{"one ends no later than it may", []corev1.Pod{pod("a", ending(-30*time.Second))}, nil, nil, "", "again after 2s"},
		{"nobody's ends late", []corev1.Pod{pod("a", nobodys, ending(-time.Minute))}, nil, nil, "", `drain-waits=default/a: it was to end by 2026-11-23T11:59:00Z and has not, again after 2s`},
		{"one ends late", []corev1.Pod{pod("a", ending(-time.Minute))}, nil, nil, "", `drain-waits=default/a (of ReplicaSet web): it was to end by 2026-11-23T11:59:00Z and has not, again after 2s`},
		{
			"one ends, and the API keeps it",
			[]corev1.Pod{pod("a", ending(-time.Minute, "example.com/a"), of("Job"))},
			nil, nil,
			"", `drain-waits=default/a (of Job web): it was to end by 2026-11-23T11:59:00Z and has not; it waits for example.com/a, again after 2s`,
		},
		{
			"one is nobody's",
			[]corev1.Pod{pod("a", nobodys)},
			nil, nil,
			"", `drain-waits=default/a: nobody would make it again elsewhere; delete it, or move it yourself, again after 2s`,
		},
		{
			"a budget",
			[]corev1.Pod{pod("a"), pod("b")},
			[]policyv1.PodDisruptionBudget{budget("a", web, 0), budget("other", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, 0)},
			map[string]string{"a": "Cannot evict pod"},
			"evict a, evict b", "drain-waits=default/a (of ReplicaSet web): " + none + ", again after 5s",
		},
		{
			"a budget of all pods",
			[]corev1.Pod{pod("a")},
			[]policyv1.PodDisruptionBudget{budget("a", &metav1.LabelSelector{}, 0)},
			map[string]string{"a": "Cannot evict pod"},
			"evict a", "drain-waits=default/a (of ReplicaSet web): " + none + ", again after 5s",
		},
		{
			"a budget of nothing",
			[]corev1.Pod{pod("a")},
			[]policyv1.PodDisruptionBudget{budget("a", nil, 0)},
			map[string]string{"a": "Cannot evict pod"},
			"evict a", "drain-waits=default/a (of ReplicaSet web): Cannot evict pod, again after 5s",
		},
		{
			"two budgets",
			[]corev1.Pod{pod("a")},
			[]policyv1.PodDisruptionBudget{budget("b", web, 1), budget("a", &metav1.LabelSelector{}, 1)},
			map[string]string{"a": "no"},
			"evict a", "drain-waits=default/a (of ReplicaSet web): several PodDisruptionBudgets select it (a, b), and the API evicts no such pod; leave one of them, again after 5s",
		},
		{
			"a budget that now lets it go, and a webhook",
			[]corev1.Pod{pod("a")},
			[]policyv1.PodDisruptionBudget{budget("a", web, 1)},
			map[string]string{"a": "webhook x is away"},
			"evict a", "drain-waits=default/a (of ReplicaSet web): webhook x is away, again after 5s",
		},
		{
			"many",
			[]corev1.Pod{pod("a"), pod("b"), pod("c"), pod("d"), pod("e"), pod("f"), pod("g")},
			nil,
			map[string]string{"a": "x", "b": "x", "c": "x", "d": "x", "e": "x", "f": "x", "g": "x"},
			"evict a, evict b, evict c, evict d, evict e, evict f, evict g", "drain-waits=default/a (of ReplicaSet web): x; default/b (of ReplicaSet web): x; " +
				"default/c (of ReplicaSet web): x; default/d (of ReplicaSet web): x; default/e (of ReplicaSet web): x; 2 more, again after 5s",
		},
	} {
		f := began(time.Minute)
		f.Pods, f.Budgets, f.Refused = c.pods, c.budgets, map[types.UID]string{}
		s := drain.Begin(f)
		s.Again = 0
		if got := said(s); got != c.evict {
			t.Errorf("%s: %s\nwant %s", c.sentence, got, c.evict)
		}
		for name, why := range c.refused {
			f.Refused[types.UID("uid-"+name)] = why
		}
		s = drain.Judge(f)
		if c := s.Change; c != nil && c.Event == "DrainWaits" {
			if *c.Annotations[drain.Waits] != c.Note {
				t.Errorf("the event says %s", c.Note)
			}
			c.Event = ""
		}
		if got := said(s); got != c.then {
			t.Errorf("%s: then %s\nwant %s", c.sentence, got, c.then)
		}
	}
}

// TestWhileNobodyElseIsReadyNoneIsEvicted: pods would run nowhere. A host without pods that move is
// empty all the same, and who has not said whether it is ready counts as ready.
func TestWhileNobodyElseIsReadyNoneIsEvicted(t *testing.T) {
	node := func(ready corev1.ConditionStatus, tainted bool) corev1.Node {
		var n corev1.Node
		if ready != "" {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}
		}
		if tainted {
			n.Spec.Taints = []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectNoSchedule}}
		}
		return n
	}
	const stay = "no other host that takes pods is ready, and they stay until one is"
	for _, c := range []struct {
		sentence    string
		others      []corev1.Node
		evict, then string
	}{
		{"the other one is silent", []corev1.Node{node(corev1.ConditionUnknown, false)}, "", `drain-waits=` + stay + `, DrainWaits "` + stay + `", again after 5s`},
		{"the other one is not ready", []corev1.Node{node(corev1.ConditionFalse, false)}, "", `drain-waits=` + stay + `, DrainWaits "` + stay + `", again after 5s`},
		{"the one that is ready takes no pods", []corev1.Node{node(corev1.ConditionFalse, false), node(corev1.ConditionTrue, true)}, "", `drain-waits=` + stay + `, DrainWaits "` + stay + `", again after 5s`},
		{"one of two is ready", []corev1.Node{node(corev1.ConditionFalse, false), node(corev1.ConditionTrue, false)}, "evict a", "again after 2s"},
		{"one has said nothing yet", []corev1.Node{node("", false)}, "evict a", "again after 2s"},
	} {
		f := began(time.Minute)
		f.Others, f.Pods = c.others, []corev1.Pod{pod("a")}
		s := drain.Begin(f)
		s.Again = 0
		if got := said(s); got != c.evict {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.evict)
		}
		if got := said(drain.Judge(f)); got != c.then {
			t.Errorf("%s: then %s, want %s", c.sentence, got, c.then)
		}
		f.Pods = nil
		if got := said(drain.Judge(f)); !strings.Contains(got, "Drained") {
			t.Errorf("%s, and no pod is left: %s", c.sentence, got)
		}
	}
}

// TestAHostTakesPodsWhileNobodyElseHasForAWhile: it is not cordoned then, or no longer, and is again
// once another one is ready. One without pods that move waits for nobody, and a person's cordon stays.
func TestAHostTakesPodsWhileNobodyElseHasForAWhile(t *testing.T) {
	const stay = "no other host that takes pods is ready, and they stay until one is"
	away := func(f drain.Facts, ago time.Duration, pods ...corev1.Pod) drain.Facts {
		f.Others[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon.Add(-ago))}}
		f.Pods = pods
		return f
	}
	wished := facts(false, drain.Desired, one)
	for _, c := range []struct {
		sentence    string
		facts       drain.Facts
		begin, then string
	}{
		{"it is cordoned, and they have just gone", away(began(time.Hour), time.Minute, pod("a")), "again after 5s", "drain-waits=" + stay + ", DrainWaits \"" + stay + "\", again after 5s"},
		{"they have been away for a while", away(began(time.Hour), 3*time.Minute, pod("a")), "-cordoned-for, -drain-began, drain-waits=" + stay + ", unschedulable=false, Uncordoned \"it gets pods again, because no other host that takes pods is ready; its own move once one is\", again after 5s", ""},
		{"it is not cordoned yet", away(wished, time.Second, pod("a")), "again after 5s", "drain-waits=" + stay + ", DrainWaits \"" + stay + "\", again after 5s"},
		{"it is not cordoned, and they have been away for long", away(facts(false, drain.Desired, one), time.Hour, pod("a")), "again after 1m0s", "drain-waits=" + stay + ", DrainWaits \"" + stay + "\", again after 1m0s"},
		{"a person cordoned it", away(facts(true, drain.Desired, one), time.Hour, pod("a")), "again after 1m0s", "drain-waits=" + stay + ", DrainWaits \"" + stay + "\", again after 1m0s"},
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
	if got := said(drain.Judge(away(facts(false, drain.Desired, one), time.Hour))); !strings.Contains(got, "unschedulable=true") {
		t.Errorf("no pod moves: %s", got)
	}
}

func TestWhoIsInTheWayIsWrittenWhenItChanges(t *testing.T) {
	f := began(time.Minute)
	f.Pods, f.Refused = []corev1.Pod{pod("a")}, map[types.UID]string{"uid-a": "x"}
	const words = "default/a (of ReplicaSet web): x"
	if got := said(drain.Judge(f)); got != `drain-waits=`+words+`, DrainWaits "`+words+`", again after 5s` {
		t.Errorf("the first time: %s", got)
	}
	f.Node.Annotations[drain.Waits] = words
	if got := said(drain.Judge(f)); got != "again after 5s" {
		t.Errorf("the same: %s", got)
	}
	f.Refused["uid-a"] = "y"
	if got := said(drain.Judge(f)); got != "drain-waits=default/a (of ReplicaSet web): y, again after 5s" {
		t.Errorf("in other words: %s", got)
	}
	f.Refused = nil
	if got := said(drain.Judge(f)); got != "-drain-waits, again after 2s" {
		t.Errorf("it goes: %s", got)
	}
}

func TestABlockedDrainIsTriedLessOften(t *testing.T) {
	for _, c := range []struct{ ago, want time.Duration }{{0, 5 * time.Second}, {10 * time.Minute, 5 * time.Second}, {11 * time.Minute, time.Minute}, {30 * time.Hour, time.Minute}} {
		f := began(c.ago)
		f.Pods, f.Refused = []corev1.Pod{pod("a")}, map[types.UID]string{"uid-a": "x"}
		if got := drain.Judge(f).Again; got != c.want {
			t.Errorf("after %s: %s", c.ago, got)
		}
	}
}

func TestSinceWhenAHostIsBeingEmptied(t *testing.T) {
	at := noon.Format(time.RFC3339)
	for _, c := range []struct {
		annotations []string
		known       bool
	}{
		{[]string{drain.Desired, one, drain.Began, at}, true},
		{[]string{drain.Desired, one, drain.Began, "yesterday"}, false},
		{[]string{drain.Desired, one, drain.Began, at, drain.Applied, one}, false},
		{[]string{drain.Desired, drain.After("a"), drain.Began, at}, false},
	} {
		got, known := drain.Since(facts(true, c.annotations...).Node.Annotations)
		if known != c.known || known && !got.Equal(noon) {
			t.Errorf("%v: %s %t", c.annotations, got, known)
		}
	}
}

func TestAHostHasWhatItAskedForOnceBothAnnotationsSayIt(t *testing.T) {
	for _, c := range []struct {
		desired, applied string
		want             bool
	}{{one, one, true}, {one, two, false}, {two, two, false}, {one, "", false}, {"", "", false}} {
		if got := drain.Emptied(map[string]string{drain.Desired: c.desired, drain.Applied: c.applied}, drain.Before("rendered-worker-1")); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
