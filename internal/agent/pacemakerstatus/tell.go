package pacemakerstatus

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// Reasons of events about what happened.
const (
	reasonFence   = "PacemakerFencingEvent"
	reasonFailure = "PacemakerFailedResourceAction"
)

// tell makes an event of each fence, each failed action and each change of a
// condition of late. Its name follows from what happened, so that it is told
// once, whoever tells it, and not again when the API has forgotten it. The
// operator tells of changes too: its pod may have been lost with a host.
func (c *Collector) tell(ctx context.Context, in decide.Input) error {
	now := c.Now()
	known := map[string]bool{}
	for _, e := range clusterhealth.Events(c.pubbed.object, now) {
		if !c.told[e.Name] {
			if err := c.create(ctx, e.Object("holdfast-agent", "holdfast.io/agent", in.Host)); err != nil {
				return err
			}
		}
		c.told[e.Name], known[e.Name] = true, true
	}
	for _, h := range decide.Happenings(in.Cluster.Value) {
		age := now.Sub(h.At)
		if age > clusterhealth.Recent || age < -clusterhealth.Recent {
			continue
		}
		if !c.told[h.Key] {
			if err := c.create(ctx, event(h, in.Host)); err != nil {
				return err
			}
			c.logf("%s", h.Text)
		}
		c.told[h.Key], known[h.Key] = true, true
	}
	c.told = known // what Pacemaker has forgotten is too old to be told
	return nil
}

func (c *Collector) create(ctx context.Context, e *corev1.Event) error {
	return c.api(ctx, func(ctx context.Context, a api) error { return a.CreateEvent(ctx, e) })
}

func event(h decide.Happening, host string) *corev1.Event {
	e := clusterhealth.Event{Name: clusterhealth.Name(h.Key), Warning: h.Warning, Reason: reasonFailure, Message: h.Text, At: h.At}
	if h.Fence {
		e.Reason = reasonFence
	}
	o := e.Object("holdfast-agent", "holdfast.io/agent", host)
	o.Source.Host = host
	return o
}
