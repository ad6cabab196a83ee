package cli

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
)

// replaces is a run of the command for w-1, whose new machine has another name if next is one.
// The new machine joins as soon as it is waited for.
func replaces(t *testing.T, c client.Client, root, next string, out *bytes.Buffer) *workerReplacement {
	t.Helper()
	w := &workerReplacement{replaceFlags: replaceFlags{newName: next, yes: true, by: "kim", timeout: time.Hour, joinFile: filepath.Join(root, "join.ign"), hostFlags: hostFlags{output: "text"}}, began: time.Now()}
	w.streams = Streams{In: strings.NewReader(""), Out: out, Err: out}
	w.old = *removes(c, out)
	w.new = *adds(t, c, root, out)
	w.new.name, w.new.out = "w-1", w.joinFile
	if next != "" {
		w.new.name = next
	}
	w.old.again, w.old.keeps = w.again(), next == ""
	w.joined = func(ctx context.Context, _ *site.Site) error {
		n := nodeOf(t, c, "w-2").DeepCopy() //nolint:contextcheck // the test has its own
		n.Name, n.UID, n.ResourceVersion, n.CreationTimestamp = w.new.name, types.UID("uid-new"), "", metav1.Now()
		return client.IgnoreAlreadyExists(c.Create(context.WithoutCancel(ctx), n))
	}
	return w
}

func TestAWorkerIsReplacedByOneCommand(t *testing.T) {
	for _, next := range []string{"", "w-7"} {
		root, s := controlPlaneRoot(t, "master", nil)
		synctest.Test(t, func(t *testing.T) {
			c, out := hostSite(t, traces("w-1")...), &bytes.Buffer{}
			writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
			evicts(t, c, "w-1")
			w := replaces(t, c, root, next, out)
			if err := w.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := nodeOf(t, c, w.new.name); n.UID != "uid-new" || !strings.Contains(out.String(), "its Node is Ready") {
				t.Errorf("%s: %s", n.UID, out)
			}
			list, err := readRetired(t.Context(), c)
			if h, listed := list.Value.Of("w-1"); err != nil || !listed || h.UID != "uid-w-1" || h.By != "kim" || h.Why != "holdfast host replace" {
				t.Errorf("the entry is %+v, %v", h, err)
			}
			claims, err := jointoken.Read(s.Identity.JoinKey, secretOf(t, fileAt(t, w.joinFile)), jointoken.Config, time.Now())
			if err != nil || claims.Host != w.new.name || claims.Role != "worker" {
				t.Errorf("the join file is for %+v, %v", claims, err)
			}
			out.Reset()
			again := replaces(t, c, root, next, out)
			if err := again.run(t.Context()); err != nil || nodeOf(t, c, w.new.name).UID != "uid-new" || strings.Contains(out.String(), "moves") {
				t.Errorf("typed again it takes the new host out: %v, %s", err, out)
			}
		})
	}
}

// A Deployment with spec.nodeName has another pod for the name as often as one is deleted: the join file
// is made, and who follows is told of the pods.
func TestAWorkerIsReplacedAlthoughPodsAreMadeForItsNameAgain(t *testing.T) {
	for _, next := range []string{"", "w-7"} {
		root, _ := controlPlaneRoot(t, "master", nil)
		synctest.Test(t, func(t *testing.T) {
			held, pinned := comesBack("w-1")
			c, out := pinned(hostSite(t, append(traces("w-1"), held, podOf("till-0", "w-1", "ReplicaSet", nil))...)), &bytes.Buffer{}
			writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
			evicts(t, c, "w-1")
			w := replaces(t, c, root, next, out)
			if err := w.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if nodeOf(t, c, w.new.name).UID != "uid-new" || len(fileAt(t, w.joinFile)) == 0 {
				t.Error(out)
			}
			if strings.Count(out.String(), "pod shop/till-* (of ReplicaSet till-") != 1 || strings.Count(out.String(), "pod shop/db (of StatefulSet db)") != 1 {
				t.Errorf("what is left is not told once:\n%s", out)
			}
		})
	}
}

func fileAt(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A crash before or after each write is played, as for a removal. The same command goes on.
func TestAReplacementOfAWorkerThatEndsAtAnyWriteGoesOn(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for at := range 7 {
			root, _ := controlPlaneRoot(t, "master", nil)
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
				if err := replaces(t, c, root, "", &bytes.Buffer{}).run(ctx); err == nil {
					t.Fatalf("write %d did not fail", at)
				}
				if err := replaces(t, c, root, "", &bytes.Buffer{}).run(t.Context()); err != nil {
					t.Errorf("write %d, done %t: %v", at, lost, err)
				}
				if n := nodeOf(t, plain, "w-1"); n.UID != "uid-new" {
					t.Errorf("write %d, done %t: the Node is %s", at, lost, n.UID)
				}
			})
		}
	}
}

func TestAReplacementOfAWorkerThatIsRefusedChangesNothing(t *testing.T) {
	local := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	local.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"w-1"}}}},
	}}}
	quiet := func(t *testing.T, c client.Client) { writesStatus(t, c, "w-1", isReady(corev1.ConditionUnknown)) }
	for _, c := range []struct {
		sentence string
		before   func(*testing.T, client.Client)
		change   func(*workerReplacement)
		code     int
		says     string
	}{
		{"a worker is silent", quiet, func(*workerReplacement) {}, command.ExitRefused, "holdfast host replace w-1 --is-gone w-1"},
		{"a worker that lives is said to be off", nil, func(w *workerReplacement) { w.old.isOff = "w-1" }, command.ExitRefused, "Leave --is-gone out"},
		{"data lie on it alone", nil, func(w *workerReplacement) { w.lost = nil }, command.ExitRefused, "--accept-lost pv"},
		{"the new name is that of another worker", nil, func(w *workerReplacement) { w.newName, w.new.name = "w-2", "w-2" }, command.ExitRefused, "w-2 is already a node"},
		{"the new name is that of a control plane", nil, func(w *workerReplacement) { w.newName, w.new.name = "cp-1", "cp-1" }, command.ExitRefused, "cp-1"},
		{"the only control plane", nil, func(w *workerReplacement) { w.old.name, w.new.name = "cp-1", "cp-1" }, command.ExitRefused, "lone: cp-1 is the only control plane"},
		{"a name that nobody has", nil, func(w *workerReplacement) { w.old.name, w.new.name = "w-9", "w-9" }, ExitUsage, `host "w-9": there is none`},
		{"there is no key", nil, func(w *workerReplacement) { w.new.root = "/nowhere" }, ExitUsage, "--dir"},
		{"nobody answers", nil, func(w *workerReplacement) { w.yes = false }, command.ExitNotConfirmed, "no answer"},
		{"a dry run", nil, func(w *workerReplacement) { w.dryRun = true }, ExitOK, ""},
	} {
		root, _ := controlPlaneRoot(t, "master", nil)
		api := hostSite(t, append(traces("w-1"), local.DeepCopy())...)
		if c.before != nil {
			c.before(t, api)
		}
		before := versions(t, api)
		w := replaces(t, api, root, "", &bytes.Buffer{})
		w.lost = []string{"pv"}
		c.change(w)
		err := w.run(t.Context())
		if command.ExitCode(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: exit code %d, %v", c.sentence, command.ExitCode(err), err)
		}
		if !maps.Equal(before, versions(t, api)) {
			t.Errorf("%s: something was changed", c.sentence)
		}
		if _, err := os.Stat(w.joinFile); err == nil {
			t.Errorf("%s: there is a join file", c.sentence)
		}
	}
}

// Two kubelets of one name would speak for one Node.
func TestUnderTheSameNameTheOldMachineMustBeSilentBeforeThereIsAJoinFile(t *testing.T) {
	root, _ := controlPlaneRoot(t, "master", nil)
	synctest.Test(t, func(t *testing.T) {
		c := hostSite(t, traces("w-1")...)
		writesStatus(t, c, "w-1", func(s *corev1.NodeStatus) {
			s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.21"}}
		})
		writesNode(t, c, "w-1", func(n *corev1.Node) { n.UID = "uid-w-1" })
		evicts(t, c, "w-1")
		for _, nth := range []string{"the first", "the second", "the third"} {
			runs := nth != "the third"
			w := replaces(t, c, root, "", &bytes.Buffer{})
			w.timeout = 10 * time.Minute
			w.old.answers = func(_ context.Context, address string) bool { return runs && address == "192.0.2.21" }
			err := w.run(t.Context())
			_, missing := os.Stat(w.joinFile)
			switch {
			case !runs:
				if err != nil || missing != nil {
					t.Errorf("the old machine is silent: %v, %v", err, missing)
				}
			case command.ExitCode(err) != command.ExitAttention || !strings.Contains(err.Error(), "holdfast-agent wipe") || !strings.Contains(err.Error(), "holdfast host replace w-1"):
				t.Errorf("typed %s time: %v", nth, err)
			case missing == nil:
				t.Errorf("typed %s time there is a join file while the old machine runs", nth)
			}
		}
	})
}

// From a place that reaches no kubelet the silence of one says nothing.
func TestWhereNoKubeletAnswersTheSilenceOfTheOldMachineIsNoWord(t *testing.T) {
	root, _ := controlPlaneRoot(t, "master", nil)
	for _, c := range []struct {
		sentence, answers, gone string
		code                    int
	}{
		{"no other kubelet answers either", "", "", command.ExitAttention},
		{"that of a control plane answers", "192.0.2.11", "", ExitOK},
		{"a person has seen the machine", "", "w-1", ExitOK},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := hostSite(t, entryOfWorker(t, "uid-w-1", func(h *retired.Host) { h.Addresses = []string{"192.0.2.21"} }))
			writesStatus(t, api, "cp-1", func(s *corev1.NodeStatus) {
				s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.11"}}
			})
			if err := api.Delete(t.Context(), nodeOf(t, api, "w-1")); err != nil {
				t.Fatal(err)
			}
			w := replaces(t, api, root, "", &bytes.Buffer{})
			w.gone, w.old.isOff = c.gone, c.gone
			w.old.answers = func(_ context.Context, address string) bool { return address == c.answers }
			err := w.run(t.Context())
			_, missing := os.Stat(w.joinFile)
			if command.ExitCode(err) != c.code || (missing == nil) != (c.code == ExitOK) || err != nil && !strings.Contains(err.Error(), "holdfast host replace w-1 --is-gone w-1") {
				t.Errorf("%s: %v, %v", c.sentence, err, missing)
			}
		})
	}
}

func TestWhichKindOfHostIsReplaced(t *testing.T) {
	pair := replaceHere{root: true, pair: []string{"cp-1", "cp-2"}}
	bmc := replaceFlags{bmc: replaceBMC{address: "redfish://x"}}
	for _, c := range []struct {
		sentence, name string
		flags          replaceFlags
		here           replaceHere
		pair           bool
		says           string
	}{
		{"one of two", "cp-2", bmc, pair, true, ""},
		{"one of two, to follow it", "cp-2", replaceFlags{}, pair, true, ""},
		{"one that was replaced under another name", "cp-0", replaceFlags{}, replaceHere{root: true, pair: pair.pair, plan: &decide.Plan{Old: decide.Old{Name: "cp-0"}}}, true, ""},
		{"the same once the plan is over", "cp-0", replaceFlags{}, replaceHere{root: true, pair: pair.pair, plan: &decide.Plan{Old: decide.Old{Name: "cp-0"}, Stage: decide.Whole}}, true, ""},
		{"one of three, which was replaced while the site had two", "cp-2", replaceFlags{gone: "S2"}, replaceHere{root: true, plan: &decide.Plan{Old: decide.Old{Name: "cp-2"}, Stage: decide.Whole}}, false, ""},
		{"a worker of a site of two", "w-1", replaceFlags{}, pair, false, ""},
		{"a worker, from anywhere", "w-1", replaceFlags{gone: "w-1", dir: "store-17"}, replaceHere{}, false, ""},
		{"a worker has no BMC", "w-1", bmc, pair, false, "--bmc-address: w-1 is none of the two control planes (cp-1, cp-2)"},
		{"the removal of a worker is taken back otherwise", "w-1", replaceFlags{abort: true}, pair, false, "holdfast host uncordon w-1"},
		{"a control plane from anywhere", "cp-2", bmc, replaceHere{}, false, "with sudo on the control plane that stays"},
		{"a control plane needs no install directory", "cp-2", replaceFlags{dir: "x"}, pair, false, "--dir"},
		{"a site of another number", "cp-2", bmc, replaceHere{root: true}, true, ""},
	} {
		is, err := c.flags.ofPair(c.name, c.here)
		if is != c.pair || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %t, %v", c.sentence, is, err)
		}
	}
}
