package pacemakerstatus

import (
	"encoding/json"
	"net/netip"
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

// acceptable fails the test where a status breaks a rule of the API. A real API
// server checks the same in internal/adapter/kube; here it is quick enough to fuzz.
func acceptable(t *testing.T, s etcdv1.PacemakerClusterStatus) {
	t.Helper()
	s = Timed(s, nil, time.Unix(1_800_000_000, 0))
	lists := [][]metav1.Condition{bounded(t, s.Conditions, 3, 8)}
	if len(*s.Nodes) > maxNodes {
		t.Errorf("%d nodes", len(*s.Nodes))
	}
	for _, n := range *s.Nodes {
		if !isNodeName(n.NodeName) || len(n.Addresses) < 1 || len(n.Addresses) > maxAddresses || len(n.FencingAgents) > maxAgents || len(n.Resources) != 2 {
			t.Errorf("node %+v", n)
		}
		for _, a := range n.Addresses {
			if p, err := netip.ParseAddr(a.Address); err != nil || p.String() != a.Address || !p.IsGlobalUnicast() {
				t.Errorf("address %q", a.Address)
			}
		}
		lists = append(lists, bounded(t, n.Conditions, 9, 16))
		for _, r := range n.Resources {
			lists = append(lists, bounded(t, r.Conditions, 8, 16))
		}
		names := map[string]bool{}
		for _, a := range n.FencingAgents {
			if names[a.Name] || a.Name == "" || len(a.Name) > 300 || agentCharacters.MatchString(a.Name) {
				t.Errorf("agent %q", a.Name)
			}
			names[a.Name] = true
			lists = append(lists, bounded(t, a.Conditions, 8, 16))
		}
	}
	for _, c := range slices.Concat(lists...) {
		if c.Reason == "" || len(c.Message) > 32768 || !utf8.ValidString(c.Message) || c.LastTransitionTime.IsZero() {
			t.Errorf("condition %+v", c)
		}
	}
	var back etcdv1.PacemakerClusterStatus
	if err := json.Unmarshal(JSON(s), &back); err != nil {
		t.Errorf("it is not JSON: %v", err)
	}
}

func bounded(t *testing.T, list []metav1.Condition, least, most int) []metav1.Condition {
	t.Helper()
	if len(list) < least || len(list) > most {
		t.Errorf("%d conditions", len(list))
	}
	return list
}

func TestB1ListsThatAreEmptyAreWritten(t *testing.T) {
	s := Status(Input{Host: "cp-1", Cluster: state.Known(crmmon.Cluster{})})
	if text := string(JSON(s)); !strings.Contains(text, `"nodes":[]`) {
		t.Errorf("no nodes: %s", text)
	}
	in := input(t, "no-devices")
	if text := string(JSON(Status(in))); strings.Count(text, `"fencingAgents":[]`) != 2 {
		t.Errorf("no agents: %s", text)
	}
	c := Find(node(t, in, "cp-1").Conditions, etcdv1.NodeFencingAvailableConditionType)
	if c.Reason != etcdv1.NodeFencingAvailableReasonUnavailable || c.Message != "there is no fence agent for cp-1" {
		t.Errorf("%+v", c)
	}
}

func input(t *testing.T, name string) Input {
	t.Helper()
	return Input{Host: "cp-1", Cluster: state.Known(parsed(t, name)), Corosync: state.Known(corosync.Conf{TwoNode: true, Nodes: []corosync.Node{
		{Name: "cp-1", Addresses: []string{"10.98.0.11"}}, {Name: "cp-2", Addresses: []string{"10.98.0.12"}},
	}})}
}

func node(t *testing.T, in Input, name string) etcdv1.PacemakerClusterNodeStatus {
	t.Helper()
	s := Status(in)
	acceptable(t, s)
	return nodeNamed(&s, name)
}

func TestB2AFailedUnmanagedBlockedOrDisabledResourceIsUnhealthy(t *testing.T) {
	for name, want := range map[string]struct{ node, kind string }{
		"etcd-failed":                       {"cp-1", etcdv1.ResourceOperationalConditionType},
		"etcd-unmanaged":                    {"cp-1", etcdv1.ResourceManagedConditionType},
		"etcd-blocked":                      {"cp-2", etcdv1.ResourceSchedulableConditionType},
		"etcd-disabled":                     {"cp-1", etcdv1.ResourceEnabledConditionType},
		"etcd-orphaned":                     {"cp-2", etcdv1.ResourceManagedConditionType},
		"version-3-etcd-in-maintenance":     {"cp-1", etcdv1.ResourceInServiceConditionType},
		"kubelet-disabled-in-small-letters": {"cp-1", etcdv1.ResourceEnabledConditionType},
	} {
		n := node(t, input(t, name), want.node)
		i := 1
		if strings.HasPrefix(name, "kubelet") {
			i = 0
		}
		if Holds(n.Resources[i].Conditions, want.kind) || Holds(n.Resources[i].Conditions, etcdv1.ResourceHealthyConditionType) || Holds(n.Conditions, etcdv1.NodeHealthyConditionType) {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

func TestB5SettingsThatSafetyRestsOnAreCritical(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		kind   string
		want   string
	}{
		"stonith-enabled":    {func(in *Input) { in.Cluster.Value.Options.FencingEnabled = false }, FencingEnabled, "stonith-enabled is false"},
		"no-quorum-policy":   {func(in *Input) { in.Cluster.Value.Options.NoQuorum = "ignore" }, SettingsAsExpected, "no-quorum-policy is ignore"},
		"two_node":           {func(in *Input) { in.Corosync.Value.TwoNode = false }, SettingsAsExpected, "no two_node"},
		"wait_for_all":       {func(in *Input) { in.Corosync.Value.WaitsNot = true }, SettingsAsExpected, "wait_for_all: 0"},
		"stop-all-resources": {func(in *Input) { in.Cluster.Value.Options.StopAll = true }, SettingsAsExpected, "stop-all-resources"},
		"quorum":             {func(in *Input) { in.Cluster.Value.Quorate = state.Known(false) }, Quorate, "has not seen the other host"},
	} {
		in := input(t, "healthy")
		c.change(&in)
		s := Status(in)
		got := Find(s.Conditions, c.kind)
		if got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, c.want) || Holds(s.Conditions, etcdv1.ClusterHealthyConditionType) {
			t.Errorf("%s: %+v", name, s.Conditions)
		}
	}
}

func TestB6ADeviceOnItsOwnTargetProvesNothing(t *testing.T) {
	n := node(t, input(t, "device-on-its-own-target"), "cp-2")
	if c := Find(n.Conditions, FencingProven); c.Status != metav1.ConditionFalse || c.Reason != ReasonOnOwnTarget {
		t.Errorf("%+v", c)
	}
	if Holds(n.Conditions, etcdv1.NodeFencingAvailableConditionType) {
		t.Errorf("%+v", n.Conditions)
	}
	for _, name := range []string{"cp-1", "cp-2"} { // an upgrade asks for both of both
		if n := node(t, input(t, "healthy"), name); !Holds(n.Conditions, FencingProven) || !Holds(n.Conditions, etcdv1.NodeFencingHealthyConditionType) {
			t.Errorf("%s of a healthy site: %+v", name, n.Conditions)
		}
	}
	if n := node(t, input(t, "healthy"), "cp-2"); !Holds(n.Conditions, FencingProven) {
		t.Errorf("%+v", n.Conditions)
	}
}

// TestWhatATestOfABMCRanIntoIsTold checks the message of a failed test of a BMC:
// Pacemaker itself does not keep such messages.
func TestWhatATestOfABMCRanIntoIsTold(t *testing.T) {
	const words = "it shows another certificate than the pinned one: 'holdfast fencing pin cp-2'"
	in := input(t, "device-monitor-failed")
	if !Wonders(in.Cluster.Value) || Wonders(input(t, "healthy").Cluster.Value) || Wonders(input(t, "kubelet-cannot-start").Cluster.Value) {
		t.Error("it is asked why where no device has failed, or not where one has")
	}
	in.Found = map[string]state.BMCProblem{"cp-2": {Words: words, Repair: state.PinCertificate}, "cp-1": {Words: "another host's", Repair: state.SetAccount}}
	for _, kind := range []string{etcdv1.NodeFencingAvailableConditionType, FencingProven} {
		if c := Find(node(t, in, "cp-2").Conditions, kind); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "on cp-1: "+words) || strings.Contains(c.Message, "another host's") {
			t.Errorf("%+v", c)
		}
	}
	for repair, want := range map[state.BMCRepair]string{
		"": ReasonPeerReachesNot, state.PinCertificate: ReasonUntrusted, state.SetAccount: ReasonAccountRefused, state.AllowLegacyTLS: ReasonLegacyTLS,
	} {
		in.Found["cp-2"] = state.BMCProblem{Words: words, Repair: repair}
		if c := Find(node(t, in, "cp-2").Conditions, FencingProven); c.Reason != want {
			t.Errorf("%q: %+v", repair, c)
		}
	}
}

func TestB7AFailedFenceIsNamedAndAnAbsentNodeIsNotClean(t *testing.T) {
	n := node(t, input(t, "lost-fence-failed"), "cp-2")
	if c := Find(n.Conditions, etcdv1.NodeCleanConditionType); !strings.Contains(c.Message, "no answer of the BMC within 40s") || c.Reason != etcdv1.NodeCleanReasonUnclean {
		t.Errorf("%+v", c)
	}
	n = node(t, input(t, "one-node-in-pacemaker"), "cp-2")
	for _, kind := range []string{etcdv1.NodeOnlineConditionType, etcdv1.NodeCleanConditionType, etcdv1.NodeReadyConditionType, etcdv1.NodeActiveConditionType, etcdv1.NodeInServiceConditionType} {
		if Holds(n.Conditions, kind) {
			t.Errorf("a node that Pacemaker does not know is %s", kind)
		}
	}
}

// Pacemaker reports a fence that gives way to an administrator's confirmation as
// failed, some seconds after the confirmation.
func TestAFenceThatGaveWayToAPersonDidNotFail(t *testing.T) {
	word := time.Date(2026, 11, 21, 11, 3, 45, 0, time.UTC)
	for seconds, want := range map[int]string{3: ReasonFenceSucceeded, -1: ReasonFenceSucceeded, 300: ReasonFenceFailed} {
		after := time.Duration(seconds) * time.Second
		in := input(t, "healthy")
		in.Cluster.Value.Fences = []crmmon.Fence{
			{Target: "cp-2", Action: "reboot", By: "cp-1", State: crmmon.FenceFailed, Done: word.Add(after)},
			{Target: "cp-2", Action: "off", By: byPerson, State: crmmon.FenceSucceeded, Done: word},
			{Target: "cp-1", Action: "reboot", By: "cp-2", State: crmmon.FenceFailed, Done: word.Add(after)},
		}
		if c := Find(node(t, in, "cp-2").Conditions, LastFenceSucceeded); c.Reason != want {
			t.Errorf("failed %s after the word: %+v", after, c)
		}
		if c := Find(node(t, in, "cp-1").Conditions, LastFenceSucceeded); c.Reason != ReasonFenceFailed {
			t.Errorf("the word was about the other host: %+v", c)
		}
	}
}

func TestB11ANodeThatIsPendingIsReportedAsThat(t *testing.T) {
	n := node(t, input(t, "joining"), "cp-2")
	if c := Find(n.Conditions, etcdv1.NodeReadyConditionType); c.Reason != etcdv1.NodeReadyReasonPending {
		t.Errorf("%+v", c)
	}
}

func TestHardCase30OnlyTheRealKubeletCounts(t *testing.T) {
	in := input(t, "healthy")
	for i := range in.Cluster.Value.Resources {
		if r := &in.Cluster.Value.Resources[i]; r.Agent == "systemd:kubelet" {
			r.Agent = "systemd:kubelet-x"
		}
	}
	n := node(t, in, "cp-1")
	if c := Find(n.Resources[0].Conditions, etcdv1.ResourceStartedConditionType); c.Message != "it is not configured" {
		t.Errorf("%+v", c)
	}
}

func TestHardCase31WhichNodeADeviceSwitches(t *testing.T) {
	v := view{names: []string{"cp-1", "cp-1-b", "cp", "m_1"}, cluster: crmmon.Cluster{Bans: []crmmon.Ban{
		{Resource: "odd", Node: "cp-1"}, {Resource: "both", Node: "cp-1"}, {Resource: "both", Node: "cp"},
	}}}
	for id, want := range map[string]string{
		"cp-1_redfish": "cp-1", "cp-1-b_redfish": "cp-1-b", "cp-1": "cp-1", "cp_redfish": "cp", "cp-10_redfish": "", "m_1_x_y": "m_1",
		"odd": "cp-1", "both": "", "none": "",
	} {
		if got := v.target(id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	for id, want := range map[[2]string]etcdv1.FencingMethod{
		{"a_redfish", "stonith:fence_holdfast"}: etcdv1.FencingMethodRedfish, {"a_ipmi", "stonith:fence_ipmilan"}: etcdv1.FencingMethodIPMI,
		{"a_x", "stonith:fence_ipmilan"}: etcdv1.FencingMethodIPMI, {"a_pdu", "stonith:fence_apc"}: etcdv1.FencingMethodRedfish,
		{"a_ipmitool", "stonith:fence_z"}: etcdv1.FencingMethodIPMI, {"a_x", "stonith:fence_idrac"}: etcdv1.FencingMethodIPMI,
	} {
		if got := method(id[0], id[1]); got != want {
			t.Errorf("%v: %s", id, got)
		}
	}
	n := node(t, input(t, "nine-devices"), "cp-2")
	if len(n.FencingAgents) != maxAgents || Holds(n.Conditions, etcdv1.NodeFencingHealthyConditionType) {
		t.Errorf("nine agents: %d %+v", len(n.FencingAgents), n.Conditions)
	}
}

func TestCorosyncKnowsOfALossFirst(t *testing.T) {
	in := input(t, "healthy")
	in.Membership = state.Known(state.Membership{Members: []string{"cp-1"}, Quorate: true})
	if c := Find(node(t, in, "cp-2").Conditions, etcdv1.NodeOnlineConditionType); c.Reason != etcdv1.NodeOnlineReasonOffline {
		t.Errorf("%+v", c)
	}
}

func TestWithoutAnAnswerNothingIsTrue(t *testing.T) {
	in := input(t, "healthy")
	in.Cluster, in.Trouble = state.Fact[crmmon.Cluster]{}, "Pacemaker does not run"
	for _, c := range node(t, in, "cp-1").Conditions {
		if c.Status == metav1.ConditionTrue {
			t.Errorf("%+v", c)
		}
	}
}

func report(change func(*state.EtcdSnapshot)) state.Fact[state.EtcdReport] {
	s := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: state.EtcdPair})}
	s.Local.Running, s.Local.Leader = state.Known(true), state.Known(state.MemberID(1))
	s.Local.Members = state.Known([]state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}})
	s.Pacemaker.Contact = state.Known(true)
	change(&s)
	return state.Known(state.EtcdReport{Snapshot: s})
}

func TestRedundancyIsAConditionOfItsOwn(t *testing.T) {
	for want, change := range map[string]func(*state.EtcdSnapshot){
		ReasonRedundant:                      func(*state.EtcdSnapshot) {},
		ReasonPeerLost + " the peer is gone": func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Known(false) },
		ReasonPeerLost + " alone":            func(s *state.EtcdSnapshot) { s.Local.Members.Value = s.Local.Members.Value[:1] },
		ReasonPeerLost + " never started":    func(s *state.EtcdSnapshot) { s.Local.Members.Value[1].Name = "" },
		ReasonPeerLost + " no leader":        func(s *state.EtcdSnapshot) { s.Local.Leader.Value = 0 },
		ReasonPeerLost + " no record":        func(s *state.EtcdSnapshot) { s.Record = state.Fact[state.EtcdRecord]{} },
		ReasonPeerLost + " this host leaves": func(s *state.EtcdSnapshot) { s.Record.Value.State = state.EtcdDeparting },
		ReasonPeerLost + " the peer leaves": func(s *state.EtcdSnapshot) {
			s.Record.Value.State = state.EtcdSole
			s.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdDeparting}})
		},
		ReasonResyncing + " a learner":              func(s *state.EtcdSnapshot) { s.Local.Members.Value[1].Learner = true },
		ReasonResyncing + " promoted, not yet sure": func(s *state.EtcdSnapshot) { s.Record.Value.State = state.EtcdSole },
		ReasonNotReported + " no answer of etcd":    func(s *state.EtcdSnapshot) { s.Local.Members = state.Fact[[]state.EtcdMember]{} },
	} {
		in := input(t, "healthy")
		in.Etcd = report(change)
		c := Find(Status(in).Conditions, Redundant)
		if reason, _, _ := strings.Cut(want, " "); c.Reason != reason {
			t.Errorf("%s: %+v", want, c)
		}
		if learns := want == ReasonResyncing+" a learner"; CatchesUp(c, "cp-2") != learns || CatchesUp(c, "cp-1") {
			t.Errorf("%s: who catches up: %+v", want, c)
		}
	}
}
