package pacemakerstatus

import (
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhyAPairIsNotRedundant has the words for people; who catches up or leaves is
// named.
func TestWhyAPairIsNotRedundant(t *testing.T) {
	for want, change := range map[string]func(*state.EtcdSnapshot){
		"cp-2 is absent: one more failure stops the cluster":                                                  func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Known(false) },
		"etcd on cp-1 is the only member: one more failure stops the cluster":                                 func(s *state.EtcdSnapshot) { s.Local.Members.Value = s.Local.Members.Value[:1] },
		"cp-2 is a learner and is catching up: one more failure stops the cluster":                            func(s *state.EtcdSnapshot) { s.Local.Members.Value[1].Learner = true },
		"cp-1 is a learner and is catching up: one more failure stops the cluster":                            func(s *state.EtcdSnapshot) { s.Local.Members.Value[0].Learner = true },
		"cp-2 is a member that has not started yet: one more failure stops the cluster":                       func(s *state.EtcdSnapshot) { s.Local.Members.Value[1].Name = "" },
		"cp-1 is leaving: one more failure stops the cluster":                                                 func(s *state.EtcdSnapshot) { s.Record.Value.State = state.EtcdDeparting },
		"etcd has no leader: one more failure stops the cluster":                                              func(s *state.EtcdSnapshot) { s.Local.Leader.Value = 0 },
		"etcd on cp-1 does not report its members":                                                            func(s *state.EtcdSnapshot) { s.Local.Members = state.Fact[[]state.EtcdMember]{} },
		"both are voters, but the record of cp-1 says sole, not pair yet: one more failure stops the cluster": func(s *state.EtcdSnapshot) { s.Record.Value.State = state.EtcdSole },
		"cp-2 is leaving: one more failure stops the cluster": func(s *state.EtcdSnapshot) {
			s.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdDeparting}})
		},
	} {
		in := input(t, "healthy")
		in.Etcd = report(change)
		if got := Find(Status(in).Conditions, Redundant); got.Message != want || got.Status == metav1.ConditionTrue {
			t.Errorf("%s: %q, want %q", got.Status, got.Message, want)
		}
	}
}

// TestNobodyKnowsWhetherAPairIsRedundant where etcd is not known to run here, whatever
// else the report holds: what it lists is from before.
func TestNobodyKnowsWhetherAPairIsRedundant(t *testing.T) {
	for what, change := range map[string]func(*state.EtcdSnapshot){
		"etcd is stopped":                  func(s *state.EtcdSnapshot) { s.Local.Running = state.Known(false) },
		"it is unknown whether it runs":    func(s *state.EtcdSnapshot) { s.Local.Running = state.Fact[bool]{} },
		"its members are unknown":          func(s *state.EtcdSnapshot) { s.Local.Members.Known = false },
		"a record that is not known says ": func(s *state.EtcdSnapshot) { s.Local.Running = state.Known(false); s.Record.Known = false },
	} {
		in := input(t, "healthy")
		in.Etcd = report(change)
		if got := Find(Status(in).Conditions, Redundant); got.Status != metav1.ConditionUnknown {
			t.Errorf("%s: %+v", what, got)
		}
	}
	in := input(t, "healthy")
	in.Etcd = report(func(*state.EtcdSnapshot) {})
	in.Etcd.Known = false
	if got := Find(Status(in).Conditions, Redundant); got.Status != metav1.ConditionUnknown || got.Message != "the etcd keeper on cp-1 does not answer" {
		t.Errorf("no answer: %+v", got)
	}
}

// TestWhoLeavesIsKnownByARecordThatIsKnown: the value of an unknown record is nobody's.
func TestWhoLeavesIsKnownByARecordThatIsKnown(t *testing.T) {
	leaving := state.EtcdRecord{State: state.EtcdDeparting}
	for _, c := range []struct {
		own, peer state.Fact[state.EtcdRecord]
		want      string
	}{
		{state.Known(leaving), state.Fact[state.EtcdRecord]{}, "cp-1"},
		{state.Fact[state.EtcdRecord]{}, state.Known(leaving), "cp-2"},
		{state.Known(leaving), state.Known(leaving), "cp-1"},
		{state.Fact[state.EtcdRecord]{Value: leaving}, state.Fact[state.EtcdRecord]{Value: leaving}, ""},
		{state.Known(state.EtcdRecord{State: state.EtcdPair}), state.Known(state.EtcdRecord{State: state.EtcdPair}), ""},
	} {
		s := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Record: c.own}
		s.Statement.Known, s.Statement.Value.Record = c.peer.Known, c.peer.Value
		if got := leaver(s); got != c.want {
			t.Errorf("own %+v, peer %+v: %q", c.own, c.peer, got)
		}
	}
}

// TestWhatOfAnEarlierStatusStillHoldsInASilence: nothing that was not known, and
// nothing that an earlier input kept.
func TestWhatOfAnEarlierStatusStillHoldsInASilence(t *testing.T) {
	status := func(list ...metav1.Condition) etcdv1.PacemakerClusterStatus {
		return etcdv1.PacemakerClusterStatus{Conditions: list}
	}
	kept := condition(Redundant, yes, ReasonRedundant)
	in := Input{Before: kept}
	if got := in.Patient(status(kept), Patience-1).Before; got != kept {
		t.Errorf("%+v", got)
	}
	for what, before := range map[string]etcdv1.PacemakerClusterStatus{
		"no condition": status(), "an unknown one": status(condition(Redundant, unknown, ReasonNotReported)), "one without a status": status(condition(Redundant, "", "")),
	} {
		if got := in.Patient(before, 0).Before; got != (metav1.Condition{}) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := in.Patient(status(kept), Patience).Before; got != (metav1.Condition{}) {
		t.Errorf("after %s: %+v", Patience, got)
	}
}

// pair returns a status in which either host may be lost.
func pair(t *testing.T) etcdv1.PacemakerClusterStatus {
	t.Helper()
	in := input(t, "healthy")
	in.Etcd = report(func(*state.EtcdSnapshot) {})
	return Status(in)
}

// set gives a condition another status and a message; the empty status takes it away.
func set(list *[]metav1.Condition, kind string, status metav1.ConditionStatus, message string) {
	i := slices.IndexFunc(*list, func(c metav1.Condition) bool { return c.Type == kind })
	if status == "" {
		*list = slices.Delete(*list, i, i+1)
		return
	}
	(*list)[i].Status, (*list)[i].Message = status, message
}

// TestWhatTheLossOfAHostRestsOn makes each condition that it needs false, unknown and
// absent: only true counts, and what is not known is not said to be false.
func TestWhatTheLossOfAHostRestsOn(t *testing.T) {
	cluster := func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition { return &s.Conditions }
	node := func(i int) func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition {
		return func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition { return &(*s.Nodes)[i].Conditions }
	}
	resource := func(i, k int) func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition {
		return func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition {
			return &(*s.Nodes)[i].Resources[k].Conditions
		}
	}
	const whether = "it is unknown whether "
	for _, c := range []struct {
		at          func(*etcdv1.PacemakerClusterStatus) *[]metav1.Condition
		kind        string
		lost        string // the host whose loss is not survived, both where it is empty
		no, unknown string
	}{
		{node(0), "Online", "cp-2", "cp-1 is absent", whether + "cp-1 is present"},
		{resource(0, 1), "Healthy", "cp-2", "etcd on cp-1 is not healthy", whether + "etcd on cp-1 is healthy"},
		{cluster, Redundant, "", "not both hosts hold every write", whether + "both hosts hold every write"},
		{cluster, FencingEnabled, "", "fencing is disabled", whether + "fencing is enabled"},
		{cluster, "InService", "", "the cluster is in maintenance", whether + "the cluster is in maintenance"},
		{node(1), "FencingAvailable", "cp-2", "cp-2 cannot be fenced", whether + "cp-2 can be fenced"},
		{node(1), FencingProven, "cp-2", "it is not verified that cp-2 can be fenced", "it is not verified that cp-2 can be fenced"},
	} {
		for status, want := range map[metav1.ConditionStatus]string{no: c.no + " (the message)", unknown: c.unknown + " (the message)", "": c.unknown} { //nolint:exhaustive // true is the pair itself
			s := pair(t)
			set(c.at(&s), c.kind, status, "the message")
			for _, l := range Survives(s) {
				meant := c.lost == "" || c.lost == l.Host
				if l.Survives == meant || meant && l.Because != want || !meant && l.Because != "" {
					t.Errorf("%s is %q, without %s: %t, %q, want %q", c.kind, status, l.Host, l.Survives, l.Because, want)
				}
			}
		}
	}
}

func TestWhatTheLossOfAHostDoesNotRestOn(t *testing.T) {
	s := pair(t)
	set(&(*s.Nodes)[1].Resources[0].Conditions, "Healthy", no, "") // kubelet
	for _, l := range Survives(s) {
		if !l.Survives || l.Because != "" || l.Host == "" {
			t.Errorf("%+v", l)
		}
	}
	alone := (*s.Nodes)[:1]
	s.Nodes = &alone
	if got := Survives(s); len(got) != 1 || got[0] != (Survival{Host: "cp-1", Because: "there is no other host"}) {
		t.Errorf("%+v", got)
	}
	if got := Survives(etcdv1.PacemakerClusterStatus{}); len(got) != 0 {
		t.Errorf("a report without hosts: %+v", got)
	}
	set(&(*pair(t).Nodes)[0].Conditions, "Online", no, "")
	several := pair(t)
	set(&several.Conditions, Redundant, no, "why")
	set(&several.Conditions, FencingEnabled, no, "")
	if got := Survives(several)[0].Because; got != "not both hosts hold every write (why); fencing is disabled" {
		t.Errorf("all reasons: %q", got)
	}
}

// TestWhichSettingsAHostSetsBack: none while it cannot know the state.
func TestWhichSettingsAHostSetsBack(t *testing.T) {
	for what, c := range map[string]struct {
		change       func(*Input)
		own, decides bool
	}{
		"its own file and Pacemaker's":        {func(*Input) {}, true, true},
		"Pacemaker does not answer":           {func(in *Input) { in.Cluster.Known = false }, false, false},
		"it is unknown whether it is quorate": {func(in *Input) { in.Cluster.Value.Quorate = state.Fact[bool]{} }, false, false},
		"it has no quorum":                    {func(in *Input) { in.Cluster.Value.Quorate = state.Known(false) }, false, false},
		"maintenance":                         {func(in *Input) { in.Cluster.Value.Options.Maintenance = true }, false, false},
		"it cannot see":                       {func(in *Input) { in.Membership.Value.Quorate = false }, false, false},
		"another decides for Pacemaker":       {func(in *Input) { in.Cluster.Value.Coordinator = "cp-2" }, true, false},
		"only its own file differs":           {func(in *Input) { in.Drift.Value = in.Drift.Value[:1] }, true, false},
		"its own file is not the last":        {func(in *Input) { in.Drift.Value = append(in.Drift.Value[:1:1], twonode.Difference{}) }, true, false},
		"nothing differs":                     {func(in *Input) { in.Drift.Value = nil }, false, false},
	} {
		in := input(t, "healthy")
		in.Host = in.Cluster.Value.Coordinator
		in.Membership = state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
		in.Drift = state.Known([]twonode.Difference{{Words: "the file", Own: true}, {Words: "a property", Ours: true}})
		c.change(&in)
		if own, decides := in.SetsBack(); own != c.own || decides != c.decides {
			t.Errorf("%s: own file %t, Pacemaker's %t", what, own, decides)
		}
	}
}

// TestOnlyAKnownMembershipWithoutQuorumBlinds: what is unknown says nothing.
func TestOnlyAKnownMembershipWithoutQuorumBlinds(t *testing.T) {
	in := Input{Host: "cp-1"}
	if in.Blind() {
		t.Error("nothing is known, and nothing said that there is no quorum")
	}
	in.Cluster.Value.Coordinator = ""
	in.Cluster.Known = true
	in.Membership = state.Known(state.Membership{Members: []string{"cp-1", "cp-2"}, Quorate: true})
	if !in.Blind() {
		t.Error("Pacemaker has no coordinator, and both are there")
	}
	in.Cluster.Value.Coordinator = "cp-1"
	in.Cluster.Value.Nodes = []crmmon.Node{{Name: "cp-1", Pending: true}}
	if in.QuorateFor = time.Hour; in.Blind() {
		t.Error("a host that had quorum all the time knows the state")
	}
}

// TestATakeOverThatOthersSaw: what the record of another reading says counts only
// where it is known.
func TestWhatAReadingTellsOfATakeOver(t *testing.T) {
	before := Report{TakeOver: TakeOver{ID: "a", Counter: 1, Lost: noon}, Lost: noon}
	sole := saw(state.EtcdSole, "b", noon.Add(time.Minute), "cp-1")
	unknown, unrecorded, unnamed, unseen := sole, sole, saw(state.EtcdSole, "", noon.Add(time.Minute), "cp-1"), sole
	unknown.Etcd.Known = false
	unrecorded.Etcd.Value.Snapshot.Record.Known = false
	unseen.Membership.Known = false
	for what, in := range map[string]Input{"the keeper does not answer": unknown, "the record is not known": unrecorded, "the record names none": unnamed} {
		if got, lost := before.Follow(in, noon.Add(2*time.Minute)); got != before.TakeOver || !lost.Equal(noon) {
			t.Errorf("%s: %+v since %s", what, got, lost)
		}
	}
	if got, lost := (Report{}).Follow(unseen, noon.Add(2*time.Minute)); !lost.IsZero() || !got.Lost.IsZero() || got.ID != "b" {
		t.Errorf("Corosync says nothing of who is there: %+v since %s", got, lost)
	}
	if got, _ := before.Follow(saw(state.EtcdSole, "b", noon.Add(-time.Minute), "cp-1"), noon.Add(2*time.Minute)); !got.Lost.IsZero() {
		t.Errorf("a take-over of before the loss: %+v", got)
	}
	for _, c := range []struct {
		t           TakeOver
		took, alone time.Duration
	}{
		{TakeOver{Lost: noon, Alone: noon.Add(3)}, 3, 0},
		{TakeOver{Alone: noon.Add(3), Pair: noon.Add(5)}, 0, 2},
		{TakeOver{Lost: noon}, 0, 0},
		{TakeOver{Lost: noon, Alone: noon, Pair: noon}, 0, 0},
	} {
		if took, alone := c.t.Took(); took != c.took || alone != c.alone {
			t.Errorf("%+v: %s, %s", c.t, took, alone)
		}
	}
}

func TestTheLimitsOfWhatIsOneChangeSeenByTwoHosts(t *testing.T) {
	at := func(d time.Duration) etcdv1.PacemakerClusterStatus {
		c := condition("Kind", yes, "Why")
		c.LastTransitionTime = metav1.NewTime(noon.Add(d))
		return etcdv1.PacemakerClusterStatus{Conditions: []metav1.Condition{c}, LastUpdated: metav1.NewTime(noon.Add(-time.Hour))}
	}
	for own, keeps := range map[time.Duration]bool{-time.Second: false, 0: false, time.Second: true, oneChange: true, oneChange + time.Second: false} {
		got := Merged(at(own), at(own), at(0), noon.Add(time.Minute)).Conditions[0].LastTransitionTime.Sub(noon)
		want := own
		if keeps {
			want = 0
		}
		if got != want {
			t.Errorf("this host saw it %s after the API's time: it is written as of %s", own, got)
		}
	}
	differs := at(time.Minute)
	differs.Conditions[0].Status = no
	if got := Merged(at(0), differs, at(0), noon.Add(time.Minute)).Conditions[0].LastTransitionTime.Sub(noon); got != 0 {
		t.Errorf("what was last known is another status: %s", got)
	}
}

func TestAListThatIsEmptyIsWrittenInEveryStatus(t *testing.T) {
	nodes := []etcdv1.PacemakerClusterNodeStatus{{NodeName: "cp-1"}}
	if got := string(JSON(etcdv1.PacemakerClusterStatus{Nodes: &nodes})); !strings.Contains(got, `"fencingAgents":[]`) {
		t.Error(got)
	}
	if s := Status(Input{Host: "cp-1"}); s.Nodes == nil || *s.Nodes == nil || !strings.Contains(string(JSON(s)), `"nodes":[]`) {
		t.Errorf("%s", JSON(s))
	}
}

// TestAResourceThatAReportLeavesOutIsUnknown: a host whose etcd is in no report may have
// none. A drain of the other one asks for this answer.
func TestAResourceThatAReportLeavesOutIsUnknown(t *testing.T) {
	s := pair(t)
	(*s.Nodes)[0].Resources = (*s.Nodes)[0].Resources[:1] // kubelet
	for _, l := range Survives(s) {
		want := ""
		if l.Host == "cp-2" {
			want = "it is unknown whether etcd on cp-1 is healthy"
		}
		if l.Survives != (want == "") || l.Because != want {
			t.Errorf("%+v", l)
		}
	}
}
