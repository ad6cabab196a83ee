package pacemakerstatus

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// The reasons of events.
const (
	reasonFence   = "PacemakerFencingEvent"
	reasonFailure = "PacemakerFailedResourceAction"
)

// tell creates an event for each recent fence, failed action and change of a
// condition. Its name follows from what happened. So it is created once,
// whichever host does that, and not again when the API has forgotten it. The
// operator creates events of changes too, but its pod may have been lost with a
// host.
func (c *Collector) tell(ctx context.Context, in decide.Input) error {
	now := c.Now()
	var untold []*telling
	told := map[string]bool{} // without what Pacemaker has forgotten, which is too old for an event
	isNew := func(key string) bool {
		_, listed := told[key]
		told[key] = c.told[key]
		return !listed && !told[key]
	}
	for _, e := range clusterhealth.Events(c.pubbed.object, now) {
		if isNew(e.Name) {
			untold = append(untold, &telling{key: e.Name, event: e.Object("holdfast-agent", "holdfast.io/agent", in.Host)})
		}
	}
	for _, h := range decide.Happenings(in.Cluster.Value) {
		age := now.Sub(h.At)
		if age <= clusterhealth.Recent && age >= -clusterhealth.Recent && isNew(h.Key) {
			untold = append(untold, &telling{key: h.Key, words: h.Text, event: event(h, in.Host)})
		}
	}
	err := c.create(ctx, untold)
	for _, t := range untold {
		told[t.key] = t.made
		if t.made && t.words != "" {
			c.Log.Info("Pacemaker tells", "what", t.words)
		}
	}
	c.told = told
	return err
}

// telling is an event, and whether it was created. words is for the log; it is
// empty for a change of a condition.
type telling struct {
	key, words string
	event      *corev1.Event
	made       bool
}

// atOnce is the number of events that are created at a time: a host that is back
// has some 25, and the next status waits for them.
const atOnce = 8

func (c *Collector) create(ctx context.Context, list []*telling) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, t := range list {
		group.Go(func() error {
			err := c.api(ctx, func(ctx context.Context, a api) error { return a.CreateEvent(ctx, t.event) })
			t.made = err == nil
			return err
		})
	}
	return group.Wait()
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
