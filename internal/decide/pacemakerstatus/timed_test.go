package pacemakerstatus

import (
	"slices"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func online(s etcdv1.PacemakerClusterStatus) metav1.Condition {
	return Find(nodeNamed(&s, "cp-2").Conditions, etcdv1.NodeOnlineConditionType)
}

func TestB4ATransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	good, bad := Status(input(t, "healthy")), Status(input(t, "lost-fenced"))
	first := Timed(good, nil, noon)
	later := Timed(good, &first, noon.Add(time.Hour))
	if at := online(later).LastTransitionTime; !at.Time.Equal(noon) || !later.LastUpdated.Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("nothing changed: %v, %v", at, later.LastUpdated)
	}
	lost := Timed(bad, &later, noon.Add(2*time.Hour))
	if at := online(lost).LastTransitionTime; !at.Time.Equal(noon.Add(2 * time.Hour)) {
		t.Errorf("it was lost: %v", at)
	}
	c := Find(nodeNamed(&lost, "cp-2").Conditions, etcdv1.NodeActiveConditionType)
	if !c.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("a condition that stayed: %v", c)
	}
}

func TestHardCase35TheTimeOfTheStatusNeverGoesBack(t *testing.T) {
	s := Status(input(t, "healthy"))
	first := Timed(s, nil, noon)
	behind := Timed(s, &first, noon.Add(-time.Hour))
	if !behind.LastUpdated.Time.Equal(noon.Add(time.Second)) {
		t.Errorf("%v", behind.LastUpdated)
	}
	if same := Timed(s, &first, noon.Add(300*time.Millisecond)); !same.LastUpdated.Time.Equal(noon) {
		t.Errorf("within a second: %v", same.LastUpdated)
	}
}

func TestTheAPIsTimesCountUnlessItMissedAChange(t *testing.T) {
	good, bad := Status(input(t, "healthy")), Status(input(t, "lost-fenced"))
	api := Timed(good, nil, noon)
	// This host began to look later and saw no change.
	own := Timed(good, nil, noon.Add(-time.Minute))
	if at := online(Merged(own, own, api, noon.Add(time.Minute))).LastTransitionTime; !at.Time.Equal(noon) {
		t.Errorf("the API's: %v", at)
	}
	// While the API was away the host was lost and came back.
	lost := Timed(bad, &api, noon.Add(time.Minute))
	back := Timed(good, &lost, noon.Add(2*time.Minute))
	if at := online(Merged(back, back, api, noon.Add(3*time.Minute))).LastTransitionTime; !at.Time.Equal(noon.Add(2 * time.Minute)) {
		t.Errorf("what the API missed: %v", at)
	}
	// The other host saw and published the same change a moment before this one
	// did: that is one event, not two.
	told := Timed(bad, &api, noon.Add(time.Minute))
	seen := Timed(bad, &api, noon.Add(time.Minute+3*time.Second))
	if at := online(Merged(seen, seen, told, noon.Add(2*time.Minute))).LastTransitionTime; !at.Time.Equal(noon.Add(time.Minute)) {
		t.Errorf("one change that two hosts saw: %v", at)
	}
}

// TestThatNothingWasKnownIsNoChange replays a cold boot of both hosts: Pacemaker
// did not answer at first, and some 25 conditions that had not changed were
// reported to people.
func TestThatNothingWasKnownIsNoChange(t *testing.T) {
	good, bad, blind := Status(input(t, "healthy")), Status(input(t, "lost-fenced")), input(t, "healthy")
	blind.Cluster.Known = false
	api := Timed(good, nil, noon)
	at := func(steps ...etcdv1.PacemakerClusterStatus) time.Duration {
		own, known := api, api
		for i, s := range steps {
			own = Timed(s, &own, noon.Add(time.Duration(i+1)*time.Minute))
			known = Known(own, known)
		}
		return online(Merged(own, known, api, noon.Add(time.Hour))).LastTransitionTime.Sub(noon)
	}
	for _, c := range []struct {
		name  string
		steps []etcdv1.PacemakerClusterStatus
		want  time.Duration
	}{
		{"as before", []etcdv1.PacemakerClusterStatus{Status(blind), good}, 0},
		{"lost before", []etcdv1.PacemakerClusterStatus{bad, Status(blind), good}, 3 * time.Minute},
		{"lost meanwhile", []etcdv1.PacemakerClusterStatus{Status(blind), bad, good}, 3 * time.Minute},
		{"not there any more", []etcdv1.PacemakerClusterStatus{Status(blind), bad}, 2 * time.Minute},
		{"not known now", []etcdv1.PacemakerClusterStatus{Status(blind)}, time.Hour},
	} {
		if got := at(c.steps...); got != c.want {
			t.Errorf("%s: since %s, want %s", c.name, got, c.want)
		}
	}
}

func TestTwoStatusesThatSayTheSame(t *testing.T) {
	good := Status(input(t, "healthy"))
	if !Same(Timed(good, nil, noon), Timed(good, nil, noon.Add(time.Hour))) || Same(good, Status(input(t, "standby"))) {
		t.Error("times count, or words do not")
	}
}

// silentCorosync is the view of a host a moment before justStarted. It wrote to
// the API that its peer, which had just fenced it, was lost and ran nothing.
func silentCorosync(in *Input) {
	justStarted(in)
	in.Membership = state.Fact[state.Membership]{}
	for i := range in.Cluster.Value.Nodes {
		n := &in.Cluster.Value.Nodes[i]
		n.Online = n.Name == in.Host
	}
}

// justStarted is the view of a host that has booted, as seen in the lab: Corosync has
// both hosts, no host decides, and Pacemaker takes the other one for unclean.
func justStarted(in *Input) {
	in.Cluster.Value.Coordinator = ""
	in.Cluster.Value.Nodes = slices.Clone(in.Cluster.Value.Nodes)
	for i := range in.Cluster.Value.Nodes {
		in.Cluster.Value.Nodes[i].Unclean = in.Cluster.Value.Nodes[i].Name != in.Host
	}
}

// cameBack is the view of the fenced side of a cut as soon as the cut had healed:
// it had booted alone, and Corosync had let it in again.
func cameBack(in *Input) {
	in.Cluster.Value.Coordinator, in.QuorateFor = in.Host, time.Second
	for i := range in.Cluster.Value.Nodes {
		n := &in.Cluster.Value.Nodes[i]
		n.Unclean = n.Name != in.Host
	}
}

// joined is the same host 1.6 s later: no host is unclean any more, one is pending.
func joined(name string) func(*Input) {
	return func(in *Input) {
		cameBack(in)
		for i := range in.Cluster.Value.Nodes {
			n := &in.Cluster.Value.Nodes[i]
			n.Unclean, n.Pending = false, n.Name == name
		}
	}
}

func TestAHostThatHasJustStartedOrHasNoQuorumIsBlind(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*Input)
		want   bool
	}{
		"all is well":                          {func(*Input) {}, false},
		"it has just started":                  {justStarted, true},
		"Corosync does not answer yet":         {silentCorosync, true},
		"it has no quorum":                     {func(in *Input) { in.Membership.Value.Quorate = false }, true},
		"Pacemaker says so":                    {func(in *Input) { in.Cluster.Value.Quorate = state.Known(false) }, true},
		"it comes out of a cut":                {cameBack, true},
		"it came out of one, its peer pending": {joined("cp-2"), true},
		"it came out of one, itself pending":   {joined("cp-1"), true},
		"its peer came out of one":             {func(in *Input) { joined("cp-2")(in); in.QuorateFor = time.Hour }, false},
		"its peer stays apart":                 {func(in *Input) { cameBack(in); in.QuorateFor = meets }, false},
		"its peer is unclean and lost":         {func(in *Input) { cameBack(in); in.Membership.Value.Members = []string{"cp-1"} }, false},
		"its peer is lost":                     {func(in *Input) { in.Membership.Value.Members = []string{"cp-1"} }, false},
		"its peer is lost, and nobody decides": {func(in *Input) { justStarted(in); in.Membership.Value.Members = []string{"cp-1"} }, false},
	} {
		in := input(t, "healthy")
		in.Host, in.Membership = "cp-1", state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
		c.change(&in)
		if in.Blind() != c.want {
			t.Errorf("%s: %v", what, in.Blind())
		}
	}
}

// TestASilenceOfAMomentIsNoChange replays a busy host in the lab: redundancy came
// and went, each time with an event.
func TestASilenceOfAMomentIsNoChange(t *testing.T) {
	both := state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
	alone := state.Known(state.Membership{Members: []string{"cp-1"}, Quorate: true})
	in := input(t, "healthy")
	in.Host, in.Membership = "cp-1", both
	before := func(status metav1.ConditionStatus, reason string) etcdv1.PacemakerClusterStatus {
		return etcdv1.PacemakerClusterStatus{Conditions: []metav1.Condition{condition(Redundant, status, reason)}}
	}
	redundant, lost := before(metav1.ConditionTrue, ReasonRedundant), before(metav1.ConditionFalse, ReasonPeerLost)
	if c := Find(Status(in).Conditions, Redundant); c.Reason != ReasonNotReported {
		t.Fatalf("%+v", c)
	}
	for _, c := range []struct {
		was    etcdv1.PacemakerClusterStatus
		silent time.Duration
		member state.Fact[state.Membership]
		want   metav1.ConditionStatus
	}{
		{redundant, time.Second, both, metav1.ConditionTrue},
		{redundant, Patience, both, metav1.ConditionUnknown},
		{redundant, time.Second, alone, metav1.ConditionUnknown},
		{lost, time.Second, alone, metav1.ConditionFalse},
		{lost, time.Second, both, metav1.ConditionFalse},
		{lost, Patience, both, metav1.ConditionUnknown},
	} {
		in.Membership = c.member
		s := Status(in.Patient(c.was, c.silent))
		if got := Find(s.Conditions, Redundant); got.Status != c.want {
			t.Errorf("silent for %s, %v: %+v", c.silent, c.member.Value.Members, got)
		}
	}
	if got := Find(Status(in.Patient(Status(in), 0)).Conditions, Redundant); got.Status != metav1.ConditionUnknown {
		t.Errorf("what was not known is not known: %+v", got)
	}
}

func TestOfTwoHostsOneWrites(t *testing.T) {
	both := state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
	for _, c := range []struct {
		name   string
		on     string
		change func(*Input)
		silent time.Duration
		want   bool
	}{
		{"the coordinator", "cp-1", func(*Input) {}, 0, true},
		{"the other one", "cp-2", func(*Input) {}, 0, false},
		{"the other one, when nobody writes", "cp-2", func(*Input) {}, 2 * time.Minute, true},
		{"the other one, when the coordinator is gone", "cp-2", func(in *Input) { in.Membership.Value.Members = []string{"cp-2"} }, 0, true},
		{"the first, without a coordinator", "cp-1", func(in *Input) { in.Cluster.Value.Coordinator = "" }, 0, false},
		{"the first, without a coordinator, when nobody writes", "cp-1", func(in *Input) { in.Cluster.Value.Coordinator = "" }, 2 * time.Minute, true},
		{"the second, without a coordinator", "cp-2", func(in *Input) { in.Cluster.Value.Coordinator = "" }, 0, false},
		{"the second, without a coordinator, alone", "cp-2", func(in *Input) {
			in.Cluster.Value.Coordinator, in.Membership.Value.Members = "", []string{"cp-2"}
		}, 0, true},
		{"the first, whose Pacemaker has just started", "cp-1", justStarted, 0, false},
		{"the first, whose Corosync does not say who is there yet", "cp-1", silentCorosync, 0, false},
		{"the first, whose Pacemaker has just started, when nobody writes", "cp-1", justStarted, 2 * time.Minute, true},
		{"out of a cut", "cp-2", cameBack, 0, false},
		{"out of a cut, its peer pending", "cp-2", joined("cp-1"), 0, false},
		{"out of a cut, itself pending", "cp-2", joined("cp-2"), 0, false},
		{"the survivor of a cut", "cp-1", func(in *Input) { joined("cp-2")(in); in.QuorateFor = time.Hour }, 0, true},
		{"out of a cut, and they stay apart", "cp-2", func(in *Input) { cameBack(in); in.QuorateFor = meets }, 0, true},
		{"out of a cut, when nobody writes", "cp-2", cameBack, 2 * time.Minute, true},
		{"the survivor of one that was fenced", "cp-1", func(in *Input) { in.Cluster.Value.Nodes[1].Online = false }, 0, true},
		{"one whose peer has become unclean", "cp-1", func(in *Input) { cameBack(in); in.QuorateFor = time.Hour }, 0, true},
		{"without quorum", "cp-1", func(in *Input) { in.Membership.Value.Quorate = false }, 0, false},
		{"without quorum, says Pacemaker", "cp-1", func(in *Input) { in.Cluster.Value.Quorate = state.Known(false) }, 0, false},
		{"without an answer", "cp-1", func(in *Input) { in.Cluster.Known = false }, 0, false},
		{"without an answer, when nobody writes", "cp-1", func(in *Input) { in.Cluster.Known = false }, 2 * time.Minute, true},
	} {
		in := input(t, "healthy")
		in.Host, in.Membership = c.on, both
		c.change(&in)
		if got, why := Writes(in, c.silent); got != c.want {
			t.Errorf("%s: %v, %s", c.name, got, why)
		}
	}
}
