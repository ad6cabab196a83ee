package removal

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var planeNoon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// lostPlane returns the facts about cp-3 of three, which is lost, and for which every gate is open.
func lostPlane() (Facts, Plane) {
	node := func(name string, ready corev1.ConditionStatus) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{noderole.ControlPlane: ""},
				Annotations: map[string]string{state.AnnotationMachine: state.Machine{UUID: "u-" + name, Serial: "S-" + name}.String()},
			},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	lost := node("cp-3", corev1.ConditionUnknown)
	f := Facts{
		Now: planeNoon, Name: "cp-3", Node: &lost, Others: []corev1.Node{node("cp-1", corev1.ConditionTrue), node("cp-2", corev1.ConditionTrue)},
		Retired: state.Known(retired.List(nil)), ControlPlanes: 3, Replaces: true, Seen: planeNoon.Add(-time.Hour), Off: true,
	}
	p := Plane{
		Here: "cp-1", Typed: "S-cp-3", Votes: []string{"cp-1", "cp-2"}, Work: state.Known(""),
		Members: state.Known([]state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 3, Name: "cp-3"}}),
	}
	return f, p
}

var planeClosing = []struct {
	sentence, gate string
	change         func(*Facts, *Plane)
}{
	{"a list that cannot be read", "list", func(f *Facts, _ *Plane) { f.Retired.Known = false }},
	{"an upgrade", "upgrade", func(f *Facts, p *Plane) {
		f.Upgrade, p.Upgrade = "Hosts", "waits for the upgrade: cp-2 has its turn, which is taken back first"
	}},
	{"a second control plane has no Node", "three", func(f *Facts, p *Plane) {
		f.Others = f.Others[:1]
		p.Members.Value = p.Members.Value[:1]
	}},
	{"the command runs elsewhere", "here", func(_ *Facts, p *Plane) { p.Here = "w-1" }},
	{"the command runs on the host that goes", "here", func(_ *Facts, p *Plane) { p.Here = "cp-3" }},
	{"nobody said that it is off", "gone", func(f *Facts, p *Plane) { f.Off, p.Typed = false, "" }},
	{"somebody looked at another machine", "gone", func(f *Facts, p *Plane) { f.Off, p.Typed = false, "S-cp-2" }},
	{"somebody typed another UUID than that of a machine without a serial number", "gone", func(f *Facts, p *Plane) {
		f.Off, p.Typed, f.Node.Annotations = false, "u-cp-2", bare("cp-3")
	}},
	{"nobody said that a machine without a serial number is off", "gone", func(f *Facts, p *Plane) {
		f.Off, p.Typed, f.Node.Annotations = false, "", bare("cp-3")
	}},
	{"its serial number is not known", "gone", func(f *Facts, _ *Plane) { f.Off, f.Node.Annotations = false, nil }},
	{"its kubelet lives", "lives", func(f *Facts, _ *Plane) { f.Seen = planeNoon }},
	{"its etcd answers", "lives", func(_ *Facts, p *Plane) { p.Votes = append(p.Votes, "cp-3") }},
	{"members unknown", "etcd", func(_ *Facts, p *Plane) { p.Members.Known = false }},
	{"a learner", "etcd", func(_ *Facts, p *Plane) {
		p.Members.Value = append(p.Members.Value, state.EtcdMember{ID: 4, Name: "cp-4", Learner: true})
	}},
	{"a host that stays is no member", "etcd", func(_ *Facts, p *Plane) { p.Members.Value = append(p.Members.Value[:1:1], p.Members.Value[2]) }},
	{"another voter is away", "voters", func(_ *Facts, p *Plane) { p.Votes = p.Votes[:1] }},
	{"other work", "work", func(_ *Facts, p *Plane) { p.Work = state.Known("the plan p1 brings cp-4") }},
	{"other work unknown", "work", func(_ *Facts, p *Plane) { p.Work.Known = false }},
	{"no backup", "backup", func(_ *Facts, p *Plane) { p.Backup = "this site has no good backup" }},
}

// bare are the annotations of a host whose machine has no serial number.
func bare(name string) map[string]string {
	return map[string]string{state.AnnotationMachine: state.Machine{UUID: "u-" + name}.String()}
}

func TestAMachineWithoutASerialNumberIsGoneByItsUUID(t *testing.T) {
	f, _ := lostPlane()
	if f.Gone("u-cp-3") {
		t.Error("the UUID counts although the machine has a serial number")
	}
	f.Node.Annotations = bare("cp-3")
	if !f.Gone("U-CP-3") || f.Gone("u-cp-2") || f.Gone("") {
		t.Error("the UUID of the machine does not count, or something else does")
	}
	f.Node.Annotations = map[string]string{state.AnnotationMachine: state.Machine{}.String()}
	if f.Gone("") || f.Gone("u-cp-3") {
		t.Error("a machine of which nothing is known is gone")
	}
}

func TestEachGateOfAControlPlaneOfThreeClosesForItsOwnReason(t *testing.T) {
	f, p := lostPlane()
	if shut := PlaneGates(f, p); len(shut) > 0 || !f.OneOfThree() || !f.Gone("S-cp-3") || f.Gone("S-cp-2") || f.Gone("") {
		t.Fatalf("closed without a reason: %v", shut)
	}
	seen := map[string]bool{}
	var text strings.Builder
	for _, c := range planeClosing {
		f, p := lostPlane()
		c.change(&f, &p)
		shut := PlaneGates(f, p)
		if len(shut) != 1 || shut[0].Name != c.gate {
			t.Errorf("%s: closed are %v, want %s", c.sentence, shut, c.gate)
		}
		for _, g := range shut {
			text.WriteString(c.sentence + "\n  " + g.String() + "\n")
		}
		seen[c.gate] = true
	}
	for _, g := range planeGates {
		if !seen[g.name] {
			t.Errorf("nothing here closes the gate %s", g.name)
		}
	}
	golden.Check(t, "plane-gates.txt", []byte(text.String()))
}

// The member leaves first, while its Node is there: a plan that is cut off before is no removal.
func TestTheMemberLeavesBeforeAnythingElseOfAControlPlaneGoes(t *testing.T) {
	f, p := lostPlane()
	f.Pods = []corev1.Pod{{}}
	f.Lease = true
	tell := func(want Action) {
		t.Helper()
		if shut := PlaneGates(f, p); len(shut) > 0 {
			t.Fatalf("before %s: %v", want, shut)
		}
		if step := PlaneNext(f, p); step.Action != want || want == Leave && step.Member != 3 {
			t.Fatalf("%+v, want %s", step, want)
		}
	}
	tell(Leave)
	if steps := PlaneSteps(f, p); len(steps) != 1 || !strings.Contains(steps[0], "the loss of one more control plane stops the site") {
		t.Errorf("a person does not read what the loss of one more host means: %q", steps)
	}
	p.Members.Value = p.Members.Value[:2]
	tell(Mark)
	f.Retired = state.Known(retired.List{Entry(f, "ada")})
	tell(Detach)
	f.Node.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/out-of-service"}}
	tell(Delete)
	f.Node = nil
	if f.Off = f.Gone(""); !f.Off || !f.OneOfThree() {
		t.Fatal("after its Node is gone the person's word is forgotten")
	}
	tell(Sweep)
	f.Pods, f.Lease = nil, false
	tell(Done)
	if PlaneSteps(f, p) != nil {
		t.Error("the member leaves twice")
	}
}

func TestTheNewHostVotesOnceThereAreThreeVoters(t *testing.T) {
	_, p := lostPlane()
	if !p.Joined("cp-3") || p.Joined("cp-4") {
		t.Error("the members are compared with another host")
	}
	p.Members.Value[2].Learner = true
	if p.Joined("cp-3") {
		t.Error("a learner counts as a voter")
	}
	p.Members.Value = p.Members.Value[:2]
	if p.Joined("cp-2") || (Plane{}).Joined("cp-2") {
		t.Error("two voters, or unknown ones, are three")
	}
}
