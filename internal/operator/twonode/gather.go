package twonode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/operator/etcdobject"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// gathered holds the findings of one look at the cluster.
type gathered struct {
	etcd  *operatorv1.Etcd
	nodes []handover.Node
	// missing, awaited and moved are as in handover.Snapshot.
	missing, awaited, moved []string
	jobs                    []handover.Job
	// uids are the Jobs' own, by name: a later Job of the same name is not the
	// one that a decision is about.
	uids map[string]types.UID
	// material holds the inputs of Jobs, nil while something is missing.
	material *material
	// held is what waits for an upgrade of the site.
	held hold.Held
	// third is the name of the third control plane that a plan brings, empty without one.
	third string
}

func (g *gathered) snapshot(now time.Time) handover.Snapshot {
	s := handover.Snapshot{
		Nodes: g.nodes, Third: g.third, Missing: g.missing, Awaited: g.awaited, Moved: g.moved, Jobs: g.jobs, Now: now,
		AtWork: g.held.AtWork, Away: g.held.Away, Upgrade: g.held.Rewrite, Begun: begun(g.etcd), HandedOver: etcdobject.Holds(g.etcd, handover.CompletedTransition),
	}
	if g.material != nil {
		s.Digests = g.material.digests()
	}
	return s
}

func (r *Reconciler) gather(ctx context.Context) (*gathered, error) {
	g := &gathered{etcd: &operatorv1.Etcd{}}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, g.etcd); err != nil {
		return nil, fmt.Errorf("read etcd's object: %w", err)
	}
	hosts, err := r.hosts(ctx, g)
	if err != nil {
		return nil, err
	}
	if err := r.collect(ctx, g, hosts); err != nil {
		return nil, err
	}
	return g, r.jobs(ctx, g)
}

// hosts lists the control planes in the order of their names, and asks etcd for
// the state of their members.
func (r *Reconciler) hosts(ctx context.Context, g *gathered) ([]Host, error) {
	var nodes corev1.NodeList
	err := r.Client.List(ctx, &nodes, client.HasLabels{state.LabelControlPlane})
	if err != nil {
		return nil, fmt.Errorf("list control planes: %w", err)
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	if r.Record != nil {
		record, err := r.Record(ctx)
		if err != nil {
			return nil, err
		}
		g.held = hold.Of(record, nodes.Items)
	}
	if len(nodes.Items) > 2 {
		if g.third, err = r.third(ctx); err != nil {
			return nil, err
		}
	}
	settled := etcdobject.Holds(g.etcd, handover.CompletedTransition)
	known, err := r.known(ctx, settled)
	if err != nil {
		return nil, err
	}
	var hosts []Host
	for _, n := range nodes.Items {
		g.nodes = append(g.nodes, handover.Node{Name: n.Name, Ready: ready(&n)})
		address, awaited, moved := handover.Address{Node: n.Name, Said: internalAddresses(&n), Known: known[n.Name], Settled: settled}.Is()
		g.awaited, g.moved = appendText(g.awaited, awaited), appendText(g.moved, moved)
		if address == "" {
			continue
		}
		machine, told := state.ParseMachine(n.Annotations[state.AnnotationMachine])
		if !told {
			g.awaited = append(g.awaited, "node "+n.Name+" has not published its machine identity yet (its holdfast-agent.service does that)")
		}
		hosts = append(hosts, Host{Name: n.Name, Address: address, Machine: machine, Authorities: n.Annotations[state.AnnotationAuthorities]})
	}
	members := r.Etcd(ctx, hosts)
	for i := range g.nodes {
		g.nodes[i].Etcd = members[g.nodes[i].Name]
	}
	return hosts, nil
}

// third returns the name of the third control plane that a plan brings or takes out. Only a cluster that has three
// asks.
func (r *Reconciler) third(ctx context.Context) (string, error) {
	var lock corev1.ConfigMap
	err := client.IgnoreNotFound(r.Live.Get(ctx, client.ObjectKey{Namespace: replace.LockNamespace, Name: replace.LockName}, &lock))
	if err != nil {
		return "", fmt.Errorf("read the plan that changes control planes: %w", err)
	}
	return replace.ThirdOf(lock.Data), nil
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func appendText(list []string, text string) []string {
	if text == "" {
		return list
	}
	return append(list, text)
}

// internalAddresses returns the node's internal addresses. The first is of the
// primary family.
func internalAddresses(n *corev1.Node) []string {
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			out = append(out, a.Address)
		}
	}
	return out
}

// known returns the addresses by which Corosync and etcd know the hosts, once
// they are set up: those that the hosts publish from Corosync, and until they do,
// those in etcd's published manifests.
func (r *Reconciler) known(ctx context.Context, settled bool) (map[string]string, error) {
	if !settled {
		return nil, nil
	}
	var cluster etcdv1.PacemakerCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, &cluster); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read PacemakerCluster: %w", err)
	}
	var published corev1.ConfigMap
	if err := r.Client.Get(ctx, inNamespace(podConfigMap), &published); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read etcd's manifests: %w", err)
	}
	return knownOf(&cluster, published.Data), nil
}

func knownOf(cluster *etcdv1.PacemakerCluster, manifests map[string]string) map[string]string {
	out := map[string]string{}
	for file, text := range manifests {
		if a, err := etcdpod.AddressOf([]byte(text)); err == nil {
			out[strings.TrimSuffix(file, ".yaml")] = a.String()
		}
	}
	if cluster.Status.Nodes == nil {
		return out
	}
	for _, n := range *cluster.Status.Nodes {
		if len(n.Addresses) > 0 {
			out[n.NodeName] = n.Addresses[0].Address
		}
	}
	return out
}

// nodeChanged reports whether a node changed in something that decisions use. Its
// heartbeat does not count.
func nodeChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, also := e.ObjectNew.(*corev1.Node)
	if !ok || !also {
		return true
	}
	_, was := before.Labels[state.LabelControlPlane]
	_, is := after.Labels[state.LabelControlPlane]
	return was != is || ready(before) != ready(after) || !slices.Equal(internalAddresses(before), internalAddresses(after)) ||
		before.Annotations[state.AnnotationMachine] != after.Annotations[state.AnnotationMachine] ||
		before.Annotations[state.AnnotationAuthorities] != after.Annotations[state.AnnotationAuthorities]
}

// isInput reports whether Jobs are made from a Secret.
func isInput(o client.Object) bool {
	return o.GetName() == tokenSecret || strings.HasPrefix(o.GetName(), fencingPrefix)
}

// jobs reads the Jobs of the steps, and why the failed ones failed.
func (r *Reconciler) jobs(ctx context.Context, g *gathered) error {
	var list batchv1.JobList
	if err := r.Client.List(ctx, &list, client.InNamespace(operator.Namespace), client.HasLabels{operator.LabelStep}); err != nil {
		return fmt.Errorf("list Jobs: %w", err)
	}
	g.uids = map[string]types.UID{}
	for i := range list.Items {
		j := jobOf(&list.Items[i])
		if j.State == handover.JobFailed {
			why, err := r.failure(ctx, &list.Items[i])
			if err != nil {
				return err
			}
			j.Failure, j.Final = g.material.redact(why.words), why.final
		}
		g.jobs, g.uids[j.Name] = append(g.jobs, j), list.Items[i].UID
	}
	return nil
}

func jobOf(j *batchv1.Job) handover.Job {
	out := handover.Job{
		Name: j.Name, Key: j.Annotations[operator.AnnotationKey], Before: j.Annotations[operator.AnnotationBefore],
		State: handover.JobRunning,
	}
	out.Attempt, _ = strconv.Atoi(j.Annotations[operator.AnnotationAttempt]) // a missing number means the first
	out.Attempt = max(out.Attempt, 1)
	if c, ok := jobCondition(j, batchv1.JobComplete); ok {
		out.State, out.Ended = handover.JobSucceeded, c.LastTransitionTime.Time
	}
	if c, ok := jobCondition(j, batchv1.JobFailed); ok {
		out.State, out.Ended = handover.JobFailed, c.LastTransitionTime.Time
	}
	if !j.DeletionTimestamp.IsZero() {
		out.State = handover.JobEnding
	}
	return out
}

func jobCondition(j *batchv1.Job, kind batchv1.JobConditionType) (batchv1.JobCondition, bool) {
	i := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return batchv1.JobCondition{}, false
	}
	return j.Status.Conditions[i], true
}

// failure says why a Job failed, and whether another attempt would fail in the
// same way.
type failure struct {
	words string
	final bool
}

// failure returns why a Job failed: its container's last output, else the state of
// its pod, else the Job's condition.
func (r *Reconciler) failure(ctx context.Context, j *batchv1.Job) (failure, error) {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(j.Namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name}); err != nil {
		return failure{}, fmt.Errorf("list the pods of Job %s: %w", j.Name, err)
	}
	for i := range pods.Items {
		if why := podsFailure(&pods.Items[i]); metav1.IsControlledBy(&pods.Items[i], j) && why.words != "" {
			return why, nil
		}
	}
	c, _ := jobCondition(j, batchv1.JobFailed)
	return failure{words: strings.TrimSpace(c.Reason + ": " + c.Message)}, nil
}

// podsFailure returns why a pod failed, without words if it did not. A step that
// would fail in the same way again ends with ExitRefused.
func podsFailure(p *corev1.Pod) failure {
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			words := cmp.Or(strings.TrimSpace(t.Message), fmt.Sprintf("exit code %d without a message", t.ExitCode))
			return failure{words, t.ExitCode == command.ExitRefused}
		}
	}
	return failure{words: strings.Trim(p.Status.Reason+": "+p.Status.Message, ": ")}
}

// secret returns the data of a Secret, or nil if there is none.
func (r *Reconciler) secret(ctx context.Context, name string) (map[string][]byte, error) {
	var s corev1.Secret
	err := r.Client.Get(ctx, inNamespace(name), &s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return s.Data, nil
}
