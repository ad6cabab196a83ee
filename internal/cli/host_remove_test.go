package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// traces are what a worker leaves under its name beside its Node.
func traces(host string) []client.Object {
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: kube.TokenNamespace, Name: "bootstrap-token-abcdef",
		Labels: map[string]string{kube.LabelToken: "true"}, Annotations: map[string]string{kube.AnnotationTokenHost: host},
	}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: host}}
	return []client.Object{podOf("agent", host, "DaemonSet", nil), lease, token}
}

// removes is a run of the command for w-1 with a name typed.
func removes(c client.Client, out *bytes.Buffer) *hostRemoval {
	return &hostRemoval{
		removeFlags: removeFlags{timeout: time.Hour, hostFlags: hostFlags{output: "text"}}, name: "w-1", cluster: c,
		streams: Streams{In: strings.NewReader("w-1\n"), Out: out, Err: out}, now: time.Now,
		answers: func(context.Context, string) bool { return false }, by: "kim",
	}
}

// goneFrom reports whether nothing of a host is left but its entry.
func goneFrom(t *testing.T, c client.Client, host string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, o := range append(traces(host), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}}, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}}) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s is left: %v", o, o.GetName(), err)
		}
	}
	list, err := readRetired(ctx, c)
	if h, listed := list.Value.Of(host); err != nil || !listed || !h.Open() || h.UID != "uid-w-1" || h.By != "kim" {
		t.Errorf("the entry is %+v, %v", h, err)
	}
}

// writesStatus changes the status of a node, as its kubelet does.
func writesStatus(t *testing.T, c client.Client, name string, change func(s *corev1.NodeStatus)) {
	t.Helper()
	n := nodeOf(t, c, name)
	change(&n.Status)
	if err := c.Status().Update(context.WithoutCancel(t.Context()), n); err != nil {
		t.Error(err)
	}
}

// isReady writes the condition.
func isReady(status corev1.ConditionStatus) func(*corev1.NodeStatus) {
	return func(s *corev1.NodeStatus) {
		s.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
}

// evicts plays the operator and the workload: a host that is to be empty is, a little
// later.
func evicts(t *testing.T, c client.Client, host string) {
	t.Helper()
	go func() {
		for t.Context().Err() == nil {
			time.Sleep(3 * time.Second)
			n := &corev1.Node{}
			if c.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: host}, n) != nil {
				return
			}
			if wanted := n.Annotations[drain.Wanted]; wanted != "" {
				writesNode(t, c, host, func(n *corev1.Node) { n.Spec.Unschedulable, n.Annotations[drain.Had] = true, wanted })
				return
			}
		}
	}()
}

func TestAWorkerIsEmptiedWrittenDownDeletedAndSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, err := retired.Host{Name: "w-9", When: time.Now()}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: retired.Namespace, Name: retired.ConfigMap}, Data: map[string]string{"w-9": other}}
		c, out := hostSite(t, append(traces("w-1"), list)...), &bytes.Buffer{}
		writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
		evicts(t, c, "w-1")
		if err := removes(c, out).run(t.Context()); err != nil {
			t.Error(err)
		}
		goneFrom(t, c, "w-1")
		golden.Check(t, "host-remove.txt", out.Bytes())
		if list, err := readRetired(t.Context(), c); err != nil || len(list.Value) != 2 {
			t.Errorf("the entry of another host: %+v, %v", list, err)
		}
		out.Reset()
		if err := removes(c, out).run(t.Context()); err != nil || !strings.HasPrefix(out.String(), "w-1 is out of the cluster") {
			t.Errorf("once more: %v, %s", err, out)
		}
	})
}

// comesBack plays a Deployment with spec.nodeName, and a finalizer that nobody takes away: the one has another
// pod for the name as soon as one is deleted, the other keeps its pod.
func comesBack(host string) (client.Object, func(client.WithWatch) client.WithWatch) {
	held := podOf("db", host, "StatefulSet", nil)
	held.Finalizers = []string{"example.com/data"}
	made := 0
	return held, func(plain client.WithWatch) client.WithWatch {
		return interceptor.NewClient(plain, interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := c.Delete(ctx, o, opts...); err != nil || !strings.HasPrefix(o.GetName(), "till") {
					return err
				}
				made++
				again := podOf(fmt.Sprintf("till-%d", made), host, "ReplicaSet", nil)
				again.GenerateName, again.CreationTimestamp = "till-", metav1.Now()
				return c.Create(ctx, again)
			},
		})
	}
}

func TestAWorkerIsOutAlthoughPodsAreMadeForItsNameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, pinned := comesBack("w-1")
		c, out := pinned(hostSite(t, append(traces("w-1"), held, podOf("till-0", "w-1", "ReplicaSet", nil))...)), &bytes.Buffer{}
		writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
		evicts(t, c, "w-1")
		if err := removes(c, out).run(t.Context()); err != nil {
			t.Error(err)
		}
		goneFrom(t, c, "w-1")
		for range 2 {
			for _, want := range []string{
				"\nw-1 is out of the cluster\n",
				"still bound to the name: pod shop/till-* (of ReplicaSet till-", "it was made for that name after the host was taken out\n",
				"still bound to the name: pod shop/db (of StatefulSet db): it is deleted, and waits for example.com/data\n",
			} {
				if !strings.Contains("\n"+out.String(), want) {
					t.Errorf("%q is missing:\n%s", want, out)
				}
			}
			out.Reset()
			if err := removes(c, out).run(t.Context()); err != nil {
				t.Errorf("once more: %v", err)
			}
		}
	})
}

// A crash before or after each write is played: the write fails, or happens and its
// answer is lost. The next run goes on.
func TestARemovalThatEndsAtAnyWriteGoesOn(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for at := range 6 {
			synctest.Test(t, func(t *testing.T) {
				plain := hostSite(t, traces("w-1")...)
				writesNode(t, plain, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
				evicts(t, plain, "w-1")
				ctx, crash := context.WithCancel(t.Context())
				writes := 0
				fails := func(write func() error) error {
					if writes++; writes-1 != at {
						return write()
					}
					defer crash()
					if lost {
						_ = write()
					}
					return errors.New("the connection was lost")
				}
				c := interceptor.NewClient(plain, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						return fails(func() error { return c.Create(ctx, o, opts...) })
					},
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
						return fails(func() error { return c.Patch(ctx, o, p, opts...) })
					},
					Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
						return fails(func() error { return c.Delete(ctx, o, opts...) })
					},
				})
				if err := removes(c, &bytes.Buffer{}).run(ctx); err == nil {
					t.Fatalf("write %d did not fail", at)
				}
				if err := removes(c, &bytes.Buffer{}).run(t.Context()); err != nil {
					t.Errorf("write %d, done %t: %v", at, lost, err)
				}
				goneFrom(t, plain, "w-1")
			})
		}
	}
}

func TestTheVolumesOfAHostThatIsOffAreFreedBeforeItsNodeGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "w-1"}}
		c, out := hostSite(t, append(traces("w-1"), attachment)...), &bytes.Buffer{}
		writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
		writesStatus(t, c, "w-1", isReady(corev1.ConditionUnknown))
		go func() { // Kubernetes takes the volume away because of the taint
			for range 100 {
				time.Sleep(3 * time.Second)
				n := &corev1.Node{}
				if c.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: "w-1"}, n) == nil &&
					slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == outofservice.Key }) {
					_ = c.Delete(context.WithoutCancel(t.Context()), attachment)
					return
				}
			}
		}()
		r := removes(c, out)
		r.isOff = "w-1"
		if err := r.run(t.Context()); err != nil {
			t.Error(err)
		}
		goneFrom(t, c, "w-1")
		golden.Check(t, "host-remove-off.txt", out.Bytes())
	})
}

func TestAHostThatComesBackStopsItsRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "w-1"}}
		c := hostSite(t, append(traces("w-1"), attachment)...)
		writesStatus(t, c, "w-1", isReady(corev1.ConditionUnknown))
		r := removes(c, &bytes.Buffer{})
		r.isOff = "w-1"
		time.AfterFunc(9*time.Second, func() {
			writesStatus(t, c, "w-1", isReady(corev1.ConditionTrue))
		})
		err := r.run(t.Context())
		if command.ExitCode(err) != ExitFailed || !strings.Contains(err.Error(), "lives: w-1 is not off: its Node is Ready") {
			t.Error(err)
		}
		nodeOf(t, c, "w-1") // it is still there
	})
}

func TestAHostThatCameBackIsEmptiedBeforeItsNodeGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hostSite(t, append(traces("w-1"), entryOfWorker(t, "uid-w-1", func(h *retired.Host) { h.Off = true }))...)
		writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
		wanted := false
		go func() {
			for t.Context().Err() == nil {
				n := &corev1.Node{}
				if c.Get(context.WithoutCancel(t.Context()), client.ObjectKey{Name: "w-1"}, n) != nil {
					return
				}
				wanted = wanted || n.Annotations[drain.Wanted] != ""
				time.Sleep(time.Second)
			}
		}()
		evicts(t, c, "w-1")
		if err := removes(c, &bytes.Buffer{}).run(t.Context()); err != nil || !wanted {
			t.Errorf("%v, emptied %t", err, wanted)
		}
		goneFrom(t, c, "w-1")
	})
}

// entryOfWorker is the list with the entry of w-1.
func entryOfWorker(t *testing.T, uid string, change func(*retired.Host)) *corev1.ConfigMap {
	t.Helper()
	h := retired.Host{Name: "w-1", UID: uid, When: time.Now(), By: "kim", Why: "holdfast host remove"}
	change(&h)
	value, err := h.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: retired.Namespace, Name: retired.ConfigMap}, Data: map[string]string{"w-1": value}}
}

func TestARemovalThatIsRefusedOrNotConfirmedChangesNothing(t *testing.T) {
	local := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	local.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"w-1"}}}},
	}}}
	for _, c := range []struct {
		sentence string
		change   func(*hostRemoval)
		code     int
		says     string
	}{
		{"the only control plane", func(r *hostRemoval) { r.name = "cp-1" }, command.ExitRefused, "lone: cp-1 is the only control plane"},
		{"a host that lives is said to be off", func(r *hostRemoval) { r.isOff = "w-1" }, command.ExitRefused, "lives: "},
		{"a name that nobody has", func(r *hostRemoval) { r.name = "w-9" }, ExitUsage, `host "w-9": there is none`},
		{"another name is typed", func(r *hostRemoval) { r.streams.In = strings.NewReader("w-2\n") }, command.ExitNotConfirmed, "not confirmed"},
		{"nobody answers", func(r *hostRemoval) { r.streams.In = strings.NewReader("") }, command.ExitNotConfirmed, "no answer"},
		{"data is lost, and a yes is not enough", func(r *hostRemoval) { r.yes = true }, command.ExitNotConfirmed, "--accept-loss"},
		{"a dry run", func(r *hostRemoval) { r.dryRun = true }, ExitOK, ""},
	} {
		site := hostSite(t, append(traces("w-1"), local.DeepCopy())...)
		before := versions(t, site)
		r := removes(site, &bytes.Buffer{})
		c.change(r)
		err := r.run(t.Context())
		if command.ExitCode(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: exit code %d, %v", c.sentence, command.ExitCode(err), err)
		}
		if !maps.Equal(before, versions(t, site)) {
			t.Errorf("%s: something was changed", c.sentence)
		}
	}
}

// versions returns the resource versions of what a removal may change.
func versions(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"cp-1", "w-1", "w-2"} {
		out[name] = nodeOf(t, c, name).ResourceVersion
	}
	for _, o := range append(traces("w-1"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: retired.Namespace, Name: retired.ConfigMap}}) {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		} else if err == nil {
			out[o.GetName()] = o.GetResourceVersion()
		}
	}
	return out
}

func TestADryRunOfARemovalIsApproved(t *testing.T) {
	c := hostSite(t, append(traces("w-1"), podOf("web", "w-1", "ReplicaSet", nil), podOf("alone", "w-1", "", nil))...)
	writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = types.UID("uid-w-1") })
	var out bytes.Buffer
	for _, format := range []string{"text", "yaml"} {
		r := removes(c, &out)
		r.dryRun, r.output = true, format
		if err := r.run(t.Context()); command.ExitCode(err) != command.ExitAttention { // a pod that nobody makes again is in the way
			t.Error(err)
		}
	}
	golden.Check(t, "host-remove-dry.txt", out.Bytes())
}

func TestAStatementAboutAnotherHostIsAMistake(t *testing.T) {
	for is, of := range map[string]string{"w-2": "w-1", "W-3": "W-3", "w 3": "w 3"} {
		f := removeFlags{isOff: is}
		if err := f.mistake(of); err == nil {
			t.Errorf("%s counts for %s", is, of)
		}
	}
	f := removeFlags{isOff: "w-3.site.example"}
	if err := f.mistake("w-3.site.example"); err != nil {
		t.Error(err)
	}
}

// TestANameOfWhichNothingIsKnownIsShutOutByAPersonAlone: after a restore nobody else knows whom somebody
// took out after the backup.
func TestANameOfWhichNothingIsKnownIsShutOutByAPersonAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := hostSite(t), &bytes.Buffer{}
		run := func(change func(*hostRemoval)) error {
			r := removes(c, out)
			r.name, r.isOff, r.streams.In = "w-9", "w-9", strings.NewReader("w-9\n")
			change(r)
			return r.run(t.Context())
		}
		listed := func() retired.List {
			list, err := readRetired(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return list.Value
		}
		for what, change := range map[string]func(*hostRemoval){
			"nobody says that it is off": func(r *hostRemoval) { r.isOff = "" },
			"a dry run":                  func(r *hostRemoval) { r.dryRun = true },
			"another name is typed":      func(r *hostRemoval) { r.streams.In = strings.NewReader("w-8\n") },
		} {
			if err := run(change); len(listed()) > 0 {
				t.Errorf("%s: it is shut out, %v", what, err)
			}
		}
		if !strings.Contains(out.String(), "the cluster knows nothing of that name") {
			t.Errorf("nobody is told: %s", out)
		}
		for range 2 { // the second time it is out already
			if err := run(func(*hostRemoval) {}); err != nil {
				t.Error(err)
			}
			if h, is := listed().Of("w-9"); !is || !h.Open() || !h.Off || listed().Out("w-9", "uid", "machine") == "" {
				t.Errorf("%+v", h)
			}
		}
		h, _ := listed().Of("w-9")
		h.Again = time.Now() // an agent approved a certificate for a host of that name
		if err := removes(c, out).mark(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		for what, is := range map[string]string{"nobody says that it is off": "", "a person does": "w-9"} {
			err := run(func(r *hostRemoval) { r.isOff = is })
			if command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "was given again at "+timestamp(h.Again)) || strings.Contains(err.Error(), "--is-off") {
				t.Errorf("its host may be on its way, and %s: %v", what, err)
			}
		}
		time.Sleep(25 * time.Hour)
		if err := run(func(*hostRemoval) {}); err != nil {
			t.Error(err)
		}
		if h, is := listed().Of("w-9"); !is || !h.Open() {
			t.Errorf("a day later it is not shut out: %+v", h)
		}
	})
}

func TestOneOfTwoControlPlanesIsNotRemovedEvenIfItsNodeIsGone(t *testing.T) {
	c := hostSite(t)
	site := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: "kube-system", Name: "cluster-config-v1"}
	if err := c.Get(t.Context(), key, site); err != nil {
		t.Fatal(err)
	}
	site.Data["install-config"] = "controlPlane: {replicas: 2, fencing: {credentials: [{hostname: cp-1}, {hostname: cp-2}]}}\n"
	if err := c.Update(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	r := removes(c, &bytes.Buffer{})
	r.name = "cp-2"
	if err := r.run(t.Context()); command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "holdfast host replace cp-2") {
		t.Error(err)
	}
	if list, err := readRetired(t.Context(), c); err != nil || !state.Is(state.Known(len(list.Value)), 0) {
		t.Errorf("%v, %v", list, err)
	}
}
