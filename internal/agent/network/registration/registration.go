// Package registration makes this host's Node again if somebody deleted it while
// kubelet runs (decide/registration). It owns the copy of the Node on the disk,
// and never changes a Node that exists.
package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/registration"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Path is the file in which a host keeps its Node as it was last.
const Path = "/var/lib/holdfast/network/node.json"

// kubeletHealth is the address of kubelet's health check, for its own host alone.
const kubeletHealth = "http://127.0.0.1:10248/healthz"

// checkInterval is the pause between two reads of a Node in which nothing that the watch
// shows has changed: podCIDRs, taints and others' annotations do change, but
// seldom.
const checkInterval = 25 * time.Second

// API is the part of the API that is needed, by the account of this host with
// most rights.
type API interface {
	Node(ctx context.Context, name string) (*corev1.Node, error)
	CreateNode(ctx context.Context, n *corev1.Node) error
	CreateEvent(ctx context.Context, e *corev1.Event) error
}

// Options holds what the reconciler needs.
type Options struct {
	// Try calls do with an API server that answers.
	Try func(ctx context.Context, do func(context.Context, API) error) error
	// Kubelet reports whether the host's kubelet is healthy.
	Kubelet func(ctx context.Context) bool
	Path    string
	Now     func() time.Time
}

// Reconciler makes this host's Node again. It is a network.Reconciler.
type Reconciler struct {
	Options
	known  *corev1.Node
	seen   state.Node // as the watch had it when the Node was read
	looked time.Time
	made   []time.Time
}

// New returns the reconciler.
func New(o Options) *Reconciler { return &Reconciler{Options: o} }

// Name implements network.Reconciler.
func (p *Reconciler) Name() string { return "registration" }

// Withdraw implements network.Reconciler: the Node stays.
func (p *Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile implements network.Reconciler.
func (p *Reconciler) Reconcile(ctx context.Context, v state.NetworkView) (string, error) {
	if !v.Nodes.Known || v.Stale || v.Host.NodeName == "" {
		return "", nil
	}
	if err := p.load(v.Host.NodeName); err != nil {
		return "", err
	}
	self, there := v.Self()
	if there && !self.Absent {
		return "", p.keep(ctx, self)
	}
	p.made = registration.Lately(p.made, p.Now())
	in := registration.Input{Now: p.Now(), Known: p.known, ControlPlane: v.Role.ControlPlane(), Made: p.made}
	in.Kubelet = p.known != nil && p.Kubelet(ctx)
	verdict := registration.Decide(in)
	if verdict.Make == nil {
		return "", nil
	}
	return p.make(ctx, verdict)
}

// keep remembers the Node while it exists.
func (p *Reconciler) keep(ctx context.Context, self state.Node) error {
	self.Ready = true // readiness changes nothing of what is kept
	if p.known != nil && p.Now().Sub(p.looked) < checkInterval && reflect.DeepEqual(self, p.seen) {
		return nil
	}
	var n *corev1.Node
	err := p.Try(ctx, func(ctx context.Context, api API) (err error) { n, err = api.Node(ctx, self.Name); return err })
	if errors.Is(err, fs.ErrNotExist) || err == nil && n == nil {
		return nil // no access yet; or it is gone, and the watch will tell
	}
	if err != nil {
		return err
	}
	p.seen, p.looked = self, p.Now()
	kept := registration.Kept(n)
	if reflect.DeepEqual(kept, p.known) {
		return nil
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(p.Path, append(data, '\n'), state.SecretFileMode); err != nil {
		return err
	}
	p.known = kept
	return nil
}

// load reads what an earlier agent kept. An unreadable file counts as none.
func (p *Reconciler) load(name string) error {
	if p.known != nil {
		return nil
	}
	data, err := os.ReadFile(p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var n corev1.Node
	if json.Unmarshal(data, &n) == nil && n.Name == name {
		p.known = &n
	}
	return nil
}

// make makes the Node, and an event about it.
func (p *Reconciler) make(ctx context.Context, v registration.Verdict) (string, error) {
	at := p.Now()
	said := "the Node of this host was deleted while its kubelet runs: created it again as it was"
	if len(v.Lost) > 0 {
		said += ", without labels that only an administrator may set: " + strings.Join(v.Lost, ", ")
	}
	err := p.Try(ctx, func(ctx context.Context, api API) error { return api.CreateNode(ctx, v.Make) })
	if err != nil {
		return "", fmt.Errorf("the Node of this host is missing and cannot be created again (sudo systemctl restart kubelet): %w", err)
	}
	p.made, p.looked = append(p.made, at), time.Time{}
	// A failed event is no reason to make the Node again.
	_ = p.Try(ctx, func(ctx context.Context, api API) error { return api.CreateEvent(ctx, event(v.Make.Name, said, at)) })
	return said, nil
}

func event(node, text string, at time.Time) *corev1.Event {
	when := metav1.NewTime(at)
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.made-again.%d", node, at.Unix())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node},
		Type:           corev1.EventTypeWarning, Reason: "NodeMadeAgain", Message: text, FirstTimestamp: when, LastTimestamp: when, Count: 1,
		Source: corev1.EventSource{Component: "holdfast-agent", Host: node}, ReportingController: "holdfast.io/agent", ReportingInstance: node,
	}
}

// KubeletIsWell reports whether this host's kubelet is healthy.
func KubeletIsWell(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, kubeletHealth, http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return res.Body.Close() == nil && res.StatusCode == http.StatusOK
}
