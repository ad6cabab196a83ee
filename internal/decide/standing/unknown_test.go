package standing

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/model/state"
)

// decisive names the conditions that the answer "survives the loss of either host"
// needs, each with what is said where it is false.
var decisive = []struct{ of, condition, no string }{
	{"cp-2", "Online", "cp-2 is absent"},
	{"the cluster", "InService", "Pacemaker is in maintenance and recovers nothing"},
	{"the cluster", "Redundant", "not both hosts hold every write"},
	{"Etcd on cp-2", "Healthy", "etcd on cp-2 is unhealthy"},
	{"the cluster", "FencingEnabled", "fencing is disabled"},
	{"cp-2", "FencingAvailable", "cp-2 cannot be fenced"},
}

// with returns a healthy pair in whose report one condition has another status, or,
// with the empty status, is absent.
func with(t *testing.T, of, kind string, status metav1.ConditionStatus) Facts {
	t.Helper()
	f := recorded(t, "healthy", etcdReport(t, "healthy"))
	f.Pacemaker.Value = *f.Pacemaker.Value.DeepCopy()
	list := lists(&f)[of]
	i := slices.IndexFunc(*list, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		t.Fatalf("%s has no condition %s", of, kind)
	}
	(*list)[i].Status, (*list)[i].Reason = status, "Because"
	if status == "" {
		*list = slices.Delete(*list, i, i+1)
	}
	return f
}

func TestAConditionThatNobodyKnowsIsNeitherGoodNorSaidToBeBad(t *testing.T) {
	for _, c := range decisive {
		for _, status := range []metav1.ConditionStatus{metav1.ConditionUnknown, ""} {
			r := Describe(with(t, c.of, c.condition, status)).Redundancy
			if r.Survives == Yes || !strings.Contains(r.Sentence, "it is unknown whether") || strings.Contains(r.Sentence, c.no) {
				t.Errorf("%s of %s is %q: %s", c.condition, c.of, status, r.Sentence)
			}
			for _, l := range r.Losses {
				if strings.Contains(l.Because+l.Detail, c.no) {
					t.Errorf("%s of %s is %q: without %s: %s; all reasons: %s", c.condition, c.of, status, l.Host, l.Because, l.Detail)
				}
			}
		}
		if r := Describe(with(t, c.of, c.condition, metav1.ConditionFalse)).Redundancy; r.Survives != No || !strings.HasSuffix(r.Sentence, "no, because "+c.no) {
			t.Errorf("%s of %s is false: %s", c.condition, c.of, r.Sentence)
		}
	}
}

func TestAPairThatTakesNoWritesIsNotSaidToSurviveALoss(t *testing.T) {
	f := withoutAPI(onTheHost(recorded(t, "healthy", etcdReport(t, "healthy"))))
	f.Hosts[0].Explanation = explained(explain.Waiting, explain.ReadsOnly)
	r := Describe(f).Redundancy
	if r.Survives != Unknown || !strings.HasSuffix(r.Sentence, "unknown, because the cluster takes no writes now") {
		t.Errorf("%s: %s", r.Survives, r.Sentence)
	}
	for _, l := range r.Losses {
		if l.Survives != Unknown {
			t.Errorf("%+v", l)
		}
	}
	f.Hosts[0].Explanation = explained(explain.Healthy, explain.Writes)
	if r := Describe(f).Redundancy; r.Survives != Yes {
		t.Errorf("etcd takes writes: %s", r.Sentence)
	}
}

func TestInMaintenanceEtcdIsUnknownAndNotUnhealthy(t *testing.T) {
	for _, h := range Describe(recorded(t, "maintenance-mode", nil)).Hosts {
		if h.Etcd.Text != unsaid.Text {
			t.Errorf("%s: %+v", h.Name, h.Etcd)
		}
	}
}

// TestTheCommandForAMemberLooksWhereEtcdRuns: once two hosts are set up, Pacemaker
// runs etcd and there is no pod of it; before that, and with three, there is. A host that is
// away shows nobody its log.
func TestTheCommandForAMemberLooksWhereEtcdRuns(t *testing.T) {
	const (
		pod, keeper = "sudo sh -c 'tail -n 50 /var/log/pods/kube-system_etcd-*/etcd/*.log'", "sudo holdfast explain etcd"
		replace     = "sudo holdfast host replace cp-1 --dry-run"
	)
	learner := func(f Facts) Facts {
		f.Pacemaker = Seen[pacemakerReport]{}
		f.Hosts[0].Member = Know(Member{Learner: true}, "cp-1", now)
		return f
	}
	unset, unknown := pair(), pair()
	unset.SetUp.Value = SetUp{Doing: "step 2 of 5"}
	unknown.SetUp = Seen[SetUp]{}
	three := func() Facts { return many(3, "10.98.0.5", "10.98.0.6") }
	silent := func(f Facts) Facts {
		f.Hosts[0].Kubelet = notReady("Kubelet stopped posting node status.")
		return f
	}
	withoutAPI := three()
	withoutAPI.Hosts[0].Kubelet = Seen[Kubelet]{}
	for name, c := range map[string]struct {
		f          Facts
		on, want   string
		meaningful string
	}{
		"two, set up":                  {pair(), "cp-1", keeper, ""},
		"two, nobody knows the set-up": {unknown, "cp-1", keeper, ""},
		"two, not set up":              {unset, "cp-1", pod, ""},
		"three":                        {three(), "cp-1", pod, ""},
		"three, without an API":        {withoutAPI, "cp-1", pod, ""},
		"three, and the host is away":  {silent(three()), oneHost, replace, "Bring cp-1 back"},
		"two, and the host is away":    {silent(pair()), oneHost, keeper, "Bring cp-1 back"},
	} {
		found := false
		for _, f := range Describe(learner(c.f)).Findings {
			if f.ID != EtcdMember {
				continue
			}
			found = true
			if f.Commands[0] != (finding.Command{Line: c.want, Host: c.on}) || !strings.Contains(f.Meaning, c.meaningful) {
				t.Errorf("%s: %+v, %s", name, f.Commands, f.Meaning)
			}
		}
		if !found {
			t.Errorf("%s: no finding", name)
		}
	}
}

// withoutCoordinator returns a report of the seconds in which none is elected.
func withoutCoordinator(t *testing.T) pacemakerReport {
	t.Helper()
	f := with(t, "the cluster", "Quorate", metav1.ConditionUnknown)
	list := f.Pacemaker.Value.Conditions
	for i := range list {
		if list[i].Type == pacemakerstatus.Quorate {
			list[i].Reason = pacemakerstatus.ReasonNoCoordinator
		}
	}
	return f.Pacemaker.Value
}

func TestAPairOnWhichNobodyReportsGetsACommand(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   int
	}{
		"set up":                         {func(*Facts) {}, 1},
		"not set up, which is a finding": {func(f *Facts) { f.SetUp.Value = SetUp{Doing: "step 2 of 5"} }, 0},
		"nobody knows the set-up":        {func(f *Facts) { f.SetUp = Seen[SetUp]{} }, 0},
		"there is a reason":              {func(f *Facts) { f.Pacemaker.Why = "there is no PacemakerCluster" }, 1},
		"it has no coordinator for now":  {func(f *Facts) { f.Pacemaker = Know(withoutCoordinator(t), "the API", now) }, 0},
		"three":                          {func(f *Facts) { f.ControlPlanes.Value = 3 }, 0},
	} {
		f := pair()
		c.change(&f)
		n := 0
		for _, found := range Describe(f).Findings {
			if found.ID == PacemakerStatusStale {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d findings", name, n)
		}
	}
}

// TestWhatFollowsFromAFindingIsNotSaidBeside: a host of which not every way to its power
// works is not also said to be unverified.
func TestWhatFollowsFromAFindingIsNotSaidBeside(t *testing.T) {
	f := with(t, "cp-2", "FencingHealthy", metav1.ConditionFalse)
	for _, c := range []struct {
		lose bool
		want []finding.ID
	}{{false, []finding.ID{FencingDegraded}}, {true, []finding.ID{FencingDegraded}}} {
		if c.lose {
			list := &(*f.Pacemaker.Value.Nodes)[1].Conditions
			i := slices.IndexFunc(*list, func(c metav1.Condition) bool { return c.Type == pacemakerstatus.FencingProven })
			(*list)[i].Status = metav1.ConditionFalse
		}
		var got []finding.ID
		for _, x := range Describe(f).Findings {
			if x.Subject == "cp-2" {
				got = append(got, x.ID)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// TestAHostThatMayBeThereIsToldHowToRegister: only of one that is known to be lost it is
// said that it registers when it is back.
func TestAHostThatMayBeThereIsToldHowToRegister(t *testing.T) {
	for status, command := range map[metav1.ConditionStatus]bool{metav1.ConditionFalse: false, metav1.ConditionUnknown: true, metav1.ConditionTrue: true} {
		f := with(t, "cp-2", "Online", status)
		f.Nodes = Know([]string{"cp-1"}, "the API", now)
		f.Hosts[1].Kubelet = Seen[Kubelet]{}
		i := slices.IndexFunc(Describe(f).Findings, func(x finding.Finding) bool { return x.ID == NodeDeleted })
		if i < 0 {
			t.Fatalf("Online is %s: nothing is said", status)
		}
		if got := Describe(f).Findings[i]; (len(got.Commands) > 0) != command {
			t.Errorf("Online is %s: %+v", status, got)
		}
	}
}

// TestHowFarAMemberIsBehindIsUnknownWithIt: what an earlier report said of it does not
// count, neither that it lacks nothing nor how much.
func TestHowFarAMemberIsBehindIsUnknownWithIt(t *testing.T) {
	for _, behind := range []uint64{0, 7} {
		f := many(3, "10.98.0.5", "10.98.0.6")
		f.Hosts[1].Member = Seen[Member]{Value: Member{Running: state.Known(true), Behind: state.Known(behind)}}
		if got := Describe(f).Hosts[1].Lag; got != unsaid {
			t.Errorf("%d: %+v", behind, got)
		}
	}
}
