package ingress

import (
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestWhatTheNumbersOfADeploymentSay of a router that is rolled out: the first thing
// that is outstanding is said.
func TestWhatTheNumbersOfADeploymentSay(t *testing.T) {
	const no, yes = "False", "True"
	for _, c := range []struct {
		n    counts
		want string
	}{
		{counts{3, 3, 3, 3, 3}, no + " DeploymentNotRollingOut"},
		{counts{3, 2, 3, 3, 3}, yes + " DeploymentRollingOut 2 of 3 routers are of this version"},
		{counts{3, 3, 4, 3, 3}, yes + " DeploymentRollingOut 1 routers of older versions are still running"},
		{counts{3, 3, 3, 2, 2}, yes + " PodsStarting 2 of 3 routers are ready"},
		{counts{3, 3, 3, 3, 2}, yes + " ReplicasStabilizing 2 of 3 routers are available"},
		{counts{3, 2, 4, 0, 0}, yes + " DeploymentRollingOut 2 of 3 routers are of this version"},
		{counts{0, 0, 0, 0, 0}, no + " DeploymentNotRollingOut"},
	} {
		got := rollingOut(Observed{Deployment: deployed(c.n, true)})
		if text := strings.TrimSpace(fmt.Sprint(got.Status, " ", got.Reason, " ", got.Message)); text != c.want {
			t.Errorf("%+v: %q, want %q", c.n, text, c.want)
		}
	}
	one := deployed(counts{1, 1, 1, 1, 1}, true)
	one.Spec.Replicas = nil // the API's default
	if got := rollingOut(Observed{Deployment: one}); got.Status != operatorv1.ConditionFalse {
		t.Errorf("one router of an unset number: %+v", got)
	}
	one.Status.UpdatedReplicas = 0
	if got := rollingOut(Observed{Deployment: one}); got.Status != operatorv1.ConditionTrue {
		t.Errorf("none of an unset number: %+v", got)
	}
	old := deployed(counts{3, 3, 3, 3, 3}, true)
	old.Status.ObservedGeneration = 2
	if got := rollingOut(Observed{Deployment: old}); got.Status != operatorv1.ConditionTrue {
		t.Errorf("nobody has looked at this version yet: %+v", got)
	}
}

// TestHowManyRoutersAreEnough: what a roll-out leaves, at least one of those that are
// wanted; one that is ready serves.
func TestHowManyRoutersAreEnough(t *testing.T) {
	rollout := func(surge, missing int) Rollout {
		return Rollout{MaxSurge: intstr.FromInt(surge), MaxUnavailable: intstr.FromInt(missing)}
	}
	for what, c := range map[string]struct {
		r         Router
		available int32
		ready     int32
		least     bool
		all       bool
	}{
		"all three":                               {Router{Replicas: 3, Rollout: rollout(0, 1)}, 3, 3, true, true},
		"two, and one may be away":                {Router{Replicas: 3, Rollout: rollout(0, 1)}, 2, 2, true, false},
		"one, and one may be away":                {Router{Replicas: 3, Rollout: rollout(0, 1)}, 1, 1, false, false},
		"two, and none may be away":               {Router{Replicas: 3, Rollout: rollout(1, 0)}, 2, 2, false, false},
		"neither more nor fewer: one is away":     {Router{Replicas: 3, Rollout: rollout(0, 0)}, 2, 2, true, false},
		"all may be away, and one is needed":      {Router{Replicas: 1, Rollout: rollout(0, 1)}, 0, 0, false, false},
		"a ready one that is not yet counted":     {Router{Replicas: 1, Rollout: rollout(0, 1)}, 0, 1, true, false},
		"two ready ones that are not yet counted": {Router{Replicas: 3, Rollout: rollout(0, 1)}, 0, 2, false, false},
		"none is wanted":                          {Router{Replicas: 0, Rollout: rollout(0, 1)}, 0, 0, true, true},
	} {
		o := Observed{Deployment: deployed(counts{c.r.Replicas, c.r.Replicas, c.r.Replicas, c.ready, c.available}, true)}
		if got := leastAvailable(&c.r, o); (got.Status == operatorv1.ConditionTrue) != c.least {
			t.Errorf("%s: %+v", what, got)
		}
		if got := allAvailable(&c.r, o); (got.Status == operatorv1.ConditionTrue) != c.all {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestWhichRoutersFoundNoHost: at most three are named, and none that leaves.
func TestWhichRoutersFoundNoHost(t *testing.T) {
	pod := func(name string, kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: kind, Status: status, Message: "no port"}}}}
	}
	gone := pod("gone", corev1.PodScheduled, corev1.ConditionFalse)
	gone.DeletionTimestamp = new(metav1.NewTime(day))
	var many []corev1.Pod
	for _, n := range []string{"d", "b", "c", "a"} {
		many = append(many, pod(n, corev1.PodScheduled, corev1.ConditionFalse))
	}
	const words = " cannot be scheduled: no port"
	for what, c := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"one":                               {many[:1], "; pod d" + words},
		"three of four, by name":            {many, "; pod a" + words + "; pod b" + words + "; pod c" + words},
		"not one that has a host":           {[]corev1.Pod{pod("x", corev1.PodScheduled, corev1.ConditionTrue)}, ""},
		"nor one that nobody has looked at": {[]corev1.Pod{pod("x", corev1.PodScheduled, corev1.ConditionUnknown)}, ""},
		"nor one that is not ready":         {[]corev1.Pod{pod("x", corev1.PodReady, corev1.ConditionFalse)}, ""},
		"nor one that leaves":               {[]corev1.Pod{gone}, ""},
	} {
		if got := unscheduled(Observed{Pods: c.pods}); got != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestTheNumberOfRoutersIsTheAdministratorsOrThatOfTheSite(t *testing.T) {
	for _, c := range []struct {
		asked *int32
		want  int32
	}{{nil, 2}, {new(int32(0)), 0}, {new(int32(5)), 5}, {new(int32(-3)), 0}} {
		ic := controller("x", func(ic *operatorv1.IngressController) { ic.Spec.Replicas = c.asked })
		if got := replicas(ic, Placement{Replicas: 2}); got != c.want {
			t.Errorf("%v: %d", c.asked, got)
		}
	}
	if d, found := deploymentCondition(&appsv1.Deployment{}, appsv1.DeploymentAvailable); found || d.Type != "" {
		t.Errorf("a Deployment without conditions has one: %+v", d)
	}
}

// TestHowManyRoutersADrainLeavesWithoutAHost: with a port of the host, each needs its
// own; without one they share.
func TestHowManyRoutersADrainLeavesWithoutAHost(t *testing.T) {
	for _, c := range []struct {
		replicas  int32
		exclusive bool
		live      int
		want      int32
	}{
		{2, true, 0, 0},
		{2, false, 0, 0}, // there is nothing to drain
		{2, true, 1, 2},
		{2, false, 1, 2}, // the last host
		{2, true, 2, 1},
		{2, false, 2, 0},
		{2, true, 3, 0},
		{3, true, 3, 1},
		{1, true, 3, 0},
	} {
		if got := homeless(c.replicas, c.exclusive, Room{Live: c.live}); got != c.want {
			t.Errorf("%d routers, each on its own host %t, %d hosts: %d", c.replicas, c.exclusive, c.live, got)
		}
	}
}

// TestWhoseSecretAGatewayMayName: its own namespace's, and what another one grants it by
// each part of a grant.
func TestWhoseSecretAGatewayMayName(t *testing.T) {
	grant := func(change func(*ReferenceGrant)) []ReferenceGrant {
		g := ReferenceGrant{}
		g.Namespace = "secrets"
		g.Spec.From = []Reference{{Group: GatewayGroup, Kind: "Gateway", Namespace: "shop"}}
		g.Spec.To = []Reference{{Kind: KindSecret}}
		if change != nil {
			change(&g)
		}
		return []ReferenceGrant{g}
	}
	for what, c := range map[string]struct {
		secret Source
		grants []ReferenceGrant
		want   bool
	}{
		"its own namespace's":      {Source{KindSecret, "shop", "tls"}, nil, true},
		"another's without grant":  {Source{KindSecret, "secrets", "tls"}, nil, false},
		"a grant of all":           {Source{KindSecret, "secrets", "tls"}, grant(nil), true},
		"a grant of this one":      {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Spec.To[0].Name = "tls" }), true},
		"a grant of another one":   {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Spec.To[0].Name = "other" }), false},
		"a grant of another kind":  {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Spec.To[0].Kind = KindConfigMap }), false},
		"a grant of another group": {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Spec.To[0].Group = "apps" }), false},
		"a grant to others":        {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Spec.From[0].Namespace = "other" }), false},
		"a grant to routes":        {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Spec.From[0].Kind = "HTTPRoute" }), false},
		"a grant to another group": {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Spec.From[0].Group = "other.example" }), false},
		"a grant in another place": {Source{KindSecret, "secrets", "tls"}, grant(func(g *ReferenceGrant) { g.Namespace = "shop" }), false},
		"a second grant that fits": {Source{KindSecret, "secrets", "tls"}, append(grant(func(g *ReferenceGrant) { g.Spec.To[0].Name = "other" }), grant(nil)...), true},
	} {
		if got := granted("shop", c.secret, c.grants); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}

// TestANumberOfANodePortStaysByTheNameOfItsPort, where the wanted type has node ports.
func TestANumberOfANodePortStaysByTheNameOfItsPort(t *testing.T) {
	live := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", NodePort: 31080}, {Name: "https", NodePort: 31443}}}}
	for kind, kept := range map[corev1.ServiceType]bool{corev1.ServiceTypeNodePort: true, corev1.ServiceTypeLoadBalancer: true, corev1.ServiceTypeClusterIP: false} { //nolint:exhaustive // routers have no other
		wanted := &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "https"}, {Name: "metrics", NodePort: 30000}}}}
		keepPorts(live, wanted)
		if got := wanted.Spec.Ports; (got[0].NodePort == 31443) != kept || got[1].NodePort != 30000 {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}
