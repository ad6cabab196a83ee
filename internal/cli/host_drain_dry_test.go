package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// TestADryDrainSaysWhichPodsWouldMove, and is refused where the drain would be.
func TestADryDrainSaysWhichPodsWouldMove(t *testing.T) {
	app := map[string]string{"app": "db"}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: app}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	c := hostSite(t, podOf("web", "w-1", "ReplicaSet", nil), podOf("agent", "w-1", "DaemonSet", nil), podOf("db", "w-2", "StatefulSet", app), budget)
	var out bytes.Buffer
	try := func(host, format string, code int) error {
		t.Helper()
		out.WriteString("$ holdfast host drain " + host + " --dry-run -o " + format + "\n")
		before := nodeOf(t, c, host)
		err := dryEmpty(t.Context(), c, &out, format, host, time.Now())
		if command.ExitCode(err) != code {
			t.Errorf("%s: exit code %d, %v", host, command.ExitCode(err), err)
		}
		if nodeOf(t, c, host).ResourceVersion != before.ResourceVersion {
			t.Errorf("%s was changed", host)
		}
		return err
	}
	_ = try("w-1", "text", ExitOK)
	_ = try("w-1", "json", ExitOK)
	_ = try("w-2", "text", command.ExitAttention)
	if err := wantEmpty(t.Context(), c, "w-1", time.Now(), io.Discard); err != nil {
		t.Fatal(err)
	}
	_ = try("w-1", "text", ExitOK)
	golden.Check(t, "host-drain-dry.txt", out.Bytes())

	for _, name := range []string{"cp-1", "w-2"} {
		writesNode(t, c, name, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "site", Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	if err := try("w-1", "text", command.ExitRefused); err == nil || !strings.Contains(err.Error(), "no other host takes pods") {
		t.Errorf("nowhere to go: %v", err)
	}
	if err := dryEmpty(t.Context(), c, &out, "text", "w-9", time.Now()); command.ExitCode(err) != ExitUsage {
		t.Errorf("a host that is none: %v", err)
	}
}

// Whoever waits for the boot of a configuration may type a drain, and would have the host cordoned for good.
func TestADrainOfAHostThatIsEmptiedAnywaySaysThatItIsAnotherWish(t *testing.T) {
	c := hostSite(t)
	out := &bytes.Buffer{}
	if err := wantEmpty(t.Context(), c, "w-2", time.Now(), out); err != nil || out.Len() > 0 {
		t.Errorf("of a host that takes pods: %v, %s", err, out)
	}
	writesNode(t, c, "w-1", func(n *corev1.Node) { n.Annotations[drain.Desired] = drain.Before("rendered-2") })
	const says = "w-1 itself is to be empty for rendered-2 (it takes pods again once it has that configuration; see: holdfast host show w-1). " +
		"That goes on without 'holdfast host drain', whose wish keeps the host empty after it, too, until: holdfast host uncordon w-1\n"
	if err := dryEmpty(t.Context(), c, out, "text", "w-1", time.Now()); err != nil || !strings.HasPrefix(out.String(), says) || nodeOf(t, c, "w-1").Annotations[drain.Wanted] != "" {
		t.Errorf("dry: %v, %s", err, out)
	}
	for range 2 { // it says so of a wish that stands, too
		out.Reset()
		if err := wantEmpty(t.Context(), c, "w-1", time.Now(), out); err != nil || out.String() != says || nodeOf(t, c, "w-1").Annotations[drain.Wanted] == "" {
			t.Errorf("%v, %s", err, out)
		}
	}
}
