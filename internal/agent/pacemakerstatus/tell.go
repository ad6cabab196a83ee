package pacemakerstatus

import (
	"context"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// Reasons of events about what happened.
const (
	reasonFence   = "PacemakerFencingEvent"
	reasonFailure = "PacemakerFailedResourceAction"
)

// maxNote is the API's limit on the text of an event, in bytes.
const maxNote = 1000

// tell makes an event of each fence and each failed action of late. Its name
// follows from what happened, so that it is told once, whoever tells it, and
// not again when the API has forgotten it.
func (c *Collector) tell(ctx context.Context, in decide.Input) error {
	now := c.Now()
	known := map[string]bool{}
	for _, h := range decide.Happenings(in.Cluster.Value) {
		age := now.Sub(h.At)
		if age > clusterhealth.Recent || age < -clusterhealth.Recent {
			continue
		}
		if !c.told[h.Key] {
			e := event(h, in.Host)
			if err := c.quickly(ctx, func(ctx context.Context, a api) error { return a.CreateEvent(ctx, e) }); err != nil {
				return err
			}
			c.logf("%s", h.Text)
		}
		c.told[h.Key], known[h.Key] = true, true
	}
	c.told = known // what Pacemaker has forgotten is too old to be told
	return nil
}

func event(h decide.Happening, host string) *corev1.Event {
	kind, reason := corev1.EventTypeNormal, reasonFailure
	if h.Warning {
		kind = corev1.EventTypeWarning
	}
	if h.Fence {
		reason = reasonFence
	}
	text := h.Text
	if len(text) > maxNote {
		text = text[:maxNote] + " ..."
	}
	at := metav1.NewTime(h.At)
	return &corev1.Event{
		// Where the API wants events about what is in no namespace.
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: clusterhealth.Name(h.Key)},
		InvolvedObject: corev1.ObjectReference{APIVersion: etcdv1.GroupVersion.String(), Kind: "PacemakerCluster", Name: "cluster"},
		Type:           kind, Reason: reason, Message: text, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: "holdfast-agent", Host: host}, ReportingController: "holdfast.io/agent", ReportingInstance: host,
	}
}
