package guards

import (
	"context"
	"maps"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	render "github.com/holdfast/holdfast/internal/render/guards"
)

// keeping holds the conditions under which a guard is kept at this look.
type keeping struct {
	// onlyMissing leaves existing policies alone.
	onlyMissing bool
	lift        render.Lift
	now         time.Time
}

// keep makes both objects of a guard what they should be, and publishes an event.
// It replaces a whole spec: what somebody added to it may weaken it.
func (r *Reconciler) keep(ctx context.Context, have present, g render.Guard, k keeping) error {
	policy, binding := have.policies[g.Name()], have.bindings[g.Name()]
	changed := false
	switch {
	case policy == nil:
		if err := r.Client.Create(ctx, g.Policy); err != nil {
			return err
		}
		changed = true
	case !k.onlyMissing && policyDiffers(policy, g.Policy):
		next := policy.DeepCopy()
		next.Spec, next.Labels = g.Policy.Spec, labelled(next.Labels, g.Policy.Labels)
		if err := r.Client.Update(ctx, next); err != nil {
			return err
		}
		changed = true
	}
	switch {
	case binding == nil:
		if err := r.Client.Create(ctx, g.Binding); err != nil {
			return err
		}
		changed = true
	case bindingDiffers(binding, g.Binding):
		next := binding.DeepCopy()
		next.Spec, next.Labels = g.Binding.Spec, labelled(next.Labels, g.Binding.Labels)
		if err := r.Client.Update(ctx, next); err != nil {
			return err
		}
		changed = true
	}
	r.say(g, k, changed)
	return nil
}

func policyDiffers(have, want *admissionv1.ValidatingAdmissionPolicy) bool {
	return !equality.Semantic.DeepEqual(have.Spec, want.Spec) || !carries(have.Labels, want.Labels)
}

func bindingDiffers(have, want *admissionv1.ValidatingAdmissionPolicyBinding) bool {
	return !equality.Semantic.DeepEqual(have.Spec, want.Spec) || !carries(have.Labels, want.Labels)
}

func carries(have, want map[string]string) bool {
	return maps.Equal(have, labelled(have, want))
}

// labelled keeps the labels of others as they are.
func labelled(have, want map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, have)
	maps.Copy(out, want)
	return out
}

// say makes an event of what became of a guard, once.
func (r *Reconciler) say(g render.Guard, k keeping, changed bool) {
	text, kind, reason := "", corev1.EventTypeNormal, "GuardKept"
	switch {
	case k.lift.Mistake != "":
		text, kind, reason = "this guard still refuses: "+k.lift.Mistake, corev1.EventTypeWarning, "GuardNotLifted"
	case k.lift.Active(k.now):
		text, kind, reason = "until "+k.lift.Until.UTC().Format(time.RFC3339)+" this guard warns and refuses nothing", corev1.EventTypeWarning, "GuardLifted"
		if k.lift.Because != "" {
			text += ", because: " + k.lift.Because
		}
	case changed:
		text = "this guard was missing or changed; it refuses again"
	}
	if r.told == nil {
		r.told = map[string]string{}
	}
	if text != "" && (changed || r.told[g.Name()] != text) {
		r.Events.Eventf(g.Policy, nil, kind, reason, "Guard", "%s", shortened(text))
	}
	r.told[g.Name()] = text
}

// maxNote is the API's limit on the text of an event, in bytes.
const maxNote = 1000

func shortened(text string) string {
	if len(text) > maxNote {
		return text[:maxNote] + " ..."
	}
	return text
}
