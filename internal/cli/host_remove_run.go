package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/model/retired"
)

// hostRemoval is one run of host remove.
type hostRemoval struct {
	removeFlags
	name    string
	cluster client.Client
	streams Streams
	now     func() time.Time
	// answers reports whether a kubelet takes connections at an address.
	answers func(ctx context.Context, address string) bool
	// by is the name of the person.
	by string
	// again is the command that goes on with a replacement, empty for a removal alone.
	again string
	// keeps is true if the machine that takes the host's place gets its name, too.
	keeps bool
	// plane is what takes a control plane of three out of etcd, nil for a worker.
	plane *planeMember
	// bound names the pods that are bound to the name after the removal.
	bound []string
}

// carryOut takes one step after the other until the host is out. It looks at the
// cluster before each of them, because somebody else may have changed it.
func (r *hostRemoval) carryOut(ctx context.Context) (did []string, err error) {
	last, inTheWay := "", false
	err = watch(ctx, r.streams.Err, r.timeout, func(ctx context.Context) (looked, error) {
		step, err := r.step(ctx)
		var shut *stoppedError
		switch {
		case errors.As(err, &shut):
			return looked{}, err
		case err != nil:
			return trouble(ctx, r.name, "tries again", err), nil
		case step.Action == removal.Done:
			return looked{over: true}, nil
		}
		if step.Says != last {
			did = append(did, step.Says)
		}
		last, inTheWay = step.Says, step.InTheWay
		soon := step.Action != removal.Wait && step.Action != removal.Sweep
		return looked{lines: []command.ViewLine{{Host: r.name, Doing: last}}, soon: soon}, nil
	}, func(cause error) error { return r.ended(cause, last, inTheWay) })
	return did, err
}

// stoppedError ends a removal because a gate closed on the way.
type stoppedError struct{ shut []removal.Gate }

func (e *stoppedError) Error() string { return "stopped on the way:\n" + gateLines(e.shut) }

// step looks once and takes the next step.
func (r *hostRemoval) step(ctx context.Context) (removal.Step, error) {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	f, err := r.gather(ctx)
	if err != nil {
		return removal.Step{}, err
	}
	shut, step := removal.Gates(f), removal.Next(f)
	if r.plane != nil {
		shut, step = r.plane.judge(ctx, f)
	}
	if len(shut) > 0 {
		return removal.Step{}, &stoppedError{shut}
	}
	switch step.Action {
	case removal.Drain:
		err = r.drain(ctx, f)
	case removal.Leave:
		err = r.plane.drop(ctx, step.Member)
	case removal.Mark:
		err = r.mark(ctx, removal.Entry(f, r.by))
	case removal.Detach:
		err = r.detach(ctx, f.Node)
	case removal.Delete:
		err = r.deleteNode(ctx, f.Node)
	case removal.Sweep:
		err = r.sweep(ctx, step.Left)
	case removal.Done:
		r.bound = step.Bound
	case removal.Wait:
	case removal.Unknown: // somebody else deleted the rest, and the entry too
		step.Action = removal.Done
	}
	return step, err
}

func (r *hostRemoval) drain(ctx context.Context, f removal.Facts) error {
	return annotate(ctx, r.cluster, f.Node, map[string]*string{drain.Wanted: new(f.Now.UTC().Format(time.RFC3339))}, false)
}

// mark writes the entry of the host, and does not change those of others.
func (r *hostRemoval) mark(ctx context.Context, h retired.Host) error {
	value, err := h.Marshal()
	if err != nil {
		return err
	}
	return writeKeys(ctx, r.cluster, retired.Namespace, retired.ConfigMap, map[string]string{h.Name: value})
}

// detach sets the taint that lets the pods and volumes of a host move once it is off.
func (r *hostRemoval) detach(ctx context.Context, n *corev1.Node) error {
	taints := append([]corev1.Taint{{Key: outofservice.Key, Value: outofservice.Value, Effect: outofservice.Effect}}, n.Spec.Taints...)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"unschedulable": true, "taints": taints},
	})
	if err != nil {
		return err
	}
	if err := r.cluster.Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("taint node %s: %w", n.Name, err)
	}
	return nil
}

// deleteNode deletes the node as it was looked at: not a later one of its name, and not one whose drain
// somebody took back meanwhile.
func (r *hostRemoval) deleteNode(ctx context.Context, n *corev1.Node) error {
	err := r.cluster.Delete(ctx, n.DeepCopy(), client.Preconditions{UID: &n.UID, ResourceVersion: &n.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete node %s: %w", n.Name, err)
	}
	return nil
}

// sweep deletes the objects that are left under the name. Pods and attachments are deleted
// by their UIDs, so later ones of the same name stay.
func (r *hostRemoval) sweep(ctx context.Context, left removal.Left) error {
	var errs []error
	remove := func(o client.Object, options ...client.DeleteOption) {
		if err := r.cluster.Delete(ctx, o, options...); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete %T %s: %w", o, client.ObjectKeyFromObject(o), err))
		}
	}
	for i := range left.Pods {
		p := &left.Pods[i]
		remove(p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	}
	for i := range left.Attachments {
		a := &left.Attachments[i]
		remove(a, client.Preconditions{UID: &a.UID})
	}
	if left.Lease {
		remove(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: r.name}})
	}
	for _, token := range left.Tokens {
		remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kube.TokenNamespace, Name: token}})
	}
	return errors.Join(errs...)
}
