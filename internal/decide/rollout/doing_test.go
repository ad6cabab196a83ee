package rollout_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

func TestWhatAHostDoesIsToldInWords(t *testing.T) {
	const when = "2026-11-23T12:00:00Z"
	wish := []string{rollout.RebootWanted, when, rollout.RebootFrom, when + " boot-1", rollout.DesiredConfig, "a", rollout.CurrentConfig, "a", rollout.StateOf, "Done"}
	turn := append([]string{rollout.RebootGiven, when + " " + when}, wish...)
	for _, c := range []struct {
		sentence    string
		annotations []string
		cordoned    bool
		want        rollout.Activity
	}{
		{"it has nothing to do", nil, false, rollout.Activity{}},
		{"a person has cordoned it", nil, true, rollout.Activity{Does: "is cordoned"}},
		{"nobody has decided about its reboot", wish, false, rollout.Activity{Does: "waits for its turn to boot", Waits: "holdfast-operator has not decided yet"}},
		{"its reboot waits", append([]string{rollout.RebootWaits, when + " w-1 is at work"}, wish...), false, rollout.Activity{Does: "waits for its turn to boot", Waits: "w-1 is at work"}},
		{
			"its updates wait",
			[]string{rollout.PatchWanted, when, rollout.PatchWaits, when + " w-1 is at work", rollout.DesiredConfig, "a", rollout.CurrentConfig, "a", rollout.StateOf, "Done"},
			false,
			rollout.Activity{Does: "waits for its turn to get updates", Waits: "w-1 is at work"},
		},
		{"it has its turn", turn, false, rollout.Activity{Does: "has its turn to boot", Waits: "its agent has not answered yet"}},
		{
			"its pods move before its boot", append(turn, rollout.StateOf, "Working", rollout.ReasonOf, "waits until its pods have moved", drain.Desired, "drain-x", drain.Began, when, drain.Waits, "default/web"), true,
			rollout.Activity{Does: "waits until its pods have moved", Waits: "default/web"},
		},
		{
			"the cluster does not carry on without it", append(turn, rollout.StateOf, "Working", rollout.StageAt, "held", rollout.ReasonOf, "waits with its reboot: the cluster may not carry on without it: cp-2 is absent"), true,
			rollout.Activity{Does: "waits with its reboot", Waits: "the cluster may not carry on without it: cp-2 is absent"},
		},
		{
			"it takes pods until then, and does not say why", append(turn, rollout.StateOf, "Working", rollout.StageAt, "held", rollout.ReasonOf, "takes pods until the cluster carries on without it"), false,
			rollout.Activity{Does: "takes pods until the cluster carries on without it", Waits: "takes pods until the cluster carries on without it"},
		},
		{
			"a person is to boot it",
			[]string{rollout.DesiredConfig, "a", rollout.StateOf, "Working", rollout.StageAt, "waits-for-boot", rollout.ReasonOf, "needs a reboot: file /etc/x changed. Drain w-1, then boot it"},
			false,
			rollout.Activity{Does: "needs a reboot", Waits: "file /etc/x changed. Drain w-1, then boot it"},
		},
		{"it says nothing of its work", append(turn, rollout.StateOf, "Working"), true, rollout.Activity{Does: "is at work"}},
		{"it was given a configuration", []string{rollout.DesiredConfig, "a"}, false, rollout.Activity{Does: "was given another configuration", Waits: "its agent has not answered yet"}},
		{"an administrator wants it empty", []string{drain.Wanted, when}, false, rollout.Activity{Does: "is to be empty", Waits: "holdfast-operator has not begun yet"}},
		{"an administrator wants it empty, and no other host takes pods", []string{drain.Wanted, when, drain.Waits, "w-2 is cordoned"}, false, rollout.Activity{Does: "is to be empty", Waits: "w-2 is cordoned"}},
		{"somebody is in the way", []string{drain.Wanted, when, drain.Waits, "default/web"}, true, rollout.Activity{Does: "moves its pods to other hosts", Waits: "default/web"}},
		{"it is empty", []string{drain.Wanted, when, drain.Had, when}, true, rollout.Activity{Does: "is empty, as an administrator wants since " + when}},
		{"nobody else takes its pods", []string{drain.Wanted, when, drain.Had, when}, false, rollout.Activity{Does: "keeps its pods, because no other host takes them"}},
		{"it is over", []string{drain.CordonedBy, "x"}, true, rollout.Activity{Does: "takes pods again in a moment"}},
		{"it failed", []string{rollout.DesiredConfig, "a", rollout.StateOf, "Degraded", rollout.ReasonOf, "disk"}, false, rollout.Activity{Does: "failed: disk"}},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		for i := 0; i < len(c.annotations); i += 2 {
			n.Annotations[c.annotations[i]] = c.annotations[i+1]
		}
		n.Spec.Unschedulable = c.cordoned
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if got := rollout.Doing(n); got != c.want {
			t.Errorf("%s: %+v", c.sentence, got)
		}
		n.Status.Conditions = nil
		want := rollout.Activity{Does: "is not ready"}
		if c.want.Does != "" {
			want = rollout.Activity{Does: "is not ready; " + c.want.Does, Waits: c.want.Waits}
		}
		if got := rollout.Doing(n); got != want {
			t.Errorf("%s, and it is not ready: %+v", c.sentence, got)
		}
	}
}
