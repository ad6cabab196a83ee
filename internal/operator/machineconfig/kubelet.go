package machineconfig

import (
	"context"
	"fmt"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
)

// reportKubelet writes the status of each KubeletConfig and ContainerRuntimeConfig.
func (r *Reconciler) reportKubelet(ctx context.Context, g *gathered) error {
	for _, v := range decide.Verdicts(g.objects) {
		var err error
		switch v.Kind {
		case "KubeletConfig":
			err = r.sayOfKubelet(ctx, g, v)
		default:
			err = r.sayOfRuntime(ctx, g, v)
		}
		if err != nil {
			return fmt.Errorf("write the status of %s %s: %w", v.Kind, v.Name, err)
		}
	}
	return nil
}

func (r *Reconciler) sayOfKubelet(ctx context.Context, g *gathered, v decide.Verdict) error {
	for i := range g.objects.KubeletConfigs {
		o := &g.objects.KubeletConfigs[i]
		if o.Name != v.Name {
			continue
		}
		before := o.DeepCopy()
		o.Status.ObservedGeneration = o.Generation
		have := map[string]outcome{}
		for _, c := range before.Status.Conditions {
			have[string(c.Type)] = outcome{c.Status, c.LastTransitionTime, c.Reason, c.Message}
		}
		ok, wrong := outcomes(have, v, g.site.Now)
		o.Status.Conditions = []mcfgv1.KubeletConfigCondition{
			{Type: mcfgv1.KubeletConfigSuccess, Status: ok.status, LastTransitionTime: ok.since, Reason: ok.reason, Message: ok.message},
			{Type: mcfgv1.KubeletConfigFailure, Status: wrong.status, LastTransitionTime: wrong.since, Reason: wrong.reason, Message: wrong.message},
		}
		if equality.Semantic.DeepEqual(before.Status, o.Status) {
			return nil
		}
		return r.Client.Status().Patch(ctx, o, client.MergeFrom(before))
	}
	return nil
}

func (r *Reconciler) sayOfRuntime(ctx context.Context, g *gathered, v decide.Verdict) error {
	for i := range g.objects.ContainerRuntimeConfigs {
		o := &g.objects.ContainerRuntimeConfigs[i]
		if o.Name != v.Name {
			continue
		}
		before := o.DeepCopy()
		o.Status.ObservedGeneration = o.Generation
		have := map[string]outcome{}
		for _, c := range before.Status.Conditions {
			have[string(c.Type)] = outcome{c.Status, c.LastTransitionTime, c.Reason, c.Message}
		}
		ok, wrong := outcomes(have, v, g.site.Now)
		o.Status.Conditions = []mcfgv1.ContainerRuntimeConfigCondition{
			{Type: mcfgv1.ContainerRuntimeConfigSuccess, Status: ok.status, LastTransitionTime: ok.since, Reason: ok.reason, Message: ok.message},
			{Type: mcfgv1.ContainerRuntimeConfigFailure, Status: wrong.status, LastTransitionTime: wrong.since, Reason: wrong.reason, Message: wrong.message},
		}
		if equality.Semantic.DeepEqual(before.Status, o.Status) {
			return nil
		}
		return r.Client.Status().Patch(ctx, o, client.MergeFrom(before))
	}
	return nil
}

// outcome is a condition of either kind.
type outcome struct {
	status          corev1.ConditionStatus
	since           metav1.Time
	reason, message string
}

// outcomes returns the conditions Success and Failure, of which one holds.
func outcomes(have map[string]outcome, v decide.Verdict, now time.Time) (ok, wrong outcome) {
	ok = outcome{status: corev1.ConditionTrue, reason: "Rendered", message: "it belongs to the configuration of the pools " + strings.Join(v.Pools, ", ")}
	wrong = outcome{status: corev1.ConditionFalse, reason: "Rendered"}
	if v.Problem != "" {
		message := v.Problem
		if len(message) > maxMessage {
			message = message[:maxMessage] + " ..."
		}
		ok = outcome{status: corev1.ConditionFalse, reason: "Refused"}
		wrong = outcome{status: corev1.ConditionTrue, reason: "Refused", message: message}
	}
	since := func(o *outcome, was outcome) {
		o.since = metav1.NewTime(now.UTC().Truncate(time.Second))
		if was.status == o.status && !was.since.IsZero() {
			o.since = was.since
		}
	}
	since(&ok, have["Success"])
	since(&wrong, have["Failure"])
	return ok, wrong
}
