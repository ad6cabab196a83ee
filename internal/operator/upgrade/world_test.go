package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// world is a site on an API, whose hosts are played by parachute.Next.
type world struct {
	t     *testing.T
	admin client.Client
	own   client.WithWatch
	r     *Reconciler
	now   time.Time

	hosts  map[string]*hostPlay
	writes apitest.Writes
	events []string
	// twoNode is true if Pacemaker runs etcd.
	twoNode bool
	// real is true on a real API server.
	real bool
	// clockless is true if nothing keeps the clocks of hosts.
	clockless bool
	// badPart is a part of the new release that cannot be brought, brought the parts that
	// were, each with the image of the operator in its release.
	badPart string
	brought []string
	// dead is true if the operator of the new release does not start, and tried how often a
	// host has looked.
	dead  bool
	tried int
	// starts is true while the operator's pod is somewhere else and starts there.
	starts bool
	// denies is true if routers of the new release deny every host.
	denies bool
	// mute is true if the API does not answer what there is of the Gateway API.
	mute bool
	// dark is true if the pod network of the new release runs, and leads nowhere.
	dark bool
	// crash is a part of the new release whose pods do not run.
	crash string
	// idle is a leader of Kubernetes that does nothing, refuses what API servers refuse.
	idle    string
	refuses map[string][]string
	// badBackup is why no backup becomes a good one, backups are those that became one, each
	// with its host and its reason.
	badBackup string
	backups   []string
}

// hostPlay is one host.
type hostPlay struct {
	name   string
	worker bool
	// on has power, daemons run, bad is a new release that does not prove itself here.
	on, daemons, bad bool
	// unready is true while its node is not ready for another reason.
	unready    bool
	running    string
	whole      []string
	journal    parachute.Journal
	boot       int
	raised     bool
	held       string
	partFailed string
	partUndone bool
	// kept are its backups, asked is the last wish for one that it answered.
	kept   []backup.Brief
	asked  string
	answer backup.Answer
}

const (
	oldImage = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	newImage = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	out, err := kube.NewScheme(mcfgv1.Install, coordinationv1.AddToScheme, discoveryv1.AddToScheme)
	must(t, err)
	return out
}

// newWorld returns a site with control planes and workers, on a fake API.
func newWorld(t *testing.T, controlPlanes, workers int) *world {
	t.Helper()
	api := fake.NewClientBuilder().WithScheme(scheme(t)).
		WithStatusSubresource(&configv1.ClusterVersion{}, &configv1.ClusterOperator{}).Build()
	w := &world{t: t, admin: api, own: api, now: noon, hosts: map[string]*hostPlay{}, twoNode: controlPlanes == 2}
	for i := range controlPlanes {
		w.join(fmt.Sprintf("cp-%d", i+1), false)
	}
	for i := range workers {
		w.join(fmt.Sprintf("w-%d", i+1), true)
	}
	if w.twoNode {
		must(t, w.admin.Create(t.Context(), w.pacemaker()))
	}
	must(t, w.admin.Create(t.Context(), sized(controlPlanes)))
	must(t, w.admin.Create(t.Context(), w.operator(oldImage)))
	w.bringsDaemonSets()
	w.bringsRouter()
	w.surroundings()
	w.restart()
	return w
}

func (w *world) operator(digest string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: render.Namespace, Name: render.Name}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: containerName, Image: image(release(digest))}}
	d.Status.UpdatedReplicas, d.Status.AvailableReplicas = 1, 1
	return d
}

// pacemaker is a cluster of two on which nothing is wrong.
func (w *world) pacemaker() *etcdv1.PacemakerCluster {
	yes := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "So", LastTransitionTime: metav1.NewTime(w.now)}
	}
	c := &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}
	c.Status.LastUpdated = metav1.NewTime(w.now)
	c.Status.Conditions = []metav1.Condition{yes(etcdv1.ClusterHealthyConditionType), yes(etcdv1.ClusterInServiceConditionType)}
	nodes := []etcdv1.PacemakerClusterNodeStatus{}
	for _, name := range []string{"cp-1", "cp-2"} {
		n := etcdv1.PacemakerClusterNodeStatus{NodeName: name}
		for _, kind := range []string{
			etcdv1.NodeOnlineConditionType, etcdv1.NodeInServiceConditionType, etcdv1.NodeActiveConditionType, etcdv1.NodeFencingAvailableConditionType, etcdv1.NodeFencingHealthyConditionType, pacemakerstatus.FencingProven,
		} {
			n.Conditions = append(n.Conditions, yes(kind))
		}
		nodes = append(nodes, n)
	}
	c.Status.Nodes = &nodes
	return c
}

// join adds a host that runs the old release.
func (w *world) join(name string, worker bool) {
	w.t.Helper()
	w.hosts[name] = &hostPlay{name: name, worker: worker, on: true, daemons: true, running: oldImage, whole: []string{oldImage}, boot: 1}
	label := state.LabelControlPlane
	if worker {
		label = state.LabelWorker
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: name}}
	must(w.t, w.admin.Create(w.t.Context(), n))
	w.says(w.hosts[name])
}

// restart starts an operator that knows nothing of the time before.
func (w *world) restart() {
	counted := interceptor.NewClient(w.own, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.writes.Do(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.writes.Do(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.writes.Do(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return w.writes.Do(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.writes.Do(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	w.r = &Reconciler{
		Client: counted, Live: w.live(), Events: w, Now: func() time.Time { return w.now }, TwoNode: w.twoNode, Etcd: w.etcd,
		Ask:     func(_ context.Context, server, host, path string) int { return w.ask(server, host, path) }, //nolint:contextcheck // a world has the context of its test
		Equal:   func(context.Context, map[string]string) state.Fact[bool] { return state.Known(true) },
		Refuses: func(_ context.Context, host, _ string) ([]string, error) { return w.refuses[host], nil },
		Deprecated: func(_ context.Context, addresses map[string]string) map[string][]gate.Use {
			out := map[string][]gate.Use{}
			for name := range addresses {
				out[name] = nil
			}
			return out
		},
	}
}

// live reads, and has leaders renew their leases all the time.
func (w *world) live() client.Reader {
	return interceptor.NewClient(w.own, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			l, is := o.(*coordinationv1.Lease)
			if err := c.Get(ctx, key, o, opts...); !is || client.IgnoreNotFound(err) != nil {
				return err
			}
			at := w.now
			if key.Name == w.idle {
				at = at.Add(-leaseAge)
			}
			l.Spec.RenewTime = &metav1.MicroTime{Time: at}
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if w.mute && list.GetObjectKind().GroupVersionKind().Group == ingress.GatewayGroup {
				return apierrors.NewInternalError(errors.New("conversion webhook failed"))
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// etcd answers for the members: one on each control plane that has power.
func (w *world) etcd(_ context.Context, addresses map[string]string) map[string]survey.Member {
	var list []state.EtcdMember
	var names []string
	for name, h := range w.hosts {
		if !h.worker {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		list = append(list, state.EtcdMember{ID: state.MemberID(i + 1), Name: name})
	}
	leader := state.MemberID(0)
	for i, name := range names {
		if w.hosts[name].serves() {
			leader = state.MemberID(i + 1)
			break
		}
	}
	out := map[string]survey.Member{}
	for i, name := range names {
		if _, asked := addresses[name]; asked && w.hosts[name].serves() {
			out[name] = survey.Member{ID: state.MemberID(i + 1), Leader: leader, Serves: true, Members: list, Version: "3.6.14", Cluster: "3.6.0", Storage: "3.6.0"}
		}
	}
	return out
}

func (h *hostPlay) serves() bool { return h.on && h.daemons }

// Eventf implements events.EventRecorder.
func (w *world) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	name := about.(metav1.Object).GetName() //nolint:forcetypeassert // an object of the API
	w.events = append(w.events, name+" "+kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// errKilled is what an operator sees of a write that it does not live to see the end of.
var errKilled = errors.New("the operator was killed")

// look makes the operator look once.
func (w *world) look() error {
	_, err := w.r.Reconcile(w.t.Context(), reconcile.Request{})
	return err
}

// release describes a release of the two.
func release(digest string) gate.Release {
	v := gate.Version{Minor: 1}
	if digest == newImage {
		v = gate.Version{Minor: 2}
	}
	return gate.Release{
		Name: "Holdfast " + v.String(), Digest: digest, Version: v, Verified: true, Kubernetes: gate.Version{Major: 1, Minor: 36, Patch: 3},
		Etcd: gate.Version{Major: 3, Minor: 6, Patch: 14}, LeastEtcd: gate.Version{Major: 3, Minor: 6, Patch: 12}, Steps: gate.Range{Min: 1, Max: 1}, Network: "n1",
		Formats: map[string]gate.Format{"record": {Reads: gate.Range{Min: 1, Max: 1}, Writes: 1}, payload.FormatRollout: {Reads: gate.Range{Min: 1, Max: 1}, Writes: 1}},
		Images:  map[string]string{payload.ImageFlannel: "flannel:v" + v.String(), payload.ImageCoreDNS: "coredns:v" + v.String(), payload.ImageKubeProxy: "kube-proxy:v" + v.String(), payload.ImageRouter: "traefik:v" + v.String()},
	}
}

// facts are what the agent of a host tells.
func (w *world) facts(h *hostPlay) gate.Host {
	none := state.Known([]string(nil))
	v := state.Known(gate.Version{Major: 1, Minor: 36, Patch: 3})
	out := gate.Host{
		Name: h.name, Worker: h.worker, Release: state.Known(h.running), Whole: state.Known(slices.Clone(h.whole)), Steps: state.Known(gate.Range{Min: 1, Max: 1}),
		Written: state.Known(map[string]int{"record": 1}), Kubelet: v, Proxy: v, Disks: state.Known([]gate.Disk{{Path: "/", Free: 9 << 30, Need: 1, Line: 1}}),
		Synchronised: state.Known(!w.clockless), Offset: state.Fact[time.Duration]{Known: !w.clockless}, Edited: none,
	}
	if !h.worker {
		out.APIServer, out.Emulates, out.Links = v, state.Known(gate.Version{Major: 1, Minor: 36}), state.Known(true)
		out.Certificates, out.Features, out.Stack, out.Loose = state.Known([]gate.Certificate(nil)), state.Known("3.16.1"), state.Known([]string{"pacemaker=2"}), none
	}
	return out
}

// says writes what a host tells of itself, and whether its node is ready.
func (w *world) says(h *hostPlay) {
	w.t.Helper()
	n := w.node(h.name)
	status := corev1.ConditionFalse
	if h.on && h.daemons && !h.unready && (!h.bad || h.running != newImage) {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	must(w.t, w.admin.Status().Update(w.t.Context(), n))
	if !h.on {
		return
	}
	said := annotation.Host{
		At: w.now, Facts: w.facts(h), Release: release(h.running), Journal: h.journal, Held: h.held, PartFailed: h.partFailed, PartUndone: h.partUndone, Raised: state.Known(h.raised),
	}
	for _, d := range h.whole {
		if d != h.running {
			said.Offered = append(said.Offered, release(d))
		}
	}
	text, err := annotation.Encode(said)
	must(w.t, err)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[annotation.HostOf] = text
	if !h.worker {
		n.Annotations[backup.Annotation], err = backup.Summary{At: w.now, Period: 24 * time.Hour, Kept: h.kept, Asked: h.asked, Answer: h.answer}.Text()
		must(w.t, err)
	}
	must(w.t, w.admin.Update(w.t.Context(), n))
}

// backsUp plays the agent of a control plane that finds a wish for a backup at its node.
func (w *world) backsUp(h *hostPlay, wish string) {
	if h.worker || !h.serves() || wish == "" || wish == h.asked {
		return
	}
	if h.asked, h.answer = wish, (backup.Answer{Failed: w.badBackup}); w.badBackup != "" {
		return
	}
	b := backup.Brief{ID: model.NewID(h.name, w.now), Taken: w.now, Reason: backup.ReadAsked(wish).Reason, Good: true, Release: h.running}
	h.kept, h.answer.ID = append(h.kept, b), b.ID
	w.backups = append(w.backups, h.name+" "+b.Reason)
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	must(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, n))
	return n
}

func (w *world) version() *configv1.ClusterVersion {
	w.t.Helper()
	v := &configv1.ClusterVersion{}
	must(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Name: annotation.VersionName}, v))
	return v
}

// wish names a release in the ClusterVersion, as a person does.
func (w *world) wish(digest string) {
	w.t.Helper()
	v := w.version()
	v.Spec.DesiredUpdate = &configv1.Update{Image: "registry.example/release@" + digest}
	if !w.real {
		v.Generation++ // as the API does
	}
	must(w.t, w.admin.Update(w.t.Context(), v))
}

func (w *world) annotate(name, text string) {
	w.t.Helper()
	v := w.version()
	if v.Annotations == nil {
		v.Annotations = map[string]string{}
	}
	v.Annotations[name] = text
	must(w.t, w.admin.Update(w.t.Context(), v))
}

func (w *world) record() cluster.Record {
	w.t.Helper()
	b, err := w.r.book(w.t.Context())
	must(w.t, err)
	return b.record
}

// act lets a host act once, by what its node says.
func (w *world) act(h *hostPlay) {
	w.t.Helper()
	if !h.on {
		return
	}
	n := w.node(h.name)
	turn, err := annotation.Decode[annotation.Turn](n.Annotations[annotation.TurnOf])
	must(w.t, err)
	fetch, err := annotation.Decode[annotation.Fetch](n.Annotations[annotation.FetchOf])
	must(w.t, err)
	for _, d := range fetch.Wanted {
		if !slices.Contains(h.whole, d) {
			h.whole = append(h.whole, d)
		}
	}
	a := parachute.Next(h.journal, w.knows(h, turn), w.now)
	h.journal, h.held = a.Journal, ""
	switch a.Act {
	case parachute.DoLeave:
		h.daemons = false
	case parachute.Switch:
		h.running = h.journal.To
	case parachute.Start, parachute.Undo:
		h.daemons = true
	case parachute.SwitchBack:
		h.running, h.daemons = h.journal.From, true
	case parachute.Hold:
		h.held = a.Why
	case parachute.Rest, parachute.DoPrepare, parachute.DoEmpty, parachute.Arm, parachute.Prove, parachute.Accept, parachute.RaiseServers, parachute.RaiseKubelet:
	}
	h.raised = h.raised || turn.Raise
	part, err := annotation.Decode[annotation.Part](n.Annotations[annotation.PartOf])
	must(w.t, err)
	w.brings(h, part)
	w.backsUp(h, n.Annotations[backup.WantedOf])
	w.says(h)
}

// knows returns what a host decides from.
func (w *world) knows(h *hostPlay, turn annotation.Turn) parachute.Facts {
	f := parachute.Facts{
		Kind: w.kind(h), Turn: state.Known(turn.Of()), Boot: fmt.Sprint(h.boot), Up: time.Hour, Running: h.running, Previous: oldImage, Whole: state.Known(true), Newer: state.Known(""),
		Closed: state.Known(turn.Closed), Serves: state.Known(!h.worker && h.serves() && !h.bad), PeerServes: state.Known(false), Released: true, Emptied: true, Quiet: !h.daemons, Timer: true, Daemons: h.daemons, Proof: parachute.Proof{},
	}
	serve := 0
	for _, other := range w.hosts {
		if other != h && !other.worker && other.serves() {
			f.PeerServes = state.Known(true)
			serve++
		}
	}
	f.Spare = state.Known(serve > 1)
	for _, c := range parachute.Criteria() {
		if h.daemons {
			f.Proof[c.ID] = state.Known(!h.bad || h.running != newImage)
		}
	}
	return f
}

func (w *world) kind(h *hostPlay) parachute.Kind {
	n := 0
	for _, other := range w.hosts {
		if !other.worker {
			n++
		}
	}
	switch {
	case h.worker:
		return parachute.Worker
	case n == 1:
		return parachute.Alone
	case n == 2:
		return parachute.OfTwo
	}
	return parachute.OfMore
}
