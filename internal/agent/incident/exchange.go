package incident

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// api is the part of the API that the loop needs.
type api interface {
	incident.API
	PutConfigMap(ctx context.Context, namespace, name string, labels, data map[string]string) error
	CreateEvent(ctx context.Context, e *corev1.Event) error
	Places(ctx context.Context) ([]decide.Pod, error)
	NodeLeaseAnnotation(ctx context.Context, name string) (map[string]string, error)
}

// access calls do with the first API server that answers.
type access func(ctx context.Context, do func(context.Context, api) error) error

// accessOf asks this host's own API server first, because the VIP may be moving.
func accessOf(s *site.Site) access {
	servers := &kube.Servers{Kubeconfig: state.AgentKubeconfig, Name: s.APIHost(), Addresses: func() []string {
		return []string{"https://" + site.HostPort("127.0.0.1", site.APIPort), "https://" + site.HostPort(s.APIHost(), site.APIPort)}
	}}
	return func(ctx context.Context, do func(context.Context, api) error) error {
		return servers.Try(ctx, func(ctx context.Context, c *kube.Client) error { return do(ctx, client{c}) })
	}
}

// exchange reads what the other host publishes, reports again with it, publishes
// what this host knows, and creates the events that the API does not have.
func (l *Loop) exchange(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errors.New("no API server answers in time"))
	defer cancel()
	return l.api(ctx, func(ctx context.Context, a api) error {
		if err := l.hear(ctx, a); err != nil {
			return err
		}
		if err := l.places(ctx, a); err != nil {
			return err
		}
		if err := l.measured(ctx, a); err != nil {
			return err
		}
		if err := l.report(); err != nil {
			return err
		}
		if err := l.show(ctx, a); err != nil {
			return err
		}
		return l.tell(ctx, a)
	})
}

// hear reads what the other hosts publish. What it does not understand counts as
// not published.
func (l *Loop) hear(ctx context.Context, a api) error {
	hosts, limits, err := incident.Everyone(ctx, a)
	if err != nil {
		return err
	}
	for _, limit := range limits {
		l.Log.Warn("what another host shows of incidents", "limit", limit)
	}
	delete(hosts, l.self)
	l.stale = l.stale || !reflect.DeepEqual(hosts, l.peers)
	l.peers, l.asked = hosts, l.Now()
	return nil
}

// places records when the pods of a lost host run elsewhere.
func (l *Loop) places(ctx context.Context, a api) error {
	l.moving = false
	if len(l.reports) == 0 {
		return nil
	}
	last := l.reports[len(l.reports)-1]
	lost, since := decide.Unmoved(last)
	if lost == "" || lost == l.self || l.Now().Sub(since) > giveUp {
		return nil
	}
	l.moving = true
	pods, err := a.Places(ctx)
	if err != nil {
		return err
	}
	count, at, ok := decide.Moved(pods, lost, since)
	if !ok {
		return nil
	}
	l.moving = false
	m := l.memory
	m.Records = append(slices.Clone(m.Records), decide.Record{
		Host: l.self, At: at.UTC(), Kind: decide.Pods, Target: lost, Count: count, From: "API",
	})
	m.Records = decide.Unique(m.Records)
	return l.save(m)
}

// measured records what machines without the API VIP measured since the last
// incident began, until giveUp after that incident's end.
func (l *Loop) measured(ctx context.Context, a api) error {
	if len(l.reports) == 0 {
		return nil
	}
	last := l.reports[len(l.reports)-1]
	if !last.End.IsZero() && l.Now().Sub(last.End) > giveUp {
		return nil
	}
	machines, err := a.NodeLeaseAnnotation(ctx, decide.OutsideAnnotation)
	if err != nil {
		return err
	}
	m := l.memory
	m.Records = decide.Believed(decide.Unique(append(slices.Clone(m.Records), decide.Measured(l.self, machines, last.Start)...)), l.Now())
	if slices.EqualFunc(m.Records, l.memory.Records, func(a, b decide.Record) bool { return a.Key() == b.Key() }) {
		return nil
	}
	return l.save(m)
}

// giveUp bounds the wait for pods: some never find a place.
const giveUp = 15 * time.Minute

// show publishes what this host knows if it differs from what it published last.
func (l *Loop) show(ctx context.Context, a api) error {
	data, err := incident.Published{Records: l.memory.Records, Incidents: l.reports}.Encode()
	if err != nil {
		return err
	}
	text, err := json.Marshal(data)
	if err != nil || string(text) == l.shown {
		return err
	}
	if err := a.PutConfigMap(ctx, incident.Namespace, incident.ConfigMap(l.self), map[string]string{incident.Label: l.self}, data); err != nil {
		return err
	}
	l.shown = string(text)
	return nil
}

// pending returns the events that this host has to create.
func (l *Loop) pending() []decide.Event {
	var out []decide.Event
	for _, i := range l.reports {
		e, ok := decide.Told(i, l.Now())
		if ok && decide.Teller(i) == l.self && !decide.WasTold(i, e, l.memory.Told) {
			out = append(out, e)
		}
	}
	return out
}

func (l *Loop) untold() bool { return len(l.pending()) > 0 }

// tell creates the pending events. An event's name follows from its incident, so
// that an agent that ends before it remembers the event does not create it twice.
func (l *Loop) tell(ctx context.Context, a api) error {
	for _, e := range l.pending() {
		if err := a.CreateEvent(ctx, event(e, l.self)); err != nil {
			return err
		}
		if err := l.remember(e.Name); err != nil {
			return err
		}
		l.Log.Info("told the API of an incident", "event", e.Message)
	}
	return l.forget()
}

// forget drops the names of events whose incident has no report any more.
func (l *Loop) forget() error {
	known := map[string]bool{}
	for _, i := range l.reports {
		for _, id := range append([]string{i.ID}, i.Was...) {
			for _, e := range decide.Names(decide.Incident{ID: id}) {
				known[e] = true
			}
		}
	}
	m := l.memory
	m.Told = maps.Clone(m.Told)
	maps.DeleteFunc(m.Told, func(name string, _ bool) bool { return !known[name] })
	if len(m.Told) == len(l.memory.Told) {
		return nil
	}
	return l.save(m)
}

// maxNote is the API's limit on the text of an event, in bytes.
const maxNote = 1000

func event(e decide.Event, host string) *corev1.Event {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	text := e.Message
	if len(text) > maxNote {
		text = text[:maxNote] + " ..."
	}
	at := metav1.NewTime(e.At)
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: e.Name},
		InvolvedObject: corev1.ObjectReference{APIVersion: etcdv1.GroupVersion.String(), Kind: "PacemakerCluster", Name: "cluster"},
		Type:           kind, Reason: e.Reason, Message: text, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: "holdfast-agent", Host: host}, ReportingController: "holdfast.io/agent", ReportingInstance: host,
	}
}
