package ingress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// counts holds a Deployment's numbers of routers: wanted, updated, all, ready,
// available.
type counts struct{ want, updated, all, ready, available int32 }

func deployed(c counts, itself bool) *appsv1.Deployment {
	status := corev1.ConditionFalse
	if itself {
		status = corev1.ConditionTrue
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Spec:       appsv1.DeploymentSpec{Replicas: new(c.want)},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 3, Replicas: c.all, UpdatedReplicas: c.updated, ReadyReplicas: c.ready, AvailableReplicas: c.available,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: status, Message: "as it says"}},
		},
	}
}

// story follows an IngressController over time.
type story struct {
	t      *testing.T
	ic     *operatorv1.IngressController
	site   site
	now    time.Time
	status operatorv1.IngressControllerStatus
	again  time.Duration
}

func begin(t *testing.T, kind operatorv1.EndpointPublishingStrategyType, replicas int32, s site) *story {
	ic := controller("x", func(ic *operatorv1.IngressController) {
		ic.Spec.Replicas = new(replicas)
		ic.Spec.EndpointPublishingStrategy = &operatorv1.EndpointPublishingStrategy{Type: kind}
	})
	return &story{t: t, ic: ic, site: s, now: day}
}

// look lets some time pass and decides again.
func (s *story) look(after time.Duration, o Observed) {
	s.t.Helper()
	s.now = s.now.Add(after)
	s.ic.Status = s.status
	c := Cluster{ControlPlane: ha, Infrastructure: ha, Domain: "apps.example"}
	if s.site.hosts == 1 {
		c.ControlPlane, c.Infrastructure = single, single
	}
	d := Decide(Snapshot{Controller: s.ic, All: list(s.ic), Cluster: c, Hosts: s.site.all(), Observed: o, Now: s.now})
	s.status, s.again = d.Status, d.Again
}

// says compares conditions given as "Type=Status" or "Type=Status/Reason".
func (s *story) says(want string) {
	s.t.Helper()
	for w := range strings.FieldsSeq(want) {
		kind, rest, _ := strings.Cut(w, "=")
		status, reason, named := strings.Cut(rest, "/")
		c, ok := find(s.status.Conditions, kind)
		if !ok || string(c.Status) != status || named && c.Reason != reason {
			s.t.Errorf("%s at %s: is %s/%s (%s)", w, s.now.Sub(day), c.Status, c.Reason, c.Message)
		}
	}
}

func TestARouterThatRunsIsAvailableAndNothingElse(t *testing.T) {
	s := begin(t, hostNet, 2, site{2, 0})
	s.look(0, Observed{})
	s.says("Admitted=True/Valid Available=False DeploymentAvailable=False/DeploymentNotFound")
	s.look(time.Second, Observed{Deployment: deployed(counts{2, 2, 2, 0, 0}, false)})
	s.says("Available=False DeploymentRollingOut=True/PodsStarting Progressing=False Degraded=False")
	s.look(time.Second, Observed{Deployment: deployed(counts{2, 2, 2, 2, 2}, true)})
	s.says("Available=True Progressing=False Degraded=False DeploymentReplicasAllAvailable=True DeploymentReplicasMinAvailable=True " +
		"DeploymentRollingOut=False LoadBalancerManaged=False/EndpointPublishingStrategyExcludesManagedLoadBalancer " +
		"DNSManaged=False/UnsupportedEndpointPublishingStrategy Upgradeable=True")
	if s.again != 0 || s.status.Selector != LabelDeployment+"=x" || s.status.AvailableReplicas != 2 || s.status.Domain != "apps.example" {
		t.Errorf("again %s, %+v", s.again, s.status)
	}
}

// TestHardCase08_NothingChangesWhereNothingHappens checks that later decisions
// give the same status, byte for byte, however much time has passed.
func TestHardCase08_NothingChangesWhereNothingHappens(t *testing.T) {
	s := begin(t, nodePrt, 2, site{2, 1})
	o := Observed{Deployment: deployed(counts{2, 2, 2, 1, 1}, true), Pods: []corev1.Pod{pending("x-2", "0/2 nodes are available")}}
	s.look(0, o)
	before := s.status
	for range 3 {
		s.look(10*time.Minute, o)
		if diff := cmp.Diff(before, s.status); diff != "" {
			t.Fatal(diff)
		}
	}
}

func pending(name, why string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: why},
		}},
	}
}

// TestHardCase14_OneOfTwoHostsFenced checks that the IngressController stays
// available, and that it is degraded after an hour, because one more failure
// would end the service.
func TestHardCase14_OneOfTwoHostsFenced(t *testing.T) {
	for _, kind := range strategyTypes() {
		if kind == balance {
			continue // it also waits for an address
		}
		s := begin(t, kind, 2, site{2, 0})
		s.look(0, Observed{Deployment: deployed(counts{2, 2, 2, 2, 2}, true)})
		s.site.lost = 1
		one := Observed{Deployment: deployed(counts{2, 2, 2, 1, 1}, true), Pods: []corev1.Pod{pending("x-2", "1 node had an untolerated taint")}}
		s.look(time.Second, one)
		s.says("Available=True Progressing=False Degraded=False DeploymentReplicasMinAvailable=True DeploymentReplicasAllAvailable=False")
		if s.again <= 59*time.Minute || s.again > time.Hour {
			t.Errorf("%s: looks again in %s", kind, s.again)
		}
		s.look(time.Hour+time.Second, one)
		s.says("Available=True Degraded=True/DegradedConditions")
		if s.again > time.Minute {
			t.Errorf("%s: looks again in %s", kind, s.again)
		}
		t.Log("a roll-out while it is down: the new one serves, the other waits for its host")
		s.look(time.Second, Observed{Deployment: deployed(counts{2, 2, 2, 1, 1}, true), Pods: one.Pods})
		s.says("Available=True")
		s.site.lost = 0
		s.look(time.Minute, Observed{Deployment: deployed(counts{2, 2, 2, 2, 2}, true)})
		s.says("Available=True Degraded=False Progressing=False")
	}
}

// TestALoneHostsRolloutIsNoOutageUnlessItLasts: the one router is replaced in
// seconds. For half a minute its absence counts as a roll-out, after that as an
// outage, whatever the Deployment reports about itself.
func TestALoneHostsRolloutIsNoOutageUnlessItLasts(t *testing.T) {
	s := begin(t, hostNet, 1, site{1, 0})
	s.look(0, Observed{Deployment: deployed(counts{1, 1, 1, 1, 1}, true)})
	s.says("Available=True")
	gone := Observed{Deployment: deployed(counts{1, 1, 1, 0, 0}, true)}
	s.look(time.Minute, gone)
	s.says("Available=True DeploymentReplicasMinAvailable=False")
	if s.again != restartGrace {
		t.Errorf("looks again in %s", s.again)
	}
	s.look(s.again, gone)
	s.says("Available=False DeploymentAvailable=False/DeploymentUnavailable Degraded=False")
	s.look(restartGrace, gone)
	s.says("Degraded=True")
	s.look(time.Second, Observed{Deployment: deployed(counts{1, 1, 1, 1, 0}, true)})
	s.says("Available=True Degraded=False DeploymentRollingOut=True/ReplicasStabilizing Progressing=False")
}

func TestALoneHostsFirstRouterIsNotAvailableBeforeItIsReady(t *testing.T) {
	s := begin(t, hostNet, 1, site{1, 0})
	s.look(0, Observed{})
	s.look(time.Second, Observed{Deployment: deployed(counts{1, 1, 1, 0, 0}, true)})
	s.says("Available=False DeploymentAvailable=False")
}

func TestARebootIsNoProgress(t *testing.T) {
	s := begin(t, hostNet, 2, site{2, 0})
	for name, o := range map[string]counts{"starting": {2, 2, 2, 1, 1}, "stabilizing": {2, 2, 2, 2, 1}} {
		s.look(time.Second, Observed{Deployment: deployed(o, true)})
		t.Log(name)
		s.says("Progressing=False DeploymentRollingOut=True")
	}
	s.look(time.Second, Observed{Deployment: deployed(counts{2, 1, 2, 2, 2}, true)})
	s.says("Progressing=True DeploymentRollingOut=True/DeploymentRollingOut")
	s.look(time.Second, Observed{Deployment: deployed(counts{2, 2, 3, 2, 2}, true)})
	s.says("Progressing=True")
}

// TestHardCase10_AHostPortThatIsTakenIsExplained checks that the message quotes
// the scheduler.
func TestHardCase10_AHostPortThatIsTakenIsExplained(t *testing.T) {
	s := begin(t, hostNet, 1, site{1, 0})
	s.look(0, Observed{
		Deployment: deployed(counts{1, 1, 1, 0, 0}, true),
		Pods:       []corev1.Pod{pending("router-x-1", "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.")},
	})
	c, _ := find(s.status.Conditions, MinAvailable)
	if !strings.Contains(c.Message, "pod router-x-1 cannot be scheduled: 0/1 nodes are available: 1 node(s) didn't have free ports") {
		t.Errorf("%+v", c)
	}
}

// TestHardCase07_WhatIsForeignIsNamedAndLeftAlone checks that a foreign object
// is named as soon as it is in the way.
func TestHardCase07_WhatIsForeignIsNamedAndLeftAlone(t *testing.T) {
	s := begin(t, nodePrt, 2, site{2, 0})
	running := Observed{Deployment: deployed(counts{2, 2, 2, 2, 2}, true)}
	s.look(0, running)
	s.says("ObjectsOwned=True")
	running.Foreign = []string{ObjectName("Service", OperandNamespace, "router-x"), ObjectName("NetworkPolicy", OperandNamespace, "router-x")}
	s.look(time.Second, running)
	s.says("Admitted=True ObjectsOwned=False/ForeignObjects Degraded=True Available=True")
	if c, _ := find(s.status.Conditions, OwnObjects); !strings.Contains(c.Message, "NetworkPolicy openshift-ingress/router-x, Service openshift-ingress/router-x") {
		t.Errorf("%+v", c)
	}
	s = begin(t, private, 2, site{2, 0})
	running.Foreign = running.Foreign[:1]
	s.look(0, running)
	s.says("ObjectsOwned=True")
}

func TestALoadBalancerServiceIsAvailableWhenItHasAnAddress(t *testing.T) {
	s := begin(t, balance, 2, site{2, 0})
	o := Observed{Deployment: deployed(counts{2, 2, 2, 2, 2}, true), Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "router-x"}}}
	s.look(0, o)
	s.says("LoadBalancerManaged=True/WantedByEndpointPublishingStrategy LoadBalancerReady=False/LoadBalancerPending Available=False DNSManaged=False/NoDNSZones Degraded=False")
	if s.again != 90*time.Second {
		t.Errorf("looks again in %s", s.again)
	}
	s.look(90*time.Second, o)
	s.says("Degraded=True")
	o.Service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.10"}}
	s.look(time.Second, o)
	s.says("LoadBalancerReady=True Available=True Degraded=False")
}

// TestEveryGraceIsWhatTheTableSays checks a second before and at the end of
// each grace.
func TestEveryGraceIsWhatTheTableSays(t *testing.T) {
	for kind, grace := range graces {
		c := no(kind, "R", "m")
		c.LastTransitionTime = metav1.NewTime(day)
		if got, after := degraded([]operatorv1.OperatorCondition{c}, day.Add(grace-time.Second)); grace > 0 && (got.Status != operatorv1.ConditionFalse || after != time.Second) {
			t.Errorf("%s, a second before its grace ends: %s, again in %s", kind, got.Status, after)
		}
		if got, _ := degraded([]operatorv1.OperatorCondition{c}, day.Add(grace)); got.Status != operatorv1.ConditionTrue {
			t.Errorf("%s, after its grace: %s", kind, got.Status)
		}
	}
	if got := fmt.Sprint(graces[DeploymentAvailable], graces[MinAvailable], graces[AllAvailable], graces[LoadBalancerReady], graces[DNSReady], graces[Admitted]); got != "30s 1m0s 1h0m0s 1m30s 30s 0s" {
		t.Error(got)
	}
}

func TestConditionsOfOthersStay(t *testing.T) {
	other := operatorv1.OperatorCondition{Type: "Mine", Status: operatorv1.ConditionTrue}
	stale := no(LoadBalancerReady, "x", "")
	got := merged([]operatorv1.OperatorCondition{stale, other}, []operatorv1.OperatorCondition{yes(Admitted, "Valid", "")})
	if len(got) != 2 || got[0].Type != "Mine" || got[1].Type != Admitted {
		t.Errorf("%+v", got)
	}
}

func TestHardCase11_NoConditionOfTheOldStrategyStays(t *testing.T) {
	s := begin(t, balance, 2, site{2, 0})
	s.look(0, Observed{Deployment: deployed(counts{2, 2, 2, 2, 2}, true)})
	s.ic.Spec.EndpointPublishingStrategy.Type = hostNet
	s.look(time.Second, Observed{Deployment: deployed(counts{2, 2, 2, 2, 2}, true)})
	if c, there := find(s.status.Conditions, LoadBalancerReady); there {
		t.Errorf("%+v", c)
	}
	s.says("LoadBalancerManaged=False Available=True")
}

// TestAHostThatTwoHaveIsToldAndDegradesNothing: otherwise anyone who may create
// an Ingress could degrade the cluster.
func TestAHostThatTwoHaveIsToldAndDegradesNothing(t *testing.T) {
	ic := controller("x")
	if _, counts := graces[HostsOwned]; counts {
		t.Error("it is degraded by it")
	}
	look := func(objects ...Routed) operatorv1.OperatorCondition {
		d := Decide(Snapshot{Controller: ic, All: list(ic), Cluster: Cluster{Domain: "d"}, Now: day, Routed: objects})
		owned, _ := find(d.Status.Conditions, HostsOwned)
		return owned
	}
	if owned := look(ask("bank", 2, "bank.d")); owned.Status != operatorv1.ConditionTrue {
		t.Errorf("%+v", owned)
	}
	objects := []Routed{ask("bank", 2, "a.d", "b.d", "c.d", "d.d", "e.d", "f.d", "g.d"), ask("evil", 1, "a.d", "b.d", "c.d", "d.d", "e.d", "f.d", "g.d")}
	owned := look(objects...)
	want := "Ingress evil/i claims a.d, which namespace bank claimed first; "
	if owned.Status != operatorv1.ConditionFalse || owned.Reason != "HostTaken" || !strings.HasPrefix(owned.Message, want) || !strings.Contains(owned.Message, "; and 2 more: routers serve both") {
		t.Errorf("%+v", owned)
	}
}
