package removal

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var now = time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)

func node(name string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-w-1", Labels: map[string]string{corev1.LabelHostname: name}, Annotations: map[string]string{}}}
	for _, l := range labels {
		n.Labels[l] = ""
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func pod(name, kind string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u"}, Spec: corev1.PodSpec{NodeName: "w-1"}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: new(true)}}
	return p
}

// worker is a healthy worker of a site of one control plane and two workers.
func worker() Facts {
	return Facts{
		Now: now, Name: "w-1", Node: node("w-1", noderole.Worker), Others: []corev1.Node{*node("cp-1", noderole.ControlPlane), *node("w-2", noderole.Worker)},
		Pods: []corev1.Pod{pod("web", "ReplicaSet"), pod("agent", "DaemonSet")}, Retired: state.Known(retired.List{}),
		Seen: now.Add(-5 * time.Second), Lease: true, ControlPlanes: 1,
	}
}

// off is the same worker, off since an hour, as a person states.
func off() Facts {
	f := worker()
	f.Off, f.Seen = true, now.Add(-time.Hour)
	f.Node.Status.Conditions[0].Status = corev1.ConditionUnknown
	f.Attachments = []storagev1.VolumeAttachment{{ObjectMeta: metav1.ObjectMeta{Name: "va-1"}}}
	return f
}

func (f Facts) with(change func(*Facts)) Facts { change(&f); return f }

func marked(f *Facts) { f.Retired = state.Known(retired.List{Entry(*f, "kim")}) }

// returned writes the worker down as one that is off, as a removal does that was begun so.
func returned(f *Facts) {
	marked(f)
	f.Retired.Value[0].Off = true
}

// unheard is a name of which the cluster knows nothing, as after a restore.
func unheard(f *Facts) { f.Node, f.Pods, f.Lease, f.Seen = nil, nil, false, time.Time{} }

func isOff(f *Facts) { f.Off = true }

func drained(f *Facts) {
	f.Node.Annotations[drain.Wanted], f.Node.Annotations[drain.Had] = "a", "a"
	f.Pods = f.Pods[1:]
}

func TestTheNextStepFollowsFromTheFactsAlone(t *testing.T) {
	for _, c := range []struct {
		sentence string
		facts    Facts
		want     Action
	}{
		{"a worker with pods is drained", worker(), Drain},
		{"its drain is waited for", worker().with(func(f *Facts) { f.Node.Annotations[drain.Wanted] = "a" }), Wait},
		{"an empty one is written down before anything is deleted", worker().with(drained), Mark},
		{"then its Node goes", worker().with(drained).with(marked), Delete},
		{"one that came back after it was given as off is drained", worker().with(returned), Drain},
		{"its drain is waited for, too", worker().with(returned).with(func(f *Facts) { f.Node.Annotations[drain.Wanted] = "a" }), Wait},
		{"and once it is empty its Node goes", worker().with(returned).with(drained), Delete},
		{"then what is left", worker().with(marked).with(func(f *Facts) { f.Node = nil }), Sweep},
		{"then nothing", worker().with(marked).with(func(f *Facts) { f.Node, f.Pods, f.Lease = nil, nil, false }), Done},
		{"a host that is off is not drained", off(), Mark},
		{"its volumes are freed before its Node goes", off().with(marked), Detach},
		{"and waited for", off().with(marked).with(func(f *Facts) { f.Node.Spec.Taints = []corev1.Taint{{Key: outofservice.Key}} }), Wait},
		{"for a while", off().with(marked).with(func(f *Facts) {
			f.Node.Spec.Taints, f.Now = []corev1.Taint{{Key: outofservice.Key}}, now.Add(DetachLimit)
		}), Delete},
		{"without pods and volumes its Node goes at once", off().with(marked).with(func(f *Facts) { f.Pods, f.Attachments = nil, nil }), Delete},
		{"a Node that was made again after the entry is a new removal", worker().with(marked).with(func(f *Facts) { f.Node.UID = "uid-of-another" }), Drain},
		{"a name that was given again is a new removal", worker().with(func(f *Facts) {
			marked(f)
			f.Retired.Value[0].Again, f.Node = now, nil
		}), Mark},
		{"a name that only has pods is written down too", worker().with(func(f *Facts) { f.Node = nil }), Mark},
		{"nothing of that name is there", worker().with(unheard), Unknown},
		{"a person shuts that name out", worker().with(unheard).with(isOff), Mark},
		{"and is done then", worker().with(unheard).with(isOff).with(marked), Done},
		{"a replacement needs a host", worker().with(unheard).with(isOff).with(func(f *Facts) { f.Replaces = true }), Unknown},
		{"the name was given again just now, so a host is on its way", worker().with(unheard).with(isOff).with(marked).with(func(f *Facts) { f.Retired.Value[0].Again = now.Add(-time.Hour) }), Unknown},
		{"it was given again long ago", worker().with(unheard).with(isOff).with(marked).with(func(f *Facts) { f.Retired.Value[0].Again = now.Add(-young) }), Mark},
	} {
		if got := Next(c.facts); got.Action != c.want || got.Says == "" {
			t.Errorf("%s: %+v, want %s", c.sentence, got, c.want)
		}
	}
}

// cp returns a control plane among others.
func cp(name string, configured int, others ...string) Facts {
	f := worker()
	f.Name, f.Node, f.ControlPlanes, f.Others = name, node(name, noderole.ControlPlane), configured, []corev1.Node{*node("w-1", noderole.Worker)}
	for _, o := range others {
		f.Others = append(f.Others, *node(o, noderole.ControlPlane))
	}
	return f
}

func TestEachGateIsShutByItsOwnFact(t *testing.T) {
	var text strings.Builder
	for _, c := range []struct {
		sentence string
		facts    Facts
		want     string // names of gates
	}{
		{"a healthy worker", worker(), ""},
		{"a worker that is off, as a person states", off(), ""},
		{"the list of retired hosts is not known", worker().with(func(f *Facts) { f.Retired = state.Fact[retired.List]{} }), "list"},
		{"one of two control planes", cp("cp-1", 2, "cp-2"), "two"},
		{"one of two whose peer has no Node", cp("cp-1", 2), "two"},
		{"one of two whose own Node was deleted", cp("cp-1", 2, "cp-2").with(func(f *Facts) { f.Node, f.Named = nil, []string{"cp-1", "cp-2"} }), "two"},
		{"a name without a Node where a control plane is missing", cp("cp-1", 3, "cp-2", "cp-3").with(func(f *Facts) { f.Node = nil }), "three"},
		{"of three the configuration may name one that another machine replaced", cp("cp-4", 3, "cp-1", "cp-2").with(func(f *Facts) { f.Node, f.Named = nil, []string{"cp-1", "cp-2", "cp-3"} }), "three"},
		{"of two it names both twice, and one has no Node; another name is none of them", cp("w-9", 2, "cp-1").with(func(f *Facts) { f.Named = []string{"cp-1", "cp-2", "cp-1", "cp-2"} }).with(unheard).with(isOff), ""},
		{"of two it names one", cp("w-9", 2, "cp-1").with(func(f *Facts) { f.Named = []string{"cp-1", "cp-1"} }).with(unheard).with(isOff), "two"},
		{"one that lost its label", cp("cp-1", 2, "cp-2").with(func(f *Facts) {
			delete(f.Node.Labels, noderole.ControlPlane)
			f.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Labels: map[string]string{"component": "kube-apiserver"}}}}
		}), "two"},
		{"one that is about to join", cp("cp-3", 3, "cp-1", "cp-2").with(func(f *Facts) { f.Node.Labels = map[string]string{noderole.Claim: "master"} }), "three"},
		{"the only control plane", cp("cp-1", 1), "lone"},
		{"one of three", cp("cp-1", 3, "cp-2", "cp-3"), "three"},
		{"the number of control planes cannot be read", cp("cp-1", 0, "cp-2"), "two"},
		{"an upgrade is under way", worker().with(func(f *Facts) { f.Upgrade = "Hosts: waiting for w-2" }), "upgrade"},
		{"an upgrade waits for a worker that is lost for good", off().with(func(f *Facts) { f.Upgrade = "Hosts: w-1 is not known to be well" }), ""},
		{"an upgrade waits for a worker whose place another machine gets", off().with(func(f *Facts) { f.Upgrade, f.Replaces = "Hosts: w-1 is not known to be well", true }), "upgrade"},
		{"it is said to be off and is Ready", worker().with(func(f *Facts) { f.Off = true }), "lives"},
		{"it is said to be off and its kubelet answers", off().with(func(f *Facts) { f.Answers = true }), "lives"},
		{"it is said to be off and showed itself a moment ago", off().with(func(f *Facts) { f.Seen = now.Add(-50 * time.Second) }), "lives"},
		{"it comes back after it was written down", off().with(marked).with(func(f *Facts) { f.Seen = now }), "lives"},
		{"it is silent, and nobody says that it is off", off().with(func(f *Facts) { f.Off = false }), "silent"},
		{"it is silent after it was written down as off, and nobody says it again", off().with(returned).with(func(f *Facts) { f.Off = false }), "silent"},
		{"it came back after it was written down as off", worker().with(returned), ""},
		{"it is silent after it was emptied", worker().with(drained).with(func(f *Facts) { f.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }), ""},
		{"nobody else takes pods", worker().with(func(f *Facts) {
			f.Others = []corev1.Node{{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}}}}
		}), "nowhere"},
		{"nobody else takes pods, and it has none", worker().with(drained).with(func(f *Facts) {
			f.Others = []corev1.Node{{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}}}}
		}), ""},
		{"several at once", cp("cp-1", 2, "cp-2").with(func(f *Facts) { f.Upgrade = "Hosts" }), "two upgrade"},
	} {
		var names []string
		text.WriteString("# " + c.sentence + "\n")
		for _, g := range Gates(c.facts) {
			names = append(names, g.Name)
			text.WriteString(g.String() + "\n")
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: shut are %q, want %q", c.sentence, got, c.want)
		}
	}
	golden.Check(t, "gates.txt", []byte(text.String()))
}

func TestARemovalThatIsCutOffAnywhereGoesOnAndEnds(t *testing.T) {
	for name, f := range map[string]Facts{"drained": worker(), "off": off()} {
		var did []Action
		for range 20 {
			if shut := Gates(f); len(shut) > 0 {
				t.Fatalf("%s, after %v: %v", name, did, shut)
			}
			step := Next(f) // it looks at the facts alone: whoever asks is a new run
			did = append(did, step.Action)
			if step.Action == Done {
				break
			}
			f = f.with(func(f *Facts) { carryOut(f, step.Action) })
		}
		if i := slices.Index(did, Mark); i < 0 || slices.Index(did, Delete) < i || did[len(did)-1] != Done {
			t.Errorf("%s: %v", name, did)
		}
	}
}

// carryOut does what a step says, as the cluster would show it.
func carryOut(f *Facts, a Action) {
	switch a { //nolint:exhaustive // a worker has no member of etcd
	case Drain:
		f.Node.Annotations[drain.Wanted] = "a"
	case Wait:
		if f.Off {
			f.Attachments = nil
		} else {
			drained(f)
		}
	case Mark:
		marked(f)
	case Detach:
		f.Node.Spec.Taints = append(f.Node.Spec.Taints, corev1.Taint{Key: outofservice.Key})
	case Delete:
		f.Node = nil
	case Sweep:
		f.Pods, f.Attachments, f.Lease, f.Tokens = nil, nil, false, nil
	case Done, Unknown:
	}
}

func TestSomebodyInTheWayOfADrainIsToldAsSuch(t *testing.T) {
	f := worker().with(func(f *Facts) {
		f.Node.Annotations[drain.Wanted], f.Node.Annotations[drain.Waits] = "a", "shop/db: a budget"
	})
	if got := Next(f); got.Action != Wait || !got.InTheWay || !strings.Contains(got.Says, "shop/db: a budget") {
		t.Errorf("got %+v", got)
	}
}

func TestThePlanNamesVolumesThatAreOnTheHostAlone(t *testing.T) {
	on := func(name string, hosts ...string) corev1.PersistentVolume {
		v := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data-" + name}
		var terms []corev1.NodeSelectorTerm
		for _, h := range hosts {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{h}}}})
		}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
		return v
	}
	f := worker()
	f.Volumes = []corev1.PersistentVolume{on("b", "w-1"), on("elsewhere", "w-2"), on("either", "w-1", "w-2"), {ObjectMeta: metav1.ObjectMeta{Name: "shared"}}, on("a", "w-1")}
	want := []string{"PersistentVolume a (of claim shop/data-a)", "PersistentVolume b (of claim shop/data-b)"}
	if got := Foresee(f).Lost; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestAVolumeThatAnotherHostMayHaveIsNotOnOneAlone(t *testing.T) {
	in := func(key string, hosts ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: hosts}}
	}
	for name, c := range map[string]struct {
		term corev1.NodeSelectorTerm
		want bool
	}{
		"by its label":            {corev1.NodeSelectorTerm{MatchExpressions: in(corev1.LabelHostname, "w-1")}, true},
		"by its name":             {corev1.NodeSelectorTerm{MatchFields: in("metadata.name", "w-1")}, true},
		"another one":             {corev1.NodeSelectorTerm{MatchExpressions: in(corev1.LabelHostname, "w-2")}, false},
		"one of two":              {corev1.NodeSelectorTerm{MatchExpressions: in(corev1.LabelHostname, "w-1", "w-2")}, false},
		"by something else alone": {corev1.NodeSelectorTerm{MatchExpressions: in("zone", "w-1")}, false},
		"and something else":      {corev1.NodeSelectorTerm{MatchExpressions: append(in("zone", "a"), in(corev1.LabelHostname, "w-1")...)}, true},
	} {
		v := &corev1.PersistentVolume{}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{c.term}}}
		if got := OnlyOn(v, "w-1"); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestThePlanIsApproved(t *testing.T) {
	var text strings.Builder
	for _, c := range []struct {
		sentence string
		facts    Facts
	}{
		{"a worker", worker()},
		{"a worker that is empty and written down", worker().with(drained).with(marked)},
		{"a worker that is off", off()},
		{"a worker that came back after it was given as off", worker().with(returned)},
		{"a name of which nothing is known", worker().with(unheard).with(isOff)},
	} {
		p := Foresee(c.facts)
		text.WriteString("# " + c.sentence + "\n")
		for _, l := range slices.Concat(p.Steps, p.After) {
			text.WriteString("- " + l + "\n")
		}
	}
	golden.Check(t, "plan.txt", []byte(text.String()))
}

func TestAnEntryTellsTheMachineOfTheHost(t *testing.T) {
	f := off()
	f.Node.Status.NodeInfo = corev1.NodeSystemInfo{MachineID: "m", SystemUUID: "s"}
	f.Node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "w-1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.21"}}
	want := retired.Host{Name: "w-1", UID: "uid-of-w-1", Machine: "m", System: "s", Addresses: []string{"192.0.2.21"}, When: now, By: "kim", Why: "holdfast host remove", Off: true}
	if got := Entry(f, "kim"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
