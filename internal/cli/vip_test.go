package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/viprule"
	"github.com/holdfast/holdfast/internal/operator/infrastructure"
)

// vipSite is a cluster with one pair of VIPs. Its operator is the real one; the
// test simulates its hosts.
type vipSite struct {
	t *testing.T
	client.Client
	// operator and hosts are false if that part does no work.
	operator, hosts bool
	taken           string
}

func newVIPSite(t *testing.T) *vipSite {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), configv1.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infra.Spec.PlatformSpec = configv1.PlatformSpec{Type: configv1.BareMetalPlatformType, BareMetal: &configv1.BareMetalPlatformSpec{
		APIServerInternalIPs: []configv1.IP{"10.98.0.5"}, IngressIPs: []configv1.IP{"10.98.0.6"},
		MachineNetworks: []configv1.CIDR{"10.98.0.0/24", "fd98::/64"},
	}}
	infra.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.BareMetalPlatformType, BareMetal: &configv1.BareMetalPlatformStatus{
		APIServerInternalIPs: []string{"10.98.0.5"}, IngressIPs: []string{"10.98.0.6"}, APIServerInternalIP: "10.98.0.5", IngressIP: "10.98.0.6", //nolint:staticcheck // as an installation writes it
		MachineNetworks: []configv1.CIDR{"10.98.0.0/24", "fd98::/64"},
	}}
	objects := []client.Object{infra, &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}}
	for name, addresses := range map[string][]string{"cp-1": {"10.98.0.11", "fd98::11"}, "cp-2": {"10.98.0.12", "fd98::12"}} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, n)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&configv1.Infrastructure{}, &configv1.ClusterOperator{}, &corev1.Node{}).Build()
	return &vipSite{t: t, Client: c, operator: true, hosts: true}
}

// Eventf implements events.EventRecorder.
func (s *vipSite) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// work runs the operator and the hosts until the context ends.
func (s *vipSite) work(ctx context.Context) {
	r := &infrastructure.Reconciler{
		Client: s.Client, Live: s.Client, Events: s, Now: time.Now,
		Answers: func(_ context.Context, api, ingress []netip.Addr) map[netip.Addr]string {
			out := map[netip.Addr]string{}
			for _, a := range append(api, ingress...) {
				out[a] = ""
			}
			return out
		},
	}
	for ctx.Err() == nil {
		if s.operator {
			_, _ = r.Reconcile(ctx, reconcile.Request{})
		}
		if s.hosts {
			s.play(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.NewTimer(5 * time.Millisecond).C:
		}
	}
}

// play makes each host report and answer once.
func (s *vipSite) play(ctx context.Context) {
	var infra configv1.Infrastructure
	var nodes corev1.NodeList
	if s.Get(ctx, client.ObjectKey{Name: "cluster"}, &infra) != nil || s.List(ctx, &nodes) != nil {
		return
	}
	b := infra.Status.PlatformStatus.BareMetal
	plan := vips.PlanOf(vips.Values{API: b.APIServerInternalIPs, Ingress: b.IngressIPs}, false)
	for i := range nodes.Items {
		n := &nodes.Items[i]
		report := state.VIPReport{VIPs: plan.All(), Certificate: plan.API}
		if n.Name == "cp-1" {
			report.Holds = plan.API
		}
		before := client.MergeFrom(n.DeepCopy())
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[state.AnnotationVIPs] = state.FormatAnnotation(report)
		open, obsolete := vips.Open(n.Annotations)
		for _, name := range obsolete {
			delete(n.Annotations, name)
		}
		for _, q := range open {
			n.Annotations[state.AnnotationVIPAnswer+q.Asker] = state.FormatAnnotation(s.find(q))
		}
		_ = s.Patch(ctx, n, before)
	}
}

func (s *vipSite) find(q vips.Question) state.VIPAnswer {
	a := state.VIPAnswer{ID: q.Probe.ID, Held: map[netip.Addr]string{}}
	for _, addr := range q.Probe.Addresses {
		if addr.String() == s.taken {
			a.Held[addr] = "52:54:00:00:00:99"
		} else {
			a.Free = append(a.Free, addr)
		}
	}
	return a
}

// run runs one command on the cluster and returns its output.
func (s *vipSite) run(do func(context.Context, *vipCluster, Streams) error) (out, log string, err error) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.work(ctx) }()
	defer func() { stop(); <-done }()
	var stdout, stderr bytes.Buffer
	c := newVIPCluster(s.Client, &stderr, 20*time.Second)
	err = do(ctx, c, Streams{Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), err
}

// columns replaces the spaces between the columns of a table by one.
func columns(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

func (s *vipSite) add(f *changeFlags, api, ingress string) (out, log string, err error) {
	return s.run(func(ctx context.Context, c *vipCluster, streams Streams) error {
		return f.changeOn(ctx, c, streams, func(s vips.Snapshot) (vips.Values, error) { return s.WithPair(api, ingress) })
	})
}

func (s *vipSite) remove() (out, log string, err error) {
	return s.run(func(ctx context.Context, c *vipCluster, streams Streams) error {
		return textFlags().changeOn(ctx, c, streams, vips.Snapshot.WithoutPair)
	})
}

func textFlags() *changeFlags { return &changeFlags{vipFlags: vipFlags{output: "text"}} }

// spec returns the lists of addresses in the spec.
func (s *vipSite) spec() string {
	s.t.Helper()
	var infra configv1.Infrastructure
	if err := s.Get(s.t.Context(), client.ObjectKey{Name: "cluster"}, &infra); err != nil {
		s.t.Fatal(err)
	}
	var words []string
	for _, a := range slices.Concat(infra.Spec.PlatformSpec.BareMetal.APIServerInternalIPs, infra.Spec.PlatformSpec.BareMetal.IngressIPs) {
		words = append(words, string(a))
	}
	return strings.Join(words, " ")
}

// questions returns the questions that are left on nodes.
func (s *vipSite) questions() []string {
	s.t.Helper()
	var nodes corev1.NodeList
	if err := s.List(s.t.Context(), &nodes); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, n := range nodes.Items {
		for name := range n.Annotations {
			if strings.HasPrefix(name, state.AnnotationVIPProbe) {
				out = append(out, n.Name+" "+name)
			}
		}
	}
	return out
}

func TestAPairIsAddedAndRemovedByOneCommandEach(t *testing.T) {
	s := newVIPSite(t)
	out, log, err := s.add(textFlags(), "fd98::5", "fd98::6")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, log)
	}
	if s.spec() != "10.98.0.5 fd98::5 10.98.0.6 fd98::6" || !strings.Contains(out, "accepted, written into the spec, complete after") {
		t.Errorf("the spec is %s\n%s", s.spec(), out)
	}
	if !strings.Contains(log, "asking [cp-1 cp-2] whether any machine answers for [fd98::5 fd98::6]") {
		t.Errorf("it said\n%s", log)
	}
	out, _, err = s.add(textFlags(), "FD98::5", "fd98:0::6")
	if err != nil || strings.Contains(out, "written into") {
		t.Errorf("once more: %v\n%s", err, out)
	}
	if out, log, err = s.remove(); err != nil || s.spec() != "10.98.0.5 10.98.0.6" {
		t.Errorf("%v, the spec is %s\n%s%s", err, s.spec(), out, log)
	}
	if _, _, err = s.remove(); err != nil {
		t.Errorf("once more: %v", err)
	}
	if left := s.questions(); len(left) > 0 {
		t.Errorf("questions stay: %v", left)
	}
}

func TestADryRunShowsEveryCheckAndChangesNothing(t *testing.T) {
	s := newVIPSite(t)
	f := textFlags()
	f.dryRun = true
	out, _, err := s.add(f, "fd98::5", "fd98::6")
	if err != nil || s.spec() != "10.98.0.5 10.98.0.6" {
		t.Errorf("%v, the spec is %s", err, s.spec())
	}
	for _, r := range viprule.Rules() {
		if !strings.Contains(columns(out), "passed "+r.Sentence()) {
			t.Errorf("rule %s is not shown as passed:\n%s", r, out)
		}
	}
	s.taken = "fd98::6"
	out, _, err = s.add(f, "fd98::5", "fd98::6")
	if err == nil || !strings.Contains(err.Error(), "52:54:00:00:00:99 answers for it") || !strings.Contains(columns(out), "failed no host on the network answers for a new VIP") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = s.add(f, "fd98::12", "fd98::12")
	if err == nil || !strings.Contains(out, "Duplicate value") || !strings.Contains(columns(out), "unknown a new VIP is not the address of a node\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if left := s.questions(); len(left) > 0 {
		t.Errorf("questions stay: %v", left)
	}
}

func TestWhatIsNotKnownIsNotDone(t *testing.T) {
	s := newVIPSite(t)
	s.hosts = false
	_, _, err := s.run(func(ctx context.Context, c *vipCluster, streams Streams) error {
		c.timeout = 300 * time.Millisecond
		return textFlags().changeOn(ctx, c, streams, func(s vips.Snapshot) (vips.Values, error) { return s.WithPair("fd98::5", "fd98::6") })
	})
	if err == nil || !strings.Contains(err.Error(), "not decided, nothing was changed: no host has yet reported whether fd98::5 is in use") {
		t.Errorf("got %v", err)
	}
	if s.spec() != "10.98.0.5 10.98.0.6" || len(s.questions()) > 0 {
		t.Errorf("the spec is %s, questions %v", s.spec(), s.questions())
	}
}

func TestAChangeThatDoesNotEndSaysHowFarItIs(t *testing.T) {
	s := newVIPSite(t)
	s.operator = false
	_, log, err := s.run(func(ctx context.Context, c *vipCluster, streams Streams) error {
		c.timeout = time.Second
		return textFlags().changeOn(ctx, c, streams, func(s vips.Snapshot) (vips.Values, error) { return s.WithPair("fd98::5", "fd98::6") })
	})
	if err == nil || !strings.Contains(err.Error(), "holdfast vip check") || !strings.Contains(log, "waiting for holdfast-operator") {
		t.Errorf("%v\n%s", err, log)
	}
}

func TestACheckSaysWhoHoldsWhatAndWhoIsBehind(t *testing.T) {
	s := newVIPSite(t)
	check := func(f *checkFlags) (string, error) {
		out, _, err := s.run(func(ctx context.Context, c *vipCluster, streams Streams) error { return f.run(ctx, c, streams) })
		return out, err
	}
	f := &checkFlags{vipFlags: vipFlags{output: "text"}}
	s.operator = false
	if _, err := check(f); err == nil || !strings.Contains(err.Error(), "has not reported") {
		t.Errorf("without an operator: %v", err)
	}
	s.operator = true
	if _, _, err := s.add(textFlags(), "fd98::5", "fd98::6"); err != nil {
		t.Fatal(err)
	}
	out, err := check(f)
	for _, want := range []string{"API VIPs 10.98.0.5, fd98::5", "cp-1 yes", "fd98::5 api cp-1", "Applied True"} {
		if err != nil || !strings.Contains(columns(out), want) {
			t.Errorf("%v, it lacks %q\n%s", err, want, out)
		}
	}
	f.output = "json"
	out, err = check(f)
	var got vipOutcome
	if failed := json.Unmarshal([]byte(out), &got); failed != nil || err != nil || got.Outcome != vips.Settled || len(got.Rollout.Hosts) != 2 || len(got.Checks) != len(viprule.Rules()) {
		t.Errorf("%v, %v, %+v", failed, err, got)
	}
}

func TestAddressesThatAreNoneAreAMistakeOfTheCommandLine(t *testing.T) {
	code, _, errs := runLine(t, "vip", "add", "10.98.0.300", "vip.example.com", "--kubeconfig", "/nowhere")
	if code != ExitUsage || !strings.Contains(errs, `API-VIP "10.98.0.300"`) || !strings.Contains(errs, `INGRESS-VIP "vip.example.com"`) {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if code, _, errs := runLine(t, "vip", "check", "--api", "fd98::5"); code != ExitUsage {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if code, _, errs := runLine(t, "vip", "remove", "--timeout", "0s"); code != ExitUsage {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if code, _, errs := runLine(t, "vip", "remove", "--kubeconfig", "/nowhere"); code != ExitUsage || !strings.Contains(errs, "/nowhere") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
