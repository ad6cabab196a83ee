package standing

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
)

// states of a control plane, for the quorum of etcd.
const (
	serves = iota
	fails
	unheard
)

// quorumOf returns control planes in these states.
func quorumOf(states []int) Facts {
	f := many(len(states), "10.98.0.5", "10.98.0.6")
	for i, s := range states {
		switch s {
		case fails:
			f.Hosts[i].Member.Value.Healthy = state.Known(false)
		case unheard:
			f.Hosts[i].Member = Seen[Member]{}
		}
	}
	return f
}

// assignments calls a function with every list of n digits below base.
func assignments(n, base int, f func([]int)) {
	list := make([]int, n)
	for {
		f(slices.Clone(list))
		i := 0
		for ; i < n && list[i] == base-1; i++ {
			list[i] = 0
		}
		if i == n {
			return
		}
		list[i]++
	}
}

// survivesAnyLoss reports whether most members are left, whichever of the control
// planes is lost.
func survivesAnyLoss(states []int) bool {
	for lost := range states {
		left := 0
		for i, s := range states {
			if i != lost && s == serves {
				left++
			}
		}
		if 2*left <= len(states) {
			return false
		}
	}
	return true
}

// everyTruth says what the answer is if each host that nobody heard of either serves
// or fails: Unknown if that matters.
func everyTruth(states []int) Answer {
	yes, no := false, false
	var unknown []int
	for i, s := range states {
		if s == unheard {
			unknown = append(unknown, i)
		}
	}
	assignments(len(unknown), 2, func(truth []int) {
		guess := slices.Clone(states)
		for k, i := range unknown {
			guess[i] = truth[k]
		}
		if survivesAnyLoss(guess) {
			yes = true
		} else {
			no = true
		}
	})
	switch {
	case yes && no:
		return Unknown
	case yes:
		return Yes
	}
	return No
}

// TestTheAnswerAboutAQuorumHoldsHoweverItIsWithWhomNobodyHeard plays each state of
// three to six control planes.
func TestTheAnswerAboutAQuorumHoldsHoweverItIsWithWhomNobodyHeard(t *testing.T) {
	for n := 3; n <= 6; n++ {
		answers := make(map[Answer]int)
		assignments(n, 3, func(states []int) {
			v := Describe(quorumOf(states))
			want := everyTruth(states)
			answers[want]++
			r := v.Redundancy
			if r.Survives != want || !strings.HasPrefix(r.Sentence, anyHost+string(want)) {
				t.Errorf("%v: %s: %s, want %s", states, r.Survives, r.Sentence, want)
			}
			if v.Status == explain.Healthy && want != Yes {
				t.Errorf("%v: it is healthy, and a loss is survived: %s", states, want)
			}
			if len(r.Losses) != n {
				t.Fatalf("%v: %d losses", states, len(r.Losses))
			}
			for i, l := range r.Losses {
				if gone := l.Because == lostAlready; gone != (states[i] == fails) || l.Survives != want || want == No && l.Because == "" {
					t.Errorf("%v: loss of %s: %+v", states, l.Host, l)
				}
			}
		})
		if len(answers) != 3 {
			t.Errorf("%d control planes: only the answers %v", n, answers)
		}
	}
}

// need is a condition that the survival of a loss rests on.
type need struct {
	at   func(*etcdv1.PacemakerClusterStatus) *[]metav1.Condition
	kind string
	// lost is the host whose loss it is about, empty for both.
	lost string
}

// needs lists all of them. The order is that in which reasons are told.
func needs() []need {
	node := func(i int) func(*etcdv1.PacemakerClusterStatus) *[]metav1.Condition {
		return func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition { return &(*s.Nodes)[i].Conditions }
	}
	etcd := func(i int) func(*etcdv1.PacemakerClusterStatus) *[]metav1.Condition {
		return func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition {
			list := (*s.Nodes)[i].Resources
			k := slices.IndexFunc(list, func(r etcdv1.PacemakerClusterResourceStatus) bool {
				return r.Name == etcdv1.PacemakerClusterResourceNameEtcd
			})
			return &list[k].Conditions
		}
	}
	cluster := func(s *etcdv1.PacemakerClusterStatus) *[]metav1.Condition { return &s.Conditions }
	return []need{
		{node(0), etcdv1.NodeOnlineConditionType, "cp-2"},
		{node(1), etcdv1.NodeOnlineConditionType, "cp-1"},
		{cluster, etcdv1.ClusterInServiceConditionType, ""},
		{cluster, pacemakerstatus.Redundant, ""},
		{etcd(0), etcdv1.ResourceHealthyConditionType, "cp-2"},
		{etcd(1), etcdv1.ResourceHealthyConditionType, "cp-1"},
		{cluster, pacemakerstatus.FencingEnabled, ""},
		{node(0), etcdv1.NodeFencingAvailableConditionType, "cp-1"},
		{node(1), etcdv1.NodeFencingAvailableConditionType, "cp-2"},
		{node(0), pacemakerstatus.FencingProven, "cp-1"},
		{node(1), pacemakerstatus.FencingProven, "cp-2"},
	}
}

// lessOf takes the conditions of a mask from a report: in turn they are false,
// unknown and absent.
func lessOf(t *testing.T, f Facts, all []need, mask int) Facts {
	t.Helper()
	f.Pacemaker.Value = *f.Pacemaker.Value.DeepCopy()
	for k, n := range all {
		if mask&(1<<k) == 0 {
			continue
		}
		list := n.at(&f.Pacemaker.Value)
		i := slices.IndexFunc(*list, func(c metav1.Condition) bool { return c.Type == n.kind })
		if i < 0 {
			t.Fatalf("no condition %s", n.kind)
		}
		switch (mask + k) % 3 {
		case 0:
			(*list)[i].Status = metav1.ConditionFalse
		case 1:
			(*list)[i].Status = metav1.ConditionUnknown
		default:
			*list = slices.Delete(*list, i, i+1)
		}
	}
	return f
}

// TestInEveryReportALossIsSurvivedOnlyIfAllThatItNeedsIsTrue plays each set of
// conditions of two hosts that do not hold: 2048 reports.
func TestInEveryReportALossIsSurvivedOnlyIfAllThatItNeedsIsTrue(t *testing.T) {
	all := needs()
	healthy := recorded(t, "healthy", etcdReport(t, "healthy"))
	for mask := range 1 << len(all) {
		v := Describe(lessOf(t, healthy, all, mask))
		if got := v.Redundancy.Survives == Yes; got != (mask == 0) {
			t.Fatalf("%s: survives %s", named(all, mask), v.Redundancy.Survives)
		}
		if v.Status == explain.Healthy && mask != 0 {
			t.Fatalf("%s: healthy", named(all, mask))
		}
		for _, l := range v.Redundancy.Losses {
			concerned := false
			for k, n := range all {
				concerned = concerned || mask&(1<<k) != 0 && (n.lost == "" || n.lost == l.Host)
			}
			if (l.Survives == Yes) == concerned || (l.Because != "") != concerned && l.Because != lostAlready {
				t.Fatalf("%s: the loss of %s: %+v", named(all, mask), l.Host, l)
			}
		}
		if reasons := strings.Count(v.Redundancy.Sentence, ", and ") + 1; reasons > mostReasons {
			t.Fatalf("%s: %d reasons in a sentence: %s", named(all, mask), reasons, v.Redundancy.Sentence)
		}
	}
}

func named(all []need, mask int) string {
	var out []string
	for k, n := range all {
		if mask&(1<<k) != 0 {
			out = append(out, fmt.Sprintf("%s (loss of %q)", n.kind, n.lost))
		}
	}
	return "without " + strings.Join(out, ", ")
}

// TestAResourceThatAReportLeavesOutIsNotWell: a host on whose etcd nobody reports may
// have none, so the loss of the other one is not survived.
func TestAResourceThatAReportLeavesOutIsNotWell(t *testing.T) {
	f := recorded(t, "healthy", etcdReport(t, "healthy"))
	f.Pacemaker.Value = *f.Pacemaker.Value.DeepCopy()
	node := &(*f.Pacemaker.Value.Nodes)[1]
	node.Resources = slices.DeleteFunc(node.Resources, func(r etcdv1.PacemakerClusterResourceStatus) bool {
		return r.Name == etcdv1.PacemakerClusterResourceNameEtcd
	})
	v := Describe(f)
	if v.Redundancy.Survives == Yes || v.Status == explain.Healthy || !strings.HasSuffix(v.Redundancy.Sentence, "no, because it is unknown whether etcd on cp-2 is healthy") {
		t.Errorf("%s: %s", v.Status, v.Redundancy.Sentence)
	}
	for _, l := range v.Redundancy.Losses {
		if (l.Survives == Yes) != (l.Host == "cp-2") {
			t.Errorf("%+v", l)
		}
	}
}
