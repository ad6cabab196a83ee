package clusterhealth

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// with returns an object with one condition: of the cluster, of the host cp-1, or
// of the host's etcd.
func with(of, kind string, status metav1.ConditionStatus, at time.Time) *etcdv1.PacemakerCluster {
	list := []metav1.Condition{{Type: kind, Status: status, Reason: "Why", Message: "because", LastTransitionTime: metav1.NewTime(at)}}
	o := &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-24 * time.Hour))}}
	n := etcdv1.PacemakerClusterNodeStatus{NodeName: "cp-1"}
	switch of {
	case "cluster":
		o.Status.Conditions = list
	case "host":
		n.Conditions = list
	case "etcd":
		n.Resources = []etcdv1.PacemakerClusterResourceStatus{{Name: etcdv1.PacemakerClusterResourceNameEtcd, Conditions: list}}
	}
	o.Status.Nodes = &[]etcdv1.PacemakerClusterNodeStatus{n}
	return o
}

func TestEachConditionHasItsTwoEvents(t *testing.T) {
	for _, c := range []struct{ of, kind, bad, good, words string }{
		{"cluster", etcdv1.ClusterInServiceConditionType, "PacemakerClusterInMaintenance", "PacemakerClusterInService", "the cluster: "},
		{"cluster", etcdv1.ClusterNodeCountAsExpectedConditionType, "PacemakerNodeCountWrong", "PacemakerNodeCountAsExpected", "the number of nodes: "},
		{"cluster", pacemakerstatus.FencingEnabled, "PacemakerFencingDisabled", "PacemakerFencingEnabled", "fencing: "},
		{"cluster", pacemakerstatus.SettingsAsExpected, "PacemakerSettingsChanged", "PacemakerSettingsAsExpected", "settings: "},
		{"cluster", pacemakerstatus.Redundant, "PacemakerRedundancyLost", "PacemakerRedundant", "redundancy: "},
		{"host", etcdv1.NodeOnlineConditionType, "PacemakerNodeOffline", "PacemakerNodeOnline", "node cp-1: "},
		{"host", etcdv1.NodeCleanConditionType, "PacemakerNodeUnclean", "PacemakerNodeClean", "node cp-1: "},
		{"host", etcdv1.NodeInServiceConditionType, "PacemakerNodeInMaintenance", "PacemakerNodeInService", "node cp-1: "},
		{"host", etcdv1.NodeActiveConditionType, "PacemakerNodeStandby", "PacemakerNodeActive", "node cp-1: "},
		{"host", etcdv1.NodeFencingAvailableConditionType, "PacemakerFencingUnavailable", "PacemakerFencingAvailable", "fencing of cp-1: "},
		{"host", etcdv1.NodeFencingHealthyConditionType, "PacemakerFencingUnhealthy", "PacemakerFencingHealthy", "fencing of cp-1: "},
		{"etcd", etcdv1.ResourceStartedConditionType, "PacemakerResourceStopped", "PacemakerResourceStarted", "etcd on cp-1: "},
		{"etcd", etcdv1.ResourceHealthyConditionType, "PacemakerResourceUnhealthy", "PacemakerResourceHealthy", "etcd on cp-1: "},
	} {
		for i, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
			list := Events(with(c.of, c.kind, status, noon), noon.Add(time.Minute))
			warns := i == 0 || c.kind == etcdv1.ResourceStartedConditionType
			if len(list) != 1 || list[0].Reason != []string{c.bad, c.good}[i] || list[0].Warning != warns || list[0].Message != c.words+"Why: because" || !list[0].At.Equal(noon) {
				t.Errorf("%s %s: %+v", c.kind, status, list)
			}
		}
		if list := Events(with(c.of, c.kind, metav1.ConditionUnknown, noon), noon); len(list) != 0 {
			t.Errorf("%s unknown: %+v", c.kind, list)
		}
	}
}

func TestAChangeIsToldWhileItIsRecent(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		want int
	}{{-Recent - 1, 0}, {-Recent, 1}, {0, 1}, {Recent, 1}, {Recent + 1, 0}} {
		if list := Events(with("host", etcdv1.NodeOnlineConditionType, metav1.ConditionFalse, noon), noon.Add(c.age)); len(list) != c.want {
			t.Errorf("after %s: %+v", c.age, list)
		}
	}
}

func TestWhatIsGoodAtTheBeginningIsNoChange(t *testing.T) {
	for status, want := range map[metav1.ConditionStatus][]int{metav1.ConditionTrue: {0, 1}, metav1.ConditionFalse: {1, 1}, metav1.ConditionUnknown: {0, 0}} {
		for i, age := range []time.Duration{Settling - time.Nanosecond, Settling} {
			o := with("host", etcdv1.NodeOnlineConditionType, status, noon)
			o.CreationTimestamp = metav1.NewTime(noon.Add(-age))
			if list := Events(o, noon); len(list) != want[i] {
				t.Errorf("%s, %s after the object was made: %+v", status, age, list)
			}
		}
	}
	if list := Events(nil, noon); list != nil {
		t.Errorf("%+v", list)
	}
}

func TestAnEventOfTheAPIHasWhatPeopleLookFor(t *testing.T) {
	e := Event{Name: "pacemaker.1", Reason: "PacemakerNodeOffline", Message: "node cp-2: lost", At: noon}
	want := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "pacemaker.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "etcd.openshift.io/v1", Kind: "PacemakerCluster", Name: "cluster"},
		Type:           "Normal", Reason: "PacemakerNodeOffline", Message: "node cp-2: lost",
		FirstTimestamp: metav1.NewTime(noon), LastTimestamp: metav1.NewTime(noon), Count: 1,
		Source: corev1.EventSource{Component: "agent"}, ReportingController: "c", ReportingInstance: "cp-1",
	}
	if diff := cmp.Diff(want, e.Object("agent", "c", "cp-1")); diff != "" {
		t.Error(diff)
	}
	e.Warning = true
	if got := e.Object("agent", "c", "cp-1").Type; got != "Warning" {
		t.Error(got)
	}
	for length, want := range map[int]int{maxNote: maxNote, maxNote + 1: maxNote + len(" ...")} {
		e.Message = strings.Repeat("x", length)
		if got := len(e.Object("", "", "").Message); got != want {
			t.Errorf("%d bytes become %d", length, got)
		}
	}
}

func TestAnotherChangeHasAnotherName(t *testing.T) {
	if Name("cp-1", "a") == Name("cp-2", "a") || Name("cp-1", "a") != Name([]string{"cp-1", "a"}...) || Name("a", "b") == Name("ab") {
		t.Error("the name does not follow from the change")
	}
}
