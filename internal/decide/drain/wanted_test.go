package drain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
)

const since = "2026-11-23T11:00:00Z"

func TestWhatAnAdministratorWantsIsCarriedOutAndStaysUntilHeTakesItBack(t *testing.T) {
	const ours = "drain-wanted-" + since
	for _, c := range []struct {
		sentence string
		facts    drain.Facts
		want     string
	}{
		{
			"it takes pods", facts(false, drain.Wanted, since),
			"cordoned-for=" + ours + `, drain-began=2026-11-23T12:00:00Z, -lastAppliedDrain, unschedulable=true, Cordoned "it gets no new pods, because its pods move to other hosts; ` +
				`an administrator wants that since ` + since + `, until: holdfast host uncordon w-1", again after 2s`,
		},
		{"a person has cordoned it", facts(true, drain.Wanted, since), "drain-began=2026-11-23T12:00:00Z, again after 2s"},
		{"it is empty", facts(true, drain.Wanted, since, drain.Had, since, drain.CordonedBy, ours), ""},
		{"it is empty, and is to boot besides", facts(true, drain.Wanted, since, drain.Had, since, drain.CordonedBy, ours, drain.Desired, one), "drain-began=2026-11-23T12:00:00Z, again after 2s"},
		{"it has booted, and the wish stands", facts(true, drain.Wanted, since, drain.Had, since, drain.CordonedBy, ours, drain.Desired, "uncordon-a", drain.Applied, one), ""},
		{
			"the wish is taken back", facts(true, drain.Desired, "uncordon-a", drain.Applied, "uncordon-a", drain.Had, since, drain.CordonedBy, ours),
			`-cordoned-for, -drain-done, unschedulable=false, Uncordoned "it gets pods again"`,
		},
		{"it is taken back on the way", facts(true, drain.CordonedBy, ours, drain.Began, "then"), `-cordoned-for, -drain-began, unschedulable=false, Uncordoned "it gets pods again"`},
		{"a person has cordoned it before, and it is taken back", facts(true, drain.Had, since), "-drain-done"},
		{"it is taken back while the host is to be empty for itself", facts(true, drain.Desired, one, drain.Applied, one, drain.Had, since, drain.CordonedBy, ours), ""},
	} {
		if got := said(drain.Begin(c.facts)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.sentence, got, c.want)
		}
	}
	f := facts(true, drain.Wanted, since, drain.CordonedBy, ours, drain.Began, since)
	if got, want := said(drain.Judge(f)), `-drain-began, drain-done=`+since+`, -drain-waits, Drained "other hosts have its pods"`; got != want {
		t.Errorf("emptied: %s", got)
	}
	f.Node.Annotations[drain.Desired] = one
	if got, want := said(drain.Judge(f)), `-drain-began, drain-done=`+since+`, -drain-waits, lastAppliedDrain=`+one+`, Drained "other hosts have its pods"`; got != want {
		t.Errorf("emptied for both: %s", got)
	}
}

func TestWhatADrainWouldDoIsForeseen(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	f := facts(false)
	f.Pods = []corev1.Pod{pod("b"), pod("a", critical), pod("d", of("DaemonSet")), pod("n", nobodys), pod("e", ending(time.Minute))}
	got := drain.Foresee(f)
	if strings.Join(got.Moves, ", ") != "default/a (of ReplicaSet web), default/b (of ReplicaSet web)" || got.Stays != 1 || got.Nowhere ||
		got.InTheWay != "default/n: nobody would make it again elsewhere; delete it, or move it yourself" {
		t.Errorf("%+v", got)
	}
	f.Pods, f.Budgets = []corev1.Pod{pod("b")}, []policyv1.PodDisruptionBudget{budget("a", web, 0)}
	if got := drain.Foresee(f); got.InTheWay != "default/b (of ReplicaSet web): PodDisruptionBudget a lets none go: of 2 pods 1 are ready, and 1 have to be" {
		t.Errorf("a budget: %+v", got)
	}
	f.Budgets = []policyv1.PodDisruptionBudget{budget("a", web, 1)}
	if got := drain.Foresee(f); got.InTheWay != "" || len(got.Moves) != 1 {
		t.Errorf("a budget that lets it go: %+v", got)
	}
	f.Others = nil
	if got := drain.Foresee(f); !got.Nowhere || len(got.Moves) != 0 {
		t.Errorf("alone: %+v", got)
	}
}
