package machineconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/operator/upgrade"
	"github.com/holdfast/holdfast/internal/render/manifests"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// site is a cluster on a real API whose agents the test plays.
type site struct {
	t     *testing.T
	admin client.Client
	// own is the operator's own access, with no more than its rights.
	own client.WithWatch
	r   *Reconciler
	now time.Time

	mu sync.Mutex
	// writes are those of the operator.
	writes apitest.Writes
	events []string
}

var installed sync.Once

// newSite returns a cluster of two control planes and two workers, of which both
// control planes can be lost.
func newSite(t *testing.T) *site {
	t.Helper()
	api := apitest.Need(t, server)
	installed.Do(func() {
		parsed, err := config.Parse([]byte(sitetest.TwoDual))
		must(t, err)
		files, err := manifests.Render(parsed, topology.Of(parsed))
		must(t, err)
		api.Install(t, files)
	})
	s := &site{t: t, now: time.Now()}
	s.admin = newClient(t, api.Config)
	s.own = newClient(t, api.AsServiceAccount(render.Namespace, render.Name))
	s.clear()
	s.join("cp-1", state.LabelControlPlane)
	s.join("cp-2", state.LabelControlPlane)
	s.join("w-1", state.LabelWorker)
	s.join("w-2", state.LabelWorker)
	s.pacemaker("healthy")
	s.restart()
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	scheme, err := kube.NewScheme(mcfgv1.Install)
	must(t, err)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

// clear removes what another test left.
func (s *site) clear() {
	s.t.Helper()
	must(s.t, s.admin.DeleteAllOf(s.t.Context(), &corev1.Node{}))
	must(s.t, client.IgnoreNotFound(s.admin.Delete(s.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}})))
	must(s.t, s.admin.DeleteAllOf(s.t.Context(), &mcfgv1.MachineConfigPool{}))
}

// join adds a host that is ready.
func (s *site) join(name, label string) {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}}}
	must(s.t, s.admin.Create(s.t.Context(), n))
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.98.0.1"}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must(s.t, s.admin.Status().Update(s.t.Context(), n))
}

func (s *site) node(name string) *corev1.Node {
	s.t.Helper()
	n := &corev1.Node{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, n))
	return n
}

// ready writes whether a host is ready.
func (s *site) ready(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	n := s.node(name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	must(s.t, s.admin.Status().Update(s.t.Context(), n))
}

// says writes what a host says, as its agent does.
func (s *site) says(name, current string, st rollout.State, reason string) {
	s.t.Helper()
	s.patch(s.node(name), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:%q,%q:%q}}}`,
		rollout.CurrentConfig, current, rollout.StateOf, st, rollout.ReasonOf, reason))
}

func (s *site) patch(o client.Object, text string) {
	s.t.Helper()
	must(s.t, s.admin.Patch(s.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text))))
}

// apply writes MachineConfigs and pools from YAML documents.
func (s *site) apply(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		var kind metav1.TypeMeta
		must(s.t, yaml.Unmarshal([]byte(text), &kind))
		objects := map[string]client.Object{
			"MachineConfig": &mcfgv1.MachineConfig{}, "MachineConfigPool": &mcfgv1.MachineConfigPool{}, "MachineConfiguration": &operatorv1.MachineConfiguration{},
			"KubeletConfig": &mcfgv1.KubeletConfig{}, decide.DigestMirrorSet: &configv1.ImageDigestMirrorSet{}, decide.TagMirrorSet: &configv1.ImageTagMirrorSet{},
		}
		o := objects[kind.Kind]
		must(s.t, yaml.UnmarshalStrict([]byte(text), o))
		must(s.t, client.IgnoreNotFound(s.admin.Delete(s.t.Context(), o.DeepCopyObject().(client.Object)))) //nolint:forcetypeassert // a copy has its type
		must(s.t, s.admin.Create(s.t.Context(), o))
		s.t.Cleanup(func() { s.delete(o) })
	}
}

func (s *site) delete(o client.Object) {
	s.t.Helper()
	must(s.t, client.IgnoreNotFound(s.admin.Delete(context.WithoutCancel(s.t.Context()), o)))
}

// motd is a MachineConfig with one harmless file.
func motd(name, role, text string) string {
	return fmt.Sprintf(`{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfig,
metadata: {name: %s, labels: {machineconfiguration.openshift.io/role: %s}},
spec: {config: {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/motd, contents: {source: "data:,%s"}}]}}}}`, name, role, text)
}

// pacemaker writes the status of a recorded cluster, as a host does.
func (s *site) pacemaker(recorded string) {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../test/corpus/pacemaker/cases", recorded, "cp-1", "crm_mon.xml"))
	must(s.t, err)
	c, err := crmmon.Parse(data, time.UTC)
	must(s.t, err)
	etcd := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: state.EtcdPair})}
	etcd.Local.Running, etcd.Local.Leader = state.Known(true), state.Known(state.MemberID(1))
	etcd.Local.Members = state.Known([]state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}})
	etcd.Pacemaker.Contact = state.Known(true)
	status := pacemakerstatus.Status(pacemakerstatus.Input{
		Host: "cp-1", Cluster: state.Known(c), Etcd: state.Known(state.EtcdReport{Snapshot: etcd}),
		Corosync: state.Known(corosync.Conf{TwoNode: true, Nodes: []corosync.Node{
			{Name: "cp-1", Addresses: []string{"10.98.0.11"}}, {Name: "cp-2", Addresses: []string{"10.98.0.12"}},
		}}),
	})
	o := &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}
	must(s.t, client.IgnoreNotFound(s.admin.Delete(s.t.Context(), o.DeepCopy()))) // its times do not go back
	must(s.t, s.admin.Create(s.t.Context(), o))
	patch, err := json.Marshal(map[string]json.RawMessage{"status": pacemakerstatus.JSON(pacemakerstatus.Timed(status, &o.Status, s.now))})
	must(s.t, err)
	must(s.t, s.admin.Status().Patch(s.t.Context(), o, client.RawPatch(types.MergePatchType, patch)))
}

// restart starts an operator that knows nothing of the time before.
func (s *site) restart() {
	counted := interceptor.NewClient(s.own, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return s.writes.Do(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.writes.Do(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return s.writes.Do(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.writes.Do(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	record, err := upgrade.Record(s.own.RESTMapper(), s.own)
	must(s.t, err)
	s.r = &Reconciler{Client: counted, Live: s.own, Record: record, Events: s, Now: func() time.Time { return s.now }, TwoNode: true, Mirrors: true}
}

// Eventf implements events.EventRecorder.
func (s *site) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := about.(metav1.Object).GetName() //nolint:forcetypeassert // an object of the API
	s.events = append(s.events, name+" "+kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// told returns the events so far and forgets them.
func (s *site) told() string {
	out := strings.Join(s.events, "\n")
	s.events = nil
	return out
}

// look makes the operator look once. Errors are those of the API.
func (s *site) look() error {
	_, err := s.r.Reconcile(s.t.Context(), reconcile.Request{})
	s.now = s.now.Add(time.Second)
	return err
}

// looks makes it look until everything has settled for long enough that hosts
// are given something.
func (s *site) looks() {
	s.t.Helper()
	s.pacemakerLives()
	for _, wait := range []time.Duration{0, 0, Settle, 0} { // pools may have to be made, and a write may be seen a look later
		s.now = s.now.Add(wait)
		must(s.t, s.look())
	}
}

// pacemakerLives renews the sign of life of Pacemaker's status.
func (s *site) pacemakerLives() {
	o := &etcdv1.PacemakerCluster{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: clusterName}, o))
	if s.now.Sub(o.Status.LastUpdated.Time) > pacemakerstatus.Silence/2 {
		text := fmt.Sprintf(`{"status":{"lastUpdated":%q}}`, s.now.UTC().Format(time.RFC3339))
		must(s.t, s.admin.Status().Patch(s.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(text))))
	}
}

// atWork returns the hosts that were given what they do not have.
func (s *site) atWork() []string {
	s.t.Helper()
	var nodes corev1.NodeList
	must(s.t, s.admin.List(s.t.Context(), &nodes))
	var out []string
	for i := range nodes.Items {
		h := rollout.HostOf(&nodes.Items[i])
		if h.Desired != "" && (h.Desired != h.Current || h.State != rollout.Done) {
			out = append(out, h.Name)
		}
	}
	slices.Sort(out)
	return out
}

// answer lets all agents apply what they were given.
func (s *site) answer() {
	s.t.Helper()
	for _, name := range s.atWork() {
		s.says(name, s.node(name).Annotations[rollout.DesiredConfig], rollout.Done, "")
	}
}

// settle lets operator and agents take turns until all hosts have what they are
// to have, and returns the hosts in the order in which they were given something.
func (s *site) settle() []string {
	s.t.Helper()
	var order []string
	for range 20 {
		s.looks()
		given := s.atWork()
		if len(given) == 0 {
			return order
		}
		order = append(order, strings.Join(given, "+"))
		s.answer()
	}
	s.t.Fatalf("it never comes to rest: %v", order)
	return nil
}

func (s *site) pool(name string) *mcfgv1.MachineConfigPool {
	s.t.Helper()
	out := &mcfgv1.MachineConfigPool{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: name}, out))
	return out
}

// condition returns a condition of a pool as "STATUS MESSAGE".
func (s *site) condition(pool string, kind mcfgv1.MachineConfigPoolConditionType) string {
	s.t.Helper()
	c := find(s.pool(pool).Status.Conditions, kind)
	return strings.TrimSpace(string(c.Status) + " " + c.Message)
}

// has fails unless a condition begins with some words and contains others.
func (s *site) has(pool string, kind mcfgv1.MachineConfigPoolConditionType, begins string, contains ...string) {
	s.t.Helper()
	got := s.condition(pool, kind)
	if !strings.HasPrefix(got, begins) {
		s.t.Errorf("%s of %s is %q, want %q", kind, pool, got, begins)
	}
	for _, words := range contains {
		if !strings.Contains(got, words) {
			s.t.Errorf("%s of %s is %q, without %q", kind, pool, got, words)
		}
	}
}

// rendered returns the names of the rendered objects of a pool.
func (s *site) rendered(pool string) []string {
	s.t.Helper()
	var all mcfgv1.MachineConfigList
	must(s.t, s.admin.List(s.t.Context(), &all, client.HasLabels{decide.LabelRendered}))
	var out []string
	for _, mc := range all.Items {
		if strings.HasPrefix(mc.Name, decide.Prefix+pool+"-") {
			out = append(out, mc.Name)
		}
	}
	return out
}
