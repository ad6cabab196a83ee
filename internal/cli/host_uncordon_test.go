package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/retired"
)

// listOf reads the keys of the list of hosts that were taken out.
func listOf(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	var cm corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: retired.Namespace, Name: retired.ConfigMap}, &cm); err != nil {
		t.Fatal(err)
	}
	return cm.Data
}

// begunRemoval is a site in which the removal of w-1 was begun, as of a host that is off.
func begunRemoval(t *testing.T, uid string, change func(*retired.Host)) client.WithWatch {
	t.Helper()
	list := entryOfWorker(t, uid, change)
	list.Data["w-9"] = "damaged"
	c := hostSite(t, list)
	writesNode(t, c, "w-1", func(n *corev1.Node) {
		n.UID, n.Spec.Unschedulable, n.Annotations[drain.Wanted], n.Annotations[drain.Had] = "uid-w-1", true, "a", "a"
		n.Spec.Taints = []corev1.Taint{{Key: outofservice.Key, Value: outofservice.Value, Effect: outofservice.Effect}, {Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
	})
	return c
}

func TestARemovalIsTakenBackWithItsEntryAndItsTaint(t *testing.T) {
	c, out := begunRemoval(t, "uid-w-1", func(h *retired.Host) { h.Off = true }), &bytes.Buffer{}
	if err := keep(t.Context(), c, "w-1", out); err != nil || !strings.Contains(out.String(), "the removal of w-1 was taken back") {
		t.Fatalf("%v, %s", err, out)
	}
	n := nodeOf(t, c, "w-1")
	if n.Spec.Unschedulable || n.Annotations[drain.Wanted] != "" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "mine" {
		t.Errorf("%+v, %v", n.Spec, n.Annotations)
	}
	if left := listOf(t, c); len(left) != 1 || left["w-9"] == "" {
		t.Errorf("the list has %v", left)
	}
	out.Reset()
	if err := keep(t.Context(), c, "w-1", out); err != nil || out.Len() > 0 {
		t.Errorf("nothing is taken back a second time: %v, %s", err, out)
	}
}

func TestAnEntryThatIsNotOfTheNodeStaysAndNothingIsChanged(t *testing.T) {
	for sentence, c := range map[string]struct {
		uid    string
		change func(*retired.Host)
		says   string
	}{
		"of an earlier host": {"uid-of-another", func(*retired.Host) {}, "another: an earlier host w-1 was taken out"},
		"of a control plane": {"uid-w-1", func(h *retired.Host) { h.ControlPlane = true }, "plane: w-1 is a control plane"},
	} {
		site := begunRemoval(t, c.uid, c.change)
		err := keep(t.Context(), site, "w-1", &bytes.Buffer{})
		if command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", sentence, err)
		}
		if n := nodeOf(t, site, "w-1"); !n.Spec.Unschedulable || n.Annotations[drain.Wanted] == "" || len(listOf(t, site)) != 2 {
			t.Errorf("%s: something was changed: %v", sentence, n.Annotations)
		}
	}
}

// Somebody takes the same host out while its removal is taken back.
func TestAnEntryThatWasWrittenMeanwhileStays(t *testing.T) {
	plain := begunRemoval(t, "uid-w-1", func(*retired.Host) {})
	other := 0
	c := interceptor.NewClient(plain, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, list := o.(*corev1.ConfigMap); list {
				if other++; other == 1 { // another name: it is tried again
					cm := &corev1.ConfigMap{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(o), cm); err != nil {
						return err
					}
					cm.Data["w-8"] = "{}"
					if err := c.Update(ctx, cm); err != nil {
						return err
					}
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	if err := keep(t.Context(), c, "w-1", &bytes.Buffer{}); err != nil || other != 2 || listOf(t, plain)["w-8"] == "" || listOf(t, plain)["w-1"] != "" {
		t.Errorf("%v after %d tries: %v", err, other, listOf(t, plain))
	}
	plain = begunRemoval(t, "uid-w-1", func(*retired.Host) {})
	if err := dropEntry(t.Context(), plain, retired.Host{Name: "w-1", UID: "uid-of-another"}); err == nil || listOf(t, plain)["w-1"] == "" {
		t.Errorf("the entry of a later removal went: %v", err)
	}
}

// The removal of a host that is itself to be empty is taken back, and the host stays cordoned.
func TestARemovalIsTakenBackOfAHostThatStaysCordonedForItself(t *testing.T) {
	c, out := begunRemoval(t, "uid-w-1", func(h *retired.Host) { h.Off = true }), &bytes.Buffer{}
	writesNode(t, c, "w-1", func(n *corev1.Node) { n.Annotations[drain.Desired] = drain.Leave("boot-1") })
	err := keep(t.Context(), c, "w-1", out)
	if command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "was taken back, and the host stays cordoned: w-1 itself is to be empty for shutdown-boot-1") {
		t.Error(err)
	}
	if n := nodeOf(t, c, "w-1"); !n.Spec.Unschedulable || n.Annotations[drain.Wanted] != "" || len(n.Spec.Taints) != 1 || listOf(t, c)["w-1"] != "" {
		t.Errorf("%+v, %v", n.Spec, n.Annotations)
	}
}
