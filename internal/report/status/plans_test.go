package status

import (
	"fmt"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	dualstack "github.com/holdfast/holdfast/internal/decide/dualstack"
	readdress "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/standing"
	family "github.com/holdfast/holdfast/internal/install/dualstack"
	move "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTheStatusKnowsThePlansOfASite reads each plan as its own package writes it: the plan that holds
// the lock, a second address family and a move, and what hosts say of them.
func TestTheStatusKnowsThePlansOfASite(t *testing.T) {
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	one, two := node("cp-1", corev1.ConditionTrue), node("cp-2", corev1.ConditionTrue)
	one.Annotations[family.Annotation] = state.FormatAnnotation(family.Doing{Plan: "f1", Stage: dualstack.Over, Words: "both"})
	two.Annotations[family.Annotation] = state.FormatAnnotation(family.Doing{Plan: "f1", Stage: dualstack.Kept, Words: "waits", Lacks: "no address of fd98::/64", Way: "ip address"})
	one.Annotations[move.Annotation] = state.FormatAnnotation(move.Doing{Plan: "m1", Words: "there", Over: true})
	two.Annotations[move.Annotation] = "x"
	infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: clusterName, Annotations: map[string]string{
		kube.DualStackAnnotation: state.FormatAnnotation(dualstack.Plan{ID: "f1", By: "ada", At: at}),
		kube.ReaddressAnnotation: state.FormatAnnotation(readdress.Plan{ID: "m1", By: "ada", At: at}),
	}}}
	lock := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: replace.LockNamespace, Name: replace.LockName, CreationTimestamp: metav1.NewTime(at)},
		Data:       map[string]string{replace.LockKey: "p1", replace.LockCopy: `{"id":"p1","widens":true,"by":"ada","survivor":"cp-1","new":{"name":"cp-3"}}`},
	}
	told := map[string]string{}
	for _, objects := range [][]client.Object{{one, two}, {one, two, infra, lock}} {
		f := (&API{Name: "API", Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build(), Now: time.Now}).Gather(t.Context())
		if !f.Lock.Known {
			t.Error("nobody asked who holds the lock of all plans")
		}
		for _, finding := range standing.Describe(f).Findings {
			if finding.ID == standing.PlanUnderWay {
				told[finding.Subject] += fmt.Sprintf("%s: %s %v", finding.Severity, finding.Problem, finding.Commands)
			}
		}
	}
	for id, want := range map[string]string{
		"p1": "note: the plan p1 of ada brings cp-3 as the third control plane, under way for 1h00m [{sudo holdfast topology apply cp-1}]",
		"f1": "warning: the plan f1 of ada gives the site a second address family, under way for 1h00m; cp-2: no address of fd98::/64 [{ip address cp-2} {holdfast site dual-stack status }]",
		"m1": "note: the plan m1 of ada moves the site to other addresses, under way for 1h00m [{holdfast site readdress show }]",
	} {
		if told[id] != want {
			t.Errorf("of %s is told\n%q, want\n%q", id, told[id], want)
		}
	}
	if len(told) != 3 {
		t.Errorf("told of %v", told)
	}
}
