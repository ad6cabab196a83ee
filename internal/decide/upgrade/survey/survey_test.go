package survey_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// node is a ready control plane that said something a while ago.
func node(t *testing.T, name string, ago time.Duration, change func(*annotation.Host)) corev1.Node {
	t.Helper()
	said := annotation.Host{At: noon.Add(-ago), Release: gate.Release{Digest: "sha256:1", Name: "R1", Kubernetes: gate.Version{Major: 1, Minor: 36, Patch: 3}}}
	said.Facts.Release = state.Known("sha256:1")
	if change != nil {
		change(&said)
	}
	text, err := annotation.Encode(said)
	if err != nil {
		t.Fatal(err)
	}
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{annotation.HostOf: text}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// TestWhatAHostSaidLongAgoIsUnknownButForItsJournal.
func TestWhatAHostSaidLongAgoIsUnknownButForItsJournal(t *testing.T) {
	for ago, known := range map[time.Duration]bool{0: true, 15 * time.Minute: true, 15*time.Minute + time.Second: false, -time.Hour: false} {
		s := survey.Of(survey.Seen{Now: noon, Nodes: []corev1.Node{node(t, "cp-1", ago, func(h *annotation.Host) {
			h.Journal = parachute.Journal{Upgrade: "u", Step: parachute.Accepted}
			h.Raised = state.Known(true)
		})}})
		h := s.Site.Hosts[0]
		if h.Running.Known != known || s.Facts.Hosts[0].Release.Known != known || h.Journal.Upgrade != "u" || state.Is(h.Raised, true) || h.Raised.Known != known {
			t.Errorf("%s ago: %+v", ago, h)
		}
	}
}

// TestAHostWhoseWordIsFromTheFutureHasAClockThatIsAhead: also one whose word is too far from
// now to count. An old word says nothing of a clock.
func TestAHostWhoseWordIsFromTheFutureHasAClockThatIsAhead(t *testing.T) {
	for ago, want := range map[time.Duration]time.Duration{0: 0, 14 * time.Minute: 0, time.Hour: 0, -3 * time.Second: 3 * time.Second, -time.Hour: time.Hour} {
		s := survey.Of(survey.Seen{Now: noon, Nodes: []corev1.Node{node(t, "cp-1", ago, nil)}})
		if got := s.Facts.Hosts[0].Ahead; got != want {
			t.Errorf("%s ago: %s, want %s", ago, got, want)
		}
	}
}

// TestASiteWhoseReleaseIsNotKnownBeginsNothing: the way back must lead somewhere.
func TestASiteWhoseReleaseIsNotKnownBeginsNothing(t *testing.T) {
	v := configv1.ClusterVersion{Spec: configv1.ClusterVersionSpec{DesiredUpdate: &configv1.Update{Image: "sha256:" + strings.Repeat("2", 64)}}}
	for what, nodes := range map[string][]corev1.Node{
		"nobody":    nil,
		"silent":    {node(t, "cp-1", time.Hour, nil)},
		"different": {node(t, "cp-1", 0, nil), node(t, "cp-2", 0, func(h *annotation.Host) { h.Facts.Release = state.Known("sha256:3") })},
	} {
		s := survey.Of(survey.Seen{Now: noon, Version: v, Nodes: nodes})
		next, judged := s.Next()
		if next.Do != cluster.Rest || next.Record.Started || len(judged.Closed) == 0 || s.Upgradeable().Status != metav1.ConditionUnknown {
			t.Errorf("%s: %+v, %+v", what, next, judged)
		}
	}
	s := survey.Of(survey.Seen{Now: noon, Version: v, Nodes: []corev1.Node{node(t, "cp-1", 0, nil)}})
	if next, _ := s.Next(); !next.Record.Started || next.Record.From != "sha256:1" {
		t.Errorf("%+v", next)
	}
}

// TestTheWordOfAControlPlaneAboutAReleaseCountsBeforeThatOfAWorker: also of one that claims to be
// a control plane, as a kubelet may.
func TestTheWordOfAControlPlaneAboutAReleaseCountsBeforeThatOfAWorker(t *testing.T) {
	for _, name := range []string{"a-1", "w-1"} {
		liar := node(t, name, 0, func(h *annotation.Host) {
			h.Release.Name = "a lie"
			h.Offered = []gate.Release{{Digest: "sha256:9", Name: "R9"}}
		})
		liar.Labels = map[string]string{noderole.Claim: string(state.RoleMaster)}
		got := survey.Of(survey.Seen{Now: noon, Nodes: []corev1.Node{node(t, "cp-1", 0, nil), liar}}).Releases
		if got["sha256:1"].Name != "R1" || got["sha256:9"].Name != "R9" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestABMCHasAnsweredOnlyIfTheOtherHostHasReachedIt, and that counts as of the status.
func TestABMCHasAnsweredOnlyIfTheOtherHostHasReachedIt(t *testing.T) {
	for what, c := range map[string]struct {
		healthy, proven metav1.ConditionStatus
		age             time.Duration
		known           bool
	}{
		"it answers":                      {metav1.ConditionTrue, metav1.ConditionTrue, time.Minute, true},
		"the status is old":               {metav1.ConditionTrue, metav1.ConditionTrue, time.Hour, false},
		"its devices run, and no more":    {metav1.ConditionTrue, metav1.ConditionUnknown, 0, false},
		"it runs on its own target":       {metav1.ConditionTrue, metav1.ConditionFalse, 0, false},
		"one of several ways is not well": {metav1.ConditionFalse, metav1.ConditionTrue, 0, false},
	} {
		status := etcdv1.PacemakerClusterStatus{LastUpdated: metav1.NewTime(noon.Add(-c.age)), Nodes: &[]etcdv1.PacemakerClusterNodeStatus{{NodeName: "cp-1", Conditions: []metav1.Condition{
			{Type: etcdv1.NodeFencingHealthyConditionType, Status: c.healthy}, {Type: pacemakerstatus.FencingProven, Status: c.proven},
		}}}}
		s := survey.Of(survey.Seen{Now: noon, TwoNode: true, Nodes: []corev1.Node{node(t, "cp-1", 0, nil)}, Pacemaker: state.Known(status)})
		if got := s.Facts.Hosts[0].Fenced; got.Known != c.known || c.known && !got.Value.Equal(noon.Add(-c.age)) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestEtcdIsKnownAsFarAsItsMembersAgree.
func TestEtcdIsKnownAsFarAsItsMembersAgree(t *testing.T) {
	list := []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2", Learner: true}}
	member := func(id state.MemberID) survey.Member {
		return survey.Member{ID: id, Leader: 1, Serves: true, Members: list, Version: "3.6.14", Cluster: "3.6.0", Storage: "3.6.0"}
	}
	seen := survey.Seen{Now: noon, TwoNode: true, Nodes: []corev1.Node{node(t, "cp-1", 0, nil), node(t, "cp-2", 0, nil)}, Etcd: map[string]survey.Member{"cp-1": member(1), "cp-2": member(2)}}
	e := survey.Of(seen).Facts.Etcd
	if len(e.Members.Value) != 2 || e.Members.Value[1].Voter || !e.Members.Value[1].Started || !state.Is(e.StandIn, false) || !e.Cluster.Known || !e.Alarms.Known {
		t.Errorf("%+v", e)
	}
	seen.Etcd = map[string]survey.Member{"cp-1": member(1)}
	if e := survey.Of(seen).Facts.Etcd; e.Members.Value[1].Started || e.StandIn.Known || e.Members.Value[1].Version.Known {
		t.Errorf("one is silent: %+v", e)
	}
	odd := member(2)
	odd.Members, odd.Storage = list[:1], "3.7.0"
	seen.Etcd = map[string]survey.Member{"cp-1": member(1), "cp-2": odd}
	if e := survey.Of(seen).Facts.Etcd; e.Members.Known || e.Storage.Known || !e.Cluster.Known {
		t.Errorf("they disagree: %+v", e)
	}
	seen.Etcd = nil
	if e := survey.Of(seen).Facts.Etcd; e.Members.Known || e.Alarms.Known {
		t.Errorf("nobody answers: %+v", e)
	}
}

// TestTheWindowIsThatOfThePoolThatIsNext: of workers once control planes are done.
func TestTheWindowIsThatOfThePoolThatIsNext(t *testing.T) {
	pool := func(name, window string) mcfgv1.MachineConfigPool {
		return mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"holdfast.io/maintenance-window": window}}}
	}
	worker := node(t, "w-1", 0, nil)
	worker.Labels = map[string]string{state.LabelWorker: ""}
	done := node(t, "cp-1", 0, func(h *annotation.Host) { h.Facts.Release = state.Known("sha256:2") })
	seen := survey.Seen{
		Now: noon, Record: cluster.Record{Started: true, From: "sha256:1", To: "sha256:2"}, Zones: time.LoadLocation, Rotations: state.Known([]string{"etcd-ca"}),
		Nodes: []corev1.Node{node(t, "cp-1", 0, nil), worker}, Pools: state.Known([]mcfgv1.MachineConfigPool{pool("master", ""), pool("worker", "Daily 22:00 4h UTC")}),
	}
	if w := survey.Of(seen).Facts.Window; w != state.Known("") {
		t.Errorf("control planes are next: %+v", w)
	}
	if w := survey.Of(seen).Facts.Work; !slices.Equal(w.Value, []string{"rotation of etcd-ca"}) {
		t.Errorf("%+v", w)
	}
	seen.Nodes[0] = done
	if w := survey.Of(seen).Facts.Window; !strings.HasPrefix(w.Value, "pool worker: ") {
		t.Errorf("workers are next: %+v", w)
	}
	seen.Pools = state.Fact[[]mcfgv1.MachineConfigPool]{}
	if f := survey.Of(seen).Facts; f.Window.Known || f.Work.Known {
		t.Errorf("pools are not known: %+v", f)
	}
}

// TestWhoWouldHoldAnUpgradeWhileOneHostIsAway: webhooks, budgets and pods.
func TestWhoWouldHoldAnUpgradeWhileOneHostIsAway(t *testing.T) {
	hook := func(change func(*survey.Webhook)) []survey.Webhook {
		w := survey.Webhook{Name: "policy", Client: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "p", Name: "s"}}}
		w.Rules = []admissionv1.RuleWithOperations{{Rule: admissionv1.Rule{APIGroups: []string{""}, Resources: []string{"pods"}}}}
		change(&w)
		return []survey.Webhook{w}
	}
	on := func(hosts ...string) []discoveryv1.EndpointSlice {
		s := discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}}}
		for _, h := range hosts {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: &h})
		}
		return []discoveryv1.EndpointSlice{s}
	}
	same := func(*survey.Webhook) {}
	ignore := admissionv1.Ignore
	apart := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}}}}
	for what, c := range map[string]struct {
		hooks []survey.Webhook
		on    []discoveryv1.EndpointSlice
		hosts int
		want  []string
	}{
		"on one host":                  {hook(same), on("cp-1", "cp-1"), 2, []string{"policy (on cp-1)"}},
		"on two":                       {hook(same), on("cp-1", "cp-2"), 2, []string{}},
		"nobody":                       {hook(same), nil, 2, []string{"policy (no pod serves it)"}},
		"a site of one host":           {hook(same), on("cp-1"), 1, []string{}},
		"fails open":                   {hook(func(w *survey.Webhook) { w.Failure = &ignore }), on("cp-1"), 2, []string{}},
		"outside of kube-system":       {hook(func(w *survey.Webhook) { w.Selector = apart }), on("cp-1"), 2, []string{}},
		"nodes have no namespace":      {hook(func(w *survey.Webhook) { w.Selector = apart; w.Rules[0].Resources = []string{"*"} }), on("cp-1"), 2, []string{"policy (on cp-1)"}},
		"of kinds that nobody writes":  {hook(func(w *survey.Webhook) { w.Rules[0].APIGroups = []string{"batch"} }), on("cp-1"), 2, []string{}},
		"outside of the cluster":       {hook(func(w *survey.Webhook) { w.Client.Service = nil }), nil, 2, []string{}},
		"all kinds of all groups":      {hook(func(w *survey.Webhook) { w.Rules[0].APIGroups = []string{"*"}; w.Rules[0].Resources = []string{"*/*"} }), on("cp-1"), 3, []string{"policy (on cp-1)"}},
		"an endpoint that is not well": {hook(same), notReady(on("cp-1", "cp-2")), 2, []string{"policy (on cp-2)"}},
	} {
		if got := survey.FailClosed(c.hooks, c.on, c.hosts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", what, got)
		}
	}
	long, owner := int64(601), metav1.OwnerReference{Kind: "ReplicaSet", Controller: new(true)}
	pods := []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "alone"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "long", OwnerReferences: []metav1.OwnerReference{owner}}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &long}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "usual", OwnerReferences: []metav1.OwnerReference{owner}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "static", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "done"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
	}
	if got := survey.Immovable(pods); len(got) != 2 || !strings.HasPrefix(got[0], "a/alone") || !strings.HasPrefix(got[1], "a/long") {
		t.Errorf("%v", got)
	}
	budget := func(expected, allowed int32) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Status: policyv1.PodDisruptionBudgetStatus{ExpectedPods: expected, DisruptionsAllowed: allowed}}
	}
	if got := survey.Budgets([]policyv1.PodDisruptionBudget{budget(0, 0), budget(2, 1), budget(1, 0)}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func notReady(s []discoveryv1.EndpointSlice) []discoveryv1.EndpointSlice {
	s[0].Endpoints[0].Conditions.Ready = new(false)
	return s
}
