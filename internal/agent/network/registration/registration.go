// Package registration makes a Node again if somebody deleted it while its kubelet
// runs (decide/registration): this host's own and, on a control plane, that of another
// control plane whose own agent does not do it. It owns the copies of Nodes on the disk,
// and never changes a Node that exists.
package registration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/registration"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Path is the file with the last copy of this host's Node. A control plane has copies
// of the others' Nodes in the folder Peers beside it.
const (
	Path  = "/var/lib/holdfast/network/node.json"
	Peers = "/var/lib/holdfast/network/peers"
)

// kubeletHealth is the address of kubelet's health check, which only its own host can
// reach; kubeletPort is the port at which other hosts reach kubelet.
const (
	kubeletHealth = "http://127.0.0.1:10248/healthz"
	kubeletPort   = "10250"
)

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
	// Retired says who took the Node's host out of the cluster; empty if nobody did.
	Retired(ctx context.Context, n *corev1.Node) (string, error)
}

// Options holds what the reconciler needs.
type Options struct {
	// Try calls do with an API server that answers.
	Try func(ctx context.Context, do func(context.Context, API) error) error
	// Kubelet reports whether this host's kubelet is healthy, Answers whether the
	// kubelet of another host answers.
	Kubelet func(ctx context.Context) bool
	Answers func(ctx context.Context, n state.Node) bool
	// Path and Peers are the constants of these names; tests set others.
	Path, Peers string
	Now         func() time.Time
	// Sleep waits within a step; if it is nil, the clock's sleep is used.
	Sleep func(context.Context, time.Duration) error
}

// Reconciler makes Nodes again. It is a network.Reconciler.
type Reconciler struct {
	Options
	kept map[string]*kept
}

// kept has the facts about one Node.
type kept struct {
	known  *corev1.Node
	seen   state.Node // as the watch had it when the Node was read
	looked time.Time
	gone   time.Time // when it was first missing; zero while it exists
	made   []time.Time
	told   time.Time // when a person was last told that it is not made again
}

// New returns the reconciler.
func New(o Options) *Reconciler {
	if o.Sleep == nil {
		o.Sleep = host.Sleep
	}
	return &Reconciler{Options: o, kept: map[string]*kept{}}
}

// Name implements network.Reconciler.
func (p *Reconciler) Name() string { return "registration" }

// Withdraw implements network.Reconciler: the Node stays.
func (p *Reconciler) Withdraw(context.Context) error { return nil }

// Reconcile implements network.Reconciler: this host's own Node first.
func (p *Reconciler) Reconcile(ctx context.Context, v state.NetworkView) (string, error) {
	if !v.Nodes.Known || v.Stale || v.Host.NodeName == "" {
		return "", nil
	}
	self, there := v.Self()
	self.Name = v.Host.NodeName
	said, err := p.one(ctx, v, self, there && !self.Absent)
	if !v.Role.ControlPlane() {
		return said, err
	}
	all, errs := []string{said}, []error{err}
	for _, n := range v.Nodes.Value {
		if n.Name == self.Name || !n.ControlPlane() {
			continue
		}
		said, err := p.one(ctx, v, n, !n.Absent)
		all, errs = append(all, said), append(errs, err)
	}
	return joined(all), errors.Join(errs...)
}

func joined(list []string) string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "; ")
}

// one copies a Node that exists, and decides about one that is missing. If that is another
// host's, the host has its turn first.
func (p *Reconciler) one(ctx context.Context, v state.NetworkView, n state.Node, listed bool) (string, error) {
	k, err := p.load(n.Name, p.path(n.Name, v.Host.NodeName))
	if err != nil {
		return "", err
	}
	if listed {
		k.gone = time.Time{}
		return "", p.keep(ctx, k, n, p.path(n.Name, v.Host.NodeName))
	}
	if k.known == nil {
		return "", nil
	}
	peer := n.Name != v.Host.NodeName
	if k.gone.IsZero() {
		k.gone = p.Now()
	}
	if wait := registration.Turn - p.Now().Sub(k.gone); peer && wait > 0 {
		if err := p.Sleep(ctx, wait); err != nil {
			return "", err
		}
	}
	return p.mend(ctx, v, n, k, peer)
}

// mend decides about a Node that is missing, and makes it if it should.
func (p *Reconciler) mend(ctx context.Context, v state.NetworkView, n state.Node, k *kept, peer bool) (string, error) {
	in := registration.Input{
		Now: p.Now(), Known: k.known, Administrator: v.Role.ControlPlane(), Worker: !v.Role.ControlPlane(),
		Peer: peer, Gone: p.Now().Sub(k.gone), Made: k.made,
	}
	if peer {
		in.Kubelet = p.Answers(ctx, n)
	} else {
		in.Kubelet = p.Kubelet(ctx)
	}
	err := p.Try(ctx, func(ctx context.Context, api API) error {
		in.Retired = state.Fact[string]{}
		by, err := api.Retired(ctx, k.known)
		if err != nil {
			return err
		}
		in.Retired = state.Known(by)
		there, err := api.Node(ctx, n.Name) // the view may be seconds old
		in.Listed = err == nil && there != nil
		return err
	})
	verdict := registration.Decide(in)
	switch {
	case verdict.Make != nil && err == nil:
		return p.make(ctx, k, verdict, peer)
	case verdict.Tell:
		return p.tell(ctx, k, verdict)
	case err != nil:
		return "", missing(n.Name, err)
	}
	return "", nil
}

// keep remembers a Node while it exists.
func (p *Reconciler) keep(ctx context.Context, k *kept, n state.Node, path string) error {
	n.Ready, n.Silent = true, false // a change of readiness alone must not write a new copy
	if k.known != nil && p.Now().Sub(k.looked) < checkInterval && reflect.DeepEqual(n, k.seen) {
		return nil
	}
	var got *corev1.Node
	err := p.Try(ctx, func(ctx context.Context, api API) (err error) { got, err = api.Node(ctx, n.Name); return err })
	if errors.Is(err, fs.ErrNotExist) || err == nil && got == nil {
		return nil // no access yet; or it is gone, and the watch will tell
	}
	if err != nil {
		return err
	}
	k.seen, k.looked = n, p.Now()
	whole := registration.Kept(got)
	if reflect.DeepEqual(whole, k.known) {
		return nil
	}
	data, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(path, append(data, '\n'), state.SecretFileMode); err != nil {
		return err
	}
	k.known = whole
	return nil
}

// path returns the path of the copy of a Node.
func (p *Reconciler) path(name, self string) string {
	if name == self {
		return p.Path
	}
	return filepath.Join(p.Peers, name+".json")
}

// load reads the copy that an earlier agent kept. A file that cannot be read counts as none.
func (p *Reconciler) load(name, path string) (*kept, error) {
	if k, ok := p.kept[name]; ok && k.known != nil {
		return k, nil
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k := &kept{}
	var n corev1.Node
	if err == nil && json.Unmarshal(data, &n) == nil && n.Name == name {
		k.known = &n
	}
	p.kept[name] = k
	return k, nil
}

// make makes the Node, and an event about it.
func (p *Reconciler) make(ctx context.Context, k *kept, v registration.Verdict, peer bool) (string, error) {
	at := p.Now()
	said := "the Node of this host was deleted while its kubelet runs: created it again as it was"
	if peer {
		said = "the Node " + v.Make.Name + " was deleted while its kubelet runs, and its own agent did not create it again: this agent did so, as it was"
	}
	if len(v.Lost) > 0 {
		said += ", without labels that only an administrator may set: " + strings.Join(v.Lost, ", ")
	}
	err := p.Try(ctx, func(ctx context.Context, api API) error { return api.CreateNode(ctx, v.Make) })
	if err != nil {
		return "", missing(v.Make.Name, err)
	}
	k.made, k.looked = append(registration.Lately(k.made, at), at), time.Time{}
	p.event(ctx, event(v.Make.Name, "NodeMadeAgain", said, at))
	return said, nil
}

func missing(node string, err error) error {
	return fmt.Errorf("the Node %s is missing and cannot be created again (on that host: sudo systemctl restart kubelet): %w", node, err)
}

// tell tells a person from time to time that the Node stays away.
func (p *Reconciler) tell(ctx context.Context, k *kept, v registration.Verdict) (string, error) {
	if at := p.Now(); at.Sub(k.told) >= registration.Within {
		k.told = at
		p.event(ctx, event(k.known.Name, "NodeLeftDeleted", fmt.Sprintf("the Node was made again %d times within %s and deleted each time: "+
			"find who deletes it (the audit log of the API server); it is made again later", registration.Most, registration.Within), at))
	}
	return "", fmt.Errorf("Node %s: %s; find who deletes it, in the audit log of the API server", k.known.Name, v.Why)
}

// event writes an event of the API. If that fails, nothing is tried again.
func (p *Reconciler) event(ctx context.Context, e *corev1.Event) {
	_ = p.Try(ctx, func(ctx context.Context, api API) error { return api.CreateEvent(ctx, e) })
}

func event(node, reason, text string, at time.Time) *corev1.Event {
	when := metav1.NewTime(at)
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%s.%d", node, strings.ToLower(reason), at.Unix())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: text, FirstTimestamp: when, LastTimestamp: when, Count: 1,
		Source: corev1.EventSource{Component: "holdfast-agent", Host: node}, ReportingController: "holdfast.io/agent", ReportingInstance: node,
	}
}

// answerTime bounds one question to a kubelet.
const answerTime = 2 * time.Second

// KubeletIsWell reports whether this host's kubelet is healthy.
func KubeletIsWell(ctx context.Context) bool {
	status, err := ask(ctx, http.DefaultClient, kubeletHealth)
	return err == nil && status == http.StatusOK
}

// KubeletAnswers reports whether the kubelet of another host answers at all. It
// proves that the host lives and nothing else, so it needs neither an account nor
// the kubelet's certificate. A kubelet that has no certificate to serve by, since its
// Node is missing, answers too: it refuses the handshake.
func KubeletAnswers(ctx context.Context, n state.Node) bool {
	return slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return greets(ctx, net.JoinHostPort(a.String(), kubeletPort)) })
}

// greets reports whether a server sends anything in a TLS handshake. The kernel takes
// a connection for a process that hangs, and sends nothing for it.
func greets(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	heard := &listener{Conn: conn}
	_ = tls.Client(heard, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // a sign of life, see above
	return heard.any
}

// listener notes whether the other side has sent anything.
type listener struct {
	net.Conn
	any bool
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.any = l.any || n > 0
	return n, err
}

func ask(ctx context.Context, client *http.Client, url string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
