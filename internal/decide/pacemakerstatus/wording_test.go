package pacemakerstatus

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhyAHostWritesOrLeavesItToTheOther(t *testing.T) {
	for _, c := range []struct {
		on     string
		change func(*Input)
		silent time.Duration
		writes bool
		why    string
	}{
		{"cp-1", func(*Input) {}, 0, true, "this host is Pacemaker's coordinator (DC)"},
		{"cp-2", func(*Input) {}, 0, false, "cp-1 is Pacemaker's coordinator (DC) and writes"},
		{"cp-2", func(*Input) {}, Silence, false, "cp-1 is Pacemaker's coordinator (DC) and writes"},
		{"cp-2", func(*Input) {}, Silence + time.Second, true, "no other host writes"},
		{"cp-1", func(in *Input) { in.Cluster.Known = false }, 0, false, "Pacemaker does not answer here"},
		{"cp-1", func(in *Input) { in.Membership.Value.Quorate = false }, 0, false, "this host has no quorum"},
		{"cp-1", func(in *Input) { in.Membership = state.Fact[state.Membership]{} }, 0, true, "this host is Pacemaker's coordinator (DC)"},
		{"cp-1", func(in *Input) { in.Cluster.Value.Quorate = state.Known(false) }, 0, false, "this host has no quorum"},
		{"cp-1", func(in *Input) { in.Cluster.Value.Quorate = state.Fact[bool]{} }, 0, true, "this host is Pacemaker's coordinator (DC)"},
		{"cp-2", cameBack, 0, false, "Pacemaker on this host has not yet rejoined the host that Corosync sees"},
		{"cp-1", func(in *Input) { in.Cluster.Value.Coordinator = "" }, 0, false, "Pacemaker has no coordinator (DC) yet"},
		{"cp-2", func(in *Input) { in.Membership.Value.Members = []string{"cp-2"} }, 0, true, "this host is the first by name of those present"},
		{"cp-1", func(in *Input) { in.Cluster.Value.Coordinator = "cp-9" }, 0, true, "this host is the first by name of those present"},
		{"cp-2", func(in *Input) { in.Cluster.Value.Coordinator = "cp-9" }, 0, false, "cp-1 writes"},
		{"cp-2", func(in *Input) { in.Cluster.Value.Coordinator = "cp-9"; ofNode(in, "cp-1").Online = false }, 0, true, "this host is the first by name of those present"},
		{"cp-1", func(in *Input) { in.Cluster.Value.Coordinator = "cp-9"; ofNode(in, "cp-1").Online = false }, 0, true, "this host is the first by name of those present"},
		{"cp-1", func(in *Input) { in.Cluster.Value.Coordinator = "cp-9"; in.Cluster.Value.Nodes = nil }, 0, true, "this host is the first by name of those present"},
	} {
		in := input(t, "healthy")
		in.Host, in.Membership, in.QuorateFor = c.on, state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true}), time.Second
		c.change(&in)
		if writes, why := Writes(in, c.silent); writes != c.writes || why != c.why {
			t.Errorf("%s, want %q: %t, %q", c.on, c.why, writes, why)
		}
	}
}

func TestWhichPeersAreAsked(t *testing.T) {
	in := Input{Host: "cp-1", Corosync: state.Known(corosync.Conf{Nodes: []corosync.Node{
		{Name: "cp-1", Addresses: []string{"10.98.0.11"}}, {Name: "cp-2", Addresses: []string{"10.98.0.12", "no address", "fd98::12"}}, {Name: "cp-3", Addresses: []string{"10.98.0.13"}},
	}})}
	if got := in.Peers(); !slices.Equal(got, []string{"10.98.0.12", "fd98::12", "10.98.0.13"}) {
		t.Errorf("before Corosync says who is there: %v", got)
	}
	in.Membership = state.Known(state.Membership{Members: []string{"cp-1", "cp-3"}, Quorate: true})
	if got := in.Peers(); !slices.Equal(got, []string{"10.98.0.13"}) {
		t.Errorf("one that is lost is asked: %v", got)
	}
}

func TestAHappeningHasOneKeyOnEachHostAndAnotherOneForEachFact(t *testing.T) {
	fence := crmmon.Fence{Target: "cp-2", Action: "reboot", By: "cp-1", State: crmmon.FenceSucceeded, Done: moment}
	failure := crmmon.Failure{Node: "cp-1", Resource: "etcd", Task: "monitor", Call: "7", Code: 1, When: moment}
	of := func(f crmmon.Fence, x crmmon.Failure) []Happening {
		return Happenings(crmmon.Cluster{Fences: []crmmon.Fence{f}, Failures: []crmmon.Failure{x}})
	}
	first := of(fence, failure)
	if len(first) != 2 || first[0].Key != "fence|cp-2|reboot|cp-1|2026-11-20T12:00:00Z" || first[1].Key != "failure|cp-1|etcd|monitor 7|2026-11-20T12:00:00Z" {
		t.Fatalf("%+v", first)
	}
	if !first[0].Fence || !first[0].Warning || first[1].Fence || !first[1].Warning || !first[0].At.Equal(moment) {
		t.Errorf("%+v", first)
	}
	fence.Done, failure.When = moment.Add(300*time.Millisecond).In(time.FixedZone("", 3600)), moment.Add(300*time.Millisecond)
	if again := of(fence, failure); again[0].Key != first[0].Key || again[1].Key != first[1].Key {
		t.Errorf("another version tells other milliseconds: %+v", again)
	}
	fence.State = crmmon.FencePending
	failure.When = time.Time{}
	if got := of(fence, failure); len(got) != 0 {
		t.Errorf("a fence that has not ended, and a failure without a time: %+v", got)
	}
	fence.State, fence.Done = crmmon.FenceFailed, time.Time{}
	if got := of(fence, failure); len(got) != 0 {
		t.Errorf("a fence without a time: %+v", got)
	}
}

func TestAMessageIsCutBetweenTwoCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"ten bytes!": "ten bytes!", "eleven byte": "eleven ...", "aaaaaäaaaaaa": "aaaaa ...", "aaaaäaaaaaa": "aaaaä ...", "a\xffb": "a?b", "ääääääää": "äää ...",
	} {
		got := shorten(text, 10)
		if got != want || len(got) > 10 || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestOneReasonIsNamedOnceInAHealth(t *testing.T) {
	c := clusterHealthy.all([]metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "Good", Message: "well"},
		{Type: "B", Status: metav1.ConditionFalse, Reason: "Bad", Message: "it is off"},
		{Type: "C", Status: metav1.ConditionFalse, Reason: "Worse", Message: "it is off"},
		{Type: "D", Status: metav1.ConditionUnknown, Reason: "NotReported", Message: "silent"},
		{Type: "E", Status: metav1.ConditionFalse, Reason: "Plain"},
	}, "and more")
	if want := "Bad (it is off); Worse; D is unknown (silent); Plain; and more"; c.Status != metav1.ConditionFalse || c.Message != want {
		t.Errorf("%s %q", c.Status, c.Message)
	}
}

func TestAHintIsTakenOffWhereItsCommandIsShown(t *testing.T) {
	message := "it is in standby" + hint("pcs node unstandby cp-2")
	if got := WithoutHint(message, "pcs node unstandby cp-2"); got != "it is in standby" {
		t.Errorf("%q", got)
	}
	if got := WithoutHint(message, "pcs status"); got != message {
		t.Errorf("%q", got)
	}
	for status, reported := range map[metav1.ConditionStatus]bool{metav1.ConditionTrue: true, metav1.ConditionFalse: true, metav1.ConditionUnknown: false, "": false} {
		if got := Reported([]metav1.Condition{{Type: "A", Status: status}}, "A"); got != reported {
			t.Errorf("%q: %t", status, got)
		}
	}
	if CatchesUp(metav1.Condition{Reason: "Other", Message: learns("cp-2")}, "cp-2") || !CatchesUp(metav1.Condition{Reason: ReasonResyncing, Message: learns("cp-2")}, "cp-2") {
		t.Error("who catches up")
	}
}

func TestTheNamesOfAStatus(t *testing.T) {
	if got := NodeNames(Status(input(t, "healthy"))); !slices.Equal(got, []string{"cp-1", "cp-2"}) {
		t.Errorf("%v", got)
	}
	if got := NodeNames(etcdv1.PacemakerClusterStatus{}); got != nil {
		t.Errorf("%v", got)
	}
	for name, good := range map[string]bool{"cp-1": true, "cp 1": false, strings.Repeat("a", maxName): true, strings.Repeat("a", maxName+1): false} {
		if isNodeName(name) != good {
			t.Errorf("%.20q of %d bytes: %t", name, len(name), !good)
		}
	}
}

// Each list of conditions keeps its own times: those of the cluster, of a host, of
// its resources and of its fence agents.
func TestEachConditionKeepsItsOwnTime(t *testing.T) {
	early, late := moment, moment.Add(time.Hour)
	first := Timed(Status(input(t, "healthy")), nil, early)
	in := input(t, "healthy")
	instance("etcd", "cp-2")(&in).Failed = true
	instance("cp-2_redfish", "cp-1")(&in).Failed = true
	ofNode(&in, "cp-1").Standby = true
	second := Timed(Status(in), &first, late)
	if !second.LastUpdated.Time.Equal(late) {
		t.Error(second.LastUpdated)
	}
	before, after := allOf(first), allOf(second)
	times := map[string]time.Time{}
	eachTime(second, func(key string, at time.Time) { times[key] = at })
	for key := range after {
		at, ok := times[key]
		changed := strings.SplitN(before[key], ",", 2)[0] != strings.SplitN(after[key], ",", 2)[0]
		if ok && at.Equal(late) != changed {
			t.Errorf("%s changed %t, and its time is %s", key, changed, at)
		}
	}
	if !SameSince(second, second) || SameSince(first, second) || Same(first, second) {
		t.Error("what is the same")
	}
	third := Timed(Status(in), &second, late.Add(time.Hour))
	if !Same(second, third) || !SameSince(second, third) {
		t.Error("only time has passed")
	}
	turned := *third.DeepCopy()
	slices.Reverse(turned.Conditions)
	if !Same(second, turned) || turned.Conditions[0].Type == second.Conditions[0].Type {
		t.Error("the order of conditions is no difference")
	}
	other := *third.DeepCopy()
	if other.Conditions[0].LastTransitionTime = metav1.NewTime(late.Add(time.Minute)); !Same(second, other) || SameSince(second, other) {
		t.Error("another time is one")
	}
}

func eachTime(s etcdv1.PacemakerClusterStatus, f func(string, time.Time)) {
	add := func(of string, list []metav1.Condition) {
		for _, c := range list {
			f(of+" "+c.Type, c.LastTransitionTime.Time)
		}
	}
	add("cluster", s.Conditions)
	for _, n := range *s.Nodes {
		add(n.NodeName, n.Conditions)
		for _, r := range n.Resources {
			add(n.NodeName+"/"+string(r.Name), r.Conditions)
		}
		for _, a := range n.FencingAgents {
			add(n.NodeName+"/"+a.Name, a.Conditions)
		}
	}
}

func TestAStatusIsWrittenWithAllOfItsParts(t *testing.T) {
	s := Timed(Status(input(t, "healthy")), nil, moment)
	var back struct {
		Conditions  []metav1.Condition
		LastUpdated metav1.Time
		Nodes       []struct {
			NodeName      string
			FencingAgents []struct{ Name string }
		}
	}
	if err := json.Unmarshal(JSON(s), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Conditions) != len(s.Conditions) || !back.LastUpdated.Time.Equal(moment) || len(back.Nodes) != 2 || back.Nodes[1].NodeName != "cp-2" || len(back.Nodes[1].FencingAgents) != 1 {
		t.Errorf("%+v", back)
	}
}
