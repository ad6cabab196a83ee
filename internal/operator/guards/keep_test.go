package guards

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// keeper runs the controller without its manager, with the operator's rights.
type keeper struct {
	*site
	r    *Reconciler
	said *events.FakeRecorder
	now  time.Time
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	s := newSite(t)
	s.install()
	s.until(func() bool { return s.topology(configv1.DualReplicaTopologyMode) == nil }, func() string {
		return "the cluster cannot be made one of two control planes" // while the API server still has the guards of the last test
	})
	t.Cleanup(s.clearGuards)
	c, err := client.New(asOperator(s.api.Config), client.Options{Scheme: newScheme(t)})
	must(t, err)
	k := &keeper{site: s, said: events.NewFakeRecorder(100), now: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)}
	k.r = &Reconciler{Client: c, Events: k.said, Now: func() time.Time { return k.now }}
	return k
}

func asOperator(admin *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + operator.Namespace + ":" + operator.Name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + operator.Namespace, "system:authenticated"},
	}
	return cfg
}

// look makes the controller look once, and returns the pause before its next look
// and its events.
func (k *keeper) look() (time.Duration, string) {
	k.t.Helper()
	result, err := k.r.Reconcile(k.t.Context(), reconcile.Request{})
	must(k.t, err)
	for result.RequeueAfter == lookAnew { // the API server itself writes its findings about a policy
		result, err = k.r.Reconcile(k.t.Context(), reconcile.Request{})
		must(k.t, err)
	}
	var said []string
	for len(k.said.Events) > 0 {
		said = append(said, <-k.said.Events)
	}
	return result.RequeueAfter, strings.Join(said, "\n")
}

// texts returns the specs of the guards by kind and name.
func (s *site) texts() map[string]string {
	s.t.Helper()
	policies, bindings := s.ours()
	out := map[string]string{}
	for _, p := range policies {
		data, err := json.Marshal(p.Spec)
		must(s.t, err)
		out["policy "+p.Name] = string(data)
	}
	for _, b := range bindings {
		data, err := json.Marshal(b.Spec)
		must(s.t, err)
		out["binding "+b.Name] = string(data)
	}
	return out
}

// versions returns the versions of the guards, which change with every write.
func (s *site) versions() string {
	s.t.Helper()
	policies, bindings := s.ours()
	var out []string
	for _, p := range policies {
		out = append(out, p.Name+" "+fmt.Sprint(p.Generation))
	}
	for _, b := range bindings {
		out = append(out, b.Name+" "+b.ResourceVersion)
	}
	return strings.Join(out, ", ")
}

func TestWhatTheInstallationAppliedIsWhatTheOperatorKeeps(t *testing.T) {
	k := newKeeper(t)
	k.guard()
	k.guardNetwork()
	before := k.versions()
	if _, said := k.look(); said != "" || k.versions() != before || before == "" {
		t.Errorf("the operator wrote again what it found:\n%s\n%s\n%s", said, before, k.versions())
	}
}

func TestADeletedGuardIsBackAtOnce(t *testing.T) {
	k := newKeeper(t)
	stop := k.manage()
	defer stop()
	want := len(render.All(nil)) + len(render.Always(nil))
	whole := func() bool { p, b := k.ours(); return len(p) == want && len(b) == want }
	k.until(whole, func() string { return "the guards were not installed" })
	for _, what := range []client.Object{&admissionv1.ValidatingAdmissionPolicyBinding{}, &admissionv1.ValidatingAdmissionPolicy{}} {
		began := time.Now()
		must(t, k.admin.DeleteAllOf(t.Context(), what, client.HasLabels{render.Label}))
		k.until(whole, func() string { return fmt.Sprintf("deleted %T are not back", what) })
		t.Logf("all %d %T were back after %v", want, what, time.Since(began).Round(time.Millisecond))
	}
}

// manage runs the controller as the operator does, woken by events.
func (k *keeper) manage() (stop func()) {
	k.t.Helper()
	manager, err := ctrl.NewManager(asOperator(k.api.Config), ctrl.Options{
		Scheme: newScheme(k.t), Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      inOwnNamespace(),
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	must(k.t, err)
	r := &Reconciler{Client: manager.GetClient(), Events: manager.GetEventRecorder(operator.Name), Now: time.Now}
	must(k.t, r.SetUp(manager))
	ctx, cancel := context.WithCancel(k.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			k.t.Errorf("the manager ended: %v", err)
		}
	}
}

func TestAWeakenedGuardIsWhatItWas(t *testing.T) {
	k := newKeeper(t)
	k.look()
	want := k.texts()
	const name = "holdfast-hosted-clusters"
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for what, change := range map[string]struct {
		object client.Object
		body   string
	}{
		"audited only":            {binding, `{"spec":{"validationActions":["Audit"]}}`},
		"in some namespaces only": {binding, `{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`},
		"let through on an error": {policy, `{"spec":{"failurePolicy":"Ignore"}}`},
		"with an exception":       {policy, `{"spec":{"matchConstraints":{"excludeResourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]}}}`},
		"with a condition":        {policy, `{"spec":{"matchConditions":[{"name":"never","expression":"false"}]}}`},
		"with another expression": {policy, `{"spec":{"validations":[{"expression":"true"}]}}`},
		"without its label":       {policy, `{"metadata":{"labels":null}}`},
	} {
		must(t, k.admin.Patch(t.Context(), change.object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(change.body))))
		_, said := k.look()
		if !strings.Contains(said, "was missing or changed; it refuses again") {
			t.Errorf("%s: nobody was told: %q", what, said)
		}
		for object, text := range k.texts() {
			if want[object] != text {
				t.Errorf("%s: %s is\n%s\nwant\n%s", what, object, text, want[object])
			}
		}
		if got := len(k.texts()); got != len(want) {
			t.Errorf("%s: %d objects of %d", what, got, len(want))
		}
	}
}

func TestWhatPeopleAddThatWeakensNothingStays(t *testing.T) {
	k := newKeeper(t)
	k.look()
	o := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-topology"}}
	must(t, k.admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"team":"edge"},"annotations":{"note":"mine"}},"spec":{"failurePolicy":"Ignore"}}`))))
	k.look()
	must(t, k.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	if o.Labels["team"] != "edge" || o.Annotations["note"] != "mine" || *o.Spec.FailurePolicy != admissionv1.Fail {
		t.Errorf("%v %v %s", o.Labels, o.Annotations, *o.Spec.FailurePolicy)
	}
}

func TestGuardsFollowTheNamesOfTheControlPlanes(t *testing.T) {
	k := newKeeper(t)
	k.breaks()
	k.look()
	has := func(name string) bool {
		return strings.Contains(k.texts()["policy holdfast-remediations"], `\"`+name+`\"`)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-9", Labels: map[string]string{state.LabelControlPlane: ""}}}
	must(t, k.admin.Create(t.Context(), node))
	k.look()
	if !has("cp-1") || !has("cp-2") || !has("cp-9") {
		t.Error("a host that joined is not guarded: ", k.texts()["policy holdfast-remediations"])
	}
	must(t, k.admin.Delete(t.Context(), node))
	k.look()
	if has("cp-9") {
		t.Error("a node that is none any more is guarded")
	}
	if !has("cp-1") {
		t.Error("a host that may be fenced and has no node is not guarded")
	}

	t.Log("accounts that are not there are no reason to guard fewer")
	must(t, k.admin.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(operator.Namespace)))
	before := k.versions()
	k.look()
	if after := k.versions(); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

func TestALiftedGuardWarnsUntilItsTime(t *testing.T) {
	k := newKeeper(t)
	k.look()
	const name = "holdfast-hosted-clusters"
	annotate := func(body string) {
		o := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, k.admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":`+body+`}}`))))
	}
	warns := func() bool { return strings.Contains(k.texts()["binding "+name], `["Warn","Audit"]`) }

	annotate(`{"holdfast.io/guard-lifted-until":"tomorrow"}`)
	if _, said := k.look(); !strings.Contains(said, "GuardNotLifted") || !strings.Contains(said, `"tomorrow" is not a time`) || warns() {
		t.Errorf("a wish that cannot be read: %q", said)
	}
	annotate(`{"holdfast.io/guard-lifted-until":"2026-11-20T03:00:10Z","holdfast.io/guard-lifted-because":"a demonstration"}`)
	again, said := k.look()
	if !warns() || again != 10*time.Second || !strings.Contains(said, "GuardLifted") || !strings.Contains(said, "because: a demonstration") {
		t.Errorf("looks again in %v, said %q, %v", again, said, k.texts()["binding "+name])
	}
	if _, said := k.look(); said != "" {
		t.Errorf("told twice: %q", said)
	}
	k.now = k.now.Add(10 * time.Second)
	if _, said := k.look(); warns() || !strings.Contains(said, "refuses again") {
		t.Errorf("its time is over: %q", said)
	}
}

func TestAnotherTopologyHasTheGuardsOfEveryCluster(t *testing.T) {
	k := newKeeper(t)
	foreign := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "somebodys"}}
	foreign.Spec = render.All(nil)[0].Policy.Spec
	must(t, client.IgnoreAlreadyExists(k.admin.Create(t.Context(), foreign)))
	k.until(func() bool { return k.topology(configv1.HighlyAvailableTopologyMode) == nil }, func() string {
		return "the cluster cannot be made another one" // while the API server still has the guards of the last test
	})
	k.guard()
	k.look()
	p, b := k.ours()
	if len(p) != len(render.Always(nil)) || len(b) != len(p) {
		t.Errorf("%d policies and %d bindings are left", len(p), len(b))
	}
	for _, g := range render.Always(nil) {
		if _, there := k.texts()["policy "+g.Name()]; !there {
			t.Errorf("%s is not there", g.Name())
		}
	}
	var all admissionv1.ValidatingAdmissionPolicyList
	must(t, k.admin.List(t.Context(), &all))
	found := 0
	for _, p := range all.Items {
		if p.Name == foreign.Name || p.Name == operator.PlacementPolicyName {
			found++
		}
	}
	if found != 2 {
		t.Errorf("policies of others: %d of 2", found)
	}
}

func TestATopologyThatIsNotKnownTakesNoGuardAway(t *testing.T) {
	k := newKeeper(t)
	k.breaks()
	k.look()
	k.clearTopologyGuard()
	before := len(k.texts())
	k.until(func() bool {
		return client.IgnoreNotFound(k.admin.Delete(t.Context(), &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: clusterName}})) == nil
	}, func() string { return "the object could not be deleted" })
	k.look()
	if after := len(k.texts()); after != before || before == 0 {
		t.Errorf("%d of %d objects are left", after, before)
	}
}

// clearTopologyGuard does what somebody does who gets past that guard.
func (s *site) clearTopologyGuard() {
	s.t.Helper()
	b := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "holdfast-topology"}}
	must(s.t, s.admin.Delete(s.t.Context(), b))
}
