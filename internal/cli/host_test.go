package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/window"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// hostSite returns a cluster of one control plane and two workers.
func hostSite(t *testing.T, more ...client.Object) client.WithWatch {
	t.Helper()
	scheme, err := hostScheme()
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, label string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}, Annotations: map[string]string{
			rollout.CurrentConfig: "rendered-1", rollout.DesiredConfig: "rendered-1", rollout.StateOf: "Done",
		}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	pool := func(name, label string) *mcfgv1.MachineConfigPool {
		p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}}
		p.Spec.Configuration.Name = "rendered-1"
		return p
	}
	site := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-config-v1"}, Data: map[string]string{"install-config": "controlPlane: {replicas: 1}\n"}}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }). //nolint:forcetypeassert // it indexes pods
		WithObjects(node("cp-1", state.LabelControlPlane), node("w-1", state.LabelWorker), node("w-2", state.LabelWorker)).
		WithObjects(pool("master", state.LabelControlPlane), pool("worker", state.LabelWorker), site).
		WithObjects(more...).Build()
}

func podOf(name, node, owner string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-" + "x", Labels: labels}, Spec: corev1.PodSpec{NodeName: node}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: name, Controller: new(true)}}
	}
	return p
}

// writes changes the node of a host, as the operator, an agent or a person does.
func writesNode(t *testing.T, c client.Client, name string, change func(n *corev1.Node)) {
	t.Helper()
	n := nodeOf(t, c, name)
	change(n)
	if err := c.Update(context.WithoutCancel(t.Context()), n); err != nil {
		t.Error(err)
	}
}

func nodeOf(t *testing.T, c client.Client, name string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := c.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: name}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestADrainIsAWishThatIsFollowedUntilTheHostIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := hostSite(t), &bytes.Buffer{}
		if err := wantEmpty(t.Context(), c, "w-1", time.Now(), io.Discard); err != nil {
			t.Fatal(err)
		}
		wanted := nodeOf(t, c, "w-1").Annotations[drain.Wanted]
		if wanted != time.Now().UTC().Format(time.RFC3339) {
			t.Errorf("wanted since %q", wanted)
		}
		go func() {
			time.Sleep(5 * time.Second)
			writesNode(t, c, "w-1", func(n *corev1.Node) {
				n.Spec.Unschedulable = true
				n.Annotations[drain.CordonedBy], n.Annotations[drain.Waits] = "x", "shop/db: a budget"
			})
			time.Sleep(4 * time.Second) // not when the node is looked at
			writesNode(t, c, "w-1", func(n *corev1.Node) { n.Annotations[drain.Had] = wanted; delete(n.Annotations, drain.Waits) })
		}()
		n, err := follow{c, out, time.Hour, "back"}.until(t.Context(), "w-1", isEmpty)
		if err != nil || reportHost(n).Does != "is empty, as an administrator wants since "+wanted {
			t.Errorf("%+v, %v", n, err)
		}
		golden.Check(t, "host-drain.txt", out.Bytes())
		time.Sleep(time.Hour)
		if err := wantEmpty(t.Context(), c, "w-1", time.Now(), io.Discard); err != nil || nodeOf(t, c, "w-1").Annotations[drain.Wanted] != wanted {
			t.Errorf("once more: %v", err)
		}
	})
}

func TestAWaitEndsWithoutTheWish(t *testing.T) {
	for _, tt := range []struct {
		sentence string
		change   func(n *corev1.Node)
		cancel   bool
		code     int
		says     string
	}{
		{"pods still move", func(n *corev1.Node) { n.Spec.Unschedulable = true }, false, command.ExitRecovers, "w-1 is not done after 1m0s, and goes on: it moves its pods to other hosts. To wait on, run the command again. To take the wish back: back"},
		{"somebody is in the way", func(n *corev1.Node) { n.Spec.Unschedulable = true; n.Annotations[drain.Waits] = "a budget" }, false, command.ExitAttention, "waits for: a budget. To wait on, run the command again. To take the wish back: back. To delete a pod that is in the way, whatever its budget says: kubectl delete pod --namespace NAMESPACE POD"},
		{"the cluster does not carry on without it", func(n *corev1.Node) {
			n.Annotations[rollout.StateOf], n.Annotations[rollout.StageAt] = "Working", string(rollout.Held)
			n.Annotations[rollout.ReasonOf] = "waits with its reboot: the cluster may not carry on without it: cp-2 is absent"
		}, false, command.ExitAttention, "it waits with its reboot; waits for: the cluster may not carry on without it: cp-2 is absent. To wait on"},
		{"a person interrupts it", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true, command.ExitFailed, "interrupted: the wish stands and is carried out; to take it back: back"},
		{"a person takes it back", func(n *corev1.Node) { delete(n.Annotations, drain.Wanted) }, false, command.ExitFailed, "somebody took the wish back: w-1 takes pods again"},
		{"no other host takes pods", func(n *corev1.Node) { n.Annotations[drain.Had] = n.Annotations[drain.Wanted] }, false, command.ExitRefused, "no other host takes pods, so those of w-1 stay"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := hostSite(t)
			if err := wantEmpty(t.Context(), c, "w-1", time.Now(), io.Discard); err != nil {
				t.Fatal(err)
			}
			writesNode(t, c, "w-1", tt.change)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.cancel {
				time.AfterFunc(10*time.Second, cancel)
			}
			_, err := follow{c, &bytes.Buffer{}, time.Minute, "back"}.until(ctx, "w-1", isEmpty)
			if command.ExitCode(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: exit code %d, %v", tt.sentence, command.ExitCode(err), err)
			}
		})
	}
}

func TestAnAPIThatIsAwayDoesNotEndAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := hostSite(t), &bytes.Buffer{}
		away := interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < time.Minute {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, o, opts...)
		}})
		_, err := follow{away, out, time.Hour, "back"}.until(t.Context(), "w-1", func(*corev1.Node) (bool, error) { return true, nil })
		if err != nil || !strings.Contains(out.String(), "w-1        the API does not answer: read node w-1: connection refused") {
			t.Errorf("%v, %s", err, out)
		}
	})
}

// TestWhereAllOtherHostsAreCordonedADrainIsRefused, and says what frees them. One that is wanted
// already goes on.
func TestWhereAllOtherHostsAreCordonedADrainIsRefused(t *testing.T) {
	c := hostSite(t, podOf("web", "w-1", "ReplicaSet", nil))
	cordon := func(name string, is bool) {
		writesNode(t, c, name, func(n *corev1.Node) { n.Spec.Unschedulable = is })
	}
	cordon("cp-1", true)
	cordon("w-2", true)
	out := &bytes.Buffer{}
	for what, err := range map[string]error{
		"drain": wantEmpty(t.Context(), c, "w-1", time.Now(), io.Discard), "dry": dryEmpty(t.Context(), c, out, "text", "w-1", time.Now()),
	} {
		if command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "w-2 is cordoned (holdfast host uncordon w-2)") || nodeOf(t, c, "w-1").Annotations[drain.Wanted] != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	cordon("w-2", false)
	if err := wantEmpty(t.Context(), c, "w-1", time.Now(), io.Discard); err != nil {
		t.Fatal(err)
	}
	cordon("w-2", true)
	if err := dryEmpty(t.Context(), c, out, "text", "w-1", time.Now()); command.ExitCode(err) != command.ExitAttention || !strings.Contains(out.String(), "in the way would be: no other host takes pods now") {
		t.Errorf("%v, %s", err, out)
	}
}

func TestWhereNoOtherHostTakesPodsADrainIsRefused(t *testing.T) {
	c := hostSite(t)
	for _, name := range []string{"cp-1", "w-2"} {
		writesNode(t, c, name, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "site", Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	err := wantEmpty(t.Context(), c, "w-1", time.Now(), io.Discard)
	if command.ExitCode(err) != command.ExitRefused || nodeOf(t, c, "w-1").Annotations[drain.Wanted] != "" {
		t.Error(err)
	}
	if err := wantEmpty(t.Context(), c, "w-9", time.Now(), io.Discard); command.ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), `host "w-9": there is none; see: holdfast host list`) {
		t.Errorf("a host that is not there: %v", err)
	}
}

func TestAHostIsUncordonedByWhoeverCordonedIt(t *testing.T) {
	for _, tt := range []struct {
		sentence    string
		annotations map[string]string
		cordoned    bool
		code        int
	}{
		{"it takes pods", nil, false, ExitOK},
		{"a person has cordoned it", map[string]string{}, false, ExitOK},
		{"a person has cordoned it, and another one wants it empty", map[string]string{drain.Wanted: "x"}, false, ExitOK},
		{"the operator has cordoned it for a person", map[string]string{drain.Wanted: "x", drain.CordonedBy: "x"}, true, ExitOK},
		{"the host itself is to be empty", map[string]string{drain.CordonedBy: "x", drain.Desired: "drain-patch-1"}, true, command.ExitRefused},
		{"a person wants it empty, and the host itself", map[string]string{drain.Wanted: "x", drain.CordonedBy: "x", drain.Desired: "drain-patch-1"}, true, command.ExitRefused},
	} {
		c := hostSite(t)
		writesNode(t, c, "w-1", func(n *corev1.Node) {
			n.Spec.Unschedulable = tt.annotations != nil
			maps.Copy(n.Annotations, tt.annotations)
		})
		err := keep(t.Context(), c, "w-1", io.Discard)
		n := nodeOf(t, c, "w-1")
		if command.ExitCode(err) != tt.code || n.Spec.Unschedulable != tt.cordoned || n.Annotations[drain.Wanted] != "" {
			t.Errorf("%s: %v, cordoned %t, %v", tt.sentence, err, n.Spec.Unschedulable, n.Annotations)
		}
		if tt.code != ExitOK && (!strings.Contains(err.Error(), "holdfast host patch w-1 --cancel") || strings.Contains(err.Error(), "nothing was changed") == (tt.annotations[drain.Wanted] != "")) {
			t.Errorf("%s: %v", tt.sentence, err)
		}
	}
}

func TestARebootIsAWishThatIsFollowedUntilTheHostTakesPodsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := hostSite(t), &bytes.Buffer{}
		wish, err := wantWish(t.Context(), c, "w-1", rollout.Wish{}, time.Now().UTC().Format(time.RFC3339), " kernel ")
		if err != nil || nodeOf(t, c, "w-1").Annotations[rollout.RebootWanted] != wish || nodeOf(t, c, "w-1").Annotations[rollout.RebootReason] != "kernel" {
			t.Fatalf("%q, %v", wish, err)
		}
		if again, err := wantWish(t.Context(), c, "w-1", rollout.Wish{}, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), ""); err != nil || again != wish {
			t.Errorf("an open wish is followed: %q, %v", again, err)
		}
		steps := []func(n *corev1.Node){
			func(n *corev1.Node) { n.Annotations[rollout.RebootWaits] = rollout.About(wish, "w-2 is at work") },
			func(n *corev1.Node) {
				n.Annotations[rollout.RebootFrom], n.Annotations[rollout.RebootGiven] = rollout.About(wish, "boot-1"), rollout.About(wish, wish)
			},
			func(n *corev1.Node) {
				n.Annotations[rollout.StateOf], n.Annotations[rollout.ReasonOf] = "Working", "waits until its pods have moved"
				n.Spec.Unschedulable, n.Annotations[drain.CordonedBy] = true, "x"
			},
			func(n *corev1.Node) { n.Annotations[rollout.ReasonOf] = "boots" },
			func(n *corev1.Node) {
				n.Annotations[rollout.RebootDone], n.Annotations[rollout.StateOf] = wish, "Done"
				delete(n.Annotations, rollout.RebootWanted)
			},
			func(n *corev1.Node) { n.Spec.Unschedulable = false; delete(n.Annotations, drain.CordonedBy) },
		}
		go func() {
			for pause := 5 * time.Second; len(steps) > 0; steps = steps[1:] {
				time.Sleep(pause) // never when the node is looked at
				writesNode(t, c, "w-1", steps[0])
				pause = 4 * time.Second
			}
		}()
		n, err := follow{c, out, time.Hour, "back"}.until(t.Context(), "w-1", hasBooted(wish))
		if err != nil || n.Spec.Unschedulable {
			t.Errorf("%v", err)
		}
		golden.Check(t, "host-reboot.txt", out.Bytes())
	})
}

func TestUpdatesAreFollowedUntilTheHostTakesPodsAgainOrTheyFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := hostSite(t), &bytes.Buffer{}
		wanted := time.Now().UTC().Format(time.RFC3339) + rollout.NoReboot
		f := patchFlags{rebootFlags: rebootFlags{timeout: time.Hour}, noReboot: true}
		go func() {
			time.Sleep(5 * time.Second) // never when the node is looked at
			writesNode(t, c, "w-1", func(n *corev1.Node) {
				n.Annotations[rollout.StateOf], n.Annotations[rollout.ReasonOf] = "Working", "installs 1 update: libc6"
				n.Spec.Unschedulable, n.Annotations[drain.CordonedBy] = true, "x"
			})
			time.Sleep(4 * time.Second)
			writesNode(t, c, "w-1", func(n *corev1.Node) {
				n.Annotations[rollout.PatchDone], n.Annotations[rollout.PatchResult], n.Annotations[rollout.StateOf] = wanted, wanted+" installed 1 update: libc6; left out: podman", "Done"
				n.Annotations[rollout.RebootRequired] = "Yes: its packages ask for it: libc6"
				delete(n.Annotations, rollout.PatchWanted)
			})
			time.Sleep(4 * time.Second)
			writesNode(t, c, "w-1", func(n *corev1.Node) { n.Spec.Unschedulable = false; delete(n.Annotations, drain.CordonedBy) })
		}()
		if err := f.run(t.Context(), c, Streams{Out: out, Err: out}, "w-1"); err != nil || nodeOf(t, c, "w-1").Spec.Unschedulable {
			t.Errorf("%v", err)
		}
		golden.Check(t, "host-patch.txt", out.Bytes())
		again := time.Now().UTC().Format(time.RFC3339)
		time.AfterFunc(5*time.Second, func() {
			writesNode(t, c, "w-1", func(n *corev1.Node) {
				n.Annotations[rollout.PatchDone], n.Annotations[rollout.PatchResult] = again, again+" failed: nothing was changed: no route"
			})
		})
		f.noReboot = false
		err := f.run(t.Context(), c, Streams{Out: out, Err: out}, "w-1")
		if command.ExitCode(err) != command.ExitFailed || err.Error() != "the updates of w-1: nothing was changed: no route" {
			t.Errorf("failed: %v", err)
		}
	})
}

func TestAWishForUpdatesIsTakenBack(t *testing.T) {
	c, out := hostSite(t), &bytes.Buffer{}
	f := patchFlags{rebootFlags: rebootFlags{timeout: time.Hour, noWait: true, inWindow: true, reason: "CVE"}}
	if err := f.run(t.Context(), c, Streams{Out: out, Err: out}, "w-1"); err != nil || nodeOf(t, c, "w-1").Annotations[rollout.PatchReason] != "CVE" {
		t.Fatal(err)
	}
	wish := nodeOf(t, c, "w-1").Annotations[rollout.PatchWanted]
	if !strings.HasSuffix(wish, rollout.InWindow) {
		t.Errorf("it does not wait for the window: %q", wish)
	}
	f = patchFlags{rebootFlags: rebootFlags{timeout: time.Hour, cancel: true}}
	if err := f.run(t.Context(), c, Streams{Out: out, Err: out}, "w-1"); err != nil || rollout.WishOf(nodeOf(t, c, "w-1").Annotations) != (rollout.Wish{}) {
		t.Errorf("%v, %v", err, nodeOf(t, c, "w-1").Annotations)
	}
	if over, err := isPatched(wish)(nodeOf(t, c, "w-1")); over || err == nil {
		t.Error("who follows it is not told")
	}
	if err := f.run(t.Context(), c, Streams{Out: out, Err: out}, "w-1"); command.ExitCode(err) != ExitFailed || err.Error() != "nobody wants updates of w-1" {
		t.Errorf("once more: %v", err)
	}
	f.noReboot, f.dryRun = true, true
	if err := f.mistakes(); err == nil || !strings.Contains(err.Error(), "--no-reboot") || !strings.Contains(err.Error(), "--dry-run") {
		t.Errorf("not all mistakes: %v", err)
	}
}

// TestUpdatesOfWhatEtcdRunsOnAreAWishToo: the word stands in the wish, and who follows one without
// it is told.
func TestUpdatesOfWhatEtcdRunsOnAreAWishToo(t *testing.T) {
	c, out := hostSite(t), &bytes.Buffer{}
	f := patchFlags{rebootFlags: rebootFlags{timeout: time.Hour, noWait: true, inWindow: true}, held: true}
	if err := f.run(t.Context(), c, Streams{Out: out, Err: out}, "w-1"); err != nil {
		t.Fatal(err)
	}
	w := rollout.WishOf(nodeOf(t, c, "w-1").Annotations)
	if !strings.HasSuffix(w.Wanted, rollout.HeldToo) || !w.InWindow || w.At.IsZero() || strings.Contains(out.String(), "without --held") {
		t.Errorf("%+v, %s", w, out)
	}
	cancel := patchFlags{rebootFlags: rebootFlags{timeout: time.Hour, cancel: true}}
	plain := patchFlags{rebootFlags: rebootFlags{timeout: time.Hour, noWait: true}}
	for _, f := range []patchFlags{cancel, plain, f} {
		if err := f.run(t.Context(), c, Streams{Out: out, Err: out}, "w-1"); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(out.String(), "somebody wants already without --held") {
		t.Error(out)
	}
	f.noReboot = true
	if err := f.mistakes(); err == nil || !strings.Contains(err.Error(), "--held") {
		t.Errorf("the mistake: %v", err)
	}
}

func TestAWishForARebootIsTakenBack(t *testing.T) {
	c, out := hostSite(t), &bytes.Buffer{}
	wish, err := wantWish(t.Context(), c, "w-1", rollout.Wish{}, time.Now().UTC().Format(time.RFC3339), "kernel")
	if err != nil {
		t.Fatal(err)
	}
	f := rebootFlags{cancel: true}
	if err := f.run(t.Context(), c, Streams{Out: out}, "w-1"); err != nil || rollout.WishOf(nodeOf(t, c, "w-1").Annotations) != (rollout.Wish{}) {
		t.Errorf("%v, %v", err, nodeOf(t, c, "w-1").Annotations)
	}
	if over, err := hasBooted(wish)(nodeOf(t, c, "w-1")); over || err == nil {
		t.Error("who follows it is not told")
	}
	if err := f.run(t.Context(), c, Streams{Out: out}, "w-1"); command.ExitCode(err) != ExitFailed || err.Error() != "nobody wants a reboot of w-1" {
		t.Errorf("once more: %v", err)
	}
	f = rebootFlags{cancel: true, dryRun: true}
	if err := f.mistakes(); err == nil {
		t.Error("it takes a wish back without doing so")
	}
}

func TestADryRunSaysWhatAHostWouldWaitForAndWhichPodsWouldMove(t *testing.T) {
	app := map[string]string{"app": "db"}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: app}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	c := hostSite(t, podOf("web", "w-1", "ReplicaSet", nil), podOf("agent", "w-1", "DaemonSet", nil), podOf("db", "w-2", "StatefulSet", app), budget)
	var out bytes.Buffer
	inWindow := false
	try := func(host, format string, code int) {
		t.Helper()
		out.WriteString("$ holdfast host reboot " + host + " --dry-run -o " + format + map[bool]string{true: " --in-window"}[inWindow] + "\n")
		before := nodeOf(t, c, host)
		f := rebootFlags{dryRun: true, inWindow: inWindow}
		f.output = format
		if err := f.run(t.Context(), c, Streams{Out: &out}, host); command.ExitCode(err) != code {
			t.Errorf("%s: exit code %d, %v", host, command.ExitCode(err), err)
		}
		if nodeOf(t, c, host).ResourceVersion != before.ResourceVersion {
			t.Errorf("%s was changed", host)
		}
	}
	try("w-1", "text", ExitOK)
	try("w-2", "text", command.ExitAttention)
	try("cp-1", "yaml", ExitOK)
	out.WriteString("$ holdfast host patch w-1 --dry-run\n")
	if err := (patchFlags{rebootFlags: rebootFlags{dryRun: true}}).run(t.Context(), c, Streams{Out: &out}, "w-1"); err != nil {
		t.Error(err)
	}
	workers := &mcfgv1.MachineConfigPool{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "worker"}, workers); err != nil {
		t.Fatal(err)
	}
	workers.Annotations = map[string]string{window.Annotation: "never"}
	if err := c.Update(t.Context(), workers); err != nil {
		t.Fatal(err)
	}
	try("w-1", "text", ExitOK)
	inWindow = true
	try("w-1", "text", command.ExitAttention)
	inWindow = false
	writesNode(t, c, "w-2", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	try("w-1", "json", command.ExitAttention)
	writesNode(t, c, "w-2", func(n *corev1.Node) { n.Spec.Unschedulable = false })
	text, err := annotation.Encode(annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true, Turns: []string{"cp-1"}})
	if err != nil {
		t.Fatal(err)
	}
	upgrade := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, Data: map[string]string{annotation.RecordKey: text}}
	if err := c.Create(t.Context(), upgrade); err != nil {
		t.Fatal(err)
	}
	try("w-1", "text", command.ExitAttention)
	golden.Check(t, "host-dry.txt", out.Bytes())
}

func TestWhetherAControlPlaneCanBeSparedIsReadOfPacemakerOrOfEtcdsPods(t *testing.T) {
	now := time.Now()
	c := hostSite(t, &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}})
	if got, err := spares(t.Context(), c, now); err != nil || len(got) != 0 {
		t.Errorf("a status that says nothing: %v, %v", got, err)
	}
	etcd := func(node string, ready corev1.ConditionStatus) *corev1.Pod {
		p := podOf("etcd-"+node, node, "", map[string]string{"component": "etcd"})
		p.Namespace, p.Status.Conditions = "kube-system", []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return p
	}
	got, err := spares(t.Context(), hostSite(t, etcd("cp-1", corev1.ConditionTrue), etcd("cp-2", corev1.ConditionTrue), etcd("cp-3", corev1.ConditionFalse)), now)
	if err != nil || state.Is(got["cp-1"].Carries, true) || !state.Is(got["cp-3"].Carries, true) {
		t.Errorf("three: %v, %v", got, err)
	}
}

func TestHostsAreListedWithWhatTheyDo(t *testing.T) {
	c := hostSite(t)
	var out bytes.Buffer
	if err := listHosts(t.Context(), c, &out, "text"); err != nil {
		t.Errorf("at rest: %v", err)
	}
	writesNode(t, c, "w-1", func(n *corev1.Node) {
		n.Annotations[rollout.RebootWanted], n.Annotations[rollout.RebootReason] = "2026-11-23T12:00:00Z", "kernel"
		n.Annotations[rollout.RebootWaits], n.Annotations[rollout.RebootDone] = "2026-11-23T12:00:00Z w-2 is away", "2026-11-01T12:00:00Z"
	})
	writesNode(t, c, "w-2", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Annotations[drain.Wanted], n.Annotations[drain.Waits], n.Annotations[drain.CordonedBy] = "2026-11-23T11:00:00Z", "shop/db (of StatefulSet db): PodDisruptionBudget db lets none go", "drain-wanted-2026-11-23T11:00:00Z"
	})
	for _, format := range []string{"text", "wide", "yaml"} {
		out.WriteString("=== " + format + "\n")
		if err := listHosts(t.Context(), c, &out, format); command.ExitCode(err) != command.ExitAttention {
			t.Errorf("%s: %v", format, err)
		}
	}
	for _, name := range []string{"w-1", "w-2"} {
		out.WriteString("=== show " + name + "\n")
		if err := reportHost(nodeOf(t, c, name)).print(&out, "text"); err != nil {
			t.Error(err)
		}
	}
	golden.Check(t, "host-list.txt", out.Bytes())
}
