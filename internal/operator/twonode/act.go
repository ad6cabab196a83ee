package twonode

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/operator/etcdobject"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// podConfigMap holds the manifests of etcd on each host, for whoever wants to see
// them: the hosts get them with their Jobs.
const podConfigMap = "external-etcd-pod"

// act carries the decision out. It may be cut off anywhere: the next look finds
// what is still to be done.
func (r *Reconciler) act(ctx context.Context, g *gathered, d handover.Decision) error {
	// The conditions come first, because people wait for them.
	if err := etcdobject.SetConditions(ctx, r.Client, g.etcd, d.Conditions, r.Now()); err != nil {
		return err
	}
	if g.material == nil {
		return r.dropInputs(ctx)
	}
	if err := r.publishPods(ctx, g.material); err != nil {
		return err
	}
	if d.Begin {
		if err := r.begin(ctx, g.etcd); err != nil {
			return err
		}
	}
	for _, name := range d.Delete {
		if err := r.deleteJob(ctx, g, name); err != nil {
			return err
		}
	}
	for _, w := range d.Create {
		if err := r.createJob(ctx, g.material, w); err != nil {
			return err
		}
	}
	return r.dropInputs(ctx)
}

// publishPods publishes etcd's manifests in the cluster.
func (r *Reconciler) publishPods(ctx context.Context, m *material) error {
	want := map[string]string{}
	for node, pod := range m.manifests {
		want[node+".yaml"] = pod
	}
	have := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, inNamespace(podConfigMap), have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read etcd's manifests: %w", err)
	}
	there := err == nil
	if there && maps.Equal(have.Data, want) {
		return nil
	}
	have.Namespace, have.Name, have.Data = operator.Namespace, podConfigMap, want
	if err := r.write(ctx, have, there); err != nil {
		return fmt.Errorf("publish etcd's manifests: %w", err)
	}
	return nil
}

// write creates or updates an object.
func (r *Reconciler) write(ctx context.Context, o client.Object, there bool) error {
	if there {
		return r.Client.Update(ctx, o)
	}
	return r.Client.Create(ctx, o)
}

// begin records in etcd's object that etcd runs outside of kubelet. From then on
// there is no way back.
func (r *Reconciler) begin(ctx context.Context, etcd *operatorv1.Etcd) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"unsupportedConfigOverrides": map[string]bool{operator.UseExternal: true, operator.MayRemove: true},
	}})
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("etcd is handed over from kubelet to Pacemaker")
	if err := r.Client.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("begin to hand etcd over: %w", err)
	}
	return nil
}

// begun reports whether etcd's object says that etcd runs outside of kubelet.
func begun(etcd *operatorv1.Etcd) bool {
	var overrides map[string]any
	if json.Unmarshal(etcd.Spec.UnsupportedConfigOverrides.Raw, &overrides) != nil {
		return false // none
	}
	return overrides[operator.UseExternal] == true && overrides[operator.MayRemove] == true
}

// deleteJob deletes a Job. A running one stays, marked as being deleted, until
// its pod is gone: the next one of its name must not run beside it.
func (r *Reconciler) deleteJob(ctx context.Context, g *gathered, name string) error {
	policy := metav1.DeletePropagationBackground
	if slices.ContainsFunc(g.jobs, func(j handover.Job) bool { return j.Name == name && j.State == handover.JobRunning }) {
		policy = metav1.DeletePropagationForeground
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: name}}
	err := r.Client.Delete(ctx, job, client.PropagationPolicy(policy), client.Preconditions{UID: new(g.uids[name])})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Job %s: %w", name, err)
	}
	log.FromContext(ctx).Info("Job deleted", "job", name)
	return nil
}

// createJob makes a Job and, before that, its input.
func (r *Reconciler) createJob(ctx context.Context, m *material, w handover.Work) error {
	input, err := m.input(w.Node)
	if err != nil {
		return err
	}
	if err := r.giveInput(ctx, w.Node, input); err != nil {
		return err
	}
	err = r.Client.Create(ctx, operator.Job(w, operator.InputDigest(input)))
	if apierrors.IsAlreadyExists(err) {
		return nil // the one before it is not gone yet
	}
	if err != nil {
		return fmt.Errorf("create Job %s: %w", w.Name, err)
	}
	log.FromContext(ctx).Info("Job created", "job", w.Name, "node", w.Node, "attempt", w.Attempt)
	return nil
}

// dropInputs deletes the input of the Jobs of a node once none of them runs. It
// holds the accounts of both BMCs and the hosts' secret, and the kubelet of a
// node may read what a Job there mounted for as long as it exists.
func (r *Reconciler) dropInputs(ctx context.Context) error {
	var secrets corev1.SecretList
	if err := r.Client.List(ctx, &secrets, client.InNamespace(operator.Namespace)); err != nil {
		return fmt.Errorf("list the inputs of Jobs: %w", err)
	}
	secrets.Items = slices.DeleteFunc(secrets.Items, func(s corev1.Secret) bool { return !strings.HasPrefix(s.Name, operator.InputSecret("")) })
	if len(secrets.Items) == 0 {
		return nil
	}
	// The cache may lack a Job that was made a moment ago.
	var jobs batchv1.JobList
	if err := r.Live.List(ctx, &jobs, client.InNamespace(operator.Namespace), client.HasLabels{operator.LabelStep}); err != nil {
		return fmt.Errorf("list Jobs: %w", err)
	}
	for i := range secrets.Items {
		s := &secrets.Items[i]
		if slices.ContainsFunc(jobs.Items, func(j batchv1.Job) bool { return reads(&j, s.Name) }) {
			continue
		}
		err := r.Client.Delete(ctx, s, client.Preconditions{UID: new(s.UID), ResourceVersion: new(s.ResourceVersion)})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Secret %s: %w", s.Name, err)
		}
		log.FromContext(ctx).Info("deleting the input of a Job: no Job reads it any more", "secret", s.Name)
	}
	return nil
}

// reads reports whether a Job may still read a Secret.
func reads(j *batchv1.Job, secret string) bool {
	if s := jobOf(j).State; s == handover.JobSucceeded || s == handover.JobFailed {
		return false
	}
	return operator.InputSecret(j.Spec.Template.Spec.NodeName) == secret
}

func (r *Reconciler) giveInput(ctx context.Context, node string, input []byte) error {
	name := operator.InputSecret(node)
	have := &corev1.Secret{}
	err := r.Live.Get(ctx, inNamespace(name), have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Secret %s: %w", name, err)
	}
	there := err == nil
	if there && string(have.Data[operator.InputKey]) == string(input) {
		return nil
	}
	have.Namespace, have.Name = operator.Namespace, name
	have.Data = map[string][]byte{operator.InputKey: input}
	if err := r.write(ctx, have, there); err != nil {
		return fmt.Errorf("write Secret %s: %w", name, err)
	}
	return nil
}
