package infrastructure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

// fieldManager owns our fields of the ClusterOperator.
const fieldManager = client.FieldOwner("holdfast-operator-infrastructure")

// maxMessage bounds a condition's message, in bytes, so that people can read it.
const maxMessage = 4 << 10

// reported returns the last report from the ClusterOperator. A cluster of an
// older release has none; there it returns what was reported last by this
// process.
func (r *Reconciler) reported(ctx context.Context) (vipobject.Report, error) {
	out, err := vipobject.ReadReport(ctx, r.Live)
	if !out.There {
		out.Conditions, out.Extension = r.told.Conditions, r.told.Extension
	}
	return out, err
}

// publish updates the ClusterOperator, and makes events of news. It writes
// nothing if nothing is new, and returns how long a new detail has to wait.
func (r *Reconciler) publish(ctx context.Context, before vipobject.Report, s vips.Standing) (time.Duration, error) {
	r.note(s)
	now := vips.Conditions(s, r.trouble, before.Conditions, r.Now().UTC().Truncate(1e9))
	for i := range now {
		if len(now[i].Message) > maxMessage {
			now[i].Message = now[i].Message[:maxMessage] + " ..."
		}
	}
	extension := before.Extension
	if s.Failure == "" {
		extension = extensionOf(s, before.Extension)
	}
	if (before.There || r.nowhere) && vips.Same(before.Conditions, now) && bytes.Equal(before.Extension.Text(), extension.Text()) {
		return 0, nil
	}
	report := vipobject.Report{There: true, Conditions: now, Extension: extension}
	if wait := r.wait(before, report); wait > 0 {
		return wait, nil
	}
	if err := r.apply(ctx, before.There, now, extension); err != nil {
		return 0, err
	}
	r.tell(before.Conditions, now)
	r.told, r.wrote = report, r.Now()
	return 0, nil
}

func extensionOf(s vips.Standing, before vipobject.Extension) vipobject.Extension {
	out := vipobject.Extension{Rollout: s.Rollout, API: s.Plan.API, Ingress: s.Plan.Ingress, Applied: before.Applied}
	if s.Rollout.Applied {
		out.Applied = s.Plan.All()
	}
	return out
}

// apply writes the ClusterOperator by server-side apply, which leaves conditions
// of others to them.
func (r *Reconciler) apply(ctx context.Context, there bool, conditions []vips.Condition, extension vipobject.Extension) error {
	op := &configv1.ClusterOperator{
		TypeMeta:   metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: "ClusterOperator"},
		ObjectMeta: metav1.ObjectMeta{Name: vipobject.OperatorName},
		Status: configv1.ClusterOperatorStatus{
			RelatedObjects: []configv1.ObjectReference{{Group: configv1.GroupName, Resource: "infrastructures", Name: vipobject.ClusterName}},
			Extension:      runtime.RawExtension{Raw: extension.Text()},
		},
	}
	for _, c := range conditions {
		op.Status.Conditions = append(op.Status.Conditions, configv1.ClusterOperatorStatusCondition{
			Type: configv1.ClusterStatusConditionType(c.Type), Status: configv1.ConditionStatus(c.Status),
			Reason: c.Reason, Message: c.Message, LastTransitionTime: metav1.NewTime(c.Changed),
		})
	}
	err := r.create(ctx, there)
	if r.nowhere = errors.Is(err, errNoKind); r.nowhere {
		log.FromContext(ctx).Info(err.Error(), "conditions", conditions)
		return nil
	}
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": op.APIVersion, "kind": op.Kind, "metadata": map[string]any{"name": op.Name}, "status": op.Status,
	})
	if err != nil {
		return err
	}
	target := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: vipobject.OperatorName}}
	err = r.Client.Status().Patch(ctx, target, client.RawPatch(types.ApplyPatchType, patch), fieldManager, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write the ClusterOperator %s: %w", vipobject.OperatorName, err)
	}
	return nil
}

// errNoKind reports a cluster of a release that had no ClusterOperators.
var errNoKind = errors.New("this cluster has no ClusterOperators: reporting by events and in this log")

// create creates the object for the report.
func (r *Reconciler) create(ctx context.Context, there bool) error {
	if there {
		return nil
	}
	err := r.Client.Create(ctx, &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: vipobject.OperatorName}})
	switch {
	case meta.IsNoMatchError(err):
		return errNoKind
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create the ClusterOperator %s: %w", vipobject.OperatorName, err)
	}
	return nil
}

// tell makes events of news.
func (r *Reconciler) tell(before, now []vips.Condition) {
	infra := &configv1.Infrastructure{
		TypeMeta:   metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: "Infrastructure"},
		ObjectMeta: metav1.ObjectMeta{Name: vipobject.ClusterName},
	}
	for _, c := range vips.News(before, now) {
		kind := corev1.EventTypeNormal
		if c.Status != vips.True {
			kind = corev1.EventTypeWarning
		}
		r.event(infra, kind, eventReason(c), c.Message)
	}
}

// eventReason returns the reason of an event about a condition.
func eventReason(c vips.Condition) string {
	switch {
	case c.Reason == vips.ReasonNotManagedHere:
		return "VirtualIPsNotManagedHere"
	case c.Type == vips.ConditionAccepted && c.Status == vips.False:
		return "VirtualIPsRefused"
	case c.Type == vips.ConditionAccepted:
		return "VirtualIPsKeepTheRules"
	case c.Status == vips.True:
		return "VirtualIPsApplied"
	}
	return "VirtualIPsRollingOut"
}

// maxNote is the API's limit on the text of an event, in bytes.
const maxNote = 1000

func (r *Reconciler) event(about runtime.Object, kind, reason, text string) {
	if len(text) > maxNote {
		text = text[:maxNote] + " ..."
	}
	r.Events.Eventf(about, nil, kind, reason, "VirtualIPs", "%s", text)
}
