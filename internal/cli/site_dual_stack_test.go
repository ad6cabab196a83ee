package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestASecondFamilyIsShownHostByHost(t *testing.T) {
	r := familyReport{Plan: &decide.Plan{ID: "p1", By: "ada", At: time.Unix(0, 0).UTC()}, Hosts: []familyHost{
		{"cp-1", install.Doing{Plan: "p1", Stage: decide.Over, Words: "waits for w-1"}},
		{"cp-2", install.Doing{Plan: "p1", Stage: decide.Written, Words: "waits for a planned reboot", Way: "holdfast host list"}},
		{"w-1", install.Doing{Plan: "p1", Stage: decide.Served, Words: "gives kubelet both families", Problem: "disk full"}},
		{"w-2", install.Doing{Plan: "other", Stage: decide.Over}},
	}}
	var out strings.Builder
	if code := command.ExitCode(r.print(&out, "text")); code != command.ExitRecovers {
		t.Errorf("exit code %d", code)
	}
	const want = `plan p1 of ada at 1970-01-01T00:00:00Z: can be taken back: holdfast site dual-stack apply --abort
HOST  IS           STATE
cp-1  has both     waits for w-1
cp-2  boots        waits for a planned reboot (holdfast host list)
w-1   serves both  gives kubelet both families: disk full
w-2   -            says nothing of it yet
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	out.Reset()
	r.Plan.Begun = true
	_ = r.print(&out, "text")
	if !strings.Contains(out.String(), "has begun, and only goes forward") {
		t.Error(out.String())
	}
	out.Reset()
	if err := (familyReport{}).print(&out, "text"); err != nil || out.String() != "there is no plan for a second family\n" {
		t.Errorf("%v %s", err, out.String())
	}
	if err := (familyReport{}).print(&out, "json"); err != nil {
		t.Error(err)
	}
}

func TestEachStepOfASecondFamilyIsSaidBefore(t *testing.T) {
	p := decide.Plan{Machines: "fd98::/64", Services: "fd96::/112", Hosts: map[string]decide.Host{"cp-1": {ControlPlane: true}, "w-1": {}}}
	p.Pods.CIDR = "fd44::/56"
	var out strings.Builder
	if err := (&secondFamily{streams: Streams{Out: &out}, plan: p}).show(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"hosts get addresses of fd98::/64, pods of fd44::/56, Services of fd96::/112", "\n1     every host keeps the plan",
		"\n2     the API server and the controller manager of cp-1 start anew", "only goes forward", "w-1 (invalid Prefix) is drained and boots once", "\n6     the objects",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestAPlanForASecondFamilyIsTakenBackUntilItHasBegun(t *testing.T) {
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		plan string
		want string // the refusal, empty for none
	}{
		"no plan": {"", "there is no plan"}, "begun": {`{"id":"p1","begun":true}`, "has begun"}, "not begun": {`{"id":"p1"}`, ""}, "unreadable": {"{", "annotation holdfast.io/dual-stack"},
	} {
		t.Run(name, func(t *testing.T) {
			infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Annotations: map[string]string{"x": "y"}}}
			if c.plan != "" {
				infra.Annotations[kube.DualStackAnnotation] = c.plan
			}
			a := &moveAccess{fake.NewClientBuilder().WithScheme(scheme).WithObjects(infra).Build()}
			f := readdressFlags{timeout: time.Minute}
			var out strings.Builder
			err := f.abortAt(t.Context(), Streams{Err: &out}, a)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			now, err := a.infrastructure(t.Context())
			if err != nil || now.Annotations["x"] != "y" || (now.Annotations[kube.DualStackAnnotation] == "") != (c.want == "" || c.plan == "") {
				t.Errorf("%v %v", now.Annotations, err)
			}
		})
	}
}

func TestNoSecondFamilyWhileASiteMoves(t *testing.T) {
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	for annotation, refused := range map[string]bool{kube.ReaddressAnnotation: true, "x": false} {
		infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Annotations: map[string]string{annotation: "{}"}}}
		d := &secondFamily{access: &moveAccess{fake.NewClientBuilder().WithScheme(scheme).WithObjects(infra).Build()}}
		if err := d.free(t.Context()); (err != nil) != refused {
			t.Errorf("%s: %v", annotation, err)
		}
	}
}

// dualStackSite returns an API that announces a plan of which cp-1 tells, and the plan. The cluster keeps
// a configuration that has one family, or the plan's, too.
func dualStackSite(t *testing.T, both bool) (a *moveAccess, p decide.Plan, end func()) {
	t.Helper()
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	kept := installConfigOf(t, "three-hosts-dual-stack.yaml")
	n := kept.Networking
	p = decide.Plan{ID: "p1", By: "ada", Machines: n.MachineNetwork[1].CIDR, Pods: n.ClusterNetwork[1], Services: n.ServiceNetwork[1], Begun: both}
	if !both {
		kept = p.Before(kept)
	}
	plan, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	says := state.FormatAnnotation(install.Doing{Plan: "p1", Stage: decide.Written, Words: "boots now"})
	objects := []client.Object{
		&configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Annotations: map[string]string{kube.DualStackAnnotation: string(plan)}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Annotations: map[string]string{install.Annotation: says}}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-config-v1"}, Data: map[string]string{"install-config": string(text)}},
	}
	a = &moveAccess{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
	return a, p, func() { // the hosts forget the plan
		for _, o := range objects[:2] {
			after := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // both are objects
			after.SetAnnotations(nil)
			if err := a.client.Patch(t.Context(), after, client.MergeFrom(o)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestASecondFamilyIsFollowedToItsEnd plays the hosts: they forget the plan once it is over.
func TestASecondFamilyIsFollowedToItsEnd(t *testing.T) {
	a, p, end := dualStackSite(t, true)
	var out strings.Builder
	f := readdressFlags{timeout: 1500 * time.Millisecond}
	if code := command.ExitCode(f.followDualStack(t.Context(), Streams{Err: &out}, a, p)); code != command.ExitAttention {
		t.Errorf("exit code %d at the timeout", code)
	}
	if !strings.Contains(out.String(), "boots now") {
		t.Errorf("it does not say what is waited for: %s", out.String())
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := f.followDualStack(interrupted, Streams{Err: io.Discard}, a, p); command.ExitCode(err) != command.ExitFailed || !strings.Contains(err.Error(), "interrupted: ") || !strings.Contains(err.Error(), "holdfast site dual-stack status") {
		t.Errorf("an interrupt is told as %v", err)
	}
	end()
	if err := f.followDualStack(t.Context(), Streams{Err: &out}, a, p); err != nil || !strings.Contains(out.String(), "the site has both families") {
		t.Errorf("%v %s", err, out.String())
	}
}

func TestAPlanThatSomebodyElseTakesBackIsNoSuccess(t *testing.T) {
	a, p, end := dualStackSite(t, false)
	end()
	var out strings.Builder
	f := readdressFlags{timeout: time.Minute}
	err := f.followDualStack(t.Context(), Streams{Err: &out}, a, p)
	if command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "somebody took the plan p1 back") || strings.Contains(out.String(), "has both families") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestOnlyTheFileOfAPlanFollowsIt(t *testing.T) {
	a, p, _ := dualStackSite(t, false)
	data, err := os.ReadFile("../../docs/examples/three-hosts-dual-stack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		was, is string // what differs in the file
		code    int
		want    string
	}{
		"the file of the plan": {},
		"other machines":       {"fd00:10::", "fd97:10::", command.ExitRefused, "the plan p1 of ada is announced"},
		"other pods":           {p.Pods.CIDR, "fd97:1::/48", command.ExitRefused, "holdfast site dual-stack status"},
		"other Services":       {p.Services, "fd97:2::/112", command.ExitRefused, "Services of " + p.Services},
		"another cluster":      {"baseDomain: ", "baseDomain: x.", command.ExitRefused, "the file is that of"},
		"no file":              {"apiVersion:", "apiVersion", command.ExitUsage, "edited.yaml"},
	} {
		text := string(data)
		if c.was != "" {
			if !strings.Contains(text, c.was) {
				t.Fatalf("%s: the example has no %s", name, c.was)
			}
			text = strings.ReplaceAll(text, c.was, c.is)
		}
		f := readdressFlags{file: filepath.Join(t.TempDir(), "edited.yaml")}
		if err := os.WriteFile(f.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := f.sameFamily(t.Context(), Streams{}, a, p)
		if (err == nil) != (c.want == "") || command.ExitCode(err) != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A look that fails is made again, and a person reads why.
func TestAMoveIsWaitedForWhileTheAPIIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme, err := kube.NewScheme()
		if err != nil {
			t.Fatal(err)
		}
		looks := 0
		a := &moveAccess{fake.NewClientBuilder().WithScheme(scheme).WithObjects(&configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}).
			WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if looks++; looks < 5 {
					return errors.New("connection refused\nby cp-1")
				}
				return c.Get(ctx, key, o, opts...)
			}}).Build()}
		all := func(moveReport) (string, bool) { return "", true }
		var out strings.Builder
		f := readdressFlags{timeout: 2500 * time.Millisecond}
		if err := f.await(t.Context(), Streams{Err: &out}, a, all, "withdrawn"); command.ExitCode(err) != command.ExitAttention || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("at the timeout: %v", err)
		}
		f.timeout = time.Hour
		if err := f.await(t.Context(), Streams{Err: &out}, a, all, "withdrawn"); err != nil || out.String() != strings.Repeat("no answer: connection refused\n", 2)+"withdrawn\n" {
			t.Errorf("%v: %s", err, out.String())
		}
	})
}
