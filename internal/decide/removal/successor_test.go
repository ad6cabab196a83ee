package removal

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestHowFarTheReplacementOfAWorkerIs(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	made := func(name, uid string, at time.Time, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(at)},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	out := func(at time.Time) state.Fact[retired.List] {
		return state.Known(retired.List{{Name: "w-1", UID: "old", When: at}})
	}
	long, hour := now.Add(-1000*time.Hour), now.Add(-time.Hour)
	for _, c := range []struct {
		sentence string
		retired  state.Fact[retired.List]
		node     *corev1.Node // of w-1
		lease    bool
		next     string
		other    *corev1.Node // of the new name
		want     Place
	}{
		{"nothing was done", state.Known(retired.List(nil)), made("w-1", "old", long, corev1.ConditionTrue), false, "w-1", nil, Held},
		{"written down, the Node is there", out(hour), made("w-1", "old", long, corev1.ConditionTrue), false, "w-1", nil, Held},
		{"a part is left", out(hour), nil, true, "w-1", nil, Held},
		{"nothing is left", out(hour), nil, false, "w-1", nil, Free},
		{"the new host is a node", out(hour), made("w-1", "new", now, corev1.ConditionFalse), false, "w-1", nil, Free},
		{"the new host is Ready", out(hour), made("w-1", "new", now, corev1.ConditionTrue), false, "w-1", nil, Given},
		{"a host that was replaced long ago", out(long), made("w-1", "new", now.Add(-900*time.Hour), corev1.ConditionTrue), false, "w-1", nil, Held},
		{"an entry that is younger than the Node's host", out(now), made("w-1", "new", hour, corev1.ConditionTrue), false, "w-1", nil, Held},
		{"another name, nothing is left", out(hour), nil, false, "w-7", nil, Free},
		{"another name, the old Node is there", out(hour), made("w-1", "old", long, corev1.ConditionTrue), false, "w-7", made("w-7", "new", now, corev1.ConditionTrue), Held},
		{"another name, not Ready", out(hour), nil, false, "w-7", made("w-7", "new", now, corev1.ConditionUnknown), Free},
		{"another name, Ready", out(hour), nil, false, "w-7", made("w-7", "new", now, corev1.ConditionTrue), Given},
		{"nobody has the name", state.Known(retired.List(nil)), nil, false, "w-1", nil, Held},
	} {
		f := Facts{Now: now, Name: "w-1", Node: c.node, Retired: c.retired, Lease: c.lease, Replaces: true}
		node := c.node
		if c.next != f.Name {
			node = c.other
		}
		if got := Successor(f, c.next, node); got != c.want {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.want)
		}
	}
}

// The command that is typed again has the serial number of the first machine. That may be the machine of
// the new host, too, with another disk.
func TestANewControlPlaneOfThreeThatDiesIsTakenOutByItsOwnSerialNumber(t *testing.T) {
	for _, c := range []struct {
		sentence     string
		board, typed string
		change       func(*Facts)
		want         Place
	}{
		{"the first machine's, typed again", "board-b", "S-first", nil, Free},
		{"nobody's", "board-b", "", nil, Free},
		{"its own", "board-b", "S-cp-3", nil, Held},
		{"its own, and it is Ready", "board-b", "S-cp-3", func(f *Facts) { f.Node.Status.Conditions[0].Status = corev1.ConditionTrue }, Held},
		{"the first machine has another disk", "BOARD-A", "S-cp-3", nil, Free},
		{"its board is not known", "", "S-cp-3", nil, Free},
		{"the first machine's board is not known", "board-b", "S-cp-3", func(f *Facts) { f.Retired.Value[0].System = "" }, Free},
		{"its serial number is not known", "board-b", "S-cp-3", func(f *Facts) { f.Node.Annotations = nil }, Free},
	} {
		f, p := lostPlane()
		f.Retired = state.Known(retired.List{{Name: "cp-3", UID: "first", System: "board-a", When: planeNoon.Add(-time.Hour), Again: planeNoon.Add(-time.Minute), ControlPlane: true, Off: true}})
		f.Node.CreationTimestamp, f.Keeps, f.Typed = metav1.NewTime(planeNoon.Add(-time.Minute)), true, c.typed
		f.Node.Status.NodeInfo.SystemUUID = c.board
		if c.change != nil {
			c.change(&f)
		}
		if got := Successor(f, "cp-3", f.Node); got != c.want {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.want)
		}
		if step := PlaneNext(f, p); c.want == Held && step.Action != Leave {
			t.Errorf("%s: its member stays: %+v", c.sentence, step)
		}
	}
}

func TestATokenThatIsYoungerThanTheEntryIsTheNewMachines(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	out := retired.Host{Name: "w-1", UID: "old", When: now.Add(-time.Hour)}
	approved, longAgo := out, out
	approved.Again = now.Add(-time.Minute)
	longAgo.When, longAgo.Again = now.Add(-1000*time.Hour), now.Add(-999*time.Hour)
	old, young := Token{Name: "old", Made: now.Add(-2 * time.Hour)}, Token{Name: "new", Made: now.Add(-time.Minute)}
	for _, c := range []struct {
		sentence string
		entry    retired.Host
		keeps    bool
		lease    bool
		tokens   []Token
		want     Place
		swept    string
	}{
		{"the old host's", out, true, false, []Token{old}, Held, "old"},
		{"both", out, true, false, []Token{old, young}, Held, "old"},
		{"the new machine's", out, true, false, []Token{young}, Free, ""},
		{"the new machine's, and a part is left", out, true, true, []Token{young}, Held, ""},
		{"its request was approved", approved, true, false, []Token{young}, Free, ""},
		{"the name was given again long ago", longAgo, true, false, []Token{young}, Held, ""},
		{"the new machine has another name", out, false, false, []Token{young}, Held, "new"},
	} {
		f := Facts{Now: now, Name: "w-1", Retired: state.Known(retired.List{c.entry}), Lease: c.lease, Tokens: c.tokens, Replaces: true, Keeps: c.keeps}
		next := map[bool]string{true: "w-1", false: "w-7"}[c.keeps]
		if got := Successor(f, next, nil); got != c.want {
			t.Errorf("%s: %s, want %s", c.sentence, got, c.want)
		}
		if got := strings.Join(Next(f).Left.Tokens, " "); got != c.swept {
			t.Errorf("%s: deletes %q, want %q", c.sentence, got, c.swept)
		}
	}
}

func TestWhereTheOldMachineMayStillAnswer(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	at := func(name, uid string, addresses ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return n
	}
	out := retired.Host{Name: "w-1", UID: "old", When: now.Add(-time.Hour), Addresses: []string{"192.0.2.21", "2001:db8::21"}}
	again := out
	again.Again = now.Add(-time.Minute)
	token := []Token{{Name: "new", Made: now.Add(-time.Minute)}}
	for _, c := range []struct {
		sentence string
		retired  retired.List
		node     *corev1.Node
		tokens   []Token
		other    *corev1.Node
		want     string
	}{
		{"nothing was done", nil, at("w-1", "old", "192.0.2.21"), nil, at("w-2", "two"), "192.0.2.21"},
		{"written down, the Node is there", retired.List{out}, at("w-1", "old", "192.0.2.21"), nil, at("w-2", "two"), "192.0.2.21"},
		{"the Node is gone", retired.List{out}, nil, nil, at("w-2", "two", "192.0.2.22"), "192.0.2.21 2001:db8::21"},
		{"another host has an address by now", retired.List{out}, nil, nil, at("w-2", "two", "192.0.2.21"), "2001:db8::21"},
		{"the new machine joins", retired.List{out}, nil, token, at("w-2", "two"), ""},
		{"the name was given again", retired.List{again}, nil, nil, at("w-2", "two"), ""},
		{"the new machine has its Node", retired.List{out}, at("w-1", "new", "192.0.2.21"), nil, at("w-2", "two"), ""},
	} {
		f := Facts{Now: now, Name: "w-1", Node: c.node, Others: []corev1.Node{*c.other}, Retired: state.Known(c.retired), Tokens: c.tokens, Replaces: true, Keeps: true}
		if got := strings.Join(OldAddresses(f), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
	}
}

// A member of a name with an entry is the new machine's: the old one left before the entry was written.
func TestTheMemberOfTheNewMachineDoesNotLeave(t *testing.T) {
	f, p := lostPlane()
	f.Retired = state.Known(retired.List{Entry(f, "ada")})
	f.Node, f.Keeps, f.Lease, f.Off = nil, true, true, true
	for _, learner := range []bool{true, false} {
		p.Members.Value[2].Learner = learner
		if step, shut := PlaneNext(f, p), PlaneGates(f, p); step.Action != Sweep || len(shut) > 0 {
			t.Errorf("a learner: %t: %+v, %v", learner, step, shut)
		}
	}
}
