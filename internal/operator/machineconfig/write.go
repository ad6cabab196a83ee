package machineconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// poolLabel begins the label by which KubeletConfigs select one pool.
const poolLabel = "pools.operator.machineconfiguration.openshift.io/"

func newPool(name, label string) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{poolLabel + name: ""}},
		Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: &metav1.LabelSelector{MatchLabels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: name}},
			NodeSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}},
		},
	}
}

// keepPools creates the pools that every site has. What somebody changed of them
// stays.
func (r *Reconciler) keepPools(ctx context.Context) (made bool, err error) {
	for _, want := range wantedPools() {
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), &mcfgv1.MachineConfigPool{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("read MachineConfigPool %s: %w", want.Name, err)
		}
		if err := r.Client.Create(ctx, want); err != nil {
			return false, fmt.Errorf("create MachineConfigPool %s: %w", want.Name, err)
		}
		made = true
	}
	return made, nil
}

// keepRendered creates the rendered objects, and brings back what somebody
// changed of them.
func (r *Reconciler) keepRendered(ctx context.Context, g *gathered) error {
	for _, pool := range slices.Sorted(maps.Keys(g.rendered)) {
		want, have := g.rendered[pool].Object(), &mcfgv1.MachineConfig{}
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
		switch {
		case apierrors.IsNotFound(err):
			if err := r.Client.Create(ctx, want); err != nil {
				return fmt.Errorf("create MachineConfig %s: %w", want.Name, err)
			}
		case err != nil:
			return fmt.Errorf("read MachineConfig %s: %w", want.Name, err)
		case !sameSpec(have.Spec, want.Spec) || !labelled(have):
			next := have.DeepCopy()
			next.Spec, next.Labels = want.Spec, want.Labels
			if err := r.Client.Update(ctx, next); err != nil {
				return fmt.Errorf("bring MachineConfig %s back: %w", want.Name, err)
			}
			r.event(ctx, next, corev1.EventTypeWarning, "RenderedRestored", "somebody changed "+want.Name+", whose name promises its contents; it is what it was")
		}
	}
	return nil
}

func labelled(mc *mcfgv1.MachineConfig) bool {
	_, ok := mc.Labels[decide.LabelRendered]
	return ok
}

// sameSpec compares two specs. The API keeps the config as a tree, and returns it
// with its fields in another order.
func sameSpec(a, b mcfgv1.MachineConfigSpec) bool {
	var configA, configB any
	if json.Unmarshal(a.Config.Raw, &configA) != nil || json.Unmarshal(b.Config.Raw, &configB) != nil || !equality.Semantic.DeepEqual(configA, configB) {
		return false
	}
	a.Config, b.Config = runtime.RawExtension{}, runtime.RawExtension{}
	return equality.Semantic.DeepEqual(a, b)
}

// sayWhoBoots writes to nodes whether a person boots their hosts, as their pools have
// it: hosts do not read pools.
func (r *Reconciler) sayWhoBoots(ctx context.Context, g *gathered) (wrote bool, err error) {
	for _, b := range rollout.Booters(g.site) {
		var value *string
		if b.ByHand {
			value = new(rollout.ByHand)
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{rollout.Reboot: value}}})
		if err != nil {
			return wrote, err
		}
		if err := r.Client.Patch(ctx, g.nodes[b.Host].DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return wrote, fmt.Errorf("say at node %s who boots it: %w", b.Host, err)
		}
		wrote = true
	}
	return wrote, nil
}

// give gives hosts their configurations. Each write holds only for the node that
// was read: the host may have gone away, or answered, since.
func (r *Reconciler) give(ctx context.Context, g *gathered, set []rollout.Assignment) error {
	for _, a := range set {
		n := g.nodes[a.Host]
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": n.ResourceVersion, "annotations": a.Annotations(g.site.Now)}})
		if err != nil {
			return err
		}
		if err := r.Client.Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("give %s the configuration %s: %w", a.Host, a.Config, err)
		}
		r.event(ctx, n, corev1.EventTypeNormal, "MachineConfigGiven", "the host is to have "+a.Config)
	}
	return nil
}

// report writes spec.configuration and the status of each pool.
func (r *Reconciler) report(ctx context.Context, g *gathered, d rollout.Decision) error {
	for i := range g.pools {
		p := &g.pools[i]
		s := d.Pools[slices.IndexFunc(d.Pools, func(s rollout.Status) bool { return s.Pool == p.Name })]
		measure(s)
		if made, rendered := g.rendered[p.Name]; rendered {
			if err := r.target(ctx, p, made); err != nil {
				return err
			}
		}
		if err := r.status(ctx, g, p, s); err != nil {
			return err
		}
		measureSince(p)
	}
	forget(g.pools)
	return nil
}

// target writes which configuration a pool is to have.
func (r *Reconciler) target(ctx context.Context, p *mcfgv1.MachineConfigPool, made decide.Rendered) error {
	want := mcfgv1.MachineConfigPoolStatusConfiguration{ObjectReference: reference(made.Name)}
	for _, source := range made.Sources {
		want.Source = append(want.Source, reference(source))
	}
	if equality.Semantic.DeepEqual(p.Spec.Configuration, want) {
		return nil
	}
	before := p.DeepCopy()
	p.Spec.Configuration = want
	if err := r.Client.Patch(ctx, p, locked(before)); err != nil {
		return fmt.Errorf("write the configuration of MachineConfigPool %s: %w", p.Name, err)
	}
	if before.Spec.Configuration.Name != made.Name {
		said := []string{"its configuration is " + made.Name + ", made from " + listed(made.Sources)}
		for _, o := range made.Overrides {
			said = append(said, o.String())
		}
		r.event(ctx, p, corev1.EventTypeNormal, "Rendered", strings.Join(said, "; "))
	}
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "no MachineConfig"
	}
	return strings.Join(names, ", ")
}

// reference returns a reference to a MachineConfig, or to the object of another kind
// that KIND/NAME names.
func reference(name string) corev1.ObjectReference {
	kind, version := "MachineConfig", mcfgv1.GroupVersion
	if before, after, other := strings.Cut(name, "/"); other {
		kind, name = before, after
	}
	if kind == decide.DigestMirrorSet || kind == decide.TagMirrorSet || kind == decide.ProxyKind {
		version = configv1.GroupVersion
	}
	return corev1.ObjectReference{APIVersion: version.String(), Kind: kind, Name: name}
}

// locked returns a patch that fails if somebody else wrote meanwhile.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// maxMessage bounds a condition's message, in bytes, so that people can read it.
const maxMessage = 4 << 10

// status writes how far a pool is, and makes events of changes.
func (r *Reconciler) status(ctx context.Context, g *gathered, p *mcfgv1.MachineConfigPool, s rollout.Status) error {
	want := p.Status.DeepCopy()
	want.ObservedGeneration = p.Generation
	for _, count := range []struct {
		to   *int32
		from int
	}{
		{&want.MachineCount, len(s.Hosts)},
		{&want.UpdatedMachineCount, s.Updated},
		{&want.ReadyMachineCount, s.Ready},
		{&want.UnavailableMachineCount, s.Unavailable},
		{&want.DegradedMachineCount, s.Degraded},
	} {
		*count.to = int32(count.from) //nolint:gosec // a number of hosts
	}
	if s.Reached() {
		want.Configuration = p.Spec.Configuration
	}
	want.Conditions = conditions(p.Status.Conditions, s.Conditions, g.site.Now)
	if equality.Semantic.DeepEqual(p.Status, *want) {
		return nil
	}
	before := p.DeepCopy()
	p.Status = *want
	if err := r.Client.Status().Patch(ctx, p, locked(before)); err != nil {
		return fmt.Errorf("write the status of MachineConfigPool %s: %w", p.Name, err)
	}
	r.tell(ctx, p, before.Status.Conditions)
	return nil
}

// conditions returns conditions with the times of their last change.
func conditions(before []mcfgv1.MachineConfigPoolCondition, now []rollout.Condition, at time.Time) []mcfgv1.MachineConfigPoolCondition {
	var out []mcfgv1.MachineConfigPoolCondition
	for _, c := range now {
		if len(c.Message) > maxMessage {
			c.Message = c.Message[:maxMessage] + " ..."
		}
		next := mcfgv1.MachineConfigPoolCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: metav1.NewTime(at.UTC().Truncate(time.Second)),
		}
		if was := find(before, c.Type); was.Status == c.Status && !was.LastTransitionTime.IsZero() {
			next.LastTransitionTime = was.LastTransitionTime
		}
		out = append(out, next)
	}
	return out
}

func find(list []mcfgv1.MachineConfigPoolCondition, kind mcfgv1.MachineConfigPoolConditionType) mcfgv1.MachineConfigPoolCondition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return mcfgv1.MachineConfigPoolCondition{}
}

// tell makes events of conditions that changed.
func (r *Reconciler) tell(ctx context.Context, p *mcfgv1.MachineConfigPool, before []mcfgv1.MachineConfigPoolCondition) {
	for _, kind := range []mcfgv1.MachineConfigPoolConditionType{mcfgv1.MachineConfigPoolUpdated, mcfgv1.MachineConfigPoolNodeDegraded, mcfgv1.MachineConfigPoolRenderDegraded} {
		was, is := find(before, kind), find(p.Status.Conditions, kind)
		switch {
		case was.Status == is.Status:
		case kind == mcfgv1.MachineConfigPoolUpdated && is.Status == corev1.ConditionTrue:
			r.event(ctx, p, corev1.EventTypeNormal, string(kind), is.Message)
		case kind != mcfgv1.MachineConfigPoolUpdated && is.Status == corev1.ConditionTrue:
			r.event(ctx, p, corev1.EventTypeWarning, string(kind), is.Message)
		case kind != mcfgv1.MachineConfigPoolUpdated && was.Status == corev1.ConditionTrue:
			r.event(ctx, p, corev1.EventTypeNormal, string(kind), "no longer "+string(kind))
		}
	}
}

// reportProxy writes the status of the object Proxy: what hosts are given. A mistake in it
// stands in the status of the pools, and leaves this one as it was.
func (r *Reconciler) reportProxy(ctx context.Context, g *gathered) error {
	p := g.objects.Proxy
	if p == nil || p.Proxy.Name == "" {
		return nil
	}
	want, err := p.Status()
	if err != nil || p.Proxy.Status == want {
		return nil //nolint:nilerr // the pools say it
	}
	next := p.Proxy.DeepCopy()
	next.Status = want
	if err := r.Client.Status().Patch(ctx, next, client.MergeFrom(&p.Proxy)); err != nil {
		return fmt.Errorf("write the status of Proxy %s: %w", p.Proxy.Name, err)
	}
	return nil
}

// collect deletes the rendered objects that no pool and no node names. It reads
// both anew: a host may have been given one since.
func (r *Reconciler) collect(ctx context.Context) error {
	var all mcfgv1.MachineConfigList
	if err := r.Client.List(ctx, &all, client.HasLabels{decide.LabelRendered}); err != nil {
		return fmt.Errorf("list rendered MachineConfigs: %w", err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	named, err := r.named(ctx)
	if err != nil {
		return err
	}
	for i := range all.Items {
		mc := &all.Items[i]
		if named[mc.Name] || !strings.HasPrefix(mc.Name, decide.Prefix) {
			continue
		}
		if err := r.Client.Delete(ctx, mc, client.Preconditions{UID: &mc.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete MachineConfig %s: %w", mc.Name, err)
		}
	}
	return nil
}

// named returns the rendered objects that are in use.
func (r *Reconciler) named(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	var nodes corev1.NodeList
	if err := r.Live.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		out[n.Annotations[rollout.CurrentConfig]], out[n.Annotations[rollout.DesiredConfig]] = true, true
	}
	var pools mcfgv1.MachineConfigPoolList
	if err := r.Live.List(ctx, &pools); err != nil {
		return nil, fmt.Errorf("list MachineConfigPools: %w", err)
	}
	for _, p := range pools.Items {
		out[p.Spec.Configuration.Name], out[p.Status.Configuration.Name] = true, true
	}
	for _, t := range r.targets {
		out[t.name] = true
	}
	return out, nil
}
