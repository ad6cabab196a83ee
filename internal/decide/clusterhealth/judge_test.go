package clusterhealth

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

func conditions(of map[string]metav1.ConditionStatus) []metav1.Condition {
	var out []metav1.Condition
	for kind, status := range of {
		out = append(out, metav1.Condition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(noon)})
	}
	return out
}

// host returns a host without a fault but the given ones.
func host(name string, faults ...string) etcdv1.PacemakerClusterNodeStatus {
	of := map[string]metav1.ConditionStatus{}
	for _, kind := range []string{
		etcdv1.NodeOnlineConditionType, etcdv1.NodeCleanConditionType, etcdv1.NodeReadyConditionType, etcdv1.NodeInServiceConditionType,
		etcdv1.NodeActiveConditionType, etcdv1.NodeMemberConditionType, etcdv1.NodeFencingAvailableConditionType,
		etcdv1.NodeFencingHealthyConditionType, pacemakerstatus.FencingProven, pacemakerstatus.LastFenceSucceeded,
	} {
		of[kind] = metav1.ConditionTrue
		if slices.Contains(faults, kind) {
			of[kind] = metav1.ConditionFalse
		}
	}
	return etcdv1.PacemakerClusterNodeStatus{NodeName: name, Conditions: conditions(of)}
}

// TestEachFaultOfAHost has what each condition of a host means, alone and beside
// a second host that is well.
func TestEachFaultOfAHost(t *testing.T) {
	for _, c := range []struct {
		faults         []string
		errs, warnings []string
	}{
		{nil, nil, nil},
		{[]string{etcdv1.NodeCleanConditionType}, []string{"cp-1 is unclean"}, nil},
		{[]string{etcdv1.NodeOnlineConditionType}, []string{"cp-1 is offline"}, nil},
		{[]string{etcdv1.NodeOnlineConditionType, etcdv1.NodeActiveConditionType}, []string{"cp-1 is offline"}, nil},
		{[]string{etcdv1.NodeOnlineConditionType, pacemakerstatus.LastFenceSucceeded}, []string{"cp-1 is offline"}, []string{"the last fence of cp-1 did not succeed"}},
		{[]string{etcdv1.NodeInServiceConditionType}, []string{"cp-1 is in maintenance"}, nil},
		{[]string{etcdv1.NodeActiveConditionType}, []string{"cp-1 is in standby"}, nil},
		{[]string{etcdv1.NodeMemberConditionType}, []string{"cp-1 is not a member"}, nil},
		{[]string{etcdv1.NodeFencingAvailableConditionType, pacemakerstatus.FencingProven}, []string{"cp-1 cannot be fenced"}, nil},
		{[]string{etcdv1.NodeFencingHealthyConditionType, pacemakerstatus.FencingProven}, nil, []string{"not every way to fence cp-1 works"}},
		{[]string{pacemakerstatus.FencingProven}, nil, []string{"fencing of cp-1 is not proven"}},
		{[]string{pacemakerstatus.LastFenceSucceeded}, nil, []string{"the last fence of cp-1 did not succeed"}},
		{[]string{etcdv1.NodeReadyConditionType}, nil, []string{"cp-1 is joining or leaving"}},
	} {
		s := etcdv1.PacemakerClusterStatus{Nodes: &[]etcdv1.PacemakerClusterNodeStatus{host("cp-1", c.faults...), host("cp-2")}}
		errs, warnings := problems(s, noon)
		if diff := cmp.Diff([][]string{c.errs, c.warnings}, [][]string{errs, warnings}); diff != "" {
			t.Errorf("%v: %s", c.faults, diff)
		}
	}
}

func TestTheLastHostIsNotBlamedForThatNobodyCanFenceIt(t *testing.T) {
	lone := host("cp-1", etcdv1.NodeFencingAvailableConditionType)
	for name, c := range map[string]struct {
		other etcdv1.PacemakerClusterNodeStatus
		want  []string
	}{
		"both are online":     {host("cp-2"), []string{"cp-1 cannot be fenced"}},
		"the other is absent": {host("cp-2", etcdv1.NodeOnlineConditionType), []string{"cp-2 is offline"}},
	} {
		errs, _ := problems(etcdv1.PacemakerClusterStatus{Nodes: &[]etcdv1.PacemakerClusterNodeStatus{lone, c.other}}, noon)
		if diff := cmp.Diff(c.want, errs); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAHostMayNotBeJoiningForEver(t *testing.T) {
	n := host("cp-1", etcdv1.NodeReadyConditionType)
	if errs, warnings := nodeProblems(n, false, noon.Add(maxPending)); len(errs) != 0 || len(warnings) != 1 {
		t.Errorf("%q, %q", errs, warnings)
	}
	if errs, _ := nodeProblems(n, false, noon.Add(maxPending+1)); !slices.Equal(errs, []string{"cp-1 is joining or leaving for more than 5m0s"}) {
		t.Errorf("%q", errs)
	}
}

func TestAHostOfWhichNobodyReportsIsAnError(t *testing.T) {
	n := etcdv1.PacemakerClusterNodeStatus{NodeName: "cp-1", Conditions: []metav1.Condition{
		{Type: etcdv1.NodeHealthyConditionType, Status: metav1.ConditionUnknown, Message: "its report is old"},
	}}
	if errs, _ := nodeProblems(n, false, noon); !slices.Equal(errs, []string{"no report about cp-1: its report is old"}) {
		t.Errorf("%q", errs)
	}
	n.Conditions = append(n.Conditions, metav1.Condition{Type: etcdv1.NodeCleanConditionType, Status: metav1.ConditionFalse})
	if errs, _ := nodeProblems(n, false, noon); !slices.Equal(errs, []string{"cp-1 is unclean"}) {
		t.Errorf("a fault that is known is enough: %q", errs)
	}
}

func TestTheConditionSaysWhatIsWrong(t *testing.T) {
	status := func(faults ...string) *etcdv1.PacemakerCluster {
		o := &etcdv1.PacemakerCluster{}
		o.Status.LastUpdated = metav1.NewTime(noon)
		o.Status.Nodes = &[]etcdv1.PacemakerClusterNodeStatus{host("cp-1", faults...), host("cp-2")}
		return o
	}
	for name, c := range map[string]struct {
		o    *etcdv1.PacemakerCluster
		age  time.Duration
		want handover.Condition
	}{
		"all is well":              {status(), 0, handover.Condition{Type: Degraded, Reason: handover.AsExpected, Message: "both hosts are healthy"}},
		"two faults":               {status(etcdv1.NodeCleanConditionType, etcdv1.NodeActiveConditionType), 0, handover.Condition{Type: Degraded, Status: true, Reason: ReasonUnhealthy, Message: "cp-1 is unclean\ncp-1 is in standby"}},
		"two warnings":             {status(pacemakerstatus.FencingProven, pacemakerstatus.LastFenceSucceeded), 0, handover.Condition{Type: Degraded, Reason: handover.AsExpected, Message: "both hosts are healthy\nwarning: the last fence of cp-1 did not succeed\nwarning: fencing of cp-1 is not proven"}},
		"an old report of a fault": {status(etcdv1.NodeActiveConditionType), MaxAge + time.Second, handover.Condition{Type: Degraded, Status: true, Reason: ReasonStale, Message: "the last report is 5m1s old: check holdfast-agent.service and pacemaker.service on both hosts\ncp-1 is in standby"}},
		"no report yet":            {nil, 0, handover.Condition{Type: Degraded, Reason: "Waiting", Message: "no host has reported yet"}},
		"no report":                {nil, MaxAge + time.Second, handover.Condition{Type: Degraded, Status: true, Reason: ReasonMissing, Message: "no report from either host for 5m1s: check holdfast-agent.service on both"}},
	} {
		v := Judge(Input{HandedOver: true, Since: noon, Object: c.o, Seen: noon, Now: noon.Add(c.age)})
		if diff := cmp.Diff(c.want, v.Condition); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if want := max(MaxAge-c.age, 0) + time.Second; v.Again != want {
			t.Errorf("%s: judged again after %s, want %s", name, v.Again, want)
		}
	}
	v := Judge(Input{})
	if diff := cmp.Diff(handover.Condition{Type: Degraded, Reason: ReasonPending, Message: "kubelet still runs etcd: Pacemaker is not checked yet"}, v.Condition); diff != "" || v.Again != 0 {
		t.Error(diff, v.Again)
	}
}

func TestOfTwoTimesTheLaterOneIsWhenNothingCame(t *testing.T) {
	o := &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon)}}
	for _, since := range []time.Time{noon.Add(-time.Hour), noon, noon.Add(time.Minute)} {
		now := later(since, noon).Add(time.Minute)
		if age, there := (Input{Object: o, Since: since, Now: now}).age(); age != time.Minute || there || now.Before(since) || now.Before(noon) {
			t.Errorf("since %s: %s, %v", since, age, there)
		}
	}
}

// TestEachFaultOfTheCluster has what each condition of the cluster means.
func TestEachFaultOfTheCluster(t *testing.T) {
	for kind, want := range map[string][2][]string{
		etcdv1.ClusterNodeCountAsExpectedConditionType: {{"not two nodes"}, nil},
		etcdv1.ClusterInServiceConditionType:           {{"the cluster is in maintenance"}, nil},
		pacemakerstatus.FencingEnabled:                 {{"fencing is disabled"}, nil},
		pacemakerstatus.SettingsAsExpected:             {{"a setting was changed"}, nil},
		pacemakerstatus.Quorate:                        {{"no quorum"}, nil},
		pacemakerstatus.Redundant:                      {nil, {"not redundant"}},
	} {
		for _, c := range []struct {
			nodes *[]etcdv1.PacemakerClusterNodeStatus
			more  []string
		}{
			{&[]etcdv1.PacemakerClusterNodeStatus{host("cp-1"), host("cp-2")}, nil},
			{nil, []string{"Pacemaker reports no nodes"}},
			{&[]etcdv1.PacemakerClusterNodeStatus{}, []string{"Pacemaker reports no nodes"}},
		} {
			s := etcdv1.PacemakerClusterStatus{Conditions: conditions(map[string]metav1.ConditionStatus{kind: metav1.ConditionFalse}), Nodes: c.nodes}
			errs, warnings := problems(s, noon)
			if !slices.Equal(errs, slices.Concat(want[0], c.more)) || !slices.Equal(warnings, want[1]) {
				t.Errorf("%s: %q, %q", kind, errs, warnings)
			}
		}
	}
}
