package infrastructure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// site is a cluster on a real API whose hosts the test plays.
type site struct {
	t     *testing.T
	admin client.Client
	// own is the operator's own access, with no more than its rights.
	own client.WithWatch
	r   *Reconciler
	now time.Time

	hosts []*agent
	// taken are addresses that a foreign host holds.
	taken map[netip.Addr]string

	mu sync.Mutex
	// wrote are the operator's writes, as "VERB KIND".
	wrote []string
	// before is called before each of them; its error is the API's answer.
	before func(n int) error
	// after is called after each of them; its error is what the operator sees.
	after  func(n int) error
	events []string
	// down is the error of each of the operator's requests, nil while the API
	// answers. Running hosts do not notice it: they have other ways.
	down error
}

// agent is a host and its agent.
type agent struct {
	name            string
	controlPlane    bool
	addresses       []string
	ready, on, lazy bool
	router          bool
}

var installed sync.Once

// newSite returns a dual-stack cluster of two control planes and a worker with
// one pair of VIPs.
func newSite(t *testing.T) *site {
	t.Helper()
	api := apitest.Need(t, server)
	installed.Do(func() { install(t, api) })
	s := &site{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), taken: map[netip.Addr]string{}}
	s.admin = newClient(t, api.Config)
	s.own = newClient(t, api.AsServiceAccount(render.Namespace, render.Name))
	s.hosts = []*agent{
		{name: "cp-1", controlPlane: true, addresses: []string{"10.98.0.11", "fd98::11"}, ready: true, on: true},
		{name: "cp-2", controlPlane: true, addresses: []string{"10.98.0.12", "fd98::12"}, ready: true, on: true},
		{name: "w-1", addresses: []string{"10.98.0.31", "fd98::31"}, ready: true, on: true, router: true},
	}
	s.reset()
	s.restart()
	return s
}

func install(t *testing.T, api *apitest.API) {
	parsed, err := config.Parse([]byte(sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	files, err := manifests.Render(parsed, topology.Of(parsed))
	if err != nil {
		t.Fatal(err)
	}
	api.Install(t, apitest.Unguarded(files))
}

func newClient(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(corev1.AddToScheme(scheme), configv1.Install(scheme)))
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reset puts the cluster back to its beginning.
func (s *site) reset() {
	s.t.Helper()
	ctx := s.t.Context()
	for _, o := range []client.Object{
		&configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}},
		&configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: vipobject.OperatorName}},
	} {
		must(s.t, client.IgnoreNotFound(s.admin.Delete(ctx, o)))
	}
	must(s.t, s.admin.DeleteAllOf(ctx, &corev1.Node{}))
	s.create(
		`{"platformSpec":{"type":"BareMetal","baremetal":{"apiServerInternalIPs":["10.98.0.5"],"ingressIPs":["10.98.0.6"],"machineNetworks":["10.98.0.0/24","fd98::/64"]}}}`,
		`{"platform":"BareMetal","platformStatus":{"type":"BareMetal","baremetal":{"apiServerInternalIPs":["10.98.0.5"],"ingressIPs":["10.98.0.6"],
"apiServerInternalIP":"10.98.0.5","ingressIP":"10.98.0.6","machineNetworks":["10.98.0.0/24","fd98::/64"]}}}`)
	for _, h := range s.hosts {
		s.join(h)
	}
	s.playHosts()
}

// create makes the Infrastructure object.
func (s *site) create(spec, status string) {
	s.t.Helper()
	infra := &configv1.Infrastructure{}
	must(s.t, json.Unmarshal([]byte(`{"metadata":{"name":"cluster"}}`), infra))
	must(s.t, client.IgnoreNotFound(s.admin.Delete(s.t.Context(), &configv1.Infrastructure{ObjectMeta: infra.ObjectMeta})))
	must(s.t, s.admin.Create(s.t.Context(), infra))
	s.patch(infra, types.MergePatchType, `{"spec":`+spec+`}`)
	must(s.t, s.admin.Status().Patch(s.t.Context(), infra, client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))))
}

func (s *site) patch(o client.Object, kind types.PatchType, text string) {
	s.t.Helper()
	must(s.t, s.admin.Patch(s.t.Context(), o, client.RawPatch(kind, []byte(text))))
}

func (s *site) join(h *agent) {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name, Labels: map[string]string{}}}
	if h.controlPlane {
		n.Labels[state.LabelControlPlane] = ""
	}
	must(s.t, s.admin.Create(s.t.Context(), n))
	for _, a := range h.addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	must(s.t, s.admin.Status().Update(s.t.Context(), n))
	s.setReady(h, h.ready)
}

func (s *site) setReady(h *agent, ready bool) {
	s.t.Helper()
	h.ready, h.on = ready, ready
	status := "False"
	if ready {
		status = "True"
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	must(s.t, s.admin.Status().Patch(s.t.Context(), n, client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"`+status+`"}]}}`))))
}

// restart starts an operator that knows nothing of the time before.
func (s *site) restart() {
	counted := interceptor.NewClient(s.own, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return errors.Join(s.down, c.Get(ctx, key, o, opts...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return errors.Join(s.down, c.List(ctx, list, opts...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return s.write("create "+kindOf(o), func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return s.write("patch "+kindOf(o), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.write("patch "+kindOf(o)+"/"+sub, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	s.r = &Reconciler{
		Client: counted, Live: counted, Events: s, Now: func() time.Time { return s.now },
		Answers: func(_ context.Context, api, ingress []netip.Addr) map[netip.Addr]string {
			return s.answers(append(api, ingress...)) //nolint:contextcheck // the test's own is used
		},
	}
}

func kindOf(o client.Object) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
}

// write plays one write of the operator.
func (s *site) write(what string, do func() error) error {
	if s.down != nil {
		return s.down
	}
	s.mu.Lock()
	s.wrote = append(s.wrote, what)
	n := len(s.wrote)
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(n); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if after != nil {
		return after(n)
	}
	return nil
}

// Eventf implements events.EventRecorder.
func (s *site) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// past returns what was written so far and forgets it.
func (s *site) past() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.wrote
	s.wrote = nil
	return out
}

// told returns the events so far and forgets them.
func (s *site) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.events, "\n")
	s.events = nil
	return out
}

// status returns the VIPs of the status.
func (s *site) status() (api, ingress []string) {
	s.t.Helper()
	infra := s.infra()
	if infra.Status.PlatformStatus == nil || infra.Status.PlatformStatus.BareMetal == nil {
		return nil, nil
	}
	return infra.Status.PlatformStatus.BareMetal.APIServerInternalIPs, infra.Status.PlatformStatus.BareMetal.IngressIPs
}

func (s *site) infra() *configv1.Infrastructure {
	s.t.Helper()
	out := &configv1.Infrastructure{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: "cluster"}, out))
	return out
}

// answers plays what clients find at VIPs: those that some host holds answer.
func (s *site) answers(list []netip.Addr) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, a := range list {
		out[a] = "no answer in time"
		for _, h := range s.hosts {
			if h.ready && slices.Contains(s.report(h.name).Value.Holds, a) {
				out[a] = ""
			}
		}
	}
	return out
}

func (s *site) node(name string) *corev1.Node {
	n := &corev1.Node{}
	if err := s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, n); err != nil && !apierrors.IsNotFound(err) {
		s.t.Error(err)
	}
	return n
}

func (s *site) report(name string) state.Fact[state.VIPReport] {
	return state.ParseAnnotation[state.VIPReport](s.node(name).Annotations[state.AnnotationVIPs])
}

// playHosts lets each running host follow the cluster once, and reports whether
// any of them wrote.
func (s *site) playHosts() (wrote bool) {
	s.t.Helper()
	api, ingress := s.status()
	held := map[string]bool{}
	for _, h := range s.hosts {
		if !h.on || h.lazy {
			continue
		}
		n := s.node(h.name)
		values := map[string]any{}
		if text := state.FormatAnnotation(s.says(h, api, ingress, held)); text != n.Annotations[state.AnnotationVIPs] {
			values[state.AnnotationVIPs] = text
		}
		s.respond(n, values)
		if len(values) == 0 {
			continue
		}
		wrote = true
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
		must(s.t, err)
		s.patch(n, types.MergePatchType, string(data))
	}
	return wrote
}

// says returns a host's report. The first control plane holds the VIPs of the
// API, the first host with a router those of ingress.
func (s *site) says(h *agent, api, ingress []string, held map[string]bool) state.VIPReport {
	out := state.VIPReport{VIPs: parse(append(slices.Clone(api), ingress...)...), Router: h.router, Gateways: parse("10.98.0.1", "fd98::1")}
	if h.controlPlane {
		out.Certificate = parse(api...)
	}
	for _, role := range []struct {
		name  string
		may   bool
		addrs []string
	}{{"api", h.controlPlane, api}, {"ingress", h.router, ingress}} {
		if role.may && !held[role.name] {
			held[role.name] = true
			out.Holds = append(out.Holds, parse(role.addrs...)...)
		}
	}
	return out
}

// respond answers the questions to a host as its agent does.
func (s *site) respond(n *corev1.Node, values map[string]any) {
	open, obsolete := vips.Open(n.Annotations)
	for _, name := range obsolete {
		values[name] = nil
	}
	for _, q := range open {
		a := state.VIPAnswer{ID: q.Probe.ID, Held: map[netip.Addr]string{}}
		for _, addr := range q.Probe.Addresses {
			if by, held := s.taken[addr]; held {
				a.Held[addr] = by
			} else {
				a.Free = append(a.Free, addr)
			}
		}
		values[state.AnnotationVIPAnswer+q.Asker] = state.FormatAnnotation(a)
	}
}

func parse(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// look makes the operator look once.
func (s *site) look() {
	s.t.Helper()
	if _, err := s.r.Reconcile(s.t.Context(), reconcile.Request{}); err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(time.Second)
}

// settle lets operator and hosts take turns until nobody writes any more.
func (s *site) settle() {
	s.t.Helper()
	for range 40 {
		s.mu.Lock()
		before := len(s.wrote)
		s.mu.Unlock()
		s.look()
		wrote := s.playHosts()
		s.mu.Lock()
		after := len(s.wrote)
		s.mu.Unlock()
		if !wrote && before == after {
			return
		}
	}
	s.t.Fatalf("it never comes to rest; the operator wrote %v", s.past())
}

// wish changes the spec's lists.
func (s *site) wish(api, ingress string) {
	s.t.Helper()
	list := func(text string) string {
		data, err := json.Marshal(strings.Fields(text))
		must(s.t, err)
		return string(data)
	}
	s.patch(s.infra(), types.MergePatchType,
		`{"spec":{"platformSpec":{"baremetal":{"apiServerInternalIPs":`+list(api)+`,"ingressIPs":`+list(ingress)+`}}}}`)
}

// has fails unless the status has these lists.
func (s *site) has(api, ingress string) {
	s.t.Helper()
	gotAPI, gotIngress := s.status()
	if strings.Join(gotAPI, " ") != api || strings.Join(gotIngress, " ") != ingress {
		s.t.Errorf("the status has %v and %v, want %s and %s", gotAPI, gotIngress, api, ingress)
	}
	if b := s.infra().Status.PlatformStatus.BareMetal; b.APIServerInternalIP != gotAPI[0] || b.IngressIP != gotIngress[0] { //nolint:staticcheck // that is what is checked
		s.t.Errorf("the older fields are %s and %s", b.APIServerInternalIP, b.IngressIP) //nolint:staticcheck // that is what is checked
	}
}

// condition fails unless a condition, as "STATUS REASON MESSAGE", begins with
// want.
func (s *site) condition(kind, want string) {
	s.t.Helper()
	report, err := vipobject.ReadReport(s.t.Context(), s.admin)
	must(s.t, err)
	got := ""
	for _, c := range report.Conditions {
		if c.Type == kind {
			got = c.Status + " " + c.Reason + " " + c.Message
		}
	}
	if !strings.HasPrefix(got, want) {
		s.t.Errorf("%s is %q, want %q", kind, got, want)
	}
}
